"""a part of a document + a passage -> paragraphs with their places, the passage marked."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from kumihimo.app.browse.document_list import DocumentText

WINDOW = 20_000  # characters of a document on one page
_LEAD = WINDOW // 4  # before a passage
_PARAGRAPH_END = re.compile(r"\n[ \t]*\n+|\n(?=[#|-] ?)")
_NEAR = 1_000  # characters: a window begins at a paragraph near its place


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph of a document.

    pieces: its text, and whether each piece is of the passage. place: a page or sheet that begins here. line: its
    number in the file; 0: unknown. first: whether the passage begins here.
    """

    pieces: tuple[tuple[str, bool], ...]
    place: str = ""
    line: int = 0
    first: bool = False


def choose_window(start: int, end: int, at: int) -> tuple[int, int]:
    """Return the part of a document to read.

    start, end: of a passage; without one, the part begins at `at`.

    >>> choose_window(30_000, 30_200, 0), choose_window(0, 0, 20_000)
    ((25000, 45000), (20000, 40000))
    """
    begin = max(0, start - _LEAD) if end > start else max(0, at)
    return begin, max(begin + WINDOW, min(end, begin + 3 * WINDOW))


def split_paragraphs(part: DocumentText, start: int, end: int) -> Iterator[Paragraph]:
    """Yield the paragraphs of a part of a document.

    start, end: the passage to mark, in characters of the document.
    """
    line, begun = part.line, end <= start
    for first, last in _paragraph_spans(part):
        text = part.text[first - part.start : last - part.start]
        pieces = tuple(_mark(text.rstrip("\n"), start - first, end - first))
        is_first = not begun and any(marked for _, marked in pieces)
        begun = begun or is_first
        if text.strip():
            yield Paragraph(pieces, _place_at(part.places, first, part.start), line, is_first)
        line += text.count("\n") if line else 0


def _paragraph_spans(part: DocumentText) -> Iterator[tuple[int, int]]:
    """Yield start and end of each paragraph.

    A new page begins one too.
    """
    ends = {part.start + match.end() for match in _PARAGRAPH_END.finditer(part.text)}
    cuts = sorted({part.start, part.end, *ends, *(start for start, _ in part.places if start > part.start)})
    yield from pairwise(cuts)


def _place_at(places: Sequence[tuple[int, str]], position: int, begin: int) -> str:
    """Return the name of the page that begins here.

    At the beginning of the part, it is the page around it.
    """
    starts = [start for start, _ in places]
    if position in starts:
        return places[starts.index(position)][1]
    before = bisect_right(starts, position) - 1
    return places[before][1] if position == begin and before >= 0 else ""


def _mark(text: str, start: int, end: int) -> Iterator[tuple[str, bool]]:
    """Yield the pieces of a text, one of them marked."""
    start, end = max(start, 0), min(end, len(text))
    if end <= start:
        yield text, False
        return
    for piece, marked in ((text[:start], False), (text[start:end], True), (text[end:], False)):
        if piece:
            yield piece, marked
