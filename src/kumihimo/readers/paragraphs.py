"""lines on pages -> a text in paragraphs, rows and headings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from statistics import median

from kumihimo.text.sentences import LIST_ITEM

NEIGHBOUR_LINES = 15  # lines before and after that show the width of a column
HEADING_SIZE = 1.18  # times the usual size
MAX_HEADING_CHARS = 120
MAX_LEADING = 1.35  # times the line distance in a paragraph
MIN_LEADING = 1.2  # times the letter size; large headings need this minimum
SIZE_TOLERANCE = 0.15  # of the larger size: a smaller difference does not count
LEVEL_TOLERANCE = 0.3  # times the letter size
MIN_INDENT = 0.8  # times the letter size
PARAGRAPH_BREAK = "\n\n"
STOP_CHARS = "。．.!?！？:：;；"
WORD_EDGE_CHARS = f"{STOP_CHARS},()[]“”‘’\"'"  # around a word
HYPHEN_CHARS = "-\u00ad\u2010\u2011"


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line and its position on the page.

    begin, end: its extent along the line. line_position: its height on the page. size: of its letters.
    first_word_width: of its first word. hyphenated: whether it ends with a hyphen that splits a word. All are 0 if only
    the text of the page is known.
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
    """A text, and the offset of each of its pages."""

    text: str = ""
    page_starts: list[int] = field(default_factory=list)


def merge_cells(lines: Iterable[TextLine]) -> Iterator[TextLine]:
    """Join neighbouring lines of the same height as cells of a row."""
    current: TextLine | None = None
    for line in lines:
        if (
            current
            and abs(current.line_position - line.line_position) < LEVEL_TOLERANCE * current.size
            and line.begin > current.end
        ):
            current = replace(current, text=f"{current.text} | {line.text}", end=line.end, hyphenated=line.hyphenated)
        else:
            if current:
                yield current
            current = line
    if current:
        yield current


def is_cjk_letter(letter: str) -> bool:
    """Return whether a letter's script is written without spaces.

    >>> is_cjk_letter("紐"), is_cjk_letter("。"), is_cjk_letter("a"), is_cjk_letter("")
    (True, True, False, False)
    """
    return "\u2e80" <= letter <= "\ud7af" or "\uf900" <= letter <= "\ufaff" or "\uff00" <= letter <= "\uffef"


def join_paragraphs(pages: Sequence[Sequence[TextLine]]) -> ParagraphText:
    """Join the lines of all pages to one text.

    A sentence that crosses the end of a page stays whole.
    """
    all_lines = list(chain.from_iterable(pages))
    median_size = median([line.size for line in all_lines for _ in line.text]) if all_lines else 0.0
    words = {word.strip(WORD_EDGE_CHARS) for line in all_lines for word in line.text.split()}
    parts: list[str] = []
    result, length, edge = ParagraphText(), 0, 0.0
    previous: TextLine | None = None
    for page in pages:
        pitch, edges = _line_pitch(page), _column_edges(page)
        for number, current in enumerate(page):
            separator = _separator(previous, current, pitch, edge, median_size, words) if previous else ""
            mark = "## " if _is_heading(current, median_size) and (not previous or separator == PARAGRAPH_BREAK) else ""
            parts += [separator, mark, current.text]
            length += len(separator)
            if not number:
                result.page_starts.append(length)
            length += len(mark) + len(current.text)
            previous, edge = current, edges[number]
        if not page:
            result.page_starts.append(length)
    result.text = "".join(parts)
    return result


def _separator(
    previous: TextLine, current: TextLine, pitch: float, edge: float, median_size: float, words: set[str]
) -> str:
    """Return the separator between two consecutive lines.

    Within a paragraph it is empty or a space.
    """
    if previous.hyphenated:
        hyphenated_word = f"{previous.text.split()[-1]}-{current.text.split()[0]}".strip(WORD_EDGE_CHARS)
        return "-" if hyphenated_word in words or not current.text[0].islower() else ""
    if (
        not previous.size
        or (previous.is_row and current.is_row)
        or (LIST_ITEM.match(current.text) and not _is_apart(previous, current, pitch))
    ):
        return "\n"
    if (
        previous.is_row
        or current.is_row
        or _is_heading(previous, median_size) != _is_heading(current, median_size)
        or _is_apart(previous, current, pitch)
    ):
        return PARAGRAPH_BREAK
    if _ended_early(previous, current, edge):
        return PARAGRAPH_BREAK
    unspaced = is_cjk_letter(previous.text[-1]) and is_cjk_letter(current.text[0])
    return "" if unspaced or previous.text[-1] in HYPHEN_CHARS else " "


def _is_apart(previous: TextLine, current: TextLine, pitch: float) -> bool:
    """Return whether a gap or letter size separates two lines.

    The gap must be larger than between the lines of a paragraph.
    """
    drop, larger = previous.line_position - current.line_position, max(previous.size, current.size)
    return (
        drop > MAX_LEADING * max(pitch, MIN_LEADING * previous.size)
        or abs(previous.size - current.size) > SIZE_TOLERANCE * larger
    )


def _ended_early(previous: TextLine, current: TextLine, edge: float) -> bool:
    """Return whether a line ended early, closing its paragraph.

    Then the next line is indented, or its first word would have fitted.
    """
    size = previous.size
    # Otherwise the text continues in another column, or on another page.
    same_column = previous.line_position > current.line_position
    if same_column and current.begin - previous.begin > MIN_INDENT * size and not LIST_ITEM.match(previous.text):
        return True
    room = edge - previous.end - size
    return current.first_word_width < room or (not same_column and previous.text[-1] in STOP_CHARS)


def _is_heading(line: TextLine, median_size: float) -> bool:
    large = median_size > 0 and line.size >= HEADING_SIZE * median_size
    return large and len(line.text) <= MAX_HEADING_CHARS and line.text[-1] not in "。." and not line.is_row


def _line_pitch(page: Sequence[TextLine]) -> float:
    """Return the usual distance between the lines of a paragraph."""
    drops = [a.line_position - b.line_position for a, b in pairwise(page)]
    return median([drop for a, drop in zip(page, drops, strict=False) if 0 < drop < 3 * a.size] or [0.0])


def _column_edges(page: Sequence[TextLine]) -> list[float]:
    """Return where the column of each line ends.

    It is as far as two of the neighbouring lines reach, because one line may stick out.
    """
    edges: list[float] = []
    for i, line in enumerate(page):
        neighbours = [
            neighbour for neighbour in page[max(0, i - NEIGHBOUR_LINES) : i + NEIGHBOUR_LINES] if not neighbour.is_row
        ]
        ends = sorted(
            neighbour.end for neighbour in neighbours if neighbour.begin < line.end and line.begin < neighbour.end
        )
        edges.append(ends[-2] if len(ends) > 1 else line.end)
    return edges
