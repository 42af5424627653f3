"""the formats in a workbook (.xlsx .xls) -> the cells that show a percent sign or a unit, and how."""

import re
import struct
from collections.abc import Callable, Iterator, Mapping
from decimal import ROUND_HALF_UP, Decimal
from functools import partial
from posixpath import join, normpath
from zipfile import ZipFile

from kumihimo.readers.archive import read_part, read_xml
from kumihimo.readers.ole import open_ole

Formatter = Callable[[float], str]
Place = tuple[int, int]  # row and column, from 0
Shown = Mapping[str, Mapping[Place, Formatter]]  # by sheet

BUILT_IN = {"9": "0%", "10": "0.00%"}  # other built-in formats have no unit, or that of the reader's country
STYLES, BOOK, RELATIONS = "xl/styles.xml", "xl/workbook.xml", "xl/_rels/workbook.xml.rels"
CELL = re.compile(rb"<(?:\w+:)?c\b([^<>]*)>")
REFERENCE = re.compile(rb'\br="([A-Z]{1,3})(\d{1,7})"')
STYLE = re.compile(rb'\bs="(\d{1,6})"')
# Parts of the code of a format: texts and currencies, what is not shown, and the places of digits.
CODE_PART = re.compile(
    r'"(?P<text>[^"]*)"|\\(?P<char>.)|\[\$(?P<currency>[^\]-]*)[^\]]*\]|(?P<hidden>\[[^\]]*\]|[_*].)|(?P<digits>[0#?.,]+)'
    r"|(?P<other>.)",
    re.DOTALL,
)
FORMAT, XF, SHEET, END, MULTIPLE = 0x041E, 0xE0, 0x85, 0x0A, 0xBD  # records of .xls
CELLS = {0x0203, 0x027E, 0x06}  # a number, a short number, a formula


def read_format(code: str) -> Formatter | None:
    """Return how a format shows numbers with their percent sign or unit.

    None for formats without them, and for those of dates, fractions and thousands. Percentages are rounded as shown.

    >>> codes = ("0.0%", '#,##0.00 "€"', "[$£-809]#,##0", '0.0,,"M"', "0.00", "dd.mm.yyyy")
    >>> [shown(0.0755) if (shown := read_format(code)) else None for code in codes]
    ['7.6 %', '0.0755 €', '£0.0755', None, None, None]
    """
    before, digits, after = "", "", ""
    for part in CODE_PART.finditer(code):
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
    number = Decimal(f"{value:.15g}")
    if decimals is not None:
        number = (number * 100).quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP)
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
