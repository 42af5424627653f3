"""a workbook (.xlsx .xlsm .xls) -> one page of text, with the places where its sheets begin."""

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import groupby
from typing import Any

from kumihimo.core.errors import SourceError
from kumihimo.readers.archive import OLE_MAGIC, open_archive, read_core_properties
from kumihimo.readers.number_formats import Formatter, Place, Shown, column_number, read_xls_formats, read_xlsx_formats
from kumihimo.readers.page import Page, Row, add_unread, join_with_places, refuse_unread
from kumihimo.readers.tables import (
    MAX_GROWTH,
    NUMBER,
    YEAR,
    count_cell_chars,
    count_title_rows,
    mark_title,
    render_rows,
)
from kumihimo.readers.titles import first_page_title

MAX_CELLS = 8_000_000
DURATION = re.compile(r"PT(\d+)H(\d\d)M(\d\d)(?:\.\d+)?S")
REMEDY = "save it again without a password"
CELL_REFERENCE = re.compile(rb'<(?:\w+:)?c\b[^>]*?\br="([A-Z]{1,3})(\d{1,7})"')


def read_workbook(data: bytes, name: str, shown: Shown | None = None) -> Iterator[Page]:
    """Read each visible sheet, table by table.

    Each row of a table repeats its column names. The values are the ones saved in the workbook, with the percent sign
    and the unit of their format; shown: the cells that have one, if they are known. Formulas, charts and comments are
    left out.
    """
    from python_calamine import CalamineError, CalamineWorkbook, SheetVisibleEnum

    # The properties of .xls files cannot be read.
    title, metadata = _read_properties(data, name) if data.startswith(b"PK") else ("", {})
    try:
        book = CalamineWorkbook.from_filelike(io.BytesIO(data))
        visible = [sheet.name for sheet in book.sheets_metadata if sheet.visible == SheetVisibleEnum.Visible]
    except CalamineError as error:
        raise SourceError(f"{name}: not a complete workbook, or locked ({error}); {REMEDY}") from error
    texts, unread = dict[str, str](), list[str]()
    shown = _read_formats(data, name) if shown is None else shown
    for sheet in visible:
        try:
            texts[sheet] = "\n\n".join(_sheet_texts(book.get_sheet_by_name(sheet), shown.get(sheet, {})))
        except CalamineError as error:
            unread.append(f"sheet {sheet} ({error})")
    text, places = join_with_places((text, ((0, f"sheet {sheet}"),)) for sheet, text in texts.items() if text)
    refuse_unread(text, [f"{name}: not a complete workbook: {part}; {REMEDY}" for part in unread])
    if not text and len(visible) < len(book.sheets_metadata):
        raise SourceError(f"{name}: the visible sheets are empty; unhide the others")
    title = title or (first_page_title(text) if text.startswith("## ") else "")
    yield Page(title=title, text=text, metadata=add_unread(metadata, unread), places=places)


def _read_formats(data: bytes, name: str) -> Shown:
    """Return the cells with a percent sign or a unit."""
    if data.startswith(OLE_MAGIC):
        return read_xls_formats(data, name)
    with open_archive(data, name) as archive:
        return read_xlsx_formats(archive, name)


def _sheet_texts(sheet: Any, shown: Mapping[Place, Formatter]) -> Iterator[str]:
    """Yield the text of each table.

    An empty row separates tables, unless the row after it continues the table above.
    """
    tables: list[list[list[str]]] = []
    for block in (list(rows) for is_filled, rows in groupby(_read_rows(sheet, shown), key=any) if is_filled):
        if tables and _continues_table(tables[-1][-1], block[0]):
            tables[-1] += block
        else:
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


def _read_rows(sheet: Any, shown: Mapping[Place, Formatter]) -> list[list[str]]:
    """Return the cells as text, with merged cells repeated in each row.

    A cell that would make the sheet much longer stands once.
    """
    margin = (sheet.start or (0, 0))[1]  # empty columns at the left, which the rows leave out
    rows = [
        [_format_cell(value, shown.get((row, column))) for column, value in enumerate(values, margin)]
        for row, values in enumerate(sheet.iter_rows())
    ]
    room = MAX_GROWTH * count_cell_chars(rows)
    for (top, left), (bottom, _) in sheet.merged_cell_ranges or []:
        below, column = range(top + 1, min(bottom + 1, len(rows))), left - margin
        if not below or not 0 <= column < len(rows[top]):
            continue
        cost = len(below) * (len(rows[top][column]) + 1)
        if cost <= room:
            room -= cost
            for number in below:
                rows[number][column] = rows[top][column]
    return rows


def _render_table(rows: Sequence[Sequence[str]], *, last: bool) -> Iterator[str]:
    """Render a table with its title and notes.

    They are the rows above and below it that fill only one cell.
    """
    widths = [sum(map(bool, row)) for row in rows]
    first = count_title_rows(rows) if any(width > 1 for width in widths) else len(rows)
    end = next((i for i in range(len(rows), 0, -1) if widths[i - 1] > 1), len(rows))
    above, below = ([" ".join(filter(None, row)) for row in part] for part in (rows[:first], rows[end:]))
    yield from above if last and first == len(rows) else mark_title(above)
    yield from render_rows(rows[first:end]) if first < end else ()
    yield from below


def _format_cell(value: object, formatter: Formatter | None = None) -> str:
    r"""Format a cell's value as text.

    >>> from datetime import date, datetime, timedelta
    >>> [_format_cell(value) for value in (3.0, 0.25, True, " a\n b ")]
    ['3', '0.25', 'true', 'a b']
    >>> [_format_cell(value) for value in (date(2024, 5, 1), datetime(2024, 5, 1, 8, 30))]
    ['2024-05-01', '2024-05-01 08:30:00']
    >>> _format_cell(timedelta(hours=25, minutes=30)), _format_cell(0.075, lambda value: f"{value:.1%}")
    ('25:30:00', '7.5%')
    >>> [_format_cell(value) for value in (timedelta(hours=27, minutes=5), "PT27H05M00S")]
    ['27:05:00', '27:05:00']
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, timedelta):
        minutes, seconds = divmod(int(value.total_seconds()), 60)
        return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
    if isinstance(value, int | float) and formatter:
        return formatter(value)
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 2**53 else f"{value:.15g}"
    text = " ".join(str(value).split())
    duration = DURATION.fullmatch(text)  # of OpenDocument
    return f"{int(duration[1])}:{duration[2]}:{duration[3]}" if duration else text


def _count_cells(sheet: bytes) -> int:
    """Return the number of cells in a sheet's used range.

    A reader makes room for all of them.
    """
    rows, columns = 0, set[bytes]()
    for reference in CELL_REFERENCE.finditer(sheet):
        columns.add(reference[1])
        rows = max(rows, int(reference[2]))
    return rows * max(map(column_number, columns), default=0)


def _read_properties(data: bytes, name: str) -> tuple[str, Row]:
    """Return the properties after checking the size of each sheet."""
    with open_archive(data, name) as archive:
        for path in archive.namelist():
            if path.startswith("xl/worksheets/") and _count_cells(archive.read(path)) > MAX_CELLS:
                raise SourceError(f"{name}: {path} has over {MAX_CELLS:,} cells; split it, or clear its far edges")
        return read_core_properties(archive, name)
