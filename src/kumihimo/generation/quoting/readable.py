"""characters of a document -> a readable stretch: sentences, a paragraph, a table row with its header."""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kumihimo.text.sentences import Block, BlockKind, split_blocks, split_sentences

MAX_CHARS = 700  # of an excerpt that grows
_MIN_CHARS = 140  # a shorter excerpt grows beyond its paragraph
_MIN_TEXT = 12  # columns; a shorter unit says nothing alone
_MAX_SENTENCES = 5
_MAX_ITEMS = 4
_MARGIN = 800  # characters on both sides of the evidence
_RULE_ROW = re.compile(r"[\s|:+-]+")
# A speaker's label, or the name of a field: `KEVIN SCOTT:`, `田中：`.
_LABEL = re.compile(r"[^\s:：.!?。！？][^:：.!?。！？\n]{0,38}[:：](?=\s|[^\x00-\xff])\s*")
_MAIL_FIELD = re.compile(r"[A-Z][A-Za-z-]{1,20}: \S")


class Unit(NamedTuple):
    """A sentence, list item or table row of a document.

    text_start: where it begins after a speaker's label. block: the number of its block.
    """

    start: int
    end: int
    text_start: int
    kind: BlockKind
    block: int


@dataclass(frozen=True, slots=True)
class Region:
    """The units of a part of a document, with the headings above them.

    headings: start and text of each heading. first, last: the units of the evidence itself.
    """

    text: str
    units: Sequence[Unit]
    headings: Sequence[tuple[int, str]] = field(default=())

    def heading_above(self, position: int) -> str:
        """Return the heading of the section at a position."""
        return next((text for start, text in reversed(self.headings) if start <= position), "")


def read_region(text: str, start: int, end: int, body: int = 0) -> Region:
    """Return the units of `text[start:end]`, and of some text on both sides.

    body: where the text begins after its front matter.
    """
    begin = max(body, start - _MARGIN)
    if begin > body:  # a cut sentence is none
        begin = next((i + 1 for i in range(begin, start) if text[i] == "\n"), start)
    stop = min(len(text), end + _MARGIN)
    units: list[Unit] = []
    headings: list[tuple[int, str]] = []
    for number, block in enumerate(split_blocks(text[:stop], begin)):
        if block.kind == "heading":
            headings.append((block.start, _heading_text(text[block.start : block.end])))
            continue
        units += _block_units(text, block, number)
    if stop < len(text) and len(units) > 1:
        units.pop()
    return Region(text, units, headings)


def _heading_text(text: str) -> str:
    return text.split("\n")[0].strip("# \t")


def _block_units(text: str, block: Block, number: int) -> list[Unit]:
    if block.kind == "row":
        return [Unit(block.start, block.end, block.start, "row", number)]
    if block.kind == "prose" and _is_mail_header(text[block.start : block.end]):
        return []
    spans = list(split_sentences(text, block.start, block.end))
    if block.kind == "item":
        spans = [(block.start, block.end)] if block.end - block.start <= MAX_CHARS else spans
    units = []
    for start, end in (piece for span in spans for piece in _cut_long(text, *span)):
        label = _LABEL.match(text, start, end)
        units.append(Unit(start, end, label.end() if label else start, block.kind, number))
    return units


