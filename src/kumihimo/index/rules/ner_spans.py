"""spans of names in a sentence -> those that do not overlap, in reading order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

QUANTITY = "quantity"


class NameSpan(NamedTuple):
    """A name in a sentence: `[start, end)`; `bare`: what its key is made of, a title such as `Mr` left out."""

    start: int
    end: int
    name: str
    type: str = ""
    key_text: str = ""


def drop_overlaps(found: Iterable[NameSpan]) -> Iterator[NameSpan]:
    """Those that do not overlap: what begins first, of those the longest, of those the one given first.

    >>> [one.name for one in apart([Found(3, 9, "Physics"), Found(0, 9, "Mathematical Physics"), Found(9, 11, "II")])]
    ['Mathematical Physics', 'II']
    """
    end = 0
    for one in sorted(found, key=lambda one: (one.start, -one.end)):
        if one.start >= end:
            yield one
            end = one.end
