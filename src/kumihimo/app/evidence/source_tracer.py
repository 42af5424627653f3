"""rows and evidence -> the spans of documents they come from, with page, slide, sheet or line."""

import json
import re
from array import array
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, TypeVar

from kumihimo.core import digests, lineage
from kumihimo.core.context import NOWHERE, Context, Evidence
from kumihimo.core.records import NOT_READ, Chunk, Passage, Reference
from kumihimo.core.spans import Span, describe_place
from kumihimo.core.table import Table
from kumihimo.core.wiring import ROOT, Catalogue
from kumihimo.index.chunk_background import document_date, readable_title
from kumihimo.search.metadata_filter import replace_metadata
from kumihimo.storage.database import Database
from kumihimo.text.sentences import shorten_title

T = TypeVar("T")
_MAX_TITLE_CHARS = 70
# Their text is that of the file, if nothing was taken out.
_PLAIN_TYPES = ("text/plain", "text/markdown", "application/x-kumihimo-text-units")
_MAX_KNOWN = 10_000  # documents whose lines are remembered
_MAX_SPANS = 50  # source spans of one piece of evidence


@dataclass(frozen=True, slots=True)
class DocumentPlaces:
    """The uri, the title, the metadata and the places of a document.

    line_ends: None unless the text is that of the file.
    """

    uri: str
    title: str
    metadata: Mapping[str, object]
    named: Sequence[Any]
    line_ends: Sequence[int] | None

    def locate(self, span: Span) -> Span:
        """Return the span with its page, slide, sheet or line, if any."""
        place = span.place
        if self.named:
            place = describe_place(self.named, span.start, span.end) or place
        elif self.line_ends is not None:
            place = f"line {bisect_left(self.line_ends, span.start) + 1}"
        return replace(span, title=self.title, place=place, metadata=self.metadata)


