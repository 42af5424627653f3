"""a workbook (.xlsx .xlsm .xls) -> one page of text, with the places where its sheets begin; formats -> units."""

import io
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import partial
from itertools import groupby
from math import isfinite
from posixpath import join, normpath
from typing import Any
from zipfile import ZipFile

from kumihimo.core.errors import SourceError
from kumihimo.readers import tables
from kumihimo.readers.archive import OLE_MAGIC, open_archive, read_core_properties, read_part, read_xml
from kumihimo.readers.ole import OleFile, open_ole
from kumihimo.readers.page import Page, Row, add_unread, join_with_places
from kumihimo.readers.titles import first_page_title

Formatter = Callable[[float], str]
Place = tuple[int, int]  # row and column, from 0
Shown = Mapping[str, Mapping[Place, Formatter]]  # by sheet
MAX_CELLS = 8_000_000
DURATION = re.compile(r"PT(\d+)H(\d\d)M(\d\d)(?:\.\d+)?S")
REMEDY = "save it again without a password"
CELL_REFERENCE = re.compile(rb"""<(?:\w+:)?c\b[^<>]*?\br\s*=\s*["']([A-Z]{1,3})(\d{1,7})["']""")


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
        if data.startswith(OLE_MAGIC):
            _check_xls(open_ole(data, name), name)
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
    if unread and not text:
        raise SourceError(f"{name}: not a complete workbook: {unread[0]}; {REMEDY}")
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
    found: list[list[list[str]]] = []
    for block in (list(rows) for is_filled, rows in groupby(_read_rows(sheet, shown), key=any) if is_filled):
        if found and _continues_table(found[-1][-1], block[0]):
            found[-1] += block
        else:
            found.append(block)
    for number, table in enumerate(found, 1):
        yield from _render_table(table, last=number == len(found))


def _continues_table(last: Sequence[str], first: Sequence[str]) -> bool:
    """Return whether a row after an empty one continues the table above.

    It does if both have a number in the same column. Years do not count, because they name columns.

    >>> _continues_table(["Otaru", "1922"], ["Yoichi", "1872"])
    True
    >>> _continues_table(["Otaru", "12", "9"], ["port", "2019", "2020"])
    False
    """
    pairs = zip(last, first, strict=False)
    shared = [below for above, below in pairs if tables.NUMBER.fullmatch(above) and tables.NUMBER.fullmatch(below)]
    years = sum(tables.YEAR.fullmatch(cell) is not None for cell in first)
    return any(not tables.YEAR.fullmatch(number) for number in shared) or (bool(shared) and years == 1)


def _read_rows(sheet: Any, shown: Mapping[Place, Formatter]) -> list[list[str]]:
    """Return the cells as text, with merged cells repeated in each row.

    A cell that would make the sheet much longer stands once.
    """
    margin = (sheet.start or (0, 0))[1]  # empty columns at the left, which the rows leave out
    rows = [
        [_format_cell(value, shown.get((row, column))) for column, value in enumerate(values, margin)]
        for row, values in enumerate(sheet.iter_rows())
    ]
    room = tables.MAX_GROWTH * tables.count_cell_chars(rows)
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
    first = tables.count_title_rows(rows) if any(width > 1 for width in widths) else len(rows)
    end = next((i for i in range(len(rows), 0, -1) if widths[i - 1] > 1), len(rows))
    above, below = ([" ".join(filter(None, row)) for row in part] for part in (rows[:first], rows[end:]))
    yield from above if last and first == len(rows) else tables.mark_title(above)
    yield from tables.render_rows(rows[first:end]) if first < end else ()
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


# -- formats of numbers

