"""a document -> metadata, questions: values of its fields and questions it answers, from one call."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from kumihimo.core import context, digests, errors, signature, table
from kumihimo.core.records import NOT_READ, Document, Metadata, Question
from kumihimo.core.settings import Line, Name, Names, Tokens
from kumihimo.index import batched_calls, metadata_fields
from kumihimo.index.chunk_background import Description, document_date, readable_title
from kumihimo.llm import prompts, protocols
from kumihimo.text.sentences import split_blocks, split_sentences

Fields = Sequence[metadata_fields.MetadataField]

PROMPT = Path(__file__).with_suffix(".md")
CONTINUE_PROMPT = Path(__file__).with_name("metadata_continue.md")
MAX_OWN_VALUE_CHARS = 200  # a longer value is a text; it is no use in a filter
MAX_PART_CONTINUATIONS = 3  # of one truncated reply
_MIN_PAIRS, _TOKENS_PER_PAIR = 5, 100  # questions of a text, at most
_TOKENIZED_CHARS = 50_000  # characters in one call of the tokenizer
_LANGUAGE_OF_TEXT = "Write questions and answers in the language of the text."


@dataclass(frozen=True, slots=True)
class MetadataSettings:
    """Settings of one conversation, which `metadata` and `questions` share."""

    preset: metadata_fields.Preset = "news"
    fields: tuple[Annotated[str, metadata_fields.FIELD], ...] = ()
    document_types: Name = "documents"
    users_types: Name = "people who know their subject well"
    text_categories: Names = ()
    window: Tokens = 12_000
    language: Line = ""


def metadata(
    document: Document,
    descriptions: table.Table[Description],
    tokenizer: context.Tokenizer,
    llm: protocols.LLM | None,
    *,
    extraction: MetadataSettings = MetadataSettings(),
) -> Iterable[Metadata]:
    """Extract the metadata values of a document, field by field.

    (MK-RAG, arXiv:2408.09017, section "prepare", appendix A.) But: values from the document's own front matter or row
    take precedence. Without a model, these values and the title are the only ones.
    """
    values, failure = _own_metadata(document), None
    if llm is not None:
        extracted, _, failure = _extract_metadata(document, descriptions, tokenizer, llm, extraction)
        values = {name: values.get(name) or texts for name, texts in extracted.items()}
    rows = (Metadata(document.id, name, texts, text="\n".join(texts)) for name, texts in values.items() if texts)
    return batched_calls.rows_or_failure(rows, failure)


@signature.declare(scope="metadata")
def questions(
    document: Document,
    descriptions: table.Table[Description],
    tokenizer: context.Tokenizer,
    llm: protocols.LLM,
    *,
    extraction: MetadataSettings = MetadataSettings(),
) -> Iterable[Question]:
    """Generate questions that a document answers, with answers, in the same reply."""
    _, pairs, failure = _extract_metadata(document, descriptions, tokenizer, llm, extraction)
    title = document.title or document.uri.rpartition("/")[2]
    rows = (
        Question(answer, title, len(tokenizer(f"{question}\n{answer}")), text=question) for question, answer in pairs
    )
    return batched_calls.rows_or_failure(rows, failure)


def _own_metadata(document: Document) -> dict[str, tuple[str, ...]]:
    """Return a document's own values: its title and its metadata."""
    own_metadata = {**document.metadata, "title": document.title} if document.title else document.metadata
    return {field: _value_texts(value) for field, value in own_metadata.items() if field != NOT_READ}


def _value_texts(raw_value: object) -> tuple[str, ...]:
    """Return a value as unique one-line texts.

    Drop empty and long texts, and values that are neither text, number nor list.
    """
    texts = (_value_text(value) for value in (raw_value if isinstance(raw_value, list) else [raw_value]))
    return tuple(dict.fromkeys(text for text in texts if 0 < len(text) <= MAX_OWN_VALUE_CHARS))


def _value_text(value: object) -> str:
    """Return a scalar as a text; empty for other types."""
    if isinstance(value, bool):
        return str(value).lower()
    return " ".join(str(value).split()) if isinstance(value, str | int | float) else ""


