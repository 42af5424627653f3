"""characters of a document -> Span, Citation: where a text stands, and how a person finds it there."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """Where a text stands: `[start, end)` in characters of the document at `uri`.

    place: as one looks it up in the file, `p. 3`, `slide 4`, `line 23`; empty where nothing tells.
    """

    chunk: str  # the chunk's id
    uri: str
    start: int
    end: int
    text: str
    place: str = ""


def describe_place(places: Sequence[tuple[int, str]], start: int, end: int) -> str:
    """What `[start, end)` of a document stands on.

    >>> [place([(0, "p. 1"), (90, "p. 2"), (200, "p. 3")], *span) for span in ((5, 80), (95, 210), (90, 200))]
    ['p. 1', 'p. 2–3', 'p. 2']
    >>> place([(0, "sheet Costs"), (50, "sheet Staff")], 0, 60)
    'sheet Costs – sheet Staff'
    """
    begins = [begin for begin, _ in places]
    first, last = (places[max(bisect_right(begins, at) - 1, 0)][1] for at in (start, max(end - 1, start)))
    kind, _, number = last.rpartition(" ")
    if first == last or not (first and last):
        return first or last
    return f"{first}–{number}" if number.isdecimal() and first.startswith(f"{kind} ") else f"{first} – {last}"


@dataclass(frozen=True, slots=True)
class Citation:
    """The n-th source of an answer, with the words quoted as they stood when it was given."""

    n: int
    span: Span
