"""JSON, CSV, TSV, a workbook (.xlsx .xls) -> a page for each row, or one page for the file."""

import csv
import io
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import date, datetime
from itertools import groupby, islice, zip_longest
from typing import Any

from kumihimo.core.errors import SourceError
from kumihimo.readers.archive import open_archive, read_core_properties
from kumihimo.readers.page import Page, Row, format_utc, join_with_places, unique_name
from kumihimo.readers.text import decode

# JSON can escape NUL and lone surrogates, which no text can store. The first group skips pairs and other escapes.
UNSTORABLE_ESCAPE = re.compile(
    r"\\(?:([^u]|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|u(?:0000|[dD][89a-fA-F][0-9a-fA-F]{2}))"
)
DELIMITERS = ",\t;|"
SAMPLE_ROWS = 50
EXCEL_SEPARATOR = re.compile(r"\Asep=([,;\t|])\r?\n")
KNOWN_COLUMNS = ("id", "title", "text", "modified", "date")
NUMBER = re.compile(r"[-+]?\d[\d.,]*%?")
YEAR = re.compile(r"[12]\d{3}")


def read_jsonl_pages(data: bytes, name: str) -> Iterator[Page]:
    """Read a page from each line.

    One broken line raises SourceError, so that no file is read in part.
    """
    return rows_to_pages(_parse_json_lines(_decode_json(data, name), name))


def read_json_pages(data: bytes, name: str) -> Iterator[Page]:
    """Read a page from each object of a list.

    Any other value becomes one page: its `text`, or a line for each value.
    """
    text = _decode_json(data, name)
    if not text.strip():
        return
    value = _parse_value(text, name, "mend it, or name the file .jsonl if each line is a value")
    if isinstance(value, list) and all(isinstance(item, dict) for item in value):
        yield from rows_to_pages(enumerate(value, 1))
    elif isinstance(value, dict) and "text" in value:
        yield row_to_page(value)
    else:
        title = value.get("title") if isinstance(value, dict) else None
        yield Page(title=title if isinstance(title, str) else "", text="\n\n".join(_flatten(value)))


def _decode_json(data: bytes, name: str) -> str:
    text = decode(data, name)
    return UNSTORABLE_ESCAPE.sub(lambda escape: "\\" + (escape[1] or "ufffd"), text) if r"\u" in text else text


def _parse_json_lines(text: str, name: str) -> Iterator[tuple[int, Row]]:
    for number, line in enumerate(text.split("\n"), 1):  # not splitlines: a JSON string may contain U+2028
        if line.strip():
            location = f"{name}: line {number}"
            row = _parse_value(line, location, "mend the line, or name the file .json if it is one value")
            if not isinstance(row, dict):
                raise SourceError(f"{location} is no JSON object; name the file .json if it is one value")
            yield number, row


def _parse_value(text: str, location: str, remedy: str) -> object:
    try:
        return json.loads(text, parse_constant=str)
    except json.JSONDecodeError as error:
        line = f": line {error.lineno}" if "\n" in text.strip() else ""
        raise SourceError(f"{location}{line} is not JSON ({error.msg}, character {error.colno}); {remedy}") from error
    except (RecursionError, ValueError) as error:  # nesting of 1,000 levels, or a number of over 4,300 digits
        raise SourceError(f"{location} is beyond this reader ({error}); write it flatter or shorter") from error


def _flatten(value: object) -> Iterator[str]:
    """Yield `path.to.key: value` for each value.

    It does not recurse, because a file may be nested deeper than the stack.
    """
    pending = [("", value)]
    while pending:
        path, value = pending.pop()
        if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
            value = {str(index): item for index, item in enumerate(value)}
        if isinstance(value, dict):
            pending += [(f"{path}.{key}" if path else key, item) for key, item in reversed(value.items())]
        elif value not in (None, [], ""):
            yield f"{path}: {_format_value(value)}" if path else _format_value(value)


def _format_value(value: object) -> str:
    if isinstance(value, list):
        return "; ".join(_format_value(item) for item in value)
    return value if isinstance(value, str) else json.dumps(value)


