"""lines as they stand on pages -> a text in paragraphs, rows and headings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from statistics import median

from kumihimo.text.sentences import LIST_ITEM

NEIGHBOUR_LINES = 15  # lines before and after that tell how wide a column is
HEADING_SIZE = 1.18  # times the usual size
MAX_HEADING_CHARS = 120  # characters of a heading
MAX_LEADING = 1.35  # times as far apart as the lines of a paragraph are
MIN_LEADING = 1.2  # times the size: how far apart lines are at least, so those of a large heading, too
SIZE_TOLERANCE = 0.15  # of the larger: letters that differ by less are of one size
LEVEL_TOLERANCE = 0.3  # times the size
MIN_INDENT = 0.8  # times the size
PARAGRAPH_BREAK = "\n\n"
STOP_CHARS = "。．.!?！？:：;；"
WORD_EDGE_CHARS = f"{STOP_CHARS},()[]“”‘’\"'"  # a word
HYPHEN_CHARS = "-\u00ad\u2010\u2011"


@dataclass(frozen=True, slots=True)
class TextLine:
    """begin, end: from where to where, along the line; across: its height on the page; size: of its letters.

    word: how long its first word is. hyphen: whether it ends with one that parts a word. All are 0 where a page
    tells only its text.
    """

    text: str
    begin: float = 0.0
    end: float = 0.0
    line_position: float = 0.0
    size: float = 0.0
    first_word_width: float = 0.0
    hyphenated: bool = False

    @property
    def is_row(self) -> bool:
        return " | " in self.text


@dataclass(slots=True)
class ParagraphText:
    """A text, and where each page of it begins."""

    text: str = ""
    page_starts: list[int] = field(default_factory=list)


def merge_cells(lines: Iterable[TextLine]) -> Iterator[TextLine]:
    """The lines, those that are level and follow one another as cells of a row."""
    held: TextLine | None = None
    for line in lines:
        if (
            held
            and abs(held.line_position - line.line_position) < LEVEL_TOLERANCE * held.size
            and line.begin > held.end
        ):
            held = replace(held, text=f"{held.text} | {line.text}", end=line.end, hyphenated=line.hyphenated)
        else:
            if held:
                yield held
            held = line
    if held:
        yield held


def is_cjk_letter(letter: str) -> bool:
    """Whether it is of a script that writes no spaces.

    >>> wide("紐"), wide("。"), wide("a"), wide("")
    (True, True, False, False)
    """
    return "\u2e80" <= letter <= "\ud7af" or "\uf900" <= letter <= "\ufaff" or "\uff00" <= letter <= "\uffef"


def join_paragraphs(pages: Sequence[Sequence[TextLine]]) -> ParagraphText:
    """All pages as one text; a sentence that goes over the end of a page stays whole."""
    every = list(chain.from_iterable(pages))
    usual = median([line.size for line in every for _ in line.text]) if every else 0.0
    known = {word.strip(WORD_EDGE_CHARS) for line in every for word in line.text.split()}
    parts: list[str] = []
    written, length, edge = ParagraphText(), 0, 0.0
    above: TextLine | None = None
    for page in pages:
        pitch, edges = _line_pitch(page), _column_edges(page)
        for number, below in enumerate(page):
            between = _separator(above, below, pitch, edge, usual, known) if above else ""
            mark = "## " if _is_heading(below, usual) and (not above or between == PARAGRAPH_BREAK) else ""
            parts += [between, mark, below.text]
            length += len(between)
            if not number:
                written.page_starts.append(length)
            length += len(mark) + len(below.text)
            above, edge = below, edges[number]
        if not page:
            written.page_starts.append(length)
    written.text = "".join(parts)
    return written


def _separator(above: TextLine, below: TextLine, pitch: float, edge: float, usual: float, known: set[str]) -> str:
    """What parts two lines that are read one after the other: nothing or a space within a paragraph."""
    if above.hyphenated:
        whole = f"{above.text.split()[-1]}-{below.text.split()[0]}".strip(WORD_EDGE_CHARS)
        return "-" if whole in known or not below.text[0].islower() else ""
    if (
        not above.size
        or (above.is_row and below.is_row)
        or (LIST_ITEM.match(below.text) and not _is_apart(above, below, pitch))
    ):
        return "\n"
    if (
        above.is_row
        or below.is_row
        or _is_heading(above, usual) != _is_heading(below, usual)
        or _is_apart(above, below, pitch)
    ):
        return PARAGRAPH_BREAK
    if _ended_early(above, below, edge):
        return PARAGRAPH_BREAK
    joined = is_cjk_letter(above.text[-1]) and is_cjk_letter(below.text[0])
    return "" if joined or above.text[-1] in HYPHEN_CHARS else " "


def _is_apart(above: TextLine, below: TextLine, pitch: float) -> bool:
    """Whether there is more room between them than between lines of a paragraph, or another size of letters."""
    drop, larger = above.line_position - below.line_position, max(above.size, below.size)
    return (
        drop > MAX_LEADING * max(pitch, MIN_LEADING * above.size)
        or abs(above.size - below.size) > SIZE_TOLERANCE * larger
    )


def _ended_early(above: TextLine, below: TextLine, edge: float) -> bool:
    """Whether a line ended on purpose: the next begins further in, or its first word would still have had room."""
    size = above.size
    down = above.line_position > below.line_position  # else it goes on in another column, or on another page
    if down and below.begin - above.begin > MIN_INDENT * size and not LIST_ITEM.match(above.text):
        return True
    room = edge - above.end - size
    return below.first_word_width < room or (not down and above.text[-1] in STOP_CHARS)


def _is_heading(line: TextLine, usual: float) -> bool:
    large = usual > 0 and line.size >= HEADING_SIZE * usual
    return large and len(line.text) <= MAX_HEADING_CHARS and line.text[-1] not in "。." and not line.is_row


def _line_pitch(page: Sequence[TextLine]) -> float:
    """How far apart the lines of a paragraph are."""
    drops = [a.line_position - b.line_position for a, b in pairwise(page)]
    return median([drop for a, drop in zip(page, drops, strict=False) if 0 < drop < 3 * a.size] or [0.0])


def _column_edges(page: Sequence[TextLine]) -> list[float]:
    """Where the column of each line ends: as far as two of the lines around it reach, for one may stick out."""
    edges: list[float] = []
    for i, line in enumerate(page):
        around = [other for other in page[max(0, i - NEIGHBOUR_LINES) : i + NEIGHBOUR_LINES] if not other.is_row]
        ends = sorted(other.end for other in around if other.begin < line.end and line.begin < other.end)
        edges.append(ends[-2] if len(ends) > 1 else line.end)
    return edges