BUILT_IN = {"9": "0%", "10": "0.00%"}  # other built-in formats have no unit, or that of the reader's country
STYLES, BOOK, RELATIONS = "xl/styles.xml", "xl/workbook.xml", "xl/_rels/workbook.xml.rels"
CELL = re.compile(rb"<(?:\w+:)?c\b([^<>]*)>")
REFERENCE = re.compile(rb'\br="([A-Z]{1,3})(\d{1,7})"')
STYLE = re.compile(rb'\bs="(\d{1,6})"')
# Parts of the code of a format: texts and currencies, what is not shown, and the places of digits.
CODE_PART = re.compile(
    r'"(?P<text>[^"]*)"|\\(?P<char>.)|\[\$(?P<currency>[^\]-]*+)[^\]]*+\]|(?P<hidden>\[[^\]]*+\]|[_*].)|(?P<digits>[0#?.,]+)'
    r"|(?P<other>.)",
    re.DOTALL,
)
FORMAT, XF, SHEET, END, MULTIPLE = 0x041E, 0xE0, 0x85, 0x0A, 0xBD  # records of .xls
MAX_CODE_CHARS = 255  # Excel writes no more
CELLS = {0x0203, 0x027E, 0x06}  # a number, a short number, a formula
SIZE, WITH_PLACE, MAX_XLS_CELLS = 0x0200, {*CELLS, MULTIPLE, 0x0201, 0x0204, 0x0205, 0xBE, 0xFD}, 1 << 24  # of a sheet


def read_format(code: str) -> Formatter | None:
    """Return how a format shows numbers with their percent sign or unit.

    None for formats without them, and for those of dates, fractions and thousands. Percentages are rounded as shown.

    >>> codes = ("0.0%", '#,##0.00 "€"', "[$£-809]#,##0", '0.0,,"M"', "0.00", "dd.mm.yyyy")
    >>> [shown(0.0755) if (shown := read_format(code)) else None for code in codes]
    ['7.6 %', '0.0755 €', '£0.0755', None, None, None]
    """
    before, digits, after = "", "", ""
    for part in CODE_PART.finditer(code[:MAX_CODE_CHARS]):
        if part["other"] == ";":
            break
        if part["digits"] and after.strip():
            return None
        digits += part["digits"] or ""
        text = "".join(part[kind] or "" for kind in ("text", "char", "currency"))
        if part["other"]:
            if part["other"].isascii() and part["other"] not in " %$()+-":
                return None  # a date, a fraction, an exponent or text
            text = part["other"]
        if digits:
            after += text
        else:
            before += text
    before, after = before.strip("+-( "), after.strip("+-) ")
    if not (before or after) or not digits or digits.endswith(","):
        return None
    decimals = len(digits.partition(".")[2]) if "%" in before + after else None
    return partial(_show_number, before=before, after=after, decimals=decimals)


def _show_number(value: float, before: str, after: str, decimals: int | None) -> str:
    """Return a number with its unit; a percentage with so many decimals."""
    if not isfinite(value):
        return str(value)
    number = Decimal(f"{value:.15g}")
    if decimals is not None:
        number = (number * 100).quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP, Context(prec=700))
    plain = f"{abs(number):f}"
    plain = plain.rstrip("0").rstrip(".") if "." in plain else plain
    return f"{'-' if number < 0 else ''}{before}{' ' * before[-1:].isalnum()}{plain} {after}".strip()


def read_xlsx_formats(archive: ZipFile, name: str) -> Shown:
    """Return the cells with a unit of an .xlsx file."""
    if not {STYLES, BOOK, RELATIONS} <= set(archive.namelist()):
        return {}
    styles = read_xml(archive, STYLES, name)
    codes = BUILT_IN | {
        each.get("numFmtId", ""): each.get("formatCode", "") for each in styles.iterfind("{*}numFmts/{*}numFmt")
    }
    used = (read_format(codes.get(each.get("numFmtId", ""), "")) for each in styles.iterfind("{*}cellXfs/{*}xf"))
    shown = {str(number).encode(): formatter for number, formatter in enumerate(used) if formatter}
    if not shown:
        return {}
    targets = {each.get("Id"): each.get("Target", "") for each in read_xml(archive, RELATIONS, name)}
    found = dict[str, dict[Place, Formatter]]()
    for sheet in read_xml(archive, BOOK, name).iterfind("{*}sheets/{*}sheet"):
        target = next((targets.get(value, "") for key, value in sheet.items() if key.endswith("}id")), "")
        path = normpath(join("/xl", target)).lstrip("/")
        if path.endswith(".xml") and path in archive.namelist():
            found[sheet.get("name", "")] = dict(_find_cells(read_part(archive, path, name), shown))
    return found


