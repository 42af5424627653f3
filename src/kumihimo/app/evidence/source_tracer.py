"""rows and evidence -> the spans of documents they come from, with page, slide, sheet or line."""

import json
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from kumihimo.core.context import Context, Evidence
from kumihimo.core.digests import hash_parts
from kumihimo.core.lineage import TRACE_ENDS, trace_sources
from kumihimo.core.records import NOT_READ, Chunk, Passage, Reference
from kumihimo.core.spans import Span, describe_place
from kumihimo.core.table import Table
from kumihimo.core.wiring import ROOT, Catalogue
from kumihimo.index.chunk_background import document_date, readable_title
from kumihimo.storage import IndexTransaction

_MAX_TITLE_CHARS = 70
_MAX_SPANS = 50  # source spans of one piece of evidence


@dataclass(frozen=True, slots=True)
class DocumentPlaces:
    """The title, the metadata and the places of a document.

    line_ends: None unless the text is that of the file.
    """

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
    """The way back from rows to documents, in one snapshot."""

    db: IndexTransaction
    catalogue: Catalogue
    table: Callable[[str], Table[Any]]
    places: dict[str, DocumentPlaces] = field(default_factory=dict)  # by uri
    read_spans: dict[Reference, Span] = field(default_factory=dict)
    uris: dict[str, str] = field(default_factory=dict)  # by document

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
        source, *copies = (next(self.trace(part), Span("", "", 0, 0, "")) for part in item.parts)
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

    def document(self, uri: str) -> tuple[str, str, int]:
        """Return the text, title and start of the body."""
        id = self._visible_id(hash_parts(uri))
        text, title, body = self.db.values(ROOT, id, "text", "title", "body")
        return text, title, body

    def describe_document(self, id: str) -> str:
        """Return the title of a document, or its uri, and its date."""
        title = readable_title(self.db.value(ROOT, self._visible_id(id), "title")) or self.db.value(ROOT, id, "uri")
        title = title if len(title) <= _MAX_TITLE_CHARS else f"{title[:_MAX_TITLE_CHARS]}…"
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
        """Read the passages among the evidence, all at once."""
        ids = defaultdict[str, list[str]](list)
        for item in items:
            if isinstance(item.record, Chunk | Passage) and item.table in self.catalogue.steps:
                ids[item.table].append(item.record.id)
        for table, each in ids.items():
            records = self.table(table).get_many(each)
            self.read_spans.update(((table, id), self._span_of(record)) for id, record in records.items())

    def _span_of(self, record: Any) -> Span:
        """Return a chunk, a passage or a whole document as a span."""
        if not isinstance(record, Chunk | Passage):
            return Span("", record.uri, 0, len(record.text), record.text)
        document = record.id.partition(".")[0]
        if document not in self.uris:
            self.uris[document] = self.db.value(ROOT, document, "uri")
        chunk = record.id if isinstance(record, Chunk) else record.chunk
        return Span(chunk, self.uris[document], record.start, record.end, record.text)

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
        if isinstance(record, Passage) or (record and reference[0] in TRACE_ENDS):
            yield reference
        elif not in_no_table:
            yield from trace_sources(self.catalogue.wired, self.table, reference)

    def locate(self, span: Span) -> Span:
        """Return the span with its place, and the fields of its document.

        A line needs a document whose text is its file.
        """
        return self._places(span.uri).locate(span)

    def _places(self, uri: str) -> DocumentPlaces:
        """Return the places of a document, which are read once."""
        if uri not in self.places:
            id = self._visible_id(hash_parts(uri))
            columns = "title", "metadata", "places", "file", "media_type"
            title, metadata, named, file, media_type = self.db.values(ROOT, id, *columns)
            places = json.loads(named)
            verbatim = not places and file == uri and media_type in ("text/plain", "text/markdown")
            text = self.db.value(ROOT, id, "text") if verbatim else None
            ends = None if text is None else [match.start() for match in re.finditer("\n", text)]
            fields = {name: value for name, value in json.loads(metadata).items() if name != NOT_READ}
            self.places[uri] = DocumentPlaces(title, fields, places, ends)
        return self.places[uri]

    def _visible_id(self, id: str) -> str:
        """Return the id of a document. Raise KumiError if it is hidden."""
        documents = self.table(ROOT)
        if documents.view and not documents.view.is_whole(id):
            documents[id]  # raises the error of a document that does not exist
        return id
