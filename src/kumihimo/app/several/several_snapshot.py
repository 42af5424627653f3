"""snapshots of several indexes -> one: its search asks all, and each row is traced in its own index."""

from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice, zip_longest
from typing import Any, Self

from kumihimo.app.ask.snapshot import BoundMethod, Snapshot
from kumihimo.app.evidence.source_tracer import DocumentPlaces, SourceTracer
from kumihimo.app.opened.catalogue import FALLBACK_METHOD
from kumihimo.app.several.merged_evidence import TokensByText, drop_copies, evidence_text, merge_evidence, names_index
from kumihimo.app.several.union import UnionKeywordSearch, UnionRows, UnionVectorSearch
from kumihimo.core.context import Context, Evidence
from kumihimo.core.errors import IndexUnavailable, SettingsError
from kumihimo.core.index_names import id_in_index, split_id, split_uri, uri_in_index
from kumihimo.core.lineage import starts_with_document
from kumihimo.core.records import Reference
from kumihimo.core.settings import Setting, resolve_settings
from kumihimo.core.signature import Signature
from kumihimo.core.spans import Span
from kumihimo.core.table import Table
from kumihimo.core.wiring import ROOT
from kumihimo.llm.budget import Budget
from kumihimo.llm.concurrency import map_concurrent
from kumihimo.search.protocols import KeywordSearch, VectorSearch
from kumihimo.text.question import ParsedQuestion
from kumihimo.text.word_variants import WordIndex

CHUNKS = "chunks"  # the table whose tokens are stored


