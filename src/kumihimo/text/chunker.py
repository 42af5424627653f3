"""a text -> stretches of about so many tokens, cut at sentence ends: what chunks and passages are made of."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

from kumihimo.core.context import Ruler
from kumihimo.text.sentences import Block, blocks, sentences

_MEASURED = 50_000  # characters measured at once


class Stretch(NamedTuple):
    start: int
    end: int
    tokens: int


@dataclass(frozen=True, slots=True)
class _Unit:
    """What is not cut: a sentence, a list item, a row, a heading."""

    start: int
    end: int
    tokens: int
    after: int  # tokens between it and the next one
    heading: bool


def stretches(text: str, begin: int, ruler: Ruler, size: int, overlap: int = 0) -> Iterator[Stretch]:
    """The text from `begin` on in stretches of at most `size` tokens; each repeats the last `overlap` of the last.

    Only whole sentences, list items and table rows are cut apart, unless one alone is longer than `size`; a heading
    stays with what it heads.
    """
    units = list(_units(text, begin, ruler, size))
    for first, last in _packed(units, size, overlap):
        tokens = sum(unit.tokens + unit.after for unit in units[first:last]) - units[last - 1].after
        yield Stretch(units[first].start, units[last - 1].end, tokens)


def _packed(units: list[_Unit], size: int, overlap: int) -> Iterator[tuple[int, int]]:
    """Which units make up each chunk: [first, last)."""
    first = 0
    while first < len(units):
        last, total = first, 0
        while last == first or (last < len(units) and total + units[last].tokens <= size):
            total += units[last].tokens + units[last].after
            last += 1
        while first + 1 < last < len(units) and units[last - 1].heading:
            last -= 1
        yield first, last
        if last == len(units):
            return
        first = _back(units, first, last, min(overlap, size - units[last].tokens)) if overlap else last


def _back(units: list[_Unit], first: int, last: int, room: int) -> int:
    """Where the next chunk begins: as far before `last` as there is room for what is said twice."""
    begin = last
    if units[last].heading:
        return last  # a new section: nothing is said twice
    while begin - 1 > first and units[begin - 1].tokens + units[begin - 1].after <= room:
        begin -= 1
        room -= units[begin].tokens + units[begin].after
    return begin


def _units(text: str, body: int, ruler: Ruler, size: int) -> Iterator[_Unit]:
    found = list(blocks(text, body))
    room = size  # what a heading leaves of it for what it heads
    for block, following in zip_longest(found, found[1:]):
        until = following.start if following else len(text)
        for unit in _cut(text, block, until, ruler, size, room):
            yield unit
            room = max(room - unit.tokens - unit.after, 1) if unit.heading else size


def _cut(text: str, block: Block, until: int, ruler: Ruler, size: int, room: int) -> Iterator[_Unit]:
    """The units of one block, which is followed by white space up to `until`."""
    starts = list(_starts(text, block.start, until, ruler))

    def unit(start: int, end: int, following: int) -> _Unit:
        begins, ends, begun = (bisect_left(starts, at) for at in (start, end, following))
        return _Unit(start, end, ends - begins, begun - ends, block.kind == "heading")

    whole = unit(block.start, block.end, until)
    if block.kind != "prose" and whole.tokens <= size:
        yield whole
        return
    spans = list(sentences(text, block.start, block.end))
    for (start, end), following in zip(spans, [*(begin for begin, _ in spans[1:]), until], strict=True):
        sentence = unit(start, end, following)
        if sentence.tokens <= size:
            yield sentence
        else:
            yield from (unit(a, b, b) for a, b in _pieces(text, sentence, starts, size, room) if text[a:b].strip())


def _starts(text: str, start: int, end: int, ruler: Ruler) -> Iterator[int]:
    """Where each token begins. A long stretch is measured in parts, cut at white space: tokenizers hold all of it."""
    while start < end:
        until = min(start + _MEASURED, end)
        if until < end:
            until = max((text.rfind(space, start, until) for space in " \n\u3000"), default=-1)
            until = until if until > start else min(start + _MEASURED, end)
        yield from (start + at for at in ruler(text[start:until]))
        start = until


def _pieces(text: str, sentence: _Unit, starts: list[int], size: int, room: int) -> Iterator[tuple[int, int]]:
    """A sentence that is too long, cut at white space or a comma where there is one, else between tokens.

    The first piece has at most `room` tokens, the others `size`.
    """
    start = sentence.start
    while start < sentence.end:
        at = bisect_left(starts, start) + room
        end = min(starts[at], sentence.end) if at < len(starts) else sentence.end
        end = max(end, start + 1)
        if end < sentence.end:
            late = range(end - 1, start + (end - start) // 2, -1)
            end = next((i + 1 for i in late if text[i].isspace() or text[i] in "、，,;；"), end)
        yield start, end
        start, room = end, size
