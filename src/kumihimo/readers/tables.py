"""JSON, CSV, TSV -> a page for each row, or one page for the file; rows -> lines of text."""

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime
from itertools import islice

from kumihimo.core.errors import SourceError
from kumihimo.readers.page import Page, Row, add_unread, format_utc, unique_name
from kumihimo.readers.text import decode
from kumihimo.readers.titles import is_title

# JSON can escape NUL and lone surrogates, which no text can store. The first group skips pairs and other escapes.
UNSTORABLE_ESCAPE = re.compile(
    r"\\(?:([^u]|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|u(?:0000|[dD][89a-fA-F][0-9a-fA-F]{2}))"
)
DELIMITERS = ",\t;|"
MIN_NAMES = 4  # of columns below a title with a note beside it
MAX_TITLE_CHARS = 120  # a longer line is no title
SAMPLE_ROWS = 50
EXCEL_SEPARATOR = re.compile(r"\Asep=([,;\t|])\r?\n")
KNOWN_COLUMNS = ("id", "title", "text", "modified", "date")
NUMBER = re.compile(r"[-−+(]?(?:[$€£¥₹₩] ?)?\d[\d.,'’\u00a0\u202f]*\)?(?:\s?[%$€£¥₹₩円元원])?")
YEAR = re.compile(r"[12]\d{3}")
MAX_GROWTH = 10  # repeated names and merged cells make a text at most so many times as long
MAX_ROW_NAME_CHARS = 200  # with longer names, a row shows its cells alone
HEADER_DISTANCE = 1500  # characters of rows until the header comes again; about a chunk
HEADER_SHARE = 5  # a long header comes again after so many times its length
MAX_NAMED_LINES = 20  # that cannot be read
_MEND = "mend it, or name the file .jsonl if each line is a value"
NAME_WIDTHS = (200, 50, 20)  # a repeated name is cut to the first width that keeps the text small


def read_jsonl_pages(data: bytes, name: str) -> Iterator[Page]:
    """Read a page from each line.

    The last page names the lines that cannot be read, such as one that was cut off. Raise SourceError for the first of
    them if most lines are so: then this is another format.
    """
    errors, last, count = list[SourceError](), None, 0
    for page in rows_to_pages(_parse_json_lines(_decode_json(data, name), name, errors)):
        if last:
            yield last
        last, count = page, count + 1
    if len(errors) > count:
        raise errors[0]
    if last:
        more = [f"{name}: {len(errors) - MAX_NAMED_LINES:,} more such lines"] if len(errors) > MAX_NAMED_LINES else []
        yield replace(last, metadata=add_unread(last.metadata, [*map(str, errors[:MAX_NAMED_LINES]), *more]))


def read_json_pages(data: bytes, name: str) -> Iterator[Page]:
    """Read a page from each object of a list.

    Any other value becomes one page: its `text`, or a line for each value.
    """
    text = _decode_json(data, name)
    if not text.strip():
        return
    value = _parse_value(text, name, _MEND)
    if isinstance(value, list) and all(isinstance(item, dict) for item in value):
        yield from rows_to_pages(enumerate(value, 1))
    elif isinstance(value, dict) and "text" in value:
        yield row_to_page(value)
    else:
        title = value.get("title") if isinstance(value, dict) else None
        for width in NAME_WIDTHS:
            lines = list(_flatten(value, width))
            if sum(map(len, lines)) <= MAX_GROWTH * len(text):
                break
        yield Page(title=title if isinstance(title, str) else "", text="\n\n".join(lines))


def parse_json(data: bytes, name: str) -> object:
    """Return the value in a JSON file; None if it is empty.

    Raises SourceError if it is broken.
    """
    text = _decode_json(data, name)
    return _parse_value(text, name, _MEND) if text.strip() else None


def _decode_json(data: bytes, name: str) -> str:
    text = decode(data, name)
    return UNSTORABLE_ESCAPE.sub(lambda escape: "\\" + (escape[1] or "ufffd"), text) if r"\u" in text else text


def _parse_json_lines(text: str, name: str, errors: list[SourceError]) -> Iterator[tuple[int, Row]]:
    """Yield the objects with their lines; collect the errors of others."""
    for number, line in enumerate(text.split("\n"), 1):  # not splitlines: a JSON string may contain U+2028
        if line.strip():
            location = f"{name}: line {number}"
            try:
                row = _parse_value(line, location, "mend the line, or name the file .json if it is one value")
            except SourceError as error:
                errors.append(error)
                continue
            if isinstance(row, dict):
                yield number, row
            else:
                errors.append(SourceError(f"{location} is no JSON object; name the file .json if it is one value"))


def _parse_value(text: str, location: str, remedy: str) -> object:
    try:
        return json.loads(text, parse_constant=str)
    except json.JSONDecodeError as error:
        line = f": line {error.lineno}" if "\n" in text.strip() else ""
        raise SourceError(f"{location}{line} is not JSON ({error.msg}, character {error.colno}); {remedy}") from error
    except (RecursionError, ValueError) as error:  # nesting of 1,000 levels, or a number of over 4,300 digits
        raise SourceError(f"{location} is beyond this reader ({error}); write it flatter or shorter") from error


