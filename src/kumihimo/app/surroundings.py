"""a passage -> the text around it on its page, with the place of the passage in this text."""

from bisect import bisect_right
from typing import TypedDict

from kumihimo.app.snapshot import Snapshot
from kumihimo.core.digests import hash_parts
from kumihimo.core.records import Document
from kumihimo.core.spans import Span
from kumihimo.core.wiring import ROOT


class Surroundings(TypedDict):
    """A part of a document. start, end: of the passage in its text. first: its first character in the document."""

    text: str
    start: int
    end: int
    first: int


def surround(snapshot: Snapshot, span: Span, around: int) -> Surroundings:
    """Return the text around a passage.

    around: characters before and after it. The text ends with the page, slide or sheet.
    """
    document: Document | None = snapshot.table(ROOT).get(hash_parts(span.uri))
    if document is None:
        return {"text": span.text, "start": 0, "end": len(span.text), "first": span.start}
    page_start, page_end = _page_bounds(document, span.start, span.end)
    first = max(page_start, span.start - around)
    last = min(page_end, span.end + around)
    first = _after_space(document.text, first, span.start) if first > page_start else first
    text = document.text[first:last]
    return {"text": text, "start": span.start - first, "end": span.end - first, "first": first}


def _page_bounds(document: Document, start: int, end: int) -> tuple[int, int]:
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
