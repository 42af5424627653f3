"""a tree of HTML -> its text in lines, as a page shows them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial

from selectolax.lexbor import LexborNode

SPACES = re.compile(r"[ \t\n\r\f\xa0]+")  # not the ideographic space: it is written on purpose
WIDE = r"[\u3000-\u30ff\u3400-\u9fff\uff00-\uffef]"
WRAPPED = re.compile(rf"(?<={WIDE})[ \t]*\r?\n\s*(?={WIDE})")
EMPTY = re.compile(r"[ |]*")
BLOCKS = "table, h1, h2, h3, h4, h5, h6, ul, ol, dl, pre, blockquote"
DEEPEST = 8  # list in list that is indented: markup without end tags would indent for ever

Step = Callable[["Writer"], None]


def layout(body: LexborNode, dropped: set[int]) -> str:
    """The text of `body` without the nodes whose `mem_id` is in `dropped`."""
    writer = Writer()
    waiting: list[LexborNode | Step] = [body]
    while waiting:  # no recursion: a page may be nested deeper than the stack
        node = waiting.pop()
        if not isinstance(node, LexborNode):
            node(writer)
        elif node.is_text_node:
            writer.line.append(node.text_content or "")
        elif node.mem_id not in dropped:
            enter, leave = _steps(node)
            enter(writer)
            waiting += [leave, *reversed(list(node.iter(include_text=True)))]
    writer.end(0)
    return "".join(writer.lines)


def folded(text: str) -> str:
    """Spaces as a browser shows them; but a line wrapped between two ideographs is no space.

    >>> folded("名前は\\n    まだ  無い")
    '名前はまだ 無い'
    """
    return SPACES.sub(" ", WRAPPED.sub("", text).replace("\xad", "")).strip(" ")


class Writer:
    """The lines written so far, and the one being written."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.line: list[str] = []
        self.prefix = ""  # of the next line: `# ` or `- `
        self.gap = 0  # line ends due before the next line
        self.lists = 0  # open around the line
        self.flat = 0  # headings and rows around it: what is a block elsewhere stays on their line
        self.cells = 0  # of the row, so far
        self.verbatim = 0  # `pre`s around it
        self.readings: list[list[str]] = []  # of each open `ruby`
        self.held: list[list[str]] = []  # the line each open `rt` stands in

    def end(self, gap: int) -> None:
        """Ends the line, if anything stands on it; `gap`: 1 starts a new one, 2 leaves one empty."""
        text = folded("".join(self.line))
        self.line.clear()
        if EMPTY.fullmatch(text):
            self.gap = max(self.gap, gap)
        else:
            self._write(text, gap)

    def _write(self, text: str, gap: int) -> None:
        self.lines.append("\n" * self.gap * bool(self.lines) + self.prefix + text)
        self.prefix, self.gap = "", gap

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
        self.prefix = self.prefix if self.flat else mark
        self.flat += 1

    def end_heading(self) -> None:
        self.flat -= 1
        self.part(2)

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
        self.part(1)
        self.prefix = self.prefix if self.flat else "  " * min(self.lists - 1, DEEPEST) + "- "

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

    def ruby(self) -> None:
        self.readings.append([])

    def end_ruby(self) -> None:
        """The reading after the whole word, so that `東京（とうきょう）` is still found as `東京`."""
        reading = "".join(self.readings.pop())
        self.line.append(f"（{reading}）" if reading else "")

    def rt(self) -> None:
        self.flat += 1
        self.held.append(self.line)
        self.line = []

    def end_rt(self) -> None:
        self.flat -= 1
        reading, self.line = folded("".join(self.line)), self.held.pop()
        (self.readings[-1] if self.readings else self.line).append(reading)


def _nothing(writer: Writer) -> None:
    """For what stands within a line: `b`, `a`, `span`."""


def _line(writer: Writer) -> None:
    writer.part(1)


def _paragraph(writer: Writer) -> None:
    writer.part(2)


def _each(names: str, enter: Step, leave: Step) -> Iterator[tuple[str, tuple[Step, Step]]]:
    return ((name, (enter, leave)) for name in names.split())


INLINE = (_nothing, _nothing)
LINE = (_line, _line)
TAGS: dict[str, tuple[Step, Step]] = {
    **{f"h{n}": (partial(Writer.heading, mark="#" * n + " "), Writer.end_heading) for n in range(1, 7)},
    **dict(_each("p table blockquote dl figure hr article section form fieldset details", _paragraph, _paragraph)),
    **dict(_each("body div main header footer aside dt dd caption figcaption summary legend address center", *LINE)),
    **dict(_each("ul ol menu", Writer.list, Writer.end_list)),
    **dict(_each("td th", Writer.cell, _line)),
    "li": (Writer.item, Writer.end_item),
    "tr": (Writer.row, Writer.end_row),
    "pre": (Writer.pre, Writer.end_pre),
    "br": (Writer.br, _nothing),
    "ruby": (Writer.ruby, Writer.end_ruby),
    "rt": (Writer.rt, Writer.end_rt),
}


def _steps(node: LexborNode) -> tuple[Step, Step]:
    if node.tag == "tr" and node.css_first(BLOCKS):
        return LINE  # a table that is there for the layout: its cells are blocks
    return TAGS.get(node.tag or "", INLINE)