def _extract_metadata(
    document: Document,
    descriptions: table.Table[Description],
    tokenizer: context.Tokenizer,
    llm: protocols.LLM,
    extraction: MetadataSettings,
) -> tuple[Mapping[str, tuple[str, ...]], Sequence[metadata_fields.QuestionAnswer], errors.ItemFailed | None]:
    """Return the values by field, the question-answer pairs and any failure.

    One call lists the values, then questions with answers (MK-RAG, arXiv:2408.09017, appendix A). But: the reply is
    JSON; a document longer than `window` tokens is read in parts, cut at sentence ends; the fields come from the
    settings. If a part fails, the other parts are kept.
    """
    language = extraction.language
    fields = metadata_fields.resolve_fields(extraction.preset, extraction.fields, extraction.text_categories)
    part_messages = partial(
        prompts.render_prompt,
        PROMPT,
        document_types=extraction.document_types,
        users_types=extraction.users_types,
        fields="\n".join(map(_field_instruction, metadata_fields.field_keys(fields), fields)),
        language=f"Write questions and answers in {language}." if language else _LANGUAGE_OF_TEXT,
        title=readable_title(digests.replace_surrogates(document.title)),
        date=document_date(descriptions.get(document.id)),
    )
    parsed: list[metadata_fields.ParsedMetadata] = []
    failure = None
    for text in split_document(document, tokenizer, extraction.window):
        try:
            most = max(_MIN_PAIRS, len(tokenizer(text)) // _TOKENS_PER_PAIR)
            part = _request_reply(llm, part_messages(text=text, most=str(most)), fields)
            parsed.append(part._replace(pairs=part.pairs[:most]))
        except errors.ItemFailed as error:  # keep the results of the other parts
            failure = failure or error
    values = {
        field.name: metadata_fields.unique_values((value for part in parsed for value in part.values[n]), field)
        for n, field in enumerate(fields)
    }
    return values, metadata_fields.unique_questions(pair for part in parsed for pair in part.pairs), failure


def _field_instruction(key: str, field: metadata_fields.MetadataField) -> str:
    """Return the prompt line of a field."""
    name = f" ({field.name})" if key != field.name else ""
    allowed = f" Allowed values: {', '.join(field.categories)}." if field.categories else ""
    return f"- {key}{name}: {field.list} At most {field.maximum}.{allowed} {field.question} If not, the list is empty."


def _request_reply(llm: protocols.LLM, messages: protocols.Messages, fields: Fields) -> metadata_fields.ParsedMetadata:
    """Return a parsed reply, continued while it is truncated.

    Raise ItemFailed after too many continuations.
    """
    schema: type[Any] = metadata_fields.reply_type(fields)
    parse = partial(metadata_fields.parse_metadata_reply, fields=fields)
    parts: list[metadata_fields.ParsedMetadata] = []
    while len(parts) <= MAX_PART_CONTINUATIONS:
        parts.append(part := llm(messages, schema=schema, parse=parse))
        pairs = tuple(pair for part in parts for pair in part.pairs)
        if not part.cut_off:
            return metadata_fields.ParsedMetadata(parts[0].values, pairs)
        rest = prompts.render_prompt(CONTINUE_PROMPT, last=pairs[-1][0] if pairs else "")
        messages = [*messages, {"role": "assistant", "content": part.cut_off}, *rest]
        schema, parse = metadata_fields.RestOfQuestions, partial(metadata_fields.parse_metadata_reply, fields=())
    raise errors.ItemFailed(
        f"{llm.fingerprint} was cut off {1 + MAX_PART_CONTINUATIONS} times: "
        "set a larger max_tokens for it, or a smaller metadata.window"
    )


def split_document(document: Document, tokenizer: context.Tokenizer, window: int) -> Iterator[str]:
    """Yield the text after the front matter in parts of `window` tokens.

    Parts end at sentence ends; a longer sentence is cut at white space, or else between tokens.
    """
    text, start = digests.replace_surrogates(document.text), document.body
    token_starts = list(_token_starts(text, start, tokenizer))
    is_long = len(token_starts) > window
    ends = _sentence_ends(text, start) if is_long else []
    while (last := bisect_left(token_starts, start) + window) < len(token_starts):
        position = bisect_right(ends, token_starts[last])
        last_end = ends[position - 1] if position else start
        end = last_end if last_end > start else _cut_position(text, start, token_starts[last])
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


def _token_starts(text: str, start: int, tokenizer: context.Tokenizer) -> Iterator[int]:
    """Yield the offset of each token.

    Tokenizers hold the whole input in memory, so a long text is tokenized in parts.
    """
    while start < len(text):
        part_end = min(start + _TOKENIZED_CHARS, len(text))
        if part_end < len(text):
            part_end = max(text.rfind(" ", start, part_end), text.rfind("\n", start, part_end)) + 1 or part_end
        yield from (start + offset for offset in tokenizer(text[start:part_end]))
        start = part_end
