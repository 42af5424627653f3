"""a document -> metadata, questions: values of its fields, and questions it answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from kumihimo.core.context import Tokenizer
from kumihimo.core.errors import ItemFailed
from kumihimo.core.records import NOT_READ, Document, Metadata, Question, Record
from kumihimo.index import metadata_llm
from kumihimo.index.metadata_fields import Preset, resolve_fields
from kumihimo.index.metadata_llm import MetadataResult
from kumihimo.llm.protocols import LLM

R = TypeVar("R", bound=Record)

DOCUMENT_TYPES, USER_TYPES = "documents", "people who know their subject well"
MAX_OWN_VALUE_CHARS = 200  # a longer value is a text; it is no use in a filter


def metadata(
    document: Document,
    tokenizer: Tokenizer,
    llm: LLM | None,
    *,
    preset: Preset = "paper",
    fields: tuple[str, ...] = (),
    document_types: str = DOCUMENT_TYPES,
    users_types: str = USER_TYPES,
    text_categories: tuple[str, ...] = (),
    window: int = 8000,
    language: str = "",
) -> Iterable[Metadata]:
    """Extract the metadata values of a document, field by field.

    (MK-RAG, arXiv:2408.09017, section "prepare", appendix A.) But: values from the document's own front matter or row
    take precedence. Without a model, these values and the title are the only ones.
    """
    own_values = _own_metadata(document)
    if llm is None:
        return list(_metadata_rows(document, own_values))
    metadata_fields = resolve_fields(preset, fields, text_categories)
    extracted, _, failure = _read_document(
        document,
        tokenizer,
        llm,
        preset=preset,
        fields=fields,
        document_types=document_types,
        users_types=users_types,
        text_categories=text_categories,
        window=window,
        language=language,
    )
    return _rows_or_failure(
        _metadata_rows(
            document, {field.name: own_values.get(field.name) or extracted[field.name] for field in metadata_fields}
        ),
        failure,
    )


def questions(
    document: Document,
    tokenizer: Tokenizer,
    llm: LLM,
    *,
    preset: Preset = "paper",
    fields: tuple[str, ...] = (),
    document_types: str = DOCUMENT_TYPES,
    users_types: str = USER_TYPES,
    text_categories: tuple[str, ...] = (),
    window: int = 8000,
    language: str = "",
) -> Iterable[Question]:
    """Generate questions that a document answers, with answers, in the same reply."""
    _, pairs, failure = _read_document(
        document,
        tokenizer,
        llm,
        preset=preset,
        fields=fields,
        document_types=document_types,
        users_types=users_types,
        text_categories=text_categories,
        window=window,
        language=language,
    )
    title = document.title or document.uri.rpartition("/")[2]
    return _rows_or_failure(
        (Question(answer, title, len(tokenizer(f"{question}\n{answer}")), text=question) for question, answer in pairs),
        failure,
    )


def _read_document(
    document: Document,
    tokenizer: Tokenizer,
    llm: LLM,
    *,
    preset: Preset,
    fields: tuple[str, ...],
    document_types: str,
    users_types: str,
    text_categories: tuple[str, ...],
    window: int,
    language: str,
) -> MetadataResult:
    """Run the metadata prompt on a document."""

    return metadata_llm.extract_metadata(
        document,
        tokenizer,
        llm,
        fields=resolve_fields(preset, fields, text_categories),
        document_types=document_types,
        users_types=users_types,
        window=window,
        language=language,
    )


def _rows_or_failure(rows: Iterable[R], failure: ItemFailed | None) -> list[R]:
    """Return the rows. Raise the failure, if any, with these rows.

    The engine stores them in place of the complete set.
    """
    result = list(rows)
    if failure:
        failure.fallback = tuple(result)
        raise failure
    return result


def _metadata_rows(document: Document, values: Mapping[str, tuple[str, ...]]) -> Iterator[Metadata]:
    """Yield one row per field with values."""
    for field, texts in values.items():
        if texts:
            yield Metadata(document.id, field, texts, text="\n".join(texts))


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
