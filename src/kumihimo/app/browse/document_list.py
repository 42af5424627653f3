"""a snapshot -> its documents page by page, with their state: whole, read in part, or failed."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.browse.browse import ListPage
from kumihimo.core import digests, records, spans, wiring
from kumihimo.core.table import Table
from kumihimo.readers.documents import list_unread
from kumihimo.search import metadata_filter, row_listing

State = Literal["indexed", "partial", "failed"]
_MAX_REMARKS = 10  # of one document
_COLUMNS = ("uri", "file", "title", "media_type", "modified", "metadata", "fields")


@dataclass(frozen=True, slots=True)
class ListedDocument:
    """A document without its text.

    status: indexed; partial: some of it could not be read or processed; failed: its file could not be read again, and
    the text is an earlier one. remarks: the reasons, with their remedies. metadata: with its author, date, language and
    kind, as filters see them.
    """

    id: str
    uri: str
    file: str
    title: str
    media_type: str
    modified: str
    metadata: Mapping[str, object]
    status: State = "indexed"
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FailedFile:
    """A file without a document, and why; the error names the remedy.

    id: as a document of this file would have. is_upload: it was uploaded to a server, and can be deleted there.
    """

    id: str
    uri: str
    error: str
    is_upload: bool = False


@dataclass(frozen=True, slots=True)
class DocumentText:
    """A part of the text of a document.

    characters: of the whole text. places: the start and name of each page, slide or sheet in the part; the first one
    may begin before it. place: of the part. line: of its first character, if the text is that of a file; else 0.
    """

    id: str
    uri: str
    title: str
    start: int
    end: int
    characters: int
    text: str
    place: str
    places: tuple[tuple[int, str], ...] = ()
    line: int = 0


def unread_parts(snapshot: Snapshot, uri: str, reasons: object) -> list[str]:
    """Return what could not be read of a document.

    Rights leave out the attachments of a letter and the files of an archive: no expression matches what was not read.
    """
    return list_unread(reasons, (f"{uri}#", f"{uri}/") if snapshot.rights else ())


def partial_documents(snapshot: Snapshot) -> dict[str, list[str]]:
    """Return the documents read in part, by uri, with the reasons."""
    if not snapshot.db.has(wiring.ROOT):
        return {}
    visible, notes = snapshot.table(wiring.ROOT), snapshot.db.documents_with(records.NOT_READ)
    partial = {uri: unread_parts(snapshot, uri, reasons) for uri, reasons in notes}
    return {uri: reasons for uri, reasons in partial.items() if reasons and visible.ids(id=digests.hash_parts(uri))}


@dataclass(frozen=True)
class DocumentList:
    """The documents that a snapshot shows."""

    snapshot: Snapshot
    _errors: Mapping[str, Sequence[tuple[str, str]]] = field(init=False)  # by document id or file uri

    def __post_init__(self) -> None:
        errors = defaultdict[str, list[tuple[str, str]]](list)
        for step, item, error in self.snapshot.db.failures():
            errors[item if step == wiring.ROOT else item.partition(".")[0]].append((step, error))
        object.__setattr__(self, "_errors", errors)

    @property
    def table(self) -> Table[Any]:
        return self.snapshot.table(wiring.ROOT)

    def page(self, text: str = "", *, after: str = "", limit: int) -> ListPage[ListedDocument]:
        """Return documents by uri.

        text: a part of the title or uri; whole titles and beginnings come first. after: the id of the last document of
        the page before.
        """
        listing, taken = row_listing.Listing("uri", text=text.strip(), columns=("title", "uri")), list[ListedDocument]()
        for document in self._list(listing, after):
            if len(taken) == limit:
                return ListPage(tuple(taken), taken[-1].id)
            taken.append(document)
        return ListPage(tuple(taken))

    def _list(self, listing: row_listing.Listing, after: str) -> Iterator[ListedDocument]:
        table = self.table
        for id in listing.ids(self.snapshot.db, table, after):
            if table.ids(id=id):
                yield self._read(id)

    def find(self, id: str) -> ListedDocument | None:
        """Return the document with this id, or None."""
        return self._read(id) if self.table.ids(id=id) else None

    def _read(self, id: str) -> ListedDocument:
        columns = dict(zip(_COLUMNS, self.snapshot.db.values(wiring.ROOT, id, *_COLUMNS), strict=True))
        metadata: dict[str, object] = json.loads(columns.pop("metadata"))
        unread = metadata.pop(records.NOT_READ, [])
        metadata = metadata_filter.replace_metadata(metadata, json.loads(columns.pop("fields")))
        failed = [error for step, error in self._errors.get(columns["file"], ()) if step == wiring.ROOT]
        processed = [f"{step}: {error}" for step, error in self._errors.get(id, ())]
        remarks = (*unread_parts(self.snapshot, columns["uri"], unread), *dict.fromkeys(processed))
        status: State = "failed" if failed else "partial" if remarks else "indexed"
        if not self.snapshot.rights or columns["uri"] == columns["file"]:  # else it tells of other parts
            remarks = (*failed, *remarks)
        return ListedDocument(id, **columns, metadata=metadata, status=status, remarks=remarks[:_MAX_REMARKS])

    def failed_files(self) -> list[FailedFile]:
        """Return the files without a document.

        Rights to some documents show none of them: a file without a document matches no expression.
        """
        if self.snapshot.rights:
            return []
        failures = [(item, error) for step, item, error in self.snapshot.db.failures() if step == wiring.ROOT]
        return [
            FailedFile(digests.hash_parts(uri), uri, error) for uri, error in failures if not self.table.ids(file=uri)
        ]

    def counts(self) -> dict[str, int]:
        """Count the documents, those read in part, and failed files."""
        partial, failed = partial_documents(self.snapshot), self.failed_files()
        return {"documents": len(self.table), "partial": len(partial), "failed": len(failed)}

    def read_text(self, id: str, start: int, end: int) -> DocumentText | None:
        """Return a part of the text of a document, or None."""
        document = self.table.get(id)
        if document is None:
            return None
        size = len(document.text)
        start = max(0, min(start, size))
        end = max(start, min(end, size))
        after = [(place_start, name) for place_start, name in document.places if start < place_start < end]
        before = [place for place in document.places if place[0] <= start][-1:]
        place = spans.describe_place(document.places, start, end) if document.places else ""
        verbatim = document.file == document.uri and document.media_type in ("text/plain", "text/markdown")
        line = document.text.count("\n", 0, start) + 1 if verbatim and not document.places else 0
        return DocumentText(
            id, document.uri, document.title, start, end, size, document.text[start:end], place, (*before, *after), line
        )
