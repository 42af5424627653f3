"""a tree of marked-up text -> its text in lines, as a page shows them, and where its sections begin."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from kumihimo.text.sentences import folded

EMPTY = re.compile(r"[ |]*")
DEEPEST = 8  # list in list that is indented: markup without end tags would indent for ever
LABEL = 80  # characters of a section's name in a citation

N = TypeVar("N")

Step = Callable[["Writer"], None]
Visit = tuple[Step, Step, Iterable[N]]  # what to do before and after what is in a node, and that


@dataclass(frozen=True, slots=True)
class Line:
    """gap: line ends before it. prefix: `# ` or `- `. linked: how many of its characters stand in links, about."""

    gap: int
    prefix: str
    text: str
    linked: int = 0


@dataclass(frozen=True, slots=True)
class Layout:
    """The lines of a page."""

    lines: tuple[Line, ...]

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
        named = tuple((at, f"§ {heading[:LABEL]}") for at, heading in self.sections)
        return ((0, ""), *named) if named and named[0][0] else named


def layout(root: N, look: Callable[[N], str | Visit[N]]) -> Layout:
    """Walk a tree, and write down its texts in lines."""
    writer = Writer()
    waiting: list[tuple[Step | None, N]] = [(None, root)]
    while waiting:  # no recursion: a page may be nested deeper than the stack
        leaving, node = waiting.pop()
        if leaving:
            leaving(writer)
            continue
        seen = look(node)
        if isinstance(seen, str):
            writer.say(seen)
        else:
            enter, leave, inside = seen
            enter(writer)
            waiting += [(leave, node), *((None, inner) for inner in reversed(list(inside)))]
    writer.end(0)
    return Layout(tuple(writer.lines))


class Writer:
    """The lines written so far, and the one being written."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.line: list[str] = []
        self.prefix = ""  # of the next line: `# ` or `- `
        self.gap = 0  # line ends due before the next line
        self.lists = 0  # open around the line
        self.flat = 0  # headings and rows around it: what is a block elsewhere stays on their line
        self.cells = 0  # of the row, so far
        self.verbatim = 0  # `pre`s around it
        self.readings: list[list[str]] = []  # of each open `ruby`
        self.inner = 0  # open `rt`s
        self.held: list[str] = []  # the line they stand in
        self.links = 0  # around it
        self.linked = 0  # characters of the line that are in one

    def end(self, gap: int) -> None:
        """Ends the line, if anything stands on it; `gap`: 1 starts a new one, 2 leaves one empty."""
        text, linked = folded("".join(self.line)), self.linked
        self.line.clear()
        self.linked = 0
        if EMPTY.fullmatch(text):
            self.gap = max(self.gap, gap)
        else:
            self._write(text, gap, linked)

    def _write(self, text: str, gap: int, linked: int = 0) -> None:
        self.lines.append(Line(self.gap, self.prefix, text, linked))
        self.prefix, self.gap = "", gap

    def say(self, text: str) -> None:
        self.line.append(text)
        self.linked += len(text) * bool(self.links)

    def part(self, gap: int) -> None:
        """Parts a block from what is around it."""
        if self.verbatim:
            return
        if self.flat:
            self.line.append(" ")
        else:
            self.end(1 if self.lists else gap)

    def br(self) -> None:
        if self.verbatim:
            self.line.append("\n")
        else:
            self.part(1 if any(part.strip() for part in self.line) else 2)

    def heading(self, mark: str) -> None:
        self.part(2)
        self._mark(mark, mark.lstrip("# "))
        self.flat += 1

    def end_heading(self) -> None:
        self.flat -= 1
        self.part(2)
        self.prefix = self.prefix if self.flat else ""  # of one without words

    def pre(self) -> None:
        self.part(2)
        self.verbatim += 1

    def end_pre(self) -> None:
        self.verbatim -= 1
        text = "".join(self.line).strip("\r\n")
        if not self.verbatim and not self.flat and text.strip():
            self.line.clear()
            self._write(text, 2)

    def list(self) -> None:
        self.part(2)
        self.lists += 1

    def end_list(self) -> None:
        self.lists -= 1
        self.part(2)

    def item(self) -> None:
        self.item_of("  " * min(self.lists - 1, DEEPEST) + "- ")

    def item_of(self, mark: str) -> None:
        self.part(1)
        self._mark(mark, mark.lstrip("- "))

    def _mark(self, mark: str, number: str) -> None:
        """What the line begins with; within a row, its number."""
        if self.flat:
            self.line.append(number)
        else:
            self.prefix = mark

    def end_item(self) -> None:
        self.part(1)
        self.prefix = self.prefix if self.flat else ""

    def row(self) -> None:
        self.part(1)
        self.flat += 1
        self.cells = 0

    def end_row(self) -> None:
        self.flat -= 1
        self.part(1)

    def cell(self) -> None:
        self.part(1)
        if self.flat and self.cells:
            self.line.append("| ")
        self.cells += 1

    def link(self) -> None:
        self.links += 1

    def end_link(self) -> None:
        self.links -= 1

    def ruby(self) -> None:
        self.readings.append([])

    def end_ruby(self) -> None:
        """The reading after the whole word, so that `東京（とうきょう）` is still found as `東京`."""
        reading = "".join(self.readings.pop())
        self.line.append(f"（{reading}）" if reading else "")

    def rt(self) -> None:
        self.flat += 1
        self.inner += 1
        if self.inner == 1:  # a reading of a reading is a part of it
            self.held, self.line = self.line, []

    def end_rt(self) -> None:
        self.flat -= 1
        self.inner -= 1
        if not self.inner:
            reading, self.line = folded("".join(self.line)), self.held
            (self.readings[-1] if self.readings else self.line).append(reading)


def nothing(writer: Writer) -> None:
    """For what stands within a line."""


def line(writer: Writer) -> None:
    """For what has lines of its own."""
    writer.part(1)


def paragraph(writer: Writer) -> None:
    """For what has an empty line before and after it."""
    writer.part(2)
