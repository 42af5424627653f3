"""a text -> stretches of about so many tokens, cut at sentence ends: what chunks and passages are made of."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

from kumihimo.core.context import Tokenizer
from kumihimo.text.sentences import Block, split_blocks, split_sentences

_TOKENIZED_CHARS = 50_000  # characters measured at once


class TokenSpan(NamedTuple):
    start: int
    end: int
    tokens: int


@dataclass(frozen=True, slots=True)
class _Unit:
    """What is not cut: a sentence, a list item, a row, a heading."""

    start: int
    end: int
    tokens: int
    gap_tokens: int  # tokens between it and the next one
    heading: bool


def split_text(text: str, begin: int, tokenizer: Tokenizer, size: int, overlap: int = 0) -> Iterator[TokenSpan]:
    """The text from `begin` on in stretches of at most `size` tokens; each repeats the last `overlap` of the last.

    Only whole sentences, list items and table rows are cut apart, unless one alone is longer than `size`; a heading
    stays with what it heads.
    """
    units = list(_split_units(text, begin, tokenizer, size))
    for first, last in _pack_units(units, size, overlap):
        tokens = sum(unit.tokens + unit.gap_tokens for unit in units[first:last]) - units[last - 1].gap_tokens
        yield TokenSpan(units[first].start, units[last - 1].end, tokens)


def _pack_units(units: list[_Unit], size: int, overlap: int) -> Iterator[tuple[int, int]]:
    """Which units make up each chunk: [first, last)."""
    first = 0
    while first < len(units):
        last, total = first, 0
        while last == first or (last < len(units) and total + units[last].tokens <= size):
            total += units[last].tokens + units[last].gap_tokens
            last += 1
        while first + 1 < last < len(units) and units[last - 1].heading:
            last -= 1
        yield first, last
        if last == len(units):
            return
        first = _overlap_start(units, first, last, min(overlap, size - units[last].tokens)) if overlap else last


def _overlap_start(units: list[_Unit], first: int, last: int, room: int) -> int:
    """Where the next chunk begins: as far before `last` as there is room for what is said twice."""
    begin = last
    if units[last].heading:
        return last  # a new section: nothing is said twice
    while begin - 1 > first and units[begin - 1].tokens + units[begin - 1].gap_tokens <= room:
        begin -= 1
        room -= units[begin].tokens + units[begin].gap_tokens
    return begin


def _split_units(text: str, body: int, tokenizer: Tokenizer, size: int) -> Iterator[_Unit]:
    found = list(split_blocks(text, body))
    room = size  # what a heading leaves of it for what it heads
    for block, following in zip_longest(found, found[1:]):
        until = following.start if following else len(text)
        for unit in _split_block(text, block, until, tokenizer, size, room):
            yield unit
            room = max(room - unit.tokens - unit.gap_tokens, 1) if unit.heading else size


def _split_block(text: str, block: Block, until: int, tokenizer: Tokenizer, size: int, room: int) -> Iterator[_Unit]:
    """The units of one block, which is followed by white space up to `until`."""
    starts = list(_token_starts(text, block.start, until, tokenizer))

    def unit(start: int, end: int, following: int) -> _Unit:
        begins, ends, begun = (bisect_left(starts, at) for at in (start, end, following))
        return _Unit(start, end, ends - begins, begun - ends, block.kind == "heading")

    whole = unit(block.start, block.end, until)
    if block.kind != "prose" and whole.tokens <= size:
        yield whole
        return
    spans = list(split_sentences(text, block.start, block.end))
    for (start, end), following in zip(spans, [*(begin for begin, _ in spans[1:]), until], strict=True):
        sentence = unit(start, end, following)
        if sentence.tokens <= size:
            yield sentence
        else:
            yield from (
                unit(a, b, b) for a, b in _split_long_sentence(text, sentence, starts, size, room) if text[a:b].strip()
            )


def _token_starts(text: str, start: int, end: int, tokenizer: Tokenizer) -> Iterator[int]:
    """Where each token begins. A long stretch is measured in parts, cut at white space: tokenizers hold all of it."""
    while start < end:
        until = min(start + _TOKENIZED_CHARS, end)
        if until < end:
            until = max((text.rfind(space, start, until) for space in " \n\u3000"), default=-1)
            until = until if until > start else min(start + _TOKENIZED_CHARS, end)
        yield from (start + at for at in tokenizer(text[start:until]))
        start = until


def _split_long_sentence(
    text: str, sentence: _Unit, starts: list[int], size: int, room: int
) -> Iterator[tuple[int, int]]:
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
