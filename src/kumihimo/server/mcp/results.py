"""what a tool found -> values for a program, and the same as text for a language model."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from kumihimo.core.digests import hash_parts
from kumihimo.core.spans import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A passage of a document: `[start, end)` in its characters. document: its id."""

    document: str
    uri: str
    title: str
    place: str
    start: int
    end: int

    @classmethod
    def of(cls, span: Span) -> "Place":
        """Return the place of a span."""
        return cls(
            document=hash_parts(span.uri),
            uri=span.uri,
            title=span.title,
            place=span.place,
            start=span.start,
            end=span.end,
        )

    def __str__(self) -> str:
        where = f"{self.uri}, {self.place}" if self.place else self.uri
        label = f"{self.title} · {where}" if self.title else where
        return f"{label} (document {self.document}, {self.start}-{self.end})"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPassage:
    """A piece of evidence. id: of its row; places: where it comes from, up to three."""

    id: str
    title: str
    text: str
    places: tuple[Place, ...]

    def __str__(self) -> str:
        head = " | ".join(map(str, self.places)) or self.title
        return f"{head} [{self.id}]\n{self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The evidence for a question, best first. note: how to see more."""

    index: str
    method: str
    passages: tuple[FoundPassage, ...]
    note: str = ""

    def __str__(self) -> str:
        found = [f"{rank}. {passage}" for rank, passage in enumerate(self.passages, 1)]
        return _paragraphs(*(found or ["Nothing was found."]), self.note)


@dataclass(frozen=True, slots=True, kw_only=True)
class CitedPassage:
    """The passage behind `[n]` in an answer, with the words that support it."""

    n: int
    quote: str
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class AskResult:
    """An answer with the passages behind its citations.

    status: answered; closest: the passages shown may not answer; nothing: no passage was found. model: empty if the
    answer consists of sentences of the documents.
    """

    index: str
    method: str
    model: str
    status: str
    answer: str
    citations: tuple[CitedPassage, ...]

    def __str__(self) -> str:
        sources = [f"[{citation.n}] {citation.place}" for citation in self.citations]
        return _paragraphs(self.answer, "\n".join(["Sources:", *sources]) if sources else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedPassage:
    """A passage with the text around it.

    characters: of the whole document. next_start: where its text goes on, if it was cut. more: other places of the row.
    """

    passage: Place
    before: str
    text: str
    after: str
    characters: int
    next_start: int | None = None
    more: tuple[Place, ...] = ()

    def __str__(self) -> str:
        cut = f"(Cut: call open_citation again with start={self.next_start}.)" if self.next_start else ""
        others = "\n".join(["Other places of this row:", *map(str, self.more)]) if self.more else ""
        marked = f"{self.before}>>>{self.text}<<<{self.after}"
        return _paragraphs(str(self.passage), marked, cut, others)


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentRow:
    """A document of a list."""

    id: str
    uri: str
    title: str
    modified: str
    metadata: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        values = "; ".join(f"{name} = {_plain(value)}" for name, value in self.metadata.items())
        return f"- {self.title or self.uri} ({self.uri}) [{self.id}]{f': {values}' if values else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentsResult:
    """A page of documents. indexes: the collections that may be used. total: of the documents that match the filter."""

    index: str
    indexes: tuple[str, ...]
    total: int
    documents: tuple[DocumentRow, ...]
    next_cursor: str = ""

    def __str__(self) -> str:
        more = f"There are more: call list_documents with cursor={self.next_cursor}." if self.next_cursor else ""
        others = f"Collections: {', '.join(self.indexes)}." if len(self.indexes) > 1 else ""
        return _paragraphs(
            f"{self.total} documents in {self.index}.", "\n".join(map(str, self.documents)), more, others
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RelatedEntity:
    """A neighbour in the graph. weight: how often both are mentioned together."""

    id: str
    name: str
    weight: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityLink:
    """An entity by its id and name."""

    id: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityResult:
    """An entity of the graph, with its closest neighbours and the first passages that mention it.

    similar: other entities whose names contain the one given.
    """

    id: str
    name: str
    type: str
    forms: tuple[str, ...]
    mentions: int
    description: str
    relations: tuple[RelatedEntity, ...]
    passages: tuple[FoundPassage, ...]
    similar: tuple[EntityLink, ...] = ()
    note: str = ""

    def __str__(self) -> str:
        kind = f" ({self.type})" if self.type else ""
        relations = [f"- {relation.name}: {relation.text}" for relation in self.relations]
        return _paragraphs(
            f"{self.name}{kind} [entities:{self.id}], mentions: {self.mentions}",
            self.description,
            "\n".join(["Related:", *relations]) if relations else "",
            _paragraphs("Passages:", *map(str, self.passages)) if self.passages else "",
            f"Similar names: {'; '.join(other.name for other in self.similar)}." if self.similar else "",
            self.note,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportLink:
    """A report by its id and title."""

    id: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportResult:
    """A report on a part of the collection, in Markdown, with the passages it rests on; or a list of reports."""

    id: str = ""
    title: str = ""
    text: str = ""
    sources: tuple[Place, ...] = ()
    others: tuple[ReportLink, ...] = ()
    note: str = ""

    def __str__(self) -> str:
        others = [f"- {other.title} [{other.id}]" for other in self.others]
        return _paragraphs(
            self.text,
            "\n".join(["Sources:", *map(str, self.sources)]) if self.sources else "",
            "\n".join(["Other reports:" if self.id else "Reports:", *others]) if others else "",
            self.note,
        )


def _plain(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _paragraphs(*parts: str) -> str:
    return "\n\n".join(filter(None, parts))


def cut(text: str, limit: int) -> str:
    """Return the beginning of a text, with … if it goes on.

    >>> cut("harbour", 4), cut("bar", 4)
    ('har…', 'bar')
    """
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def places(spans: Iterable[Span]) -> tuple[Place, ...]:
    """Return the places of spans, each once."""
    return tuple(dict.fromkeys(map(Place.of, spans)))
