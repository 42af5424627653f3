"""what a tool found -> values for a program, and the same as text for a language model."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from kumihimo.core.answer import TRUNCATION_NOTE, Answer
from kumihimo.core.spans import Span
from kumihimo.text.sentences import shorten_line
from kumihimo.text.translation import translate

Json = dict[str, Any]
_MAX_ANSWER, _MAX_QUOTE, _MAX_CITATIONS = 30_000, 1_000, 60
MAX_LINE, _MAX_FIELDS = 300, 12  # of a value, and of the metadata of a document
_OF_ANSWERS = ("question", "method", "model", "approach", "status", "truncated", "text", "citations")


def describe_place(place: Json) -> str:
    """Return a place with what `open_citation` needs of it."""
    label = f"{place['title']} · " if place["title"] else ""
    return f"{label}{place['location']} (document {place['document']}, {place['start']}-{place['end']})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A result of a tool, as values and, by `str`, as text."""

    index: str

    def to_dict(self) -> Json:
        """Return the values."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult(Result):
    """The evidence for a question, best first. note: how to see more."""

    method: str
    evidence: tuple[Json, ...]
    note: str = ""

    def __str__(self) -> str:
        found = [
            f"{item['rank']}. {describe_place(item) if item['uri'] else item['title']} [{item['table']}:{item['id']}]"
            f"\n{item['text']}"
            for item in self.evidence
        ]
        return _paragraphs(*(found or ["Nothing was found."]), self.note)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskResult(Result):
    """An answer with the passages behind its citations; `search` shows the evidence."""

    answer: Answer

    def to_dict(self) -> Json:
        """Return the answer; its text has a number for each citation."""
        whole = self.answer.marked().to_dict()
        values = {"index": self.index, **{name: whole[name] for name in _OF_ANSWERS}}
        citations = [
            {**each, "text": cut(each["text"], _MAX_QUOTE), "metadata": short_fields(each["metadata"])}
            for each in values["citations"]
        ]
        values["model"] = values["model"].partition(" ")[0]
        return {**values, "text": cut(values["text"], _MAX_ANSWER), "citations": citations[:_MAX_CITATIONS]}

    def __str__(self) -> str:
        values = self.to_dict()
        sources = [f"[{each['n']}] {describe_place(each)}" for each in values["citations"]]
        return _paragraphs(
            translate(self.answer.remark),
            values["text"],
            translate(TRUNCATION_NOTE) if self.answer.truncated else "",
            "\n".join(["Sources:", *sources]) if sources else "",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedResult(Result):
    """A passage with the text around it.

    passage: where it stands. characters: of the whole document. next_start: where its text goes on, if it was cut.
    more: other places of the row.
    """

    passage: Json
    before: str
    text: str
    after: str
    characters: int
    next_start: int | None = None
    more: tuple[Json, ...] = ()

    def __str__(self) -> str:
        cut = f"(Cut: call open_citation again with start={self.next_start}.)" if self.next_start else ""
        others = "\n".join(["Other places of this row:", *map(describe_place, self.more)]) if self.more else ""
        marked = f"{self.before}>>>{self.text}<<<{self.after}"
        return _paragraphs(describe_place(self.passage), marked, cut, others)


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentsResult(Result):
    """A page of documents.

    indexes: the collections that may be used. total: of the documents that match the filter.
    """

    indexes: tuple[str, ...]
    total: int
    documents: tuple[Json, ...]
    next_cursor: str = ""

    def __str__(self) -> str:
        more = f"There are more: call list_documents with cursor={self.next_cursor}." if self.next_cursor else ""
        others = f"Collections: {', '.join(self.indexes)}." if len(self.indexes) > 1 else ""
        return _paragraphs(
            f"{self.total} documents in {self.index}.", "\n".join(map(_document_line, self.documents)), more, others
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityResult(Result):
    """An entity of the graph, with its closest neighbours and the first passages that mention it.

    similar: other entities whose names contain the one given.
    """

    id: str
    name: str
    type: str
    forms: tuple[str, ...]
    mentions: int
    description: str
    relations: tuple[Json, ...]
    passages: tuple[Json, ...]
    similar: tuple[Json, ...] = ()
    note: str = ""

    def __str__(self) -> str:
        kind = f" ({self.type})" if self.type else ""
        relations = [f"- {relation['name']}: {relation['text']}" for relation in self.relations]
        return _paragraphs(
            f"{self.name}{kind} [entities:{self.id}], mentions: {self.mentions}",
            self.description,
            "\n".join(["Related:", *relations]) if relations else "",
            _paragraphs("Passages:", *map(_passage_text, self.passages)) if self.passages else "",
            f"Similar names: {'; '.join(other['name'] for other in self.similar)}." if self.similar else "",
            self.note,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportResult(Result):
    """A report on a part of the collection, in Markdown, with the passages it rests on; or a list of reports."""

    id: str = ""
    title: str = ""
    text: str = ""
    sources: tuple[Json, ...] = ()
    others: tuple[Json, ...] = ()
    note: str = ""

    def __str__(self) -> str:
        others = [f"- {other['title']} [{other['id']}]" for other in self.others]
        return _paragraphs(
            self.text,
            "\n".join(["Sources:", *map(describe_place, self.sources)]) if self.sources else "",
            "\n".join(["Other reports:" if self.id else "Reports:", *others]) if others else "",
            self.note,
        )


def _document_line(document: Json) -> str:
    values = "; ".join(f"{name} = {_plain(value)}" for name, value in document["metadata"].items())
    title = document["title"] or document["uri"]
    return f"- {title} ({document['uri']}) [{document['id']}]{f': {values}' if values else ''}"


def _passage_text(passage: Json) -> str:
    return f"{describe_place(passage)} [chunks:{passage['chunk']}]\n{passage['text']}"


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


def short_fields(metadata: Mapping[str, object]) -> Json:
    """Return the first fields of a document, with short values."""
    return {name: _short_value(value) for name, value in islice(metadata.items(), _MAX_FIELDS)}


def _short_value(value: object) -> Any:
    if isinstance(value, list):
        return [_short_value(item) for item in value[:_MAX_FIELDS]]
    return value if isinstance(value, bool | int | float | None) else shorten_line(str(value), MAX_LINE)


def places(spans: Iterable[Span]) -> tuple[Json, ...]:
    """Return the places of spans, each once."""
    return tuple(span.to_place() for span in dict.fromkeys(spans))
