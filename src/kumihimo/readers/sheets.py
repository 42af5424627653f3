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
MAX_TITLE_CHARS = 120  # characters: what is longer is no title
MAX_CELLS = 8_000_000  # cells of a sheet
CELL_REFERENCE = re.compile(rb'<(?:\w+:)?c\b[^>]*?\br="([A-Z]{1,3})(\d{1,7})"')


def read_workbook(data: bytes, name: str) -> Iterator[Page]:
    """Each visible sheet, table by table; a table's rows each say the names of their columns.

    The values are those the workbook was saved with. Formulas, formats, charts and comments are left out.
    """
    from python_calamine import CalamineError, CalamineWorkbook, SheetVisibleEnum

    title, metadata = (
        _read_properties(data, name) if data.startswith(b"PK") else ("", {})
    )  # of older ones they are not told
    try:
        book = CalamineWorkbook.from_filelike(io.BytesIO(data))
        shown = [sheet.name for sheet in book.sheets_metadata if sheet.visible == SheetVisibleEnum.Visible]
        said = [(each, "\n\n".join(_sheet_texts(book.get_sheet_by_name(each)))) for each in shown]
    except CalamineError as error:
        raise SourceError(
            f"{name}: not a whole workbook, or locked ({error}); save it again without a password"
        ) from error
    text, places = join_with_places((words, ((0, f"sheet {each}"),)) for each, words in said if words)
    if not text and len(shown) < len(book.sheets_metadata):
        raise SourceError(f"{name}: nothing stands in the sheets that are not hidden; show the others")
    yield Page(title=title, text=text, metadata=metadata, places=places)


def _sheet_texts(sheet: CalamineSheet) -> Iterator[str]:
    """What each table says. Tables are parted by empty rows, unless what follows has no header of its own."""
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
    """Whether a row after an empty one is of the table above: it has a number where that has one. Years name columns.

    >>> _goes_on(["Otaru", "1922"], ["Yoichi", "1872"]), _goes_on(["Otaru", "12", "9"], ["port", "2019", "2020"])
    (True, False)
    """
    pairs = zip(last, first, strict=False)
    both = [below for above, below in pairs if NUMBER.fullmatch(above) and NUMBER.fullmatch(below)]
    years = sum(YEAR.fullmatch(cell) is not None for cell in first)
    return any(not YEAR.fullmatch(number) for number in both) or (bool(both) and years == 1)


def _read_rows(sheet: CalamineSheet) -> Iterator[list[str]]:
    """The cells as text; one that is merged over several rows stands in each of them."""
    spans = deque(sorted(span for span in sheet.merged_cell_ranges or [] if span[0][0] < span[1][0]))
    margin = (sheet.start or (0, 0))[1]  # columns without anything, which are left out of the rows
    held: dict[int, tuple[int, str]] = {}  # column -> the last row of what is merged there, and what it says
    for number, row in enumerate(sheet.iter_rows()):
        cells = [_format_cell(value) for value in row]
        held = {place: (bottom, said) for place, (bottom, said) in held.items() if bottom >= number}
        while spans and spans[0][0][0] <= number:
            (top, left), (bottom, _) = spans.popleft()
            if top == number and margin <= left < margin + len(cells):
                held[left - margin] = (bottom, cells[left - margin])
        for place, (_, said) in held.items():
            cells[place] = said
        yield cells


def _render_table(rows: Sequence[Sequence[str]], *, last: bool) -> Iterator[str]:
    """Rows that fill one cell only, above and below a table, are its title and its notes."""
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
    """
    >>> [_cell(value) for value in (3.0, 0.25, True, date(2024, 5, 1), datetime(2024, 5, 1, 8, 30), " a\\n b ")]
    ['3', '0.25', 'true', '2024-05-01', '2024-05-01 08:30:00', 'a b']
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 2**53 else f"{value:.15g}"
    return " ".join(str(value).split())


def _count_cells(sheet: bytes) -> int:
    """How many cells lie between the first row and column and the last: a reader makes room for all of them."""
    names = CELL_REFERENCE.findall(sheet)
    rows = max((int(row) for _, row in names), default=0)
    return rows * max((_column_number(letters) for letters, _ in set(names)), default=0) if rows else 0


def _column_number(letters: bytes) -> int:
    """
    >>> _column(b"A"), _column(b"AA")
    (1, 27)
    """
    number = 0
    for letter in letters:
        number = number * 26 + letter - ord("A") + 1
    return number


def _read_properties(data: bytes, name: str) -> tuple[str, Row]:
    """The properties, once it is sure that its sheets can be held."""
    with open_archive(data, name) as archive:
        for path in archive.namelist():
            if path.startswith("xl/worksheets/") and _count_cells(archive.read(path)) > MAX_CELLS:
                raise SourceError(f"{name}: {path} takes over {MAX_CELLS:,} cells; cut it, or empty its far edges")
        return read_core_properties(archive, name)
