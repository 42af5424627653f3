"""a document -> field values and questions with answers from a model, one call per part."""

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

MAX_PART_CONTINUATIONS = 3  # of one truncated reply
_TOKENIZED_CHARS = 50_000  # characters in one call of the tokenizer
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
    """Return the values by field, the question-answer pairs and any failure.

    One prompt makes decisions, then lists, then questions and answers (MK-RAG, arXiv:2408.09017, appendix A). But: a
    document longer than `window` tokens is read in parts, cut at sentence ends; the fields come from the settings. If a
    part fails, the other parts are kept.
    """
    language_rule = f"Write questions and answers in {language}." if language else _LANGUAGE_OF_TEXT
    part_messages = partial(
        render_prompt,
        Path(__file__).with_name("metadata.md"),
        document_types=document_types,
        users_types=users_types,
        questions="\n".join(f"{n}. {field.question}" for n, field in enumerate(fields, 1)),
        lists="\n".join(f"{n}. {_list_instruction(field)}" for n, field in enumerate(fields, 1)),
        language=language_rule,
        doc_title=f"Title: {replace_surrogates(document.title)}\n" if document.title else "",
    )
    parsed: list[ParsedMetadata] = []
    failure = None
    for text in split_document(document, tokenizer, window):
        try:
            parsed.append(_request_reply(llm, part_messages(doc_content=text), fields))
        except ItemFailed as error:  # keep the results of the other parts
            failure = failure or error
    values = {
        field.name: unique_values((value for part in parsed for value in part.values[n]), field)
        for n, field in enumerate(fields)
    }
    return values, unique_questions(pair for part in parsed for pair in part.pairs), failure


def _list_instruction(field: MetadataField) -> str:
    """Return the prompt line for a field's list."""
    categories = f" Only from: {list(field.categories)!r}." if field.categories else ""
    return f"{field.list} At most {field.maximum}.{categories}"


def _request_reply(llm: LLM, messages: Messages, fields: Sequence[MetadataField]) -> ParsedMetadata:
    """Return a parsed reply, continued while it is truncated.

    Raise ItemFailed after too many continuations.
    """
    earlier_text = ""
    for _ in range(1 + MAX_PART_CONTINUATIONS):
        text, parsed = llm(messages, parse=partial(_parse_part, earlier_text=earlier_text, fields=fields))
        if parsed:
            return parsed
        earlier_text = f"{earlier_text}{text}\n"
        rest = render_prompt(Path(__file__).with_name("metadata_rest.md"), last=text.rpartition("\n")[2])
        messages = [*messages, {"role": "assistant", "content": text}, *rest]
    raise ItemFailed(
        f"{llm.fingerprint} was cut off {1 + MAX_PART_CONTINUATIONS} times: "
        "set a larger max_tokens for it, or a smaller metadata.window"
    )


def _parse_part(
    reply: Reply, *, earlier_text: str, fields: Sequence[MetadataField]
) -> tuple[str, ParsedMetadata | None]:
    """Return the reply's text, and the parsed whole if it is complete.

    For a truncated reply return its complete lines and None.
    """
    if not reply.truncated:
        return reply.text, parse_metadata_reply(earlier_text + reply.text, fields)
    text = reply.text.rpartition("\n")[0].rstrip()
    if not text:
        raise MalformedReply("The reply broke off before its first line was whole. Write nothing before the form.")
    return text, None


def split_document(document: Document, tokenizer: Tokenizer, window: int) -> Iterator[str]:
    """Yield the text after the front matter in parts of `window` tokens.

    Parts end at sentence ends; a longer sentence is cut at white space, or else between tokens.
    """
    if window < 1:
        raise SettingsError(f"metadata.window is {window}; it must be 1 or more")
    text, start = replace_surrogates(document.text), document.body
    starts = list(_token_starts(text, start, tokenizer))
    ends: list[int] | None = None
    while (last := bisect_left(starts, start) + window) < len(starts):
        ends = _sentence_ends(text, start) if ends is None else ends
        position = bisect_right(ends, starts[last])
        last_end = ends[position - 1] if position else start
        end = last_end if last_end > start else _cut_position(text, start, starts[last])
        if text[start:end].strip():
            yield text[start:end].strip()
        start = end
    if text[start:].strip():
        yield text[start:].strip()


def _sentence_ends(text: str, start: int) -> list[int]:
    """Return the ends of sentences; a heading stays with its section."""
    body_blocks = (block for block in split_blocks(text, start) if block.kind != "heading")
    return [end for block in body_blocks for _, end in split_sentences(text, block.start, block.end)]


def _cut_position(text: str, start: int, end: int) -> int:
    """Return the position to cut a sentence that passes `end`."""
    space = max((text.rfind(space, start + (end - start) // 2, end) for space in " \n\u3000"), default=-1)
    return space + 1 if space >= 0 else max(end, start + 1)


def _token_starts(text: str, start: int, tokenizer: Tokenizer) -> Iterator[int]:
    """Yield the offset of each token.

    Tokenizers hold the whole input in memory, so a long text is tokenized in parts.
    """
    while start < len(text):
        part_end = min(start + _TOKENIZED_CHARS, len(text))
        if part_end < len(text):
            part_end = max(text.rfind(" ", start, part_end), text.rfind("\n", start, part_end)) + 1 or part_end
        part_end = part_end if part_end > start else min(start + _TOKENIZED_CHARS, len(text))
        yield from (start + offset for offset in tokenizer(text[start:part_end]))
        start = part_end