def _flatten(value: object, width: int) -> Iterator[str]:
    """Yield `path.to.key: value` for each value.

    A value repeats at most the last `width` characters of the path before its key. A longer key stands once in full.
    It does not recurse, because a file may be nested deeper than the stack.
    """
    pending = [("", "", value)]
    while pending:
        above, key, value = pending.pop()
        path = f"{above}.{key}" if above else key
        if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
            value = {str(index): item for index, item in enumerate(value)}
        if isinstance(value, dict):
            if len(key) > width:
                yield f"{path}:"
            pending += [(path[-width:], inner_key, item) for inner_key, item in reversed(value.items())]
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
    count = count_title_rows(rows)
    titles, rows = [" ".join(filter(None, row)) for row in rows[:count]], rows[count:]
    names = _column_names(rows[0] if _has_header(rows) else [], max(map(len, rows)))
    if "text" in names and ("id" in names or "title" in names):
        names = _cut_names(names, rows[1:])
        mappings = ({name: cell for name, cell in zip(names, row, strict=False) if cell} for row in rows[1:])
        yield from rows_to_pages(enumerate(({"text": ""} | mapping for mapping in mappings), 1))
    else:
        title = titles[0] if titles and is_title(titles[0]) else ""
        yield Page(title=title, text="\n\n".join([*mark_title(titles), *render_rows(rows)]))


def count_title_rows(rows: Sequence[Sequence[str]]) -> int:
    """Count the rows above a table that are its title.

    They have one cell, or two above many names.

    >>> count_title_rows([["Boats", ""], ["boat", "built"], ["Maru", "1922"]])
    1
    """
    widths = [sum(map(bool, row)) for row in rows]
    first = next((i for i, width in enumerate(widths) if width > 1), 0)
    if first + 1 < len(rows) and widths[first] == 2 and rows[first][0] and widths[first + 1] >= MIN_NAMES:
        is_named = not any(NUMBER.fullmatch(cell) and not YEAR.fullmatch(cell) for cell in rows[first + 1])
        return first + (is_named and widths[first + 2 : first + 3] != [2])
    return first


def mark_title(titles: Sequence[str]) -> Iterator[str]:
    """Mark the first line above a table as a heading, unless long."""
    for number, title in enumerate(titles):
        yield title if number or len(title) > MAX_TITLE_CHARS else f"## {title}"


def render_rows(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield a line for each row, with the header's names.

    If the names are long, the rows show their cells alone, and the header stands above them, again and again.
    If there is only a header, yield the header.
    """
    header = rows[0] if _has_header(rows) else []
    body = rows[1:] if header else rows
    return render_table(header, body) if body else iter(["; ".join(filter(None, header))])


def render_table(header: Sequence[str], body: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield a line for each row, with the names of a header.

    The header may be empty.
    """
    if not any(header):
        yield from ("; ".join(filter(None, map(_join_lines, row))) for row in body)
    elif _has_short_names(header, body):
        names = [f"{name}: " if name else "" for name in header]
        for row in body:
            named = ((names[column] if column < len(names) else "", cell) for column, cell in enumerate(row))
            yield "; ".join(name + _join_lines(cell) for name, cell in named if cell)
    else:
        yield from _render_below_header(header, body)


def _join_lines(cell: str) -> str:
    return " ".join(cell.splitlines())


def _has_short_names(header: Sequence[str], body: Sequence[Sequence[str]]) -> bool:
    """Return whether the rows can repeat the names of their columns.

    The names must not make any row, or the whole table, much longer.
    """
    costs = [len(name) + 2 if name else 0 for name in header]
    added = [sum(cost for cost, cell in zip(costs, row, strict=False) if cell) for row in body]
    return max(added) <= MAX_ROW_NAME_CHARS and sum(added) <= (MAX_GROWTH - 1) * count_cell_chars(body)


def count_cell_chars(rows: Iterable[Sequence[str]]) -> int:
    """Return the characters of all cells, with one more for each cell."""
    return sum(len(cell) + 1 for row in rows for cell in row if cell)


def _render_below_header(header: Sequence[str], body: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the header, and the cells of rows below it.

    Empty cells stay, so that each cell has the place of its name.
    """
    title = f"columns: {'; '.join(map(_join_lines, header))}"
    distance = max(HEADER_DISTANCE, HEADER_SHARE * len(title))
    written = distance
    for row in body:
        if written >= distance:
            yield title
            written = 0
        end = max(place for place, cell in enumerate(row, 1) if cell)
        line = "; ".join(map(_join_lines, row[:end]))
        written += len(line)
        yield line


def _cut_names(names: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Shorten long names."""
    filled = Counter(column for row in rows for column, cell in enumerate(row) if cell)
    room = MAX_GROWTH * count_cell_chars(rows)

    def fits(width: int) -> bool:
        return sum(filled[column] * min(len(name), width) for column, name in enumerate(names)) <= room

    width = next(filter(fits, NAME_WIDTHS), NAME_WIDTHS[-1])
    used: dict[str, int] = {}
    return [unique_name(name[:width], used) for name in names]


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
