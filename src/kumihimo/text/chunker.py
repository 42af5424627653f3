"""a text -> spans of about `size` tokens, cut at sentence ends: for chunks and passages."""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

from kumihimo.core.context import Tokenizer
from kumihimo.text.scripts import char_kinds
from kumihimo.text.sentences import Block, split_blocks, split_sentences

_MAX_MOVED_HEADINGS = 6  # one of each level
_COMMAS = ",;、，；،؛၊፣"
_MAX_MARKS = 9  # signs on one letter that are kept with it
_TOKENIZED_CHARS = 50_000  # characters in one call of the tokenizer


class TokenSpan(NamedTuple):
    """Offsets of a text span and its number of tokens."""

    start: int
    end: int
    tokens: int


class _Unit(NamedTuple):
    """An uncut unit: sentence, list item, table row, heading, or a paragraph until a cut falls inside it."""

    start: int
    end: int
    tokens: int
    gap_tokens: int  # tokens between this unit and the next
    heading: bool
    paragraph: bool = False


def split_text(text: str, begin: int, tokenizer: Tokenizer, size: int, overlap: int = 0) -> Iterator[TokenSpan]:
    """Split the text after `begin` into spans of at most `size` tokens.

    Each span repeats the last `overlap` tokens of the previous one. Cuts fall only between sentences, list items and
    table rows, unless one of them alone is longer than `size`; a heading stays with the text after it.
    """
    units = list(_split_units(text, begin, tokenizer, size))

    def split(i: int) -> int:
        """Split a paragraph in place; return how many more units there are."""
        count = len(units)
        if units[i].paragraph:
            block = Block(units[i].start, units[i].end, "prose")
            until = units[i + 1].start if i + 1 < count else len(text)
            units[i : i + 1] = _split_block(text, block, until, tokenizer, size, size, whole=False)
        return len(units) - count

    for first, last in _pack_units(units, size, overlap, split):
        tokens = sum(unit.tokens + unit.gap_tokens for unit in units[first:last]) - units[last - 1].gap_tokens
        yield TokenSpan(units[first].start, units[last - 1].end, tokens)


def _pack_units(units: list[_Unit], size: int, overlap: int, split: Callable[[int], int]) -> Iterator[tuple[int, int]]:
    """Yield the half-open unit range of each span: [first, last)."""

    def fits(i: int, total: int) -> bool:
        return total + units[i].tokens <= size

    first = 0
    while first < len(units):
        last, total = first, 0
        while last == first or (last < len(units) and (fits(last, total) or (split(last) and fits(last, total)))):
            total += units[last].tokens + units[last].gap_tokens
            last += 1
        moved = 0  # headings that go with the text after them; a long run of headings is packed like text
        while first + 1 < last < len(units) and units[last - 1].heading and moved < _MAX_MOVED_HEADINGS:
            last, moved = last - 1, moved + 1
        yield first, last
        if last == len(units):
            return
        first = _overlap_start(units, first, last, min(overlap, size - units[last].tokens), split) if overlap else last


def _overlap_start(units: list[_Unit], first: int, last: int, room: int, split: Callable[[int], int]) -> int:
    """Return the first unit of the next span.

    Step back from `last` as far as the overlap has room.
    """
    if units[last].heading:
        return last  # a new section starts without overlap
    begin = last
    while True:
        tokens = units[begin - 1].tokens + units[begin - 1].gap_tokens
        if begin - 1 > first and tokens <= room:
            begin, room = begin - 1, room - tokens
        elif more := split(begin - 1):
            begin += more
        else:
            return begin


def _split_units(text: str, body: int, tokenizer: Tokenizer, size: int) -> Iterator[_Unit]:
    """Yield the units of all blocks of a text."""
    room = size  # tokens left after a heading for the text under it
    for block, next_block in pairwise([*split_blocks(text, body), Block(len(text), len(text), "prose")]):
        for unit in _split_block(text, block, next_block.start, tokenizer, size, room):
            yield unit
            room = max(room - unit.tokens - unit.gap_tokens, 1) if unit.heading else size


def _split_block(
    text: str, block: Block, until: int, tokenizer: Tokenizer, size: int, room: int, *, whole: bool = True
) -> Iterator[_Unit]:
    """Yield the units of one block.

    White space follows the block up to `until`. whole: whether a paragraph that a span may hold is one unit.
    """
    token_starts = _token_starts(text, block.start, until, tokenizer)

    def unit(start: int, end: int, next_start: int) -> _Unit:
        first_token, end_token = bisect_left(token_starts, start), bisect_left(token_starts, end)
        next_token = bisect_left(token_starts, next_start, end_token)
        return _Unit(start, end, end_token - first_token, next_token - end_token, block.kind == "heading")

    block_unit = unit(block.start, block.end, until)
    is_prose = block.kind == "prose"
    if block_unit.tokens <= size and (whole or not is_prose):
        yield block_unit._replace(paragraph=is_prose)
        return
    for (start, end), (next_start, _) in pairwise([*split_sentences(text, block.start, block.end), (until, until)]):
        sentence = unit(start, end, next_start)
        if sentence.tokens <= size:
            yield sentence
        else:
            yield from (
                unit(piece_start, piece_end, piece_end)
                for piece_start, piece_end in _split_long_sentence(text, sentence, token_starts, size, room)
                if text[piece_start:piece_end].strip()
            )


def _token_starts(text: str, start: int, end: int, tokenizer: Tokenizer) -> list[int]:
    """Return the offset of each token.

    Tokenizers hold the whole input in memory, so a long text is tokenized in parts, cut at white space.
    """
    starts: list[int] = []
    while start < end:
        part_end = min(start + _TOKENIZED_CHARS, end)
        if part_end < end:
            part_end = max((text.rfind(space, start, part_end) for space in " \n\u3000"), default=-1)
            part_end = part_end if part_end > start else min(start + _TOKENIZED_CHARS, end)
        starts += map(start.__add__, tokenizer(text[start:part_end]))
        start = part_end
    return starts


def _split_long_sentence(
    text: str, sentence: _Unit, starts: list[int], size: int, room: int
) -> Iterator[tuple[int, int]]:
    """Cut a long sentence at white space, commas or between tokens.

    A vowel sign stays with its letter.
    The first piece has at most `room` tokens, the others `size`.
    """
    start = sentence.start
    while start < sentence.end:
        token = bisect_left(starts, start) + room
        end = min(starts[token], sentence.end) if token < len(starts) else sentence.end
        end = max(end, start + 1)
        if end < sentence.end:
            cut_positions = range(end - 1, start + (end - start) // 2, -1)
            letter = next((i for i in range(end, max(start, end - _MAX_MARKS), -1) if char_kinds(text[i]) != "m"), end)
            end = next((i + 1 for i in cut_positions if text[i].isspace() or text[i] in _COMMAS), letter)
        yield start, end
        start, room = end, size
