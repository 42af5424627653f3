"""documents -> chunks: stretches of about `size` tokens, cut at sentence ends."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kumihimo.core.context import Ruler
from kumihimo.core.errors import SettingsError
from kumihimo.core.records import Chunk, Document
from kumihimo.ports.sentences import Block, blocks, sentences


@dataclass(frozen=True, slots=True)
class _Unit:
    """What is not cut: a sentence, a list item, a row, a heading."""

    start: int
    end: int
    tokens: int
    heading: bool


def chunks(document: Document, ruler: Ruler, *, size: int = 600, overlap: int = 100) -> Iterable[Chunk]:
    """A document in stretches of at most `size` tokens; each begins with the last `overlap` tokens of the one before.

    Only whole sentences, list items and table rows are cut apart, unless one alone is longer than `size`;
    a heading stays with what it heads (GraphRAG, arXiv:2404.16130, section 3.1: 600 and 100).
    """
    if not 0 <= overlap < size:
        raise SettingsError(f"chunks.overlap is {overlap}; it must be 0 or more and below chunks.size, which is {size}")
    text = document.text
    units = [unit for block in blocks(text) for unit in _units(text, block, ruler, size)]
    for first, last in _packed(units, size, overlap):
        start, end = units[first].start, units[last - 1].end
        tokens = sum(unit.tokens for unit in units[first:last])
        yield Chunk(title=document.title, start=start, end=end, tokens=tokens, text=text[start:end])


def _packed(units: list[_Unit], size: int, overlap: int) -> Iterator[tuple[int, int]]:
    """Which units make up each chunk: [first, last)."""
    first = 0
    while first < len(units):
        last, total = first + 1, units[first].tokens
        while last < len(units) and total + units[last].tokens <= size:
            total += units[last].tokens
            last += 1
        while first + 1 < last < len(units) and units[last - 1].heading:
            last -= 1
        yield first, last
        if last == len(units):
            return
        first = _back(units, first, last, min(overlap, size - units[last].tokens))


def _back(units: list[_Unit], first: int, last: int, room: int) -> int:
    """Where the next chunk begins: as far before `last` as there is room for what is said twice."""
    begin = last
    if units[last].heading:
        return last  # a new section: nothing is said twice
    while begin - 1 > first and units[begin - 1].tokens <= room:
        begin -= 1
        room -= units[begin].tokens
    return begin


def _units(text: str, block: Block, ruler: Ruler, size: int) -> Iterator[_Unit]:
    starts = [block.start + at for at in ruler(text[block.start : block.end])]

    def unit(start: int, end: int) -> _Unit:
        return _Unit(start, end, bisect_left(starts, end) - bisect_left(starts, start), block.kind == "heading")

    whole = unit(block.start, block.end)
    if block.kind != "prose" and whole.tokens <= size:
        yield whole
        return
    for start, end in sentences(text, block.start, block.end):
        sentence = unit(start, end)
        if sentence.tokens <= size:
            yield sentence
        else:
            yield from (unit(a, b) for a, b in _pieces(text, sentence, starts, size))


def _pieces(text: str, sentence: _Unit, starts: list[int], size: int) -> Iterator[tuple[int, int]]:
    """A sentence that is too long, cut at white space or a comma where there is one, else between tokens."""
    start = sentence.start
    while start < sentence.end:
        at = bisect_left(starts, start) + size
        end = min(starts[at], sentence.end) if at < len(starts) else sentence.end
        end = max(end, start + 1)
        if end < sentence.end:
            breaks = [
                i + 1 for i in range(end - 1, start + (end - start) // 2, -1) if text[i] in " \t\n\r\u3000、，,;；"
            ]
            end = breaks[0] if breaks else end
        yield start, end
        start = end
