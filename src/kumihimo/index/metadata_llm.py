"""a document -> what a model reads in it: values of its fields, and questions with answers, a call for each part."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from kumihimo.core.context import Tokenizer
from kumihimo.core.digests import replace_surrogates
from kumihimo.core.errors import ItemFailed, MalformedReply, SettingsError
from kumihimo.core.records import Document
from kumihimo.index.metadata_fields import MetadataField
from kumihimo.index.metadata_parser import (
    ParsedMetadata,
    QuestionAnswer,
    parse_metadata_reply,
    unique_questions,
    unique_values,
)
from kumihimo.llm.prompts import render_prompt
from kumihimo.llm.protocols import LLM, Messages
from kumihimo.llm.structured import Reply
from kumihimo.text.sentences import split_blocks, split_sentences

MAX_PART_CONTINUATIONS = 3  # times a reply that breaks off is continued
_TOKENIZED_CHARS = 50_000  # characters measured at once
_LANGUAGE_OF_TEXT = "Write questions and answers in the language of the text."

MetadataResult = tuple[dict[str, tuple[str, ...]], tuple[QuestionAnswer, ...], ItemFailed | None]


def extract_metadata(
    document: Document,
    tokenizer: Tokenizer,
    llm: LLM,
    *,
    fields: Sequence[MetadataField],
    document_types: str,
    users_types: str,
    window: int,
    language: str,
) -> MetadataResult:
    """Of each field its values, the pairs, and why there are not more of them, if a part could not be read.

    One prompt, which decides, then lists, then asks and answers (MK-RAG, arXiv:2408.09017, appendix A). But: a document
    longer than `window` tokens is read in parts, cut at sentence ends; the fields are those of the settings.
    """
    told = f"Write questions and answers in {language}." if language else _LANGUAGE_OF_TEXT
    ask_part = partial(
        render_prompt,
        Path(__file__).with_name("metadata.md"),
        document_types=document_types,
        users_types=users_types,
        questions="\n".join(f"{n}. {field.question}" for n, field in enumerate(fields, 1)),
        lists="\n".join(f"{n}. {_list_instruction(field)}" for n, field in enumerate(fields, 1)),
        language=told,
        doc_title=f"Title: {replace_surrogates(document.title)}\n" if document.title else "",
    )
    read: list[ParsedMetadata] = []
    failure = None
    for text in split_document(document, tokenizer, window):
        try:
            read.append(_request_reply(llm, ask_part(doc_content=text), fields))
        except ItemFailed as failed:  # what the other parts give is kept
            failure = failure or failed
    values = {
        field.name: unique_values((value for one in read for value in one.values[n]), field)
        for n, field in enumerate(fields)
    }
    return values, unique_questions(pair for one in read for pair in one.pairs), failure


def _list_instruction(field: MetadataField) -> str:
    only = f" Only from: {list(field.categories)!r}." if field.categories else ""
    return f"{field.list} At most {field.maximum}.{only}"


def _request_reply(llm: LLM, messages: Messages, fields: Sequence[MetadataField]) -> ParsedMetadata:
    """What a reply holds, with the rest of it where it broke off."""
    said = ""
    for _ in range(1 + MAX_PART_CONTINUATIONS):
        text, found = llm(messages, parse=partial(_parse_part, earlier_text=said, fields=fields))
        if found:
            return found
        said = f"{said}{text}\n"
        rest = render_prompt(Path(__file__).with_name("metadata_rest.md"), last=text.rpartition("\n")[2])
        messages = [*messages, {"role": "assistant", "content": text}, *rest]
    raise ItemFailed(
        f"{llm.fingerprint} broke off {1 + MAX_PART_CONTINUATIONS} times: set a larger max_tokens for it, or a smaller metadata.window"
    )


def _parse_part(
    reply: Reply, *, earlier_text: str, fields: Sequence[MetadataField]
) -> tuple[str, ParsedMetadata | None]:
    """The reply, and what it holds with all that was said before; of one that broke off, its whole lines alone."""
    if not reply.truncated:
        return reply.text, parse_metadata_reply(earlier_text + reply.text, fields)
    text = reply.text.rpartition("\n")[0].rstrip()
    if not text:
        raise MalformedReply("The reply broke off before its first line was whole. Write nothing before the form.")
    return text, None


def split_document(document: Document, tokenizer: Tokenizer, window: int) -> Iterator[str]:
    """The text, after front matter, in parts of at most `window` tokens, each as long as whole sentences make it.

    A sentence that alone is longer is cut at white space, or else between tokens.
    """
    if window < 1:
        raise SettingsError(f"metadata.window is {window}; it must be 1 or more")
    text, start = replace_surrogates(document.text), document.body
    starts = list(_token_starts(text, start, tokenizer))
    ends: list[int] | None = None
    while (last := bisect_left(starts, start) + window) < len(starts):
        ends = _sentence_ends(text, start) if ends is None else ends
        at = bisect_right(ends, starts[last])
        end = ends[at - 1] if at and ends[at - 1] > start else _cut_position(text, start, starts[last])
        if text[start:end].strip():
            yield text[start:end].strip()
        start = end
    if text[start:].strip():
        yield text[start:].strip()


def _sentence_ends(text: str, start: int) -> list[int]:
    """Where sentences end; a heading stays with what it heads."""
    told = (block for block in split_blocks(text, start) if block.kind != "heading")
    return [end for block in told for _, end in split_sentences(text, block.start, block.end)]


def _cut_position(text: str, start: int, end: int) -> int:
    """Where a sentence is cut that goes beyond `end`."""
    space = max((text.rfind(space, start + (end - start) // 2, end) for space in " \n\u3000"), default=-1)
    return space + 1 if space >= 0 else max(end, start + 1)


def _token_starts(text: str, start: int, tokenizer: Tokenizer) -> Iterator[int]:
    """Where each token begins; measured in stretches, as tokenizers hold all of one."""
    while start < len(text):
        until = min(start + _TOKENIZED_CHARS, len(text))
        if until < len(text):
            until = max(text.rfind(" ", start, until), text.rfind("\n", start, until)) + 1 or until
        until = until if until > start else min(start + _TOKENIZED_CHARS, len(text))
        yield from (start + at for at in tokenizer(text[start:until]))
        start = until