def _cut_long(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the pieces of a long sentence, cut at commas or spaces."""
    while end - start > MAX_CHARS:
        window = text[start : start + MAX_CHARS // 2]
        cut = max(window.rfind(mark) for mark in ", 、，") + 1 or len(window)
        yield start, start + len(window[:cut].rstrip())
        start += cut + len(text[start + cut : end]) - len(text[start + cut : end].lstrip())
    yield start, end


def _is_mail_header(text: str) -> bool:
    """Return whether a block is the header of a mail.

    >>> _is_mail_header("From: a@b.example\\nTo: c@d.example\\nSubject: Boats"), _is_mail_header("From: the sea.")
    (True, False)
    """
    lines = text.split("\n")
    return len(lines) > 2 and all(_MAIL_FIELD.match(line) or line.startswith(" ") for line in lines)


Stretch = tuple[int, int, str]  # start, end, and the header of its table or the line above its list; mostly empty


def grow(region: Region, i: int) -> Stretch:
    """Return a readable stretch around a unit."""
    unit = region.units[i]
    if unit.kind == "row":
        return _grow_row(region, i)
    if unit.kind == "item":
        return _grow_item(region, i)
    return _grow_prose(region, i)


def _grow_row(region: Region, i: int) -> Stretch:
    """Return a row with the header of its table."""
    units, first = region.units, _first_row(region, i)
    header = region.text[units[first].start : units[first].end]
    if ": " in header:  # each row names its cells
        return (units[i].start, units[i].end, "")
    return (units[i].start, units[i].end, header) if i > first else _with_rows(region, i, i)


def _first_row(region: Region, i: int) -> int:
    """Return the first row of a table."""
    while i and region.units[i - 1].kind == "row" and _same_table(region, i - 1, i):
        i -= 1
    return i


def _with_rows(region: Region, first: int, last: int) -> Stretch:
    """Return units with at least two rows of the table below."""
    units, end = region.units, last
    while end + 1 < len(units) and units[end + 1].kind == "row" and not _heading_between(region, end, end + 1):
        if units[end + 1].end - units[first].start > MAX_CHARS:
            break
        end += 1
    is_whole = end > last + 1 or units[first].kind == "row"
    return (units[first].start, units[end if is_whole else last].end, "")


def _same_table(region: Region, i: int, j: int) -> bool:
    """Return whether no other text is between two rows."""
    return not region.text[region.units[i].end : region.units[j].start].strip().strip("|:-+ \n")


def is_rule_row(text: str) -> bool:
    """Return whether a row only rules a table: `|---|---|`."""
    return bool(_RULE_ROW.fullmatch(text))


def _grow_item(region: Region, i: int) -> Stretch:
    """Return a list item with its neighbours and introduction."""
    units, first, last = region.units, i, i

    def is_item(j: int) -> bool:
        return 0 <= j < len(units) and units[j].kind == "item" and not _heading_between(region, min(i, j), max(i, j))

    while last - first + 1 < _MAX_ITEMS and units[last].end - units[first].start < _MIN_CHARS:
        if is_item(last + 1):
            last += 1
        elif is_item(first - 1):
            first -= 1
        else:
            break
    above = first
    while is_item(above - 1):
        above -= 1
    lead = ""
    if above and units[above - 1].kind == "prose" and not _heading_between(region, above - 1, above):
        text = region.text[units[above - 1].start : units[above - 1].end]
        lead = text if text.endswith((":", "：")) else ""
    return (units[first].start, units[last].end, lead)


def _grow_prose(region: Region, i: int) -> Stretch:
    """Return the paragraph of a sentence, or the sentences around it."""
    units, block = region.units, region.units[i].block
    first = last = i
    while first and units[first - 1].block == block:
        first -= 1
    while last + 1 < len(units) and units[last + 1].block == block:
        last += 1
    if units[last].end - units[first].start > MAX_CHARS:
        first, last = _sentences_around(units, first, i, last)
    return _with_rows(region, *_grow_short(region, first, last))


def _sentences_around(units: Sequence[Unit], low: int, i: int, high: int) -> tuple[int, int]:
    """Return the sentences around one, within its paragraph.

    The text after it is worth more than the text before it.
    """
    first = last = i
    for step in (1, -1, 1, 1, 1, -1, -1):
        new_first, new_last = (first, last + 1) if step > 0 else (first - 1, last)
        is_inside = low <= new_first and new_last <= high and new_last - new_first < _MAX_SENTENCES
        if is_inside and units[new_last].end - units[new_first].start <= MAX_CHARS:
            first, last = new_first, new_last
    return first, last


def _grow_short(region: Region, first: int, last: int) -> tuple[int, int]:
    """Return the units of an excerpt of readable length.

    A turn of two words grows with what follows and what precedes.
    """
    units = region.units
    while units[last].end - units[first].start < _MIN_CHARS and last - first + 1 < _MAX_SENTENCES:
        after, before = last + 1, first - 1
        if after < len(units) and units[after].kind != "row" and not _heading_between(region, last, after):
            last = after
        elif before >= 0 and units[before].kind != "row" and not _heading_between(region, before, first):
            first = before
        else:
            break
    return first, last


def _heading_between(region: Region, i: int, j: int) -> bool:
    """Return whether a heading stands between two units."""
    starts = [start for start, _ in region.headings]
    return bisect_left(starts, region.units[i].end) != bisect_left(starts, region.units[j].start)


def says_something(region: Region, unit: Unit) -> bool:
    """Return whether a unit has more than a label and two words."""
    text = region.text[unit.text_start : unit.end]
    if unit.kind == "row":
        is_alone = _grow_row(region, region.units.index(unit)) == (unit.start, unit.end, "") and ": " not in text
        return not is_rule_row(text) and (not is_alone or any(map(str.isdigit, text)))
    wide = sum(c > "\u2fff" for c in text)
    return len(text) + wide >= _MIN_TEXT
