"""a workbook (.xlsx .xls) -> one page of text, with the places where its sheets begin."""

from __future__ import annotations

import io
import re
from collections import deque
from collections.abc import Iterator, Sequence
from datetime import date, datetime, time, timedelta
from itertools import groupby
from typing import TYPE_CHECKING

from kumihimo.core.errors import SourceError
from kumihimo.readers.archive import open_archive
from kumihimo.readers.ooxml import read_core_properties
from kumihimo.readers.page import Page, Row, join_with_places
from kumihimo.readers.tables import NUMBER, YEAR, render_rows

if TYPE_CHECKING:
    from python_calamine import CalamineSheet

Cell = int | float | str | bool | time | date | datetime | timedelta
MAX_TITLE_CHARS = 120  # a longer line is no title
MAX_CELLS = 8_000_000
CELL_REFERENCE = re.compile(rb'<(?:\w+:)?c\b[^>]*?\br="([A-Z]{1,3})(\d{1,7})"')


def read_workbook(data: bytes, name: str) -> Iterator[Page]:
    """Read each visible sheet, table by table.

    Each row of a table repeats its column names. The values are the ones saved in the workbook. Formulas, formats,
    charts and comments are left out.
    """
    from python_calamine import CalamineError, CalamineWorkbook, SheetVisibleEnum

    # The properties of .xls files cannot be read.
    title, metadata = _read_properties(data, name) if data.startswith(b"PK") else ("", {})
    try:
        book = CalamineWorkbook.from_filelike(io.BytesIO(data))
        visible = [sheet.name for sheet in book.sheets_metadata if sheet.visible == SheetVisibleEnum.Visible]
        sheet_texts = [
            (sheet_name, "\n\n".join(_sheet_texts(book.get_sheet_by_name(sheet_name)))) for sheet_name in visible
        ]
    except CalamineError as error:
        raise SourceError(
            f"{name}: not a complete workbook, or locked ({error}); save it again without a password"
        ) from error
    text, places = join_with_places(
        (sheet_text, ((0, f"sheet {sheet_name}"),)) for sheet_name, sheet_text in sheet_texts if sheet_text
    )
    if not text and len(visible) < len(book.sheets_metadata):
        raise SourceError(f"{name}: the visible sheets are empty; unhide the others")
    yield Page(title=title, text=text, metadata=metadata, places=places)


def _sheet_texts(sheet: CalamineSheet) -> Iterator[str]:
    """Yield the text of each table.

    An empty row separates tables, unless the row after it continues the table above.
    """
    tables: list[list[list[str]]] = []
    for filled, rows in groupby(_read_rows(sheet), key=any):
        block = list(rows)
        if filled and tables and _continues_table(tables[-1][-1], block[0]):
            tables[-1] += block
        elif filled:
            tables.append(block)
    for number, table in enumerate(tables, 1):
        yield from _render_table(table, last=number == len(tables))


def _continues_table(last: Sequence[str], first: Sequence[str]) -> bool:
    """Return whether a row after an empty one continues the table above.

    It does if both have a number in the same column. Years do not count, because they name columns.

    >>> _continues_table(["Otaru", "1922"], ["Yoichi", "1872"])
    True
    >>> _continues_table(["Otaru", "12", "9"], ["port", "2019", "2020"])
    False
    """
    pairs = zip(last, first, strict=False)
    shared = [below for above, below in pairs if NUMBER.fullmatch(above) and NUMBER.fullmatch(below)]
    years = sum(YEAR.fullmatch(cell) is not None for cell in first)
    return any(not YEAR.fullmatch(number) for number in shared) or (bool(shared) and years == 1)


def _read_rows(sheet: CalamineSheet) -> Iterator[list[str]]:
    """Yield the cells as text; repeat merged cells in each row."""
    spans = deque(sorted(span for span in sheet.merged_cell_ranges or [] if span[0][0] < span[1][0]))
    margin = (sheet.start or (0, 0))[1]  # empty columns at the left, which the rows leave out
    merged: dict[int, tuple[int, str]] = {}  # column -> last row of the merged cell there, and its text
    for number, row in enumerate(sheet.iter_rows()):
        cells = [_format_cell(value) for value in row]
        merged = {column: (bottom, text) for column, (bottom, text) in merged.items() if bottom >= number}
        while spans and spans[0][0][0] <= number:
            (top, first_column), (bottom, _) = spans.popleft()
            if top == number and margin <= first_column < margin + len(cells):
                merged[first_column - margin] = (bottom, cells[first_column - margin])
        for column, (_, text) in merged.items():
            cells[column] = text
        yield cells


def _render_table(rows: Sequence[Sequence[str]], *, last: bool) -> Iterator[str]:
    """Render a table with its title and notes.

    They are the rows above and below it that fill only one cell.
    """
    widths = [sum(map(bool, row)) for row in rows]
    first = next((i for i, width in enumerate(widths) if width > 1), len(rows))
    end = next((i for i in range(len(rows), 0, -1) if widths[i - 1] > 1), len(rows))
    above, below = (["".join(row) for row in part] for part in (rows[:first], rows[end:]))
    if above and len(above[0]) <= MAX_TITLE_CHARS and not (last and first == len(rows)):
        above[0] = f"## {above[0]}"
    yield from above
    yield from render_rows(rows[first:end]) if first < end else ()
    yield from below


def _format_cell(value: Cell) -> str:
    r"""Format a cell's value as text.

    >>> [_format_cell(value) for value in (3.0, 0.25, True, " a\n b ")]
    ['3', '0.25', 'true', 'a b']
    >>> [_format_cell(value) for value in (date(2024, 5, 1), datetime(2024, 5, 1, 8, 30))]
    ['2024-05-01', '2024-05-01 08:30:00']
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 2**53 else f"{value:.15g}"
    return " ".join(str(value).split())


def _count_cells(sheet: bytes) -> int:
    """Return the number of cells in a sheet's used range.

    A reader makes room for all of them.
    """
    references = CELL_REFERENCE.findall(sheet)
    rows = max((int(row) for _, row in references), default=0)
    return rows * max((_column_number(letters) for letters, _ in set(references)), default=0) if rows else 0


def _column_number(letters: bytes) -> int:
    """Convert column letters to a number.

    >>> _column_number(b"A"), _column_number(b"AA")
    (1, 27)
    """
    number = 0
    for letter in letters:
        number = number * 26 + letter - ord("A") + 1
    return number


def _read_properties(data: bytes, name: str) -> tuple[str, Row]:
    """Return the properties after checking the size of each sheet."""
    with open_archive(data, name) as archive:
        for path in archive.namelist():
            if path.startswith("xl/worksheets/") and _count_cells(archive.read(path)) > MAX_CELLS:
                raise SourceError(f"{name}: {path} has over {MAX_CELLS:,} cells; split it, or clear its far edges")
        return read_core_properties(archive, name)