def read_delimited(data: bytes, name: str) -> Iterator[Page]:
    """Read a table, repeating the column names in each row.

    Thus each row makes sense by itself: `city: Otaru; founded: 1922`.
    """
    rows = _parse_table(decode(data, name), name)
    if not rows:
        return
    names = _column_names(rows[0] if _has_header(rows) else [], max(map(len, rows)))
    if "text" in names and ("id" in names or "title" in names):
        mappings = ({name: cell for name, cell in zip(names, row, strict=False) if cell} for row in rows[1:])
        yield from rows_to_pages(enumerate(({"text": ""} | mapping for mapping in mappings), 1))
    else:
        yield Page(text="\n\n".join(render_rows(rows)))


def render_rows(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield a line for each row, with the header's names.

    If there is only a header, yield the header.
    """
    header = rows[0] if _has_header(rows) else []
    body = rows[1:] if header else rows
    for row in body:
        cells = (" ".join(cell.splitlines()) for cell in row)
        pairs = zip_longest(header, cells, fillvalue="")
        yield "; ".join(f"{name}: {cell}" if name else cell for name, cell in pairs if cell)
    if not body:
        yield "; ".join(filter(None, header))


def _parse_table(text: str, name: str) -> list[list[str]]:
    declared = EXCEL_SEPARATOR.match(text)
    text = text[declared.end() :] if declared else text
    # The limit is global to the process. Only raise it, so that a cell may hold a whole book.
    csv.field_size_limit(max(csv.field_size_limit(), len(text) + 1))
    delimiter = declared[1] if declared else _guess_delimiter(text, name)
    try:
        rows = [[cell.strip() for cell in row] for row in _csv_rows(text, delimiter)]
    except csv.Error as error:
        raise SourceError(f"{name}: not a table ({error}); save it again as CSV, or name it .txt") from error
    return [row for row in rows if any(row)]


def _csv_rows(text: str, delimiter: str) -> Iterator[list[str]]:
    return csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)


def _guess_delimiter(text: str, name: str) -> str:
    """Return the delimiter that cuts most rows into equally many cells.

    There must be at least two cells in a row.
    """
    if name.lower().endswith(".tsv") and "\t" in text:
        return "\t"
    return max(DELIMITERS, key=lambda delimiter: _evenness(text, delimiter))


def _evenness(text: str, delimiter: str) -> tuple[float, int]:
    widths = Counter(len(row) for row in islice(_csv_rows(text, delimiter), SAMPLE_ROWS) if row)
    width, count = widths.most_common(1)[0] if widths else (0, 0)
    return (count / widths.total(), width) if width > 1 else (0.0, 0)


def _has_header(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row names the columns.

    It does not if it holds a number above a column of numbers. Years do not count (`country, 2019, 2020`): they name
    columns.
    """
    numbers = [column for column, cell in enumerate(rows[0]) if NUMBER.fullmatch(cell) and not YEAR.fullmatch(cell)]
    return len(rows) == 1 or not any(
        all(column < len(row) and NUMBER.fullmatch(row[column]) for row in rows[1:]) for column in numbers
    )


def _column_names(header: Sequence[str], width: int) -> list[str]:
    """Return unique names for `width` columns.

    `Text` becomes `text`, a second `city` becomes `city~2`, and an empty name becomes `column 3`.
    """
    used: dict[str, int] = {}
    labels = [cell.casefold() if cell.casefold() in KNOWN_COLUMNS else cell for cell in header]
    labels += [""] * (width - len(labels))
    return [unique_name(label or f"column {number}", used) for number, label in enumerate(labels, 1)]


def rows_to_pages(rows: Iterable[tuple[int, Row]]) -> Iterator[Page]:
    """Yield a page for each numbered row.

    Its fragment is the row's `id`, or the number.

    >>> rows = [(1, {"id": 7, "text": "a"}), (2, {"text": "b"}), (3, {"id": "7"})]
    >>> [page.fragment for page in rows_to_pages(rows)]
    ['7', '2', '7~2']
    """
    used: dict[str, int] = {}
    for number, row in rows:
        row_id = row.get("id")
        yield row_to_page(row, unique_name(str(number if row_id in (None, "") else row_id), used))


def row_to_page(row: Row, fragment: str = "") -> Page:
    r"""Build a page from a row.

    `text` becomes its text, all else its metadata. Without `text`, each string value becomes a paragraph, `key: value`.

    >>> cook = row_to_page({"name": "Ayu", "roles": ["cook", "host"], "age": 31})
    >>> cook.text, cook.metadata
    ('name: Ayu\n\nroles: cook; host', {'age': 31})
    """
    rest = {key: value for key, value in row.items() if key != "title" and not (key == "id" and fragment)}
    text_keys = {"text"} if "text" in row else {key for key, value in rest.items() if _join_strings(value)}
    lines = [f"{key}: {_join_strings(value)}" for key, value in rest.items() if key in text_keys]
    return Page(
        fragment=fragment,
        title=_join_strings(row.get("title")),
        text=_join_strings(row["text"], "\n") if "text" in row else "\n\n".join(lines),
        metadata={key: value for key, value in rest.items() if key not in text_keys},
        modified=_parse_modified(row.get("modified") or row.get("date")),
    )


def _join_strings(value: object, between: str = "; ") -> str:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return between.join(value)
    return value if isinstance(value, str) else ""


def _parse_modified(value: object) -> str:
    """Convert a date to the form of `Document.modified`.

    A value that is not ISO 8601 stays in the metadata only.
    """
    text = value if isinstance(value, str) else ""
    with suppress(ValueError):
        return date.fromisoformat(text).isoformat()
    with suppress(ValueError, OverflowError):  # 0001-01-01T00:00+09:00 is before the first year in UTC
        return format_utc(datetime.fromisoformat(text))
    return ""


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
        texts = {sheet: "\n\n".join(_sheet_texts(book.get_sheet_by_name(sheet))) for sheet in visible}
    except CalamineError as error:
        remedy = "save it again without a password"
        raise SourceError(f"{name}: not a complete workbook, or locked ({error}); {remedy}") from error
    text, places = join_with_places((text, ((0, f"sheet {sheet}"),)) for sheet, text in texts.items() if text)
    if not text and len(visible) < len(book.sheets_metadata):
        raise SourceError(f"{name}: the visible sheets are empty; unhide the others")
    yield Page(title=title, text=text, metadata=metadata, places=places)


def _sheet_texts(sheet: Any) -> Iterator[str]:
    """Yield the text of each table.

    An empty row separates tables, unless the row after it continues the table above.
    """
    tables: list[list[list[str]]] = []
    for block in (list(rows) for is_filled, rows in groupby(_read_rows(sheet), key=any) if is_filled):
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


def _read_rows(sheet: Any) -> Iterator[list[str]]:
    """Yield the cells as text; repeat merged cells in each row."""
    margin = (sheet.start or (0, 0))[1]  # empty columns at the left, which the rows leave out
    spans: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)  # top row -> columns and bottom rows
    for (top, column), (bottom, _) in sheet.merged_cell_ranges or []:
        spans[top].append((column - margin, bottom))
    merged: dict[int, tuple[int, str]] = {}  # column -> last row of the merged cell there, and its text
    for number, row in enumerate(sheet.iter_rows()):
        cells = [_format_cell(value) for value in row]
        starts = ((column, bottom) for column, bottom in spans.get(number, ()) if 0 <= column < len(cells))
        merged |= {column: (bottom, cells[column]) for column, bottom in starts}
        for column, (bottom, text) in merged.items():
            cells[column] = text if number <= bottom else cells[column]
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


def _format_cell(value: object) -> str:
    r"""Format a cell's value as text.

    >>> from datetime import date, datetime
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
    return rows * max((_column_number(letters) for letters, _ in set(references)), default=0)


def _column_number(letters: bytes) -> int:
    """Convert column letters to a number.

    >>> _column_number(b"A"), _column_number(b"AA")
    (1, 27)
    """
    return sum((letter - ord("A") + 1) * 26**power for power, letter in enumerate(reversed(letters)))


def _read_properties(data: bytes, name: str) -> tuple[str, Row]:
    """Return the properties after checking the size of each sheet."""
    with open_archive(data, name) as archive:
        for path in archive.namelist():
            if path.startswith("xl/worksheets/") and _count_cells(archive.read(path)) > MAX_CELLS:
                raise SourceError(f"{name}: {path} has over {MAX_CELLS:,} cells; split it, or clear its far edges")
        return read_core_properties(archive, name)