@dataclass(frozen=True)
class SeveralSnapshot(Snapshot):
    """Snapshots of several indexes, by name, that answer as one.

    The models, settings and methods of the first one write the answer. Ids and uris name their index.
    """

    parts: Mapping[str, Snapshot] = field(default_factory=dict)

    @classmethod
    def of(cls, parts: Mapping[str, Snapshot]) -> Self:
        """Return these snapshots as one; the first leads."""
        first = next(iter(parts.values()))
        shared = first.db, first.catalogue, first.settings, first.tokenizer, first.models, first.matrices
        return cls(*shared, budget=first.budget, parts=parts)

    def table(self, name: str) -> Table[Any]:
        """Return the visible rows of a table, of all indexes."""
        return self._unite(name, Snapshot.table)

    def stored_table(self, name: str) -> Table[Any]:
        """Return a table with all its rows, visible or not."""
        return self._unite(name, Snapshot.stored_table)

    def _unite(self, name: str, read: Callable[[Snapshot, str], Table[Any]]) -> Table[Any]:
        having = {index: part for index, part in self.parts.items() if part.db.has(name)}
        tables = {index: read(part, name) for index, part in (having or self.parts).items()}  # or it raises the error
        is_named = starts_with_document(self.catalogue.wired, name)
        return Table(name, next(iter(tables.values())).codec, UnionRows(tables, is_named))

    def narrowed(self, filter: str) -> Self:
        """Return the snapshots of matching documents; blank: all.

        A field that the documents of one index lack is unset there. It is an error if all lack it.
        """
        if not (filter := filter.strip()):
            return self
        parts, errors = dict[str, Snapshot](), list[SettingsError]()
        for index, part in self.parts.items():
            try:
                parts[index] = part.narrowed(filter)
                parts[index].table(ROOT)
            except SettingsError as error:
                errors.append(error)
                both = f"({part.rights}) and ({filter})" if part.rights else filter
                parts[index] = replace(part, rights=both)  # lenient
        if len(errors) == len(parts):
            replace(self, filter=filter).visible_documents()  # raises the error for a field that all lack
        return replace(self, filter=f"({self.filter}) and ({filter})" if self.filter else filter, parts=parts)

    def matching_documents(self, filter: str) -> frozenset[str]:
        """Return the ids of the documents that match the filter."""
        return frozenset(id for (id,) in self.narrowed(filter).table(ROOT).columns("id"))

    def default_method(self) -> str:
        """Return the default of all, or a method all were built for."""
        defaults = [part.default_method() for part in self.parts.values()]
        built = [frozenset(part.db.meta("methods", [])) for part in self.parts.values()]
        shared = [name for name in (*defaults, FALLBACK_METHOD) if all(name in names for names in built)]
        return shared[0] if len(set(defaults)) > 1 and shared else defaults[0]

    def method(self, name: str) -> Signature:
        """Return a method. Raise SettingsError if an index lacks it."""
        first, *_ = [part.method(name) for part in self.parts.values()]
        return first

    def uses_llm(self, signature: Signature) -> bool:
        """Return whether the method may call a chat model."""
        return any(part.uses_llm(signature) for part in self.parts.values())

    def indexed_words(self) -> WordIndex | None:
        """Return the words of the chunks of all indexes."""
        words = [own for part in self.parts.values() if (own := part.indexed_words())]
        return UnionWords(words) if len(words) == len(self.parts) else None

    def _bind_method(self, name: str, settings: Mapping[str, object], budget: Budget) -> BoundMethod:
        definitions: dict[str, Mapping[str, Setting]] = {name: self.method(name).settings}
        values = resolve_settings(definitions, {name: self.settings.get(name, {})}, {name: settings})[name]
        k, budgets = values.get("k"), [value for each, value in values.items() if each.endswith("budget")]
        limits = {
            "k": k if isinstance(k, int) else None,
            "budget": sum(value for value in budgets if isinstance(value, int)) or None,
        }
        searches: dict[str, BoundMethod] = {}
        for index, part in self.parts.items():
            with naming_errors(index):
                own = part.models.budget(budget.caps, budget)
                own.released = part.released if budget.released is not nullcontext else nullcontext
                searches[index] = part._bind_method(name, settings, own)

        def run(index: str, question: ParsedQuestion) -> tuple[Context, TokensByText]:
            with naming_errors(index):
                context = searches[index](question)
                return context, read_tokens(self.parts[index], context)

        def search_each(question: ParsedQuestion) -> Context:
            pairs = map_concurrent(lambda index: run(index, question), searches, len(searches))
            contexts, tokens = zip(*pairs, strict=True)
            found = dict(zip(searches, contexts, strict=True))
            return merge_evidence(question.text, found, self.tokenizer, **limits, tokens=ChainMap(*map(dict, tokens)))

        if not self._walks_across(name):
            return search_each
        search_all = Snapshot._bind_method(self, name, settings, budget)

        def search(question: ParsedQuestion) -> Context:
            context = drop_copies(search_all(question), [*self.parts])
            # points of reports do not say where they are from
            return context if all(map(names_index, context)) else search_each(question)

        return search

    def _walks_across(self, name: str) -> bool:
        """Return whether a method finds its way from one index to another.

        It walks from passage to passage by the names that both mention. Meaning has to compare between the indexes.
        """
        embedders = {repr(part.embedder_of(CHUNKS)) for part in self.parts.values()}
        return "mentions" in self.method(name).tables and "llm" not in self.method(name).ports and len(embedders) == 1

    def keyword_search(self) -> KeywordSearch:
        """Return the keyword search of all."""
        return UnionKeywordSearch({index: part.keyword_search() for index, part in self.parts.items()})

    def vector_search(self, budget: Budget) -> VectorSearch:
        """Return the vector search of all."""
        return UnionVectorSearch({index: part.vector_search(budget) for index, part in self.parts.items()})

    @cached_property
    def tracer(self) -> SourceTracer:
        """Return what finds the source spans of rows, each in its index."""
        parts = {index: part.tracer for index, part in self.parts.items()}
        return SeveralTracer(self.db, self.catalogue, self.table, parts=parts)

    @contextmanager
    def released(self) -> Iterator[None]:
        """Hold no transaction inside the context, while a model speaks."""
        with ExitStack() as stack:
            for part in self.parts.values():
                stack.enter_context(part.released())
            yield


def read_tokens(snapshot: Snapshot, context: Context) -> TokensByText:
    """Return the tokens of the chunks, from the forward index, by text."""
    chunks = {item.record.id: evidence_text(item) for item in context if item.table == CHUNKS}
    if not chunks or not snapshot.db.has(f"words_{CHUNKS}"):
        return {}
    tokens = snapshot.keyword_search().tokens(snapshot.table(CHUNKS), [*chunks])
    return {chunks[id]: row for id, row in tokens.items()}


