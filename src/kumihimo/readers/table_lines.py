"""the lines of pages -> the same, with each row of a table whole, and a header on each of its pages."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from kumihimo.readers.glyphs import TextLine, is_cjk_letter
from kumihimo.readers.titles import LABEL_CELL, is_labelled

MAX_HEAD_LINES = 2  # at the top or bottom of a page, between the rows of a table
MAX_ROW_DROP = 3.0  # times the letter size
MAX_CELL_DROP = 1.6  # times the letter size
TOLERANCE = 0.5  # times the letter size
SPACED_GAP = 1.3  # times the narrowest gap between the letters of a spaced word
MIN_SPACED_LETTERS = 4  # of a script with spaces


def join_rows(lines: Sequence[TextLine]) -> list[TextLine]:
    """Return the lines with whole cells and without false ones.

    A label that stands apart from its text is no cell, and neither are the letters of a spaced word.
    """
    result: list[TextLine] = []
    for number, line in enumerate(lines):
        above = result[-1] if result and _is_near(result[-1], line) else TextLine("")
        below = lines[number + 1] if number + 1 < len(lines) and _is_near(line, lines[number + 1]) else TextLine("")
        if line.is_row and not above.is_row and LABEL_CELL.match(line.text):
            line = replace(line, text=line.text.replace(" | ", " ", 1))
        if line.is_row and not above.is_row and not below.is_row and _is_spaced_word(line):
            line = replace(line, text=line.text.replace(" | ", ""))
        if (cell := _find_wrapped_cell(above, line)) > 0:
            result[-1] = _extend_cell(above, cell, line)
        else:
            result.append(line)
    return result


def _is_near(line: TextLine, below: TextLine) -> bool:
    return 0 < line.line_position - below.line_position < MAX_ROW_DROP * line.size


def _is_spaced_word(line: TextLine) -> bool:
    """Return whether the cells are single letters at equal distances."""
    letters = line.text.split(" | ")
    gaps = [right[0] - left[1] for left, right in pairwise(line.cells)]
    is_word = all(map(is_cjk_letter, letters)) or (len(letters) >= MIN_SPACED_LETTERS and "".join(letters).isalpha())
    return all(len(letter) == 1 for letter in letters) and is_word and max(gaps) <= SPACED_GAP * min(gaps)


def _find_wrapped_cell(row: TextLine, line: TextLine) -> int:
    """Return the number of the cell that a line continues, or 0."""
    is_close = row.line_position - line.line_position <= MAX_CELL_DROP * line.size
    if not row.is_row or line.is_row or not is_close or is_labelled(line.text):
        return 0
    ends = [*(begin for begin, _ in row.cells[1:]), float("inf")]
    numbers = (
        number
        for number, (begin, _) in enumerate(row.cells)
        if abs(begin - line.begin) < TOLERANCE * row.size and line.end < ends[number]
    )
    return next(numbers, 0)


def _extend_cell(row: TextLine, number: int, line: TextLine) -> TextLine:
    cells, texts = list(row.cells), row.text.split(" | ")
    gap = "" if is_cjk_letter(texts[number][-1]) and is_cjk_letter(line.text[0]) else " "
    texts[number] += gap + line.text
    cells[number] = cells[number][0], max(cells[number][1], line.end)
    return replace(row, text=" | ".join(texts), cells=tuple(cells), line_position=line.line_position)


def repeat_headers(pages: Sequence[Sequence[TextLine]]) -> Iterator[list[TextLine]]:
    """Yield the pages, with one header for a table over several pages.

    It goes before the rows of the next page if other lines, such as a page number, stand between; else the header that
    the next page repeats goes.
    """
    header, last = TextLine(""), TextLine("")
    for page in pages:
        lines = list(page)
        first = next((i for i, line in enumerate(page[: MAX_HEAD_LINES + 1]) if line.is_row), -1)
        continues = first >= 0 and _have_same_cells(header, page[first])
        if continues and first == 0 and last.is_row:
            lines = lines[page[0].text == header.text :]
        elif continues and page[first].text != header.text:
            row = page[first]
            lines.insert(first, replace(header, line_position=row.line_position + row.size))
        yield lines
        begin = _last_table(page)
        if begin != first or not continues:
            header = page[begin] if begin >= 0 and not any(map(str.isdigit, page[begin].text)) else TextLine("")
        last = page[-1] if page else TextLine("")


def _last_table(page: Sequence[TextLine]) -> int:
    """Find the first row of the page's last table, or -1."""
    ends = range(len(page) - 1, max(-1, len(page) - 2 - MAX_HEAD_LINES), -1)
    begin = next((i for i in ends if page[i].is_row), -1)
    while begin > 0 and (page[begin - 1].is_row or (begin > 1 and page[begin - 2].is_row)):
        begin -= 1 if page[begin - 1].is_row else 2
    return begin


def _have_same_cells(header: TextLine, row: TextLine) -> bool:
    """Return whether the cells of a row stand below a header's."""
    pairs = zip(header.cells, row.cells, strict=False)
    aligned = all(a[0] - row.size < b[1] and b[0] < a[1] + row.size for a, b in pairs)
    return len(header.cells) == len(row.cells) > 1 and aligned
