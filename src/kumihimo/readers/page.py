"""a text and its properties -> a page, the unit of every reader; a tree of markup -> its text and sections."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import PurePosixPath
from typing import NamedTuple, TypeVar
from xml.etree.ElementTree import Element

from kumihimo.core.errors import SourceError
from kumihimo.core.records import NOT_READ
from kumihimo.readers.titles import first_page_title
from kumihimo.text.sentences import collapse_spaces

_NO_TEXT = "contains no text, perhaps pictures of text; run text recognition (OCR) first"
Row = Mapping[str, object]
Places = tuple[tuple[int, str], ...]  # the offset and name of each place


@dataclass(frozen=True, slots=True)
class Page:
    """A text of a file.

    fragment: the part of its uri after `#`; empty if the page is the whole file.
    title, modified: empty if the text does not give them.
    places, body: as in `Document`.
    attached: files within the file, by name; each is read by its own reader.
    imported: as in `Document`.
    """

    fragment: str = ""
    title: str = ""
    text: str = ""
    metadata: Row = field(default_factory=dict)
    modified: str = ""
    places: Places = ()
    body: int = 0
    attached: tuple[tuple[str, bytes], ...] = ()
    imported: str = ""


def unique_name(name: str, used: dict[str, int], suffix: str = "") -> str:
    """Return `name`, or `name~2` if it is used already, and the suffix.

    The third becomes `name~3`, so that no namesake is lost. `used` counts the names, and is updated.
    """
    while (count := used.get(name + suffix, 0) + 1) > 1:
        used[name + suffix] = count
        name = f"{name}~{count}"
    used[name + suffix] = 1
    return name + suffix


def unique_file_name(name: str, used: dict[str, int]) -> str:
    """Return the name of a part; a number stands before its suffix.

    >>> used = {}
    >>> [unique_file_name("2024/a.txt", used) for _ in range(2)]
    ['2024/a.txt', '2024/a~2.txt']
    """
    suffix = PurePosixPath(name).suffix
    return unique_name(name.removesuffix(suffix), used, suffix)


def format_utc(moment: datetime) -> str:
    """Format a time as ISO 8601, UTC, to the second.

    A time without a zone is in UTC.

    >>> format_utc(datetime(2026, 11, 21, 2, 31))
    '2026-11-21T02:31:00Z'
    """
    moment = moment.astimezone(UTC) if moment.tzinfo else moment
    return f"{moment.replace(tzinfo=None).isoformat(timespec='seconds')}Z"


def join_with_places(parts: Iterable[tuple[str, Places]]) -> tuple[str, Places]:
    r"""Join texts, and shift their places.

    >>> join_with_places([("One.", ((0, "slide 1"),)), ("Two.", ((0, "slide 2"),))])
    ('One.\n\nTwo.', ((0, 'slide 1'), (6, 'slide 2')))
    """
    texts, places, length = list[str](), list[tuple[int, str]](), 0
    for text, text_places in parts:
        places += [(length + offset, label) for offset, label in text_places]
        texts.append(text)
        length += len(text) + 2
    return "\n\n".join(texts), tuple(places)


def second_place(places: Places) -> int | None:
    """Return where the second page or slide with text begins, if any."""
    return next((offset for offset, _ in places if offset > 0), None)


def add_unread(metadata: Row, unread: Sequence[str]) -> Row:
    """Return the metadata, with the parts that were not read."""
    return {**metadata, NOT_READ: list(dict.fromkeys(unread))} if unread else metadata


def finish_page(page: Page, name: str, unread: Sequence[str] = ()) -> Page:
    """Return a page with the parts that were not read.

    Raise SourceError if it has no text.
    """
    if not page.text.strip():
        reason = f"cannot read {unread[0]}" if unread else _NO_TEXT
        raise SourceError(f"{name}: {reason}")
    return replace(page, metadata=add_unread(page.metadata, unread))


def finish_slides(slides: Iterable[str], name: str, title: str, metadata: Row) -> Page:
    """Return the page of a presentation, with its slides as places."""
    parts = ((text, ((0, f"slide {number}"),)) for number, text in enumerate(slides, 1))
    text, places = join_with_places(part for part in parts if part[0].strip())
    title = title or first_page_title(text, second_place(places))
    return finish_page(Page(title=title, text=text, metadata=metadata, places=places), name)


EMPTY_LINE = re.compile(r"[ |]*")
MAX_LIST_INDENT = 8  # markup without end tags would indent without end
KINDS = ("block", "inline", "item", "link", "list", "pre", "rt")
SPAN = re.compile("[1-9][0-9]{0,4}")
MAX_SPANS = 8  # cells over several rows at the same time
MAX_REPEATED_CHARS = 60  # of such a cell
MAX_LABEL_CHARS = 80  # of a section's name in a citation

N = TypeVar("N")

WriterStep = Callable[["Writer"], Iterator[None]]  # writes what begins an element, yields, and writes what ends it
Visit = tuple[WriterStep | None, Iterable[N]]  # the step around a node's children, and the children


@dataclass(frozen=True, slots=True)
class LayoutLine:
    """A line of text.

    gap: line ends before it. prefix: `# ` or `- `. link_chars: how many of its characters are in links, about.
    """

    gap: int
    prefix: str
    text: str
    link_chars: int = 0

    @property
    def is_heading(self) -> bool:
        return self.prefix.startswith("#")


@dataclass(frozen=True, slots=True)
class PageLayout:
    """The lines of a page."""

    lines: tuple[LayoutLine, ...]

    @property
    def text(self) -> str:
        return "".join("\n" * line.gap + line.prefix + line.text for line in self.lines).lstrip("\n")

    @property
    def title(self) -> str:
        """Return the first heading."""
        return next((line.text for line in self.lines if line.is_heading), "")

    @property
    def places(self) -> Places:
        """Return the offsets of sections with their labels for citations."""
        places, offset = list[tuple[int, str]](), -self.lines[0].gap if self.lines else 0
        for line in self.lines:
            offset += line.gap
            if line.is_heading:
                places.append((offset, f"§ {line.text[:MAX_LABEL_CHARS]}"))
            offset += len(line.prefix) + len(line.text)
        return ((0, ""), *places) if places and places[0][0] else tuple(places)


def layout_tree(root: N, visit: Callable[[N], str | Visit[N]]) -> PageLayout:
    """Walk a tree, and write its texts in lines."""
    writer = Writer()
    pending: list[tuple[Iterator[None] | None, N]] = [(None, root)]
    while pending:  # no recursion: a page may be nested deeper than the stack
        open_step, node = pending.pop()
        if open_step:
            next(open_step, None)
            continue
        content = visit(node)
        if isinstance(content, str):
            writer.write(content)
        else:
            step, children = content
            if step:
                open_step = step(writer)
                next(open_step)
                pending.append((open_step, node))
            pending += [(None, child) for child in reversed(list(children))]
    writer.end_line(0)
    return PageLayout(tuple(writer.lines))


class _Span(NamedTuple):
    """A cell that reaches into rows below."""

    rows: int
    columns: int
    text: str


class Writer:
    """The lines written so far, and the current one."""

    def __init__(self) -> None:
        self.lines: list[LayoutLine] = []
        self.line: list[str] = []
        self.prefix = ""  # of the next line: `# ` or `- `
        self.gap = 0  # line ends due before the next line
        self.depth = dict.fromkeys(KINDS, 0)  # open elements around the line, by kind
        self.column = 0  # of the current row
        self.spans: dict[int, _Span] = {}  # the cells of the table that reach down, by column
        self.readings: list[list[str]] = []  # one list for each open `ruby`
        self.link_chars = 0  # characters of the line inside links

    @property
    def is_inline(self) -> bool:
        """Return whether a heading, row or reading is open.

        Its blocks stay on the line.
        """
        return bool(self.depth["inline"] or self.depth["rt"])

    def write(self, text: str) -> None:
        self.line.append(text)
        self.link_chars += len(text) * bool(self.depth["link"])

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

    def break_block(self, gap: int) -> None:
        """Separate a block from its surroundings."""
        if self.depth["pre"]:
            return
        if self.is_inline:
            self.line.append(" ")
        else:
            self.end_line(1 if self.depth["list"] else gap)

    # -- steps: the part after `yield` is for the end of the element

    def element(self, kind: str, gap: int) -> Iterator[None]:
        """Stand apart from the surroundings, by a gap on either side."""
        self.break_block(gap)
        self.depth[kind] += 1
        yield
        self.depth[kind] -= 1
        self.break_block(gap)

    def link(self) -> Iterator[None]:
        self.depth["link"] += 1
        yield
        self.depth["link"] -= 1

    def line_break(self) -> Iterator[None]:
        if self.depth["pre"]:
            self.line.append("\n")
        else:
            self.break_block(1 if any(part.strip() for part in self.line) else 2)
        yield

    def heading(self, mark: str) -> Iterator[None]:
        return self._marked_element("inline", 2, mark, mark.lstrip("# "))

    def item(self, mark: str) -> Iterator[None]:
        return self._marked_element("item", 1, mark, mark.lstrip("- "))

    def bullet_item(self) -> Iterator[None]:
        return self.item("  " * min(self.depth["list"] - 1, MAX_LIST_INDENT) + "- ")

    def _marked_element(self, kind: str, gap: int, mark: str, number: str) -> Iterator[None]:
        """Begin an element with its mark; within a row, with its number."""
        self.break_block(gap)
        if self.is_inline:
            self.line.append(number)
        else:
            self.prefix = mark
        self.depth[kind] += 1
        yield
        self.depth[kind] -= 1
        self.break_block(gap)
        self.prefix = self.prefix if self.is_inline else ""  # an empty heading leaves no prefix

    def pre(self) -> Iterator[None]:
        self.break_block(2)
        self.depth["pre"] += 1
        yield
        self.depth["pre"] -= 1
        text = "".join(self.line).strip("\r\n")
        if not self.depth["pre"] and not self.is_inline and text.strip():
            self.line.clear()
            self._append_line(text, 2)

    def table(self) -> Iterator[None]:
        self.spans = {} if not self.is_inline else self.spans
        return self.element("block", gap=2)

    def row(self) -> Iterator[None]:
        """Begin a row. A nested one is part of a cell."""
        is_nested, column = self.is_inline, self.column
        self.break_block(1)
        self.column = 0
        self.depth["inline"] += 1
        yield
        if not is_nested and self.column:
            self._repeat_cells()
        self.column = column
        self.depth["inline"] -= 1
        self.break_block(1)

    def cell(self, rows: int = 1, columns: int = 1) -> Iterator[None]:
        """Write a cell that spans rows and columns.

        A short one is repeated in each of its rows; a long one leaves the others empty.
        """
        self.break_block(1)
        is_nested = not self.is_inline or self.depth["inline"] > 1
        if not is_nested:
            self._repeat_cells()
        if self.is_inline and self.column:
            self.line.append("| ")
        column, start = self.column, len(self.line)
        self.column += columns
        yield
        if rows > 1 and not is_nested and len(self.spans) < MAX_SPANS:
            text = collapse_spaces("".join(self.line[start:]))
            self.spans[column] = _Span(rows - 1, columns, text if len(text) <= MAX_REPEATED_CHARS else "")
        self.break_block(1)

    def _repeat_cells(self) -> None:
        """Write the cells of rows above that reach into this column."""
        while span := self.spans.pop(self.column, None):
            self.line.append("| " * bool(self.column) + span.text + " ")
            if span.rows > 1:
                self.spans[self.column] = span._replace(rows=span.rows - 1)
            self.column += span.columns

    def ruby(self) -> Iterator[None]:
        """Put the reading after the whole word.

        Search still finds `東京` in `東京（とうきょう）`.
        """
        self.readings.append([])
        yield
        reading = "".join(self.readings.pop())
        self.line.append(f"（{reading}）" if reading else "")

    def rt(self) -> Iterator[None]:
        """Write a reading; a nested one belongs to the outer one."""
        word = self.line
        self.line = self.line if self.depth["rt"] else []
        self.depth["rt"] += 1
        yield
        self.depth["rt"] -= 1
        if not self.depth["rt"]:
            reading, self.line = collapse_spaces("".join(self.line)), word
            (self.readings[-1] if self.readings else self.line).append(reading)


def mixed_content(node: Element) -> Iterator[Element | str]:
    """Yield the texts and elements inside an element, in order."""
    yield node.text or ""
    for child in node:
        yield child
        yield child.tail or ""


def cell_step(rows: str | None, columns: str | None) -> WriterStep:
    """Return the step of a cell, with the attributes for its spans."""
    if not rows and not columns:
        return Writer.cell
    height, width = (int(span) if span and SPAN.fullmatch(span) else 1 for span in (rows, columns))
    return partial(Writer.cell, rows=height, columns=width)


LINE, PARAGRAPH = (partial(Writer.element, kind="block", gap=gap) for gap in (1, 2))
LIST = partial(Writer.element, kind="list", gap=2)