def _find_cells(sheet: bytes, shown: Mapping[bytes, Formatter]) -> Iterator[tuple[Place, Formatter]]:
    for cell in CELL.finditer(sheet):
        style, place = STYLE.search(cell[1]), REFERENCE.search(cell[1])
        if style and place and (formatter := shown.get(style[1])):
            yield (int(place[2]) - 1, column_number(place[1]) - 1), formatter


def column_number(letters: bytes) -> int:
    """Convert column letters to a number.

    >>> column_number(b"A"), column_number(b"AA")
    (1, 27)
    """
    return sum((letter - ord("A") + 1) * 26**power for power, letter in enumerate(reversed(letters)))


def read_xls_formats(data: bytes, name: str) -> Shown:
    """Return the cells with a unit of an .xls file.

    There are none for files older than Excel 97.
    """
    book = open_ole(data, name).read_stream("Workbook")
    codes, styles, sheets = dict(BUILT_IN), list[str](), list[tuple[int, str]]()
    for kind, record in _records(book, 0):
        if kind == FORMAT and len(record) > 5:
            codes[str(struct.unpack_from("<H", record)[0])] = _read_text(record[4:])
        elif kind == XF and len(record) > 3:
            styles.append(str(struct.unpack_from("<H", record, 2)[0]))
        elif kind == SHEET and len(record) > 8:
            sheets.append((struct.unpack_from("<I", record)[0], _read_text(record[7:])))
    shown = {n: formatter for n, code in enumerate(styles) if (formatter := read_format(codes.get(code, "")))}
    return {sheet: dict(_find_xls_cells(book, start, shown)) for start, sheet in sheets} if shown else {}


def _check_xls(file: OleFile, name: str) -> None:
    """Raise an error if a damaged file would take memory without end."""
    from python_calamine import CalamineError

    if not {("Workbook",), ("Book",)} & {*file.streams}:
        raise CalamineError("its directory is damaged")
    book = file.read_stream("Workbook")
    for start in [struct.unpack_from("<I", record)[0] for kind, record in _records(book, 0) if kind == SHEET]:
        rows = columns = 0
        for kind, record in _records(book, start):
            if kind == SIZE and len(record) > 11:
                (_, last, _, end) = struct.unpack_from("<IIHH", record)
            elif kind in WITH_PLACE and len(record) > 5:
                last, end = struct.unpack_from("<H", record)[0], struct.unpack_from("<H", record, 2)[0]
            else:
                continue
            rows, columns = max(rows, last), max(columns, end)
        if rows * columns > MAX_XLS_CELLS:
            raise SourceError(f"{name}: unpacks to far more than its size, like a zip bomb; it is not read")


def _find_xls_cells(book: bytes, start: int, shown: Mapping[int, Formatter]) -> Iterator[tuple[Place, Formatter]]:
    for kind, record in _records(book, start):
        if (kind not in CELLS and kind != MULTIPLE) or len(record) < 6:
            continue
        row, column = struct.unpack_from("<HH", record)
        places = range(4, len(record) - 5, 6) if kind == MULTIPLE else (4,)
        for number, place in enumerate(places):
            if formatter := shown.get(struct.unpack_from("<H", record, place)[0]):
                yield (row, column + number), formatter


def _records(book: bytes, position: int) -> Iterator[tuple[int, bytes]]:
    """Yield the records of one part of an .xls file."""
    while position + 4 <= len(book):
        kind, size = struct.unpack_from("<HH", book, position)
        if kind == END:
            return
        yield kind, book[position + 4 : position + 4 + size]
        position += 4 + size


def _read_text(data: bytes) -> str:
    """Return a text after the byte with its size of letters."""
    return data[1:].decode("utf-16-le" if data[0] & 1 else "latin-1", "replace")
