"""a tree of markup -> its text in lines, and where its sections begin."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from kumihimo.text.sentences import collapse_spaces

EMPTY_LINE = re.compile(r"[ |]*")
MAX_LIST_INDENT = 8  # markup without end tags would indent without end
MAX_LABEL_CHARS = 80  # of a section's name in a citation

N = TypeVar("N")

WriterStep = Callable[["Writer"], None]
Visit = tuple[WriterStep, WriterStep, Iterable[N]]  # steps before and after a node's children, and the children


@dataclass(frozen=True, slots=True)
class LayoutLine:
    """A line of text.

    gap: line ends before it. prefix: `# ` or `- `. link_chars: how many of its characters are in links, about.
    """

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
        """Yield the offset and heading of each section."""
        offset = 0
        for i, line in enumerate(self.lines):
            offset += line.gap * bool(i)
            if line.prefix.startswith("#"):
                yield offset, line.text
            offset += len(line.prefix) + len(line.text)

    @property
    def title(self) -> str:
        """Return the first heading."""
        return next((heading for _, heading in self.sections), "")

    @property
    def places(self) -> tuple[tuple[int, str], ...]:
        """Return the offsets of sections with their labels for citations."""
        labelled = tuple((offset, f"§ {heading[:MAX_LABEL_CHARS]}") for offset, heading in self.sections)
        return ((0, ""), *labelled) if labelled and labelled[0][0] else labelled


def layout_tree(root: N, visit: Callable[[N], str | Visit[N]]) -> PageLayout:
    """Walk a tree, and write its texts in lines."""
    writer = Writer()
    pending: list[tuple[WriterStep | None, N]] = [(None, root)]
    while pending:  # no recursion: a page may be nested deeper than the stack
        on_leave, node = pending.pop()
        if on_leave:
            on_leave(writer)
            continue
        content = visit(node)
        if isinstance(content, str):
            writer.write(content)
        else:
            enter, leave, children = content
            enter(writer)
            pending += [(leave, node), *((None, child) for child in reversed(list(children)))]
    writer.end_line(0)
    return PageLayout(tuple(writer.lines))


class Writer:
    """The lines written so far, and the current one."""

    def __init__(self) -> None:
        self.lines: list[LayoutLine] = []
        self.line: list[str] = []
        self.prefix = ""  # of the next line: `# ` or `- `
        self.gap = 0  # line ends due before the next line
        self.list_depth = 0  # open lists around the line
        self.inline_depth = 0  # headings and rows around the line; blocks in them stay on the line
        self.cell_count = 0  # of the current row
        self.pre_depth = 0  # open `pre` elements
        self.readings: list[list[str]] = []  # one list for each open `ruby`
        self.rt_depth = 0  # open `rt` elements
        self.outer_line: list[str] = []  # the line around the `rt`
        self.link_depth = 0  # open links around the line
        self.link_chars = 0  # characters of the line inside links

    def end_line(self, gap: int) -> None:
        """End the current line, unless it is empty.

        gap: line ends before the next line; 1 starts a new line, 2 leaves one empty.
        """
        text, link_chars = collapse_spaces("".join(self.line)), self.link_chars
        self.line.clear()
        self.link_chars = 0
        if EMPTY_LINE.fullmatch(text):
            self.gap = max(self.gap, gap)
        else:
            self._append_line(text, gap, link_chars)

    def _append_line(self, text: str, gap: int, link_chars: int = 0) -> None:
        self.lines.append(LayoutLine(self.gap, self.prefix, text, link_chars))
        self.prefix, self.gap = "", gap

    def write(self, text: str) -> None:
        self.line.append(text)
        self.link_chars += len(text) * bool(self.link_depth)

    def break_block(self, gap: int) -> None:
        """Separate a block from its surroundings."""
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
        self.prefix = self.prefix if self.inline_depth else ""  # an empty heading leaves no prefix

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
        """Set the line's prefix; within a row, append the number instead."""
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
        """Put the reading after the whole word.

        Search still finds `東京` in `東京（とうきょう）`.
        """
        reading = "".join(self.readings.pop())
        self.line.append(f"（{reading}）" if reading else "")

    def rt(self) -> None:
        self.inline_depth += 1
        self.rt_depth += 1
        if self.rt_depth == 1:  # a nested reading belongs to the outer one
            self.outer_line, self.line = self.line, []

    def end_rt(self) -> None:
        self.inline_depth -= 1
        self.rt_depth -= 1
        if not self.rt_depth:
            reading, self.line = collapse_spaces("".join(self.line)), self.outer_line
            (self.readings[-1] if self.readings else self.line).append(reading)


def stay_inline(writer: Writer) -> None:
    """Stay within the line."""


def break_line(writer: Writer) -> None:
    """Start a new line."""
    writer.break_block(1)


def break_paragraph(writer: Writer) -> None:
    """Leave an empty line."""
    writer.break_block(2)
