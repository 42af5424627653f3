"""lines on pages -> a text in paragraphs."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from kumihimo.readers.glyphs import TextLine, is_cjk_letter
from kumihimo.text.sentences import LIST_ITEM

NEIGHBOUR_LINES = 15  # lines before and after that show the width of a column
HEADING_SIZE = 1.18  # times the usual size
MAX_HEADING_CHARS = 120
MAX_LEADING = 1.35  # times the line distance in a paragraph
MIN_LEADING = 1.2  # times the letter size; large headings need this minimum
SIZE_TOLERANCE = 0.15  # of the larger size: a smaller difference does not count
MIN_INDENT = 0.8  # times the letter size
PARAGRAPH_BREAK = "\n\n"
STOP_CHARS = "。．.!?！？:：;；"
WORD_EDGE_CHARS = f"{STOP_CHARS},()[]“”‘’\"'"  # around a word
HYPHEN_CHARS = "-\u00ad\u2010\u2011"


class ParagraphText(NamedTuple):
    """A text, and the offset of each of its pages."""

    text: str
    page_starts: list[int]


def usual_size(pages: Iterable[Sequence[TextLine]]) -> float:
    """Return the size of most letters."""
    sizes = [line.size for page in pages for line in page for _ in line.text]
    return median(sizes) if sizes else 0.0


def join_paragraphs(pages: Sequence[Sequence[TextLine]]) -> ParagraphText:
    """Join the lines of all pages to one text.

    A sentence that crosses the end of a page stays whole.
    """
    median_size = usual_size(pages)
    words = {word.strip(WORD_EDGE_CHARS) for page in pages for line in page for word in line.text.split()}
    parts, page_starts, length, edge = list[str](), list[int](), 0, 0.0
    previous: TextLine | None = None
    for page in pages:
        pitch, edges = _line_pitch(page), _column_edges(page)
        for number, current in enumerate(page):
            separator = _separator(previous, current, pitch, edge, median_size, words) if previous else ""
            mark = "## " if _is_heading(current, median_size) and (not previous or separator == PARAGRAPH_BREAK) else ""
            if not number:
                page_starts.append(length + len(separator))
            parts += [separator, mark, current.text]
            length += len(separator) + len(mark) + len(current.text)
            previous, edge = current, edges[number]
        if not page:
            page_starts.append(length)
    return ParagraphText("".join(parts), page_starts)


def _separator(
    previous: TextLine, current: TextLine, pitch: float, edge: float, median_size: float, words: set[str]
) -> str:
    """Return the separator between two consecutive lines.

    Within a paragraph it is empty or a space.
    """
    if previous.hyphenated:
        hyphenated_word = f"{previous.text.split()[-1]}-{current.text.split()[0]}".strip(WORD_EDGE_CHARS)
        return "-" if hyphenated_word in words or not current.text[0].islower() else ""
    is_apart = _is_apart(previous, current, pitch)
    if not previous.size or (previous.is_row and current.is_row) or (LIST_ITEM.match(current.text) and not is_apart):
        return "\n"
    at_heading = _is_heading(previous, median_size) != _is_heading(current, median_size)
    if previous.is_row or current.is_row or at_heading or is_apart or _ended_early(previous, current, edge):
        return PARAGRAPH_BREAK
    edges = previous.text[-1], current.text[0]
    if all("\uac00" <= letter <= "\ud7a3" for letter in edges):  # Korean: a line may end within a word
        joined_word = f"{previous.text.split()[-1]}{current.text.split()[0]}".strip(WORD_EDGE_CHARS)
        return "" if joined_word in words else " "
    return "" if all(map(is_cjk_letter, edges)) or edges[0] in HYPHEN_CHARS else " "


def _is_apart(previous: TextLine, current: TextLine, pitch: float) -> bool:
    """Return whether a gap or letter size separates two lines.

    The gap must be larger than between the lines of a paragraph.
    """
    drop, larger = previous.line_position - current.line_position, max(previous.size, current.size)
    differs_in_size = abs(previous.size - current.size) > SIZE_TOLERANCE * larger
    return differs_in_size or drop > MAX_LEADING * max(pitch, MIN_LEADING * previous.size)


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
        nearby = [other for other in page[max(0, i - NEIGHBOUR_LINES) : i + NEIGHBOUR_LINES] if not other.is_row]
        ends = sorted(other.end for other in nearby if other.begin < line.end and line.begin < other.end)
        edges.append(ends[-2] if len(ends) > 1 else line.end)
    return edges
