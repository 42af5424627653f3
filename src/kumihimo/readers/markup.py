"""lines of a marked-up text -> its paragraphs, headings, lists and tables, with the marks of Markdown."""

from collections.abc import Callable, Sequence

from kumihimo.readers.page import MAX_LIST_INDENT, PageLayout, Writer

MAX_LEVEL = 6


class MarkupBlocks:
    """The blocks written so far, and the lines of the current one.

    inline: removes the marks within a paragraph.
    """

    def __init__(self, inline: Callable[[str], str]) -> None:
        self.inline = inline
        self.writer = Writer()
        self.lines: list[str] = []
        self.prefix = ""  # of the current block

    def add(self, line: str) -> None:
        self.lines.append(line.strip())

    def end(self, gap: int = 2) -> None:
        """End the current block. gap: as in `Writer.end_line`."""
        text, self.lines = self.inline("\n".join(self.lines)), []
        if text.strip():
            self.writer.prefix = self.prefix
            self.writer.write(text)
        self.writer.end_line(gap)
        self.writer.prefix = self.prefix = ""

    def heading(self, level: int, text: str) -> None:
        self.end()
        self.prefix = f"{'#' * min(max(level, 1), MAX_LEVEL)} "
        self.add(text)
        self.end()

    def item(self, depth: int, mark: str, text: str) -> None:
        """Begin an item of a list; its next lines may follow."""
        self.end(1)
        self.prefix = f"{'  ' * min(depth, MAX_LIST_INDENT)}{mark} "
        self.add(text)

    def row(self, cells: Sequence[str]) -> None:
        """Write a row of a table, unless all its cells are empty."""
        self.end(1)
        if any(cells):
            self.add(" | ".join(cells))
            self.end(1)

    def verbatim(self, lines: Sequence[str]) -> None:
        """Write lines as they are, without their common indent."""
        self.end()
        indent = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
        step = self.writer.pre()
        next(step)
        self.writer.write("\n".join(line[indent:].rstrip() for line in lines))
        next(step, None)
        self.writer.line.clear()  # of blank lines alone

    def layout(self) -> PageLayout:
        self.end()
        return PageLayout(tuple(self.writer.lines))