@contextmanager
def naming_errors(index: str) -> Iterator[None]:
    """Name the index in errors about what it lacks."""
    try:
        yield
    except IndexUnavailable as error:
        raise type(error)(f"{index}: {error}") from error


@dataclass(frozen=True, slots=True)
class SeveralTracer(SourceTracer):
    """The way back from rows to documents, in the index that each row names."""

    parts: Mapping[str, SourceTracer] = field(default_factory=dict)

    def locate(self, span: Span) -> Span:
        """Return the span with its index, title and page or line."""
        index, uri = split_uri(span.uri)
        own = replace(span, uri=uri, chunk=split_id(span.chunk)[1])
        return replace(self._part(index).locate(own), index=index)

    def _source_spans(self, item: Reference | Evidence) -> Iterator[Span]:
        """Yield the source spans, with ids and uris that name the index."""
        for index, own in self._split(item):
            for span in self._part(index)._source_spans(own):
                chunk = id_in_index(index, span.chunk) if span.chunk else ""
                yield replace(span, chunk=chunk, uri=uri_in_index(index, span.uri))

    def _split(self, item: Reference | Evidence) -> Iterator[tuple[str, Reference | Evidence]]:
        """Yield indexes, and the row or its sources as they are there."""
        if isinstance(item, Evidence) and item.index:
            yield _split_evidence(item)
            return
        reference = item.reference if isinstance(item, Evidence) else item
        for table, id in [reference] if split_id(reference[1])[0] else self.sources(item):
            index, own_id = split_id(id)
            yield index, (table, own_id)

    def _places(self, uri: str) -> DocumentPlaces:
        index, own = split_uri(uri)
        return self._part(index)._places(own)

    def read_ahead(self, items: Iterable[Evidence]) -> None:
        """Read the documents of the passages among the evidence at once.

        A point of a method may be of several indexes: its id names none.
        """
        by_index: dict[str, list[Evidence]] = {}
        for index, item in map(_split_evidence, filter(lambda item: item.index, items)):
            by_index.setdefault(index, []).append(item)
        for index, own in by_index.items():
            self._part(index).read_ahead(own)

    def find_table(self, name: str) -> Table[Any] | None:
        """Return a table, or None if no index has it."""
        return self.table(name) if any(part.db.has(name) for part in self.parts.values()) else None

    def document(self, uri: str) -> tuple[str, str, int]:
        """Return the text, title and start of the body."""
        index, own = split_uri(uri)
        return self._part(index).document(own)

    def describe_document(self, id: str) -> str:
        """Return the index, title or uri, and date of a document."""
        index, own = split_id(id)
        return f"{index}: {self._part(index).describe_document(own)}"

    def _part(self, index: str) -> SourceTracer:
        if index not in self.parts:
            raise SettingsError(f"the row is of no index asked here: name one of {', '.join(self.parts)} before its id")
        return self.parts[index]


def _split_evidence(item: Evidence) -> tuple[str, Evidence]:
    """Return the index of evidence, and it without that name."""
    records = (replace(record, id=split_id(record.id)[1]) for record in (item.record, *item.duplicates))
    record, *duplicates = records
    return item.index, replace(item, record=record, duplicates=tuple(duplicates))


@dataclass(frozen=True, slots=True)
class UnionWords:
    """The words of several indexes: one that any of them has is written right."""

    parts: Sequence[WordIndex]

    def has(self, text: str) -> bool:
        return any(part.has(text) for part in self.parts)

    def stems(self, letter: str) -> Mapping[str, int]:
        counts: dict[str, int] = {}
        for part in self.parts:
            for stem, count in part.stems(letter).items():
                counts[stem] = counts.get(stem, 0) + count
        return counts

    def passages(self, text: str, k: int) -> Sequence[str]:
        columns = zip_longest(*(part.passages(text, k) for part in self.parts))
        return list(islice((text for row in columns for text in row if text is not None), k))
