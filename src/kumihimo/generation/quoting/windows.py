"""a passage of a document -> windows: whole paragraphs, list items and table rows that a person can read."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from kumihimo.text.sentences import Block, BlockKind, collapse_spaces, is_table_row, split_blocks, split_sentences
from kumihimo.text.tokens import tokenize

MAX_WIDTH = 700  # of a window, in letters: an ideograph counts as one and a half
_ENOUGH = MAX_WIDTH // 2  # letters after which a window ends before the next heading or table
_MARGIN = 3000  # characters after a passage in which its last list or table may end
_MAX_INTRODUCTION = 300  # characters of the sentence before a list
_HEADING = re.compile(r"\n(#{1,6})[ \t]+(.*)")
_FENCE = re.compile(r"^ {0,3}(?:```|~~~)", re.M)
_CODE = re.compile(r"^ {0,3}(```|~~~).*?^ {0,3}\1", re.M | re.S)
_LINK = re.compile(r"!?\[([^\[\]\n]*)\](?:\([^()\s]*\)|\[[^\[\]\n]*\])")
_WIDE = re.compile("[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff60\uffe0-\uffe6]")
_MIN_HEADINGS = 5  # of an outline
_RULE_ROW = re.compile(r"[\s|:+-]+")
_MAIL_FIELD = re.compile(r"[A-Z][A-Za-z-]{1,20}: \S")


class Piece(NamedTuple):
    """A block of a document, or a sentence of one that is longer than a window."""

    start: int
    end: int
    kind: BlockKind


@dataclass(frozen=True, slots=True)
class Window:
    """Some pieces in order, at most `MAX_WIDTH` letters.

    first, last: the numbers of its pieces. lead: the introduction of its list, or the header of its table, if it begins
    further down. more: how many items or rows follow, as far as they are near.
    """

    first: int
    last: int
    lead: str = ""
    more: int = 0


@dataclass(frozen=True)
class Headings:
    """The headings of a document. body: where its text begins after its front matter."""

    text: str
    body: int = 0

    @cached_property
    def prose(self) -> str:
        """Return the text with spaces in place of code."""
        has_code = "```" in self.text or "~~~" in self.text
        return _CODE.sub(lambda code: " " * len(code[0]), self.text) if has_code else self.text

    @cached_property
    def _all(self) -> Sequence[tuple[int, int, str]]:
        """Return the place, the level and the text of each heading."""
        found = _HEADING.finditer(f"\n{self.prose}", self.body) if "#" in self.text else ()
        return [(match.start(), len(match[1]), collapse_spaces(match[2].strip("# \t"))) for match in found]

    def above(self, position: int) -> tuple[str, ...]:
        """Return the headings that a position stands under, the outermost first."""
        path: list[tuple[int, str]] = []
        for start, level, text in self._all:
            if start > position:
                break
            path = [*(above for above in path if above[0] < level), (level, text)]
        return tuple(text for _, text in path)

    def top(self, title: str, most: int) -> list[tuple[int, str]]:
        """Return the place and the text of the headings of an outline.

        They are those of the upper levels, as many levels as have at most so many, without the title.
        """
        shown = [heading for heading in self._all if heading[2] != title]
        levels = [[heading for heading in shown if heading[1] <= level] for level in range(1, 7)]
        best = max((some for some in levels if len(some) <= most), key=len, default=[])
        if len(best) < _MIN_HEADINGS:
            best = next((some for some in levels if len(some) > len(best)), best)
        return [(start, text) for start, _, text in best]

    def section(self, position: int) -> int | None:
        """Return the start of the section, or None without headings."""
        return max((start for start, _, _ in self._all if start <= position), default=None)


@dataclass(frozen=True)
class Region:
    """The pieces of a document around `[start, end)`."""

    text: str
    start: int
    end: int
    headings: Headings
    _tokens: dict[int, Sequence[str]] = field(default_factory=dict, repr=False, compare=False)  # by piece

    @cached_property
    def pieces(self) -> Sequence[Piece]:
        """Return the pieces, without rules of tables and headers of mails."""
        begin, stop = self._bounds
        return [piece for block in split_blocks(self.text[:stop], begin) for piece in self._cut(block)]

    @cached_property
    def _bounds(self) -> tuple[int, int]:
        """Return the bounds of the text whose pieces may be needed."""
        begin = max(self.headings.body, self.start - MAX_WIDTH)
        if begin > self.headings.body:  # at the first line after it
            begin = self.text.find("\n", begin, self.start) + 1 or self.start
        stop = min(len(self.text), self.end + _MARGIN)
        return begin, stop if stop == len(self.text) else max(self.text.rfind("\n", self.end, stop), self.end)

    def _cut(self, block: Block) -> Iterator[Piece]:
        """Yield a block, or its sentences if it is too long."""
        start, end, kind = block.start, block.end, block.kind
        text = self.text[start:end]
        if (kind == "row" and is_rule_row(text)) or (kind == "prose" and is_mail_header(text)):
            return
        is_cut = self._width(start, end) > MAX_WIDTH and start < self.end + MAX_WIDTH  # beyond that, no window gets
        spans = split_sentences(self.text, start, end) if is_cut else [(start, end)]
        for first, last in (part for span in spans for part in self._cut_long(*span)):
            yield Piece(first, last, kind)

    def _cut_long(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the parts of a long sentence, cut at commas or spaces."""
        while self._width(start, end) > MAX_WIDTH:
            part = self.text[start : start + MAX_WIDTH // 2]
            cut = max(part.rfind(mark) for mark in "\n ,、，") + 1 or len(part)
            yield start, start + len(part[:cut].rstrip())
            start += cut + len(self.text[start + cut : end]) - len(self.text[start + cut : end].lstrip())
        yield start, end

    def _width(self, start: int, end: int) -> int:
        """Return the width of a part, exactly if it may fit."""
        is_length = end - start > MAX_WIDTH or not self._has_wide
        return end - start if is_length else text_width(self.text[start:end])

    @cached_property
    def _has_wide(self) -> bool:
        """Return whether a character of the pieces may be wide."""
        return not self.text.isascii() and bool(_WIDE.search(self.text, *self._bounds))

    @cached_property
    def windows(self) -> Sequence[Window]:
        """Return a window from each piece on, as long as possible.

        A list or a table that fits is never begun within.
        """
        windows: dict[int, Window] = {}  # by first piece
        for i, piece in enumerate(self.pieces):
            if piece.end <= self.start or piece.start >= self.end or piece.kind == "heading":
                continue
            first, lead = self._beginning(i)
            if first not in windows:
                windows[first] = self._extend(first, lead)
        return list(windows.values())

    def tokens(self, i: int) -> Sequence[str]:
        """Return the tokens of a piece."""
        if i not in self._tokens:
            self._tokens[i] = tokenize(self.text[slice(*self.pieces[i][:2])])
        return self._tokens[i]

    def _beginning(self, i: int) -> tuple[int, str]:
        """Return where a window with this piece begins, and its lead."""
        start, _, kind = self.pieces[i]
        if kind not in ("item", "row"):
            return i, ""
        first, last = self._groups[i]
        opening = first - 1 if kind == "item" and self._introduces(first - 1) else first
        if i == first or self._width(self.pieces[opening].start, self.pieces[last].end) <= MAX_WIDTH:
            return opening, "" if opening < first or kind == "item" else self._table_header(start)
        if kind == "row":
            return i, self._table_header(start)
        return i, self.text[slice(*self.pieces[opening][:2])] if opening < first else ""

    def _table_header(self, row: int) -> str:
        """Return the header of the table of a row, or empty."""
        first = self.text.rfind("\n\n", self.headings.body, row) + 2 or self.headings.body
        header = self.text[first : self.text.find("\n", first, row)] if first < row else ""
        return header if "|" in header and is_table_row(header) else ""

    @cached_property
    def _groups(self) -> Sequence[tuple[int, int]]:
        """Return the bounds of the list or table of each piece."""
        firsts, groups = list[int](), list[tuple[int, int]]()
        for i in range(len(self.pieces)):
            firsts.append(firsts[-1] if i and self._are_alike(i - 1, i) else i)
        last = len(firsts)
        for i in reversed(range(len(firsts))):
            last = i if last == len(firsts) or firsts[i] != firsts[last] else last
            groups.append((firsts[i], last))
        return groups[::-1]

    def _are_alike(self, i: int, j: int) -> bool:
        """Return whether two pieces are items, or rows of one table."""
        one, two = self.pieces[i], self.pieces[j]
        if one.kind != "row" or two.kind != "row":
            return one.kind == two.kind == "item"
        return self._first_column(one) == self._first_column(two)

    def _first_column(self, row: Piece) -> str:
        """Return the name of the first cell, as in `city: Otaru`.

        It is empty if a header names the columns.
        """
        text = self.text[row.start : row.end]
        return "" if "|" in text else text.partition(":")[0]

    def _introduces(self, i: int) -> bool:
        """Return whether a piece ends with a colon, as before a list."""
        if i < 0 or self.pieces[i].kind != "prose":
            return False
        start, end, _ = self.pieces[i]
        return end - start <= _MAX_INTRODUCTION and self.text[start:end].endswith((":", "："))

    def _extend(self, first: int, lead: str) -> Window:
        """Return the longest window from a piece on."""
        last, start, most = first, self.pieces[first].start, MAX_WIDTH - text_width(lead)
        while last + 1 < len(self.pieces) and self._width(start, self.pieces[last + 1].end) <= most:
            if self._begins_section(last + 1) and self._width(start, self.pieces[last].end) >= _ENOUGH:
                break
            last += 1
        while last > first and (self.pieces[last].kind == "heading" or self._introduces(last)):
            last -= 1
        more = self._groups[last][1] - last if self.pieces[last].kind in ("item", "row") else 0
        return Window(first, last, lead, more)

    def place(self, window: Window) -> int:
        """Return the start of the section, list or table of a window."""
        start = self.pieces[window.first].start
        section = self.headings.section(start)
        return section if section is not None else self.pieces[self._groups[window.first][0]].start

    def _begins_section(self, i: int) -> bool:
        """Return whether a piece is a heading or a first row."""
        return self.pieces[i].kind == "heading" or (self.pieces[i].kind == "row" and self._groups[i][0] == i)

    def lines(self, window: Window) -> Iterator[tuple[BlockKind, str]]:
        """Yield the kind and the text of each line to show."""
        if window.lead:
            yield self.pieces[window.first].kind, collapse_spaces(window.lead)
        for start, end, kind in self.pieces[window.first : window.last + 1]:
            text = self.text[start:end]
            if _FENCE.search(text):  # code keeps its lines
                yield kind, "\n".join(line.rstrip() for line in text.splitlines() if not _FENCE.match(line))
                continue
            line = collapse_spaces(text.split("\n")[0].strip("# \t") if kind == "heading" else text)
            yield kind, unlink(line)


def cell_width(text: str) -> int:
    """Return how many cells of a terminal a text takes.

    >>> cell_width("boat"), cell_width("船、boat")
    (4, 8)
    """
    return len(text) if text.isascii() else len(text) + len(_WIDE.findall(text))


def text_width(text: str) -> int:
    """Return the letters of a text, with 1.5 for an ideograph.

    >>> text_width("boat"), text_width("船、boat")
    (4, 7)
    """
    return (len(text) + cell_width(text)) // 2


def unlink(text: str) -> str:
    """Return a text with the words of its links alone.

    >>> unlink("see [the rules](a.md) and [1]")
    'see the rules and [1]'
    """
    return _LINK.sub(r"\1", text)


def is_rule_row(text: str) -> bool:
    """Return whether a row only rules a table: `|---|---|`."""
    return bool(_RULE_ROW.fullmatch(text))


def is_mail_header(text: str) -> bool:
    """Return whether a block is the header of a mail.

    >>> is_mail_header("From: a@b.example\\nTo: c@d.example\\nSubject: Boats"), is_mail_header("From: the sea.")
    (True, False)
    """
    lines = text.split("\n")
    return len(lines) > 2 and all(_MAIL_FIELD.match(line) or line.startswith(" ") for line in lines)
