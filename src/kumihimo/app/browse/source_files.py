"""a passage or a file -> the text around the passage on its page; where the file is, and its uri."""

from bisect import bisect_right
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import TypedDict

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.opened.open_index import OpenIndex
from kumihimo.core import digests, records, spans, wiring
from kumihimo.index.sources import IndexedSource, load_sources
from kumihimo.readers.documents import has_reader, no_reader_error


def find_file(index: OpenIndex, snapshot: Snapshot, uri: str) -> Path | None:
    """Return the path of a file by its uri, or None."""
    source = next((source for source in _sources(index, snapshot) if source.contains_uri(uri)), None)
    if source is None or not source.path.exists():
        return None
    return source.files().get(uri)


def file_uri(index: OpenIndex, snapshot: Snapshot, path: Path) -> str:
    """Return the uri of a file; empty outside all sources."""
    for source in _sources(index, snapshot):
        if path == source.path or source.path in path.parents:
            return source.name if path == source.path else source.uri(path)
    return ""


def require_reader(path: PurePosixPath, name: str, readers: Mapping[str, wiring.FileType]) -> None:
    """Raise SourceError if none of these readers takes a file."""
    if not has_reader(path, readers):
        raise no_reader_error(path, name, readers)


def is_excluded(index: OpenIndex, snapshot: Snapshot, path: Path) -> bool:
    """Return whether a file, or a part of it, was removed."""
    uri = file_uri(index, snapshot, path)
    rules = (rule for source in _sources(index, snapshot) for rule in source.rules if not rule.startswith("!"))
    return bool(uri) and any(rule == uri or rule.startswith(f"{uri}#") or uri.startswith(f"{rule}/") for rule in rules)


def _sources(index: OpenIndex, snapshot: Snapshot) -> list[IndexedSource]:
    return list(load_sources(snapshot.db, index.base).values())


class Surroundings(TypedDict):
    """A part of a document. start, end: of the passage in its text. first: its first character in the document."""

    text: str
    start: int
    end: int
    first: int


def surround(snapshot: Snapshot, span: spans.Span, around: int) -> Surroundings:
    """Return the text around a passage.

    around: characters before and after it. The text ends with the page, slide or sheet.
    """
    document: records.Document | None = snapshot.table(wiring.ROOT).get(digests.hash_parts(span.uri))
    if document is None:
        return {"text": span.text, "start": 0, "end": len(span.text), "first": span.start}
    page_start, page_end = _page_bounds(document, span.start, span.end)
    first = max(page_start, span.start - around)
    last = min(page_end, span.end + around)
    first = _after_space(document.text, first, span.start) if first > page_start else first
    text = document.text[first:last]
    return {"text": text, "start": span.start - first, "end": span.end - first, "first": first}


def _page_bounds(document: records.Document, start: int, end: int) -> tuple[int, int]:
    """Return where the first page begins and the last one ends.

    The front matter of a document is a page of its own.
    """
    starts = sorted({0, document.body, *(place_start for place_start, _ in document.places)})
    before = starts[bisect_right(starts, start) - 1]
    following = starts[bisect_right(starts, max(end - 1, start)) :]
    return before, following[0] if following else len(document.text)


def _after_space(text: str, position: int, limit: int) -> int:
    """Return where the first whole word begins."""
    if text[position - 1].isspace():
        return position
    return next((i + 1 for i in range(position, min(limit, position + 40)) if text[i].isspace()), position)