@dataclass(frozen=True, slots=True)
class SourceTracer:
    """The way back from rows to documents, in one snapshot.

    visible: what tells its visible documents from others.
    """

    db: Database
    catalogue: Catalogue
    table: Callable[[str], Table[Any]]
    visible: Hashable = None
    documents: dict[str, DocumentPlaces] = field(default_factory=dict)  # by id
    read_spans: dict[Reference, Span] = field(default_factory=dict)

    def trace(self, item: Reference | Evidence) -> Iterator[Span]:
        """Yield the source spans of a row or of evidence.

        The sources that its text cites come first, then all others. Each is read lazily.
        """
        return map(self.locate, self._source_spans(item))

    def locate_evidence(self, context: Context) -> Context:
        """Return the evidence with the places of its rows."""
        self.read_ahead(context)
        return replace(context, evidence=tuple(map(self._locate_item, context)))

    def _locate_item(self, item: Evidence) -> Evidence:
        source, *copies = (next(self.trace(part), NOWHERE) for part in item.parts)
        return replace(item, source=source, copies=tuple(copies))

    def trace_part(self, item: Evidence, start: int, end: int) -> Iterator[Span]:
        """Yield the source spans of `[start, end)` of the text of evidence.

        That is the part itself where the text is a passage of a document, else all sources.
        """
        for span in self._source_spans(item):
            in_place = span.text == item.text and len(span.text) == span.end - span.start
            part = (span.start + start, span.start + end, span.text[start:end]) if in_place else None
            yield self.locate(replace(span, start=part[0], end=part[1], text=part[2]) if part else span)

    def spans(self, item: Evidence) -> Iterator[Span]:
        """Yield the first source spans, for an answer to quote.

        Only quoted spans are located later.
        """
        return islice(self._source_spans(item), _MAX_SPANS)

    def spans_to_cite(self, item: Evidence) -> Iterator[Span]:
        """Yield the same spans, and read what `locate` needs.

        So nothing is read any more once the model has begun to answer.
        """
        for span in self.spans(item):
            self._places(span.uri)
            yield span

    def find_table(self, name: str) -> Table[Any] | None:
        """Return a table, or None if it has not been built."""
        return self.table(name) if self.db.has(name) else None

    def once(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return a value of the visible documents, computed once per build."""
        return self.db.once_per_build((key, self.visible), compute)

    def document(self, uri: str) -> tuple[str, str, int]:
        """Return the text, title and start of the body."""
        id = self._visible_id(digests.hash_parts(uri))
        text, title, body = self.db.values(ROOT, id, "text", "title", "body")
        return text, title, body

    def describe_document(self, id: str) -> str:
        """Return the title of a document, or its uri, and its date."""
        (title,), (uri,) = self.db.values(ROOT, self._visible_id(id), "title"), self.db.values(ROOT, id, "uri")
        title = shorten_title(readable_title(title) or uri, _MAX_TITLE_CHARS)
        descriptions = self.find_table("descriptions")
        description = descriptions.get(id) if descriptions else None
        date = document_date(description)
        return ", ".join(filter(None, [title, date]))

    def _source_spans(self, item: Reference | Evidence) -> Iterator[Span]:
        visited: set[Reference] = set()
        for table, id in self.sources(item):
            if (table, id) in visited:
                continue
            visited.add((table, id))
            if (table, id) not in self.read_spans:  # several rows have the same sources
                self.read_spans[table, id] = self._span_of(self.table(table)[id])
            yield self.read_spans[table, id]

    def read_ahead(self, items: Iterable[Evidence]) -> None:
        """Read the documents of the passages among the evidence at once."""
        found = [i for i in items if isinstance(i.record, Chunk | Passage) and i.table in self.catalogue.steps]
        self._read_documents(item.record.id.partition(".")[0] for item in found)
        self.read_spans.update((item.reference, self._span_of(item.record)) for item in found)

    def _span_of(self, record: Any) -> Span:
        """Return a chunk, a passage or a whole document as a span."""
        if not isinstance(record, Chunk | Passage):
            return Span("", record.uri, 0, len(record.text), record.text)
        document = record.id.partition(".")[0]
        self._read_documents([document])
        chunk = record.id if isinstance(record, Chunk) else record.chunk
        return Span(chunk, self.documents[document].uri, record.start, record.end, record.text)

    def sources(self, item: Reference | Evidence) -> Iterator[Reference]:
        """Yield the source chunks and documents, or the passage itself.

        A source may occur more than once.
        """
        in_no_table = isinstance(item, Evidence) and item.table not in (ROOT, *self.catalogue.steps)
        if isinstance(item, Evidence) and item.duplicates:
            for part in item.parts:
                yield from self.sources(part)
            return
        record = item.record if isinstance(item, Evidence) else self.table(item[0]).get(item[1])
        reference = (item.table, item.record.id) if isinstance(item, Evidence) else item
        for row in record.parents() if in_no_table and record else record.citations() if record else ():
            yield from self.sources(row)
        if isinstance(record, Passage) or (record and reference[0] in lineage.TRACE_ENDS):
            yield reference
        elif not in_no_table:
            yield from lineage.trace_sources(self.catalogue.wired, self.table, reference)

    def locate(self, span: Span) -> Span:
        """Return the span with its place, and the fields of its document.

        A line needs a document whose text is its file.
        """
        return self._places(span.uri).locate(span)

    def _places(self, uri: str) -> DocumentPlaces:
        """Return the places of a document, which are read once."""
        id = digests.hash_parts(uri)
        self._read_documents([id])
        return self.documents[id]

    def _read_documents(self, ids: Iterable[str]) -> None:
        """Read what spans need of documents, all at once."""
        new = [self._visible_id(id) for id in dict.fromkeys(ids) if id not in self.documents]
        if not new:
            return
        names = "id", "uri", "title", "metadata", "fields", "places", "file", "media_type"
        rows = {id: columns for id, *columns in self.db.values_in(ROOT, new, *names)}
        plain = [id for id, row in rows.items() if row[4] == "[]" and row[5] == row[0] and row[6] in _PLAIN_TYPES]
        line_ends = self._find_line_ends(plain)
        for id, (uri, title, metadata, completed, places, *_) in rows.items():
            own = {name: value for name, value in json.loads(metadata).items() if name != NOT_READ}
            fields = replace_metadata(own, json.loads(completed))
            self.documents[id] = DocumentPlaces(uri, title, fields, json.loads(places), line_ends.get(id))

    def _find_line_ends(self, ids: Sequence[str]) -> Mapping[str, Sequence[int]]:
        """Return where the lines of documents end.

        Other questions to this build reuse it.
        """
        known = self.db.once_per_build("line ends", dict[str, Sequence[int]])
        new = [id for id in ids if id not in known]
        found: dict[str, Sequence[int]] = {
            id: array("L", [match.start() for match in re.finditer("\n", text)])
            for id, text in self.db.values_in(ROOT, new, "id", "text")
        }
        found |= {id: known[id] for id in ids if id in known}
        if len(known) < _MAX_KNOWN:
            known |= found
        return found

    def _visible_id(self, id: str) -> str:
        """Return the id of a document. Raise KumiError if it is hidden."""
        documents = self.table(ROOT)
        if documents.view and not documents.view.is_whole(id):
            documents[id]  # raises the error of a document that does not exist
        return id
