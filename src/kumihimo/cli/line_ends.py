"""texts and rows of cells -> lines: where a terminal may break them, and cells below each other."""

import re
from collections.abc import Sequence
from itertools import zip_longest

_CJK = r"[\u2e80-\u9fff\uf900-\ufaff\uff00-\uff60]"
_NO_LINE_END = "「『（【〈《〔"  # never at the end of a line
_NO_LINE_START = "、。，．！？」』）】〉》〕ー々ぁぃぅぇぉっゃゅょァィゥェォッャュョ"  # never at the start of a line
_WORD = rf"[{_NO_LINE_END}]*(?:{_CJK}|(?:(?!{_CJK})\S)+)[{_NO_LINE_START}]*"
_PARTS = rf"\n|[^\S\n]+|{_WORD}|\S"  # compiled at the first use


def split_words(text: str) -> list[str]:
    """Return the words, spaces and line breaks of a text."""
    return re.findall(_PARTS, text)


def find_line_starts(text: str, width: int, more: int) -> list[int]:
    """Return where lines of this width begin, after the first.

    Words stay whole, even if one is longer than a line. more: columns that the first line has in addition.

    >>> find_line_starts("The long old breakwater", 12, 2)
    [13]
    """
    from rich.cells import cell_len

    starts, start, column = [], 0, -more
    for match in re.finditer(_PARTS, text):
        size = cell_len(match[0])
        if column + size > width and not match[0].isspace() and text[start : match.start()].strip():
            start, column = match.start(), 0
            starts.append(start)
        column += size
    return starts


def align_cells(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a line for each row, its cells below each other.

    >>> align_cells([["Fare", "Crowns"], ["大人", "9"]])
    ['Fare  Crowns', '大人  9']
    """
    from rich.cells import cell_len, set_cell_size

    cells = [[cell.strip() for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip_longest(*cells, fillvalue="")]
    return ["  ".join(map(set_cell_size, row, widths)).rstrip() for row in cells]
