"""a tree of marked-up text -> its text in lines, as a page shows them, and where its sections begin."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from kumihimo.text.sentences import collapse_spaces

EMPTY_LINE = re.compile(r"[ |]*")
MAX_LIST_INDENT = 8  # list in list that is indented: markup without end tags would indent for ever
MAX_LABEL_CHARS = 80  # characters of a section's name in a citation

N = TypeVar("N")

WriterStep = Callable[["Writer"], None]
Visit = tuple[WriterStep, WriterStep, Iterable[N]]  # what to do before and after what is in a node, and that


@dataclass(frozen=True, slots=True)
class LayoutLine:
    """gap: line ends before it. prefix: `# ` or `- `. linked: how many of its characters stand in links, about."""

    gap: int
    prefix: str
    text: str
    link_chars: int = 0


@dataclass(frozen=True, slots=True)
class PageLayout:
    """The lines of a page."""

    lines: tuple[LayoutLine, ...]

    @property
    def text(self) -> str:
        return "".join("\n" * line.gap * bool(i) + line.prefix + line.text for i, line in enumerate(self.lines))

    @property
    def sections(self) -> Iterator[tuple[int, str]]:
        """Where each begins, and its heading."""
        at = 0
        for i, line in enumerate(self.lines):
            at += line.gap * bool(i)
            if line.prefix.startswith("#"):
                yield at, line.text
            at += len(line.prefix) + len(line.text)

    @property
    def title(self) -> str:
        """The first heading."""
        return next((heading for _, heading in self.sections), "")

    @property
    def places(self) -> tuple[tuple[int, str], ...]:
        """The sections, as citations name them."""
        named = tuple((at, f"§ {heading[:MAX_LABEL_CHARS]}") for at, heading in self.sections)
        return ((0, ""), *named) if named and named[0][0] else named


def layout_tree(root: N, look: Callable[[N], str | Visit[N]]) -> PageLayout:
    """Walk a tree, and write down its texts in lines."""
    writer = Writer()
    waiting: list[tuple[WriterStep | None, N]] = [(None, root)]
    while waiting:  # no recursion: a page may be nested deeper than the stack
        leaving, node = waiting.pop()
        if leaving:
            leaving(writer)
            continue
        seen = look(node)
        if isinstance(seen, str):
            writer.write(seen)
        else:
            enter, leave, inside = seen
            enter(writer)
            waiting += [(leave, node), *((None, inner) for inner in reversed(list(inside)))]
    writer.end_line(0)
    return PageLayout(tuple(writer.lines))


class Writer:
    """The lines written so far, and the one being written."""

    def __init__(self) -> None:
        self.lines: list[LayoutLine] = []
        self.line: list[str] = []
        self.prefix = ""  # of the next line: `# ` or `- `
        self.gap = 0  # line ends due before the next line
        self.list_depth = 0  # open around the line
        self.inline_depth = 0  # headings and rows around it: what is a block elsewhere stays on their line
        self.cell_count = 0  # of the row, so far
        self.pre_depth = 0  # `pre`s around it
        self.readings: list[list[str]] = []  # of each open `ruby`
        self.rt_depth = 0  # open `rt`s
        self.outer_line: list[str] = []  # the line they stand in
        self.link_depth = 0  # around it
        self.link_chars = 0  # characters of the line that are in one

    def end_line(self, gap: int) -> None:
        """Ends the line, if anything stands on it; `gap`: 1 starts a new one, 2 leaves one empty."""
        text, linked = collapse_spaces("".join(self.line)), self.link_chars
        self.line.clear()
        self.link_chars = 0
        if EMPTY_LINE.fullmatch(text):
            self.gap = max(self.gap, gap)
        else:
            self._append_line(text, gap, linked)

    def _append_line(self, text: str, gap: int, linked: int = 0) -> None:
        self.lines.append(LayoutLine(self.gap, self.prefix, text, linked))
        self.prefix, self.gap = "", gap

    def write(self, text: str) -> None:
        self.line.append(text)
        self.link_chars += len(text) * bool(self.link_depth)

    def break_block(self, gap: int) -> None:
        """Parts a block from what is around it."""
        if self.pre_depth:
            return
        if self.inline_depth:
            self.line.append(" ")
        else:
            self.end_line(1 if self.list_depth else gap)

    def line_break(self) -> None:
        if self.pre_depth:
            self.line.append("\n")
        else:
            self.break_block(1 if any(part.strip() for part in self.line) else 2)

    def heading(self, mark: str) -> None:
        self.break_block(2)
        self._begin_with(mark, mark.lstrip("# "))
        self.inline_depth += 1

    def end_heading(self) -> None:
        self.inline_depth -= 1
        self.break_block(2)
        self.prefix = self.prefix if self.inline_depth else ""  # of one without words

    def pre(self) -> None:
        self.break_block(2)
        self.pre_depth += 1

    def end_pre(self) -> None:
        self.pre_depth -= 1
        text = "".join(self.line).strip("\r\n")
        if not self.pre_depth and not self.inline_depth and text.strip():
            self.line.clear()
            self._append_line(text, 2)

    def list(self) -> None:
        self.break_block(2)
        self.list_depth += 1

    def end_list(self) -> None:
        self.list_depth -= 1
        self.break_block(2)

    def item(self) -> None:
        self.marked_item("  " * min(self.list_depth - 1, MAX_LIST_INDENT) + "- ")

    def marked_item(self, mark: str) -> None:
        self.break_block(1)
        self._begin_with(mark, mark.lstrip("- "))

    def _begin_with(self, mark: str, number: str) -> None:
        """What the line begins with; within a row, its number."""
        if self.inline_depth:
            self.line.append(number)
        else:
            self.prefix = mark

    def end_item(self) -> None:
        self.break_block(1)
        self.prefix = self.prefix if self.inline_depth else ""

    def row(self) -> None:
        self.break_block(1)
        self.inline_depth += 1
        self.cell_count = 0

    def end_row(self) -> None:
        self.inline_depth -= 1
        self.break_block(1)

    def cell(self) -> None:
        self.break_block(1)
        if self.inline_depth and self.cell_count:
            self.line.append("| ")
        self.cell_count += 1

    def link(self) -> None:
        self.link_depth += 1

    def end_link(self) -> None:
        self.link_depth -= 1

    def ruby(self) -> None:
        self.readings.append([])

    def end_ruby(self) -> None:
        """The reading after the whole word, so that `東京（とうきょう）` is still found as `東京`."""
        reading = "".join(self.readings.pop())
        self.line.append(f"（{reading}）" if reading else "")

    def rt(self) -> None:
        self.inline_depth += 1
        self.rt_depth += 1
        if self.rt_depth == 1:  # a reading of a reading is a part of it
            self.outer_line, self.line = self.line, []

    def end_rt(self) -> None:
        self.inline_depth -= 1
        self.rt_depth -= 1
        if not self.rt_depth:
            reading, self.line = collapse_spaces("".join(self.line)), self.outer_line
            (self.readings[-1] if self.readings else self.line).append(reading)


def stay_inline(writer: Writer) -> None:
    """For what stands within a line."""


def break_line(writer: Writer) -> None:
    """For what has lines of its own."""
    writer.break_block(1)


def break_paragraph(writer: Writer) -> None:
    """For what has an empty line before and after it."""
    writer.break_block(2)
