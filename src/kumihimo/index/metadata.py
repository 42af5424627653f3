"""a document -> metadata, questions: what it says to each field, and what can be asked that it answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from kumihimo.core.context import Tokenizer
from kumihimo.core.errors import ItemFailed
from kumihimo.core.records import NOT_READ, Document, Metadata, Question, Record
from kumihimo.index.metadata_fields import Preset, resolve_fields
from kumihimo.llm.protocols import LLM

if TYPE_CHECKING:
    from kumihimo.index.metadata_llm import MetadataResult

R = TypeVar("R", bound=Record)

DOCUMENT_TYPES, USER_TYPES = "documents", "people who know their subject well"
MAX_OWN_VALUE_CHARS = 200  # characters of a value: what is longer is a text, which no one would filter by


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
    """What a document says to each field of metadata (MK-RAG, arXiv:2408.09017, section "prepare", appendix A).

    But: where a document says one itself, in its front matter or its row of a file, its own word counts; without a
    model these are all there are, and its title.
    """
    own = _own_metadata(document)
    if llm is None:
        return list(_metadata_rows(document, own))
    known = resolve_fields(preset, fields, text_categories)
    said, _, failure = _read_document(
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
        _metadata_rows(document, {field.name: own.get(field.name) or said[field.name] for field in known}), failure
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
    """What can be asked that a document answers, each with its answer, in the same reply."""
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
    from kumihimo.index import metadata_llm  # here: reading an index asks nothing

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
    """The rows. Raises the failure, if there was one, with them to be stored in place of all."""
    found = list(rows)
    if failure:
        failure.fallback = tuple(found)
        raise failure
    return found


def _metadata_rows(document: Document, values: Mapping[str, tuple[str, ...]]) -> Iterator[Metadata]:
    for field, said in values.items():
        if said:
            yield Metadata(document.id, field, said, text="\n".join(said))


def _own_metadata(document: Document) -> dict[str, tuple[str, ...]]:
    """What a document says of itself: its title, and what its metadata holds as values and lists of them."""
    told = {**document.metadata, "title": document.title} if document.title else document.metadata
    return {field: _value_texts(said) for field, said in told.items() if field != NOT_READ}


def _value_texts(raw_value: object) -> tuple[str, ...]:
    """Each once, as texts on one line; none of what is empty, long, or holds more than values."""
    texts = (_value_text(value) for value in (raw_value if isinstance(raw_value, list) else [raw_value]))
    return tuple(dict.fromkeys(text for text in texts if 0 < len(text) <= MAX_OWN_VALUE_CHARS))


def _value_text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return " ".join(str(value).split()) if isinstance(value, str | int | float) else ""
