"""lines on pages -> a text in paragraphs."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from math import inf
from statistics import median
from typing import NamedTuple

from kumihimo.readers.glyphs import TextLine, is_cjk_letter
from kumihimo.readers.table_lines import repeat_headers
from kumihimo.readers.titles import CAPTION, LABEL, is_labelled
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
CLOSING_CHARS = "）)」』】］]”’\"'»"
HYPHEN_CHARS = "-\u00ad\u2010\u2011"


class ParagraphText(NamedTuple):
    """A text, and the offset of each of its pages."""

    text: str
    page_starts: list[int]


class _Placed(NamedTuple):
    """A line on its page.

    begin, edge: of its column. pitch: of the page. follows_row, precedes_row: whether its neighbour is a row.
    """

    line: TextLine
    begin: float
    edge: float
    pitch: float
    follows_row: bool
    precedes_row: bool


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
    parts, page_starts, length = list[str](), list[int](), 0
    paragraph: list[_Placed] = []
    for page in repeat_headers(pages):
        for number, current in enumerate(_place_lines(page)):
            separator = _separator(paragraph, current, median_size, words) if paragraph else ""
            is_first = not paragraph or separator == PARAGRAPH_BREAK
            mark = "## " if is_first and _is_heading(current.line, median_size) else ""
            if not number:
                page_starts.append(length + len(separator))
            parts += [separator, mark, current.line.text]
            length += len(separator) + len(mark) + len(current.line.text)
            paragraph = [current] if "\n" in separator else [*paragraph[:1], current]
        if not page:
            page_starts.append(length)
    return ParagraphText("".join(parts), page_starts)


def _separator(paragraph: Sequence[_Placed], placed: _Placed, median_size: float, words: set[str]) -> str:
    """Return the separator between a paragraph's lines and the next line.

    Within a paragraph it is empty or a space. paragraph: its first and last line.
    """
    previous, current = paragraph[-1].line, placed.line
    if previous.hyphenated:
        hyphenated_word = f"{previous.text.split()[-1]}-{current.text.split()[0]}".strip(WORD_EDGE_CHARS)
        return "-" if hyphenated_word in words or not current.text[0].islower() else ""
    is_apart = _is_apart(previous, current, placed.pitch)
    is_item = LIST_ITEM.match(current.text) and not is_apart and not _continues_with_reference(paragraph, placed)
    if not previous.size or (previous.is_row and current.is_row) or is_item:
        return "\n"
    if _stays_in_table(paragraph[-1], placed):
        return "\n"
    if CAPTION.fullmatch(previous.text) and LABEL.match(current.text):
        return "\n"
    at_heading = _is_heading(previous, median_size) != _is_heading(current, median_size)
    if previous.is_row or current.is_row or at_heading or is_apart or _begins_paragraph(paragraph, placed):
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
    drop = previous.line_position - current.line_position
    return not _are_alike(previous, current) or drop > MAX_LEADING * max(pitch, MIN_LEADING * previous.size)


def _are_alike(line: TextLine, other: TextLine) -> bool:
    """Return whether two lines have about the same size."""
    return abs(line.size - other.size) <= SIZE_TOLERANCE * max(line.size, other.size)


def _stays_in_table(previous: _Placed, placed: _Placed) -> bool:
    """Return whether two neighbours are lines of one table.

    A line with one cell belongs to it if rows stand closely above and below it.
    """
    between_rows = previous.line.is_row and placed.precedes_row, previous.follows_row and placed.line.is_row
    is_below = previous.line.line_position > placed.line.line_position
    return any(between_rows) and is_below and not _is_apart(previous.line, placed.line, placed.pitch)


def _begins_paragraph(paragraph: Sequence[_Placed], placed: _Placed) -> bool:
    """Return whether a line begins a new paragraph.

    Its first word would have fitted into the line before; or it is labelled, in or out after the end of a sentence.
    """
    previous, current = paragraph[-1].line, placed.line
    ended = previous.text.rstrip(CLOSING_CHARS)[-1:] in STOP_CHARS
    if current.first_word_width < paragraph[-1].edge - previous.end - previous.size:
        return True
    if ended and (LABEL.match(current.text) or CAPTION.fullmatch(current.text)):
        return True
    if previous.line_position <= current.line_position:  # the text continues in another column, or on another page
        return ended
    unit = MIN_INDENT * previous.size
    indent = current.begin - previous.begin
    if len(paragraph) == 1 and indent <= unit and LABEL.match(current.text) and is_labelled(previous.text):
        return True
    if len(paragraph) == 1:  # a first line that stands further left has a label, or its sentence goes on
        return indent > unit and ended and not is_labelled(previous.text)
    hangs = (previous.begin - paragraph[-1].begin) - (paragraph[0].line.begin - paragraph[0].begin) > unit
    return indent > unit or (indent < -unit and (hangs or ended))


def _continues_with_reference(paragraph: Sequence[_Placed], placed: _Placed) -> bool:
    """Return whether a line begins with `[3]` within a sentence."""
    previous, current = paragraph[-1].line, placed.line
    is_in_text = previous.begin - current.begin < MIN_INDENT * previous.size and paragraph[0].line.text[0] not in "[［"
    return current.text[0] in "[［" and is_in_text and not _begins_paragraph(paragraph, placed)


def _is_heading(line: TextLine, median_size: float) -> bool:
    large = median_size > 0 and line.size >= HEADING_SIZE * median_size
    return large and len(line.text) <= MAX_HEADING_CHARS and line.text[-1] not in "。." and not line.is_row


def _place_lines(page: Sequence[TextLine]) -> Iterator[_Placed]:
    """Yield each line with the extent of its column.

    A column reaches as far as two of the neighbouring lines, because one line may stick out.
    """
    drops = [a.line_position - b.line_position for a, b in pairwise(page)]
    pitch = median([drop for a, drop in zip(page, drops, strict=False) if 0 < drop < 3 * a.size] or [0.0])
    begins_at = defaultdict[int, list[float]](list)
    unit = max(pitch, MIN_LEADING * usual_size([page]), 1.0)
    for line in page:
        begins_at[round(line.line_position / unit)].append(line.begin)
    for i, line in enumerate(page):
        height = round(line.line_position / unit)
        beside = [begin for at in (height - 1, height, height + 1) for begin in begins_at[at] if begin >= line.end]
        limit = min(beside, default=inf)  # a title or summary above two columns goes on there
        nearby = page[max(0, i - NEIGHBOUR_LINES) : i + NEIGHBOUR_LINES]
        column = [
            each for each in nearby if each.begin < line.end and line.begin < each.end <= limit and not each.is_row
        ]
        begins, ends = sorted(other.begin for other in column), sorted(other.end for other in column)
        extent = (begins[1], ends[-2]) if len(column) > 1 else (line.begin, line.end)
        follows, precedes = i > 0 and page[i - 1].is_row, i + 1 < len(page) and page[i + 1].is_row
        yield _Placed(line, *extent, pitch, follows, precedes)
