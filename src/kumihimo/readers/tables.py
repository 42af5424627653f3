"""CSV or TSV -> one page with a line for each row, or a page for each row with a text."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice, zip_longest

from kumihimo.core.errors import SourceError
from kumihimo.readers.decode import decode
from kumihimo.readers.page import Page, Row, rows_to_pages, unique_name

DELIMITERS = ",\t;|"
SAMPLE_ROWS = 50
EXCEL_SEPARATOR = re.compile(r"\Asep=([,;\t|])\r?\n")
KNOWN_COLUMNS = ("id", "title", "text", "modified", "date")
NUMBER = re.compile(r"[-+]?\d[\d.,]*%?")
YEAR = re.compile(r"[12]\d{3}")


def read_delimited(data: bytes, name: str) -> Iterator[Page]:
    """Read a table, repeating the column names in each row.

    Thus each row makes sense by itself: `city: Otaru; founded: 1922`.
    """
    rows = _parse_rows(decode(data, name), name)
    if not rows:
        return
    names = _column_names(rows[0] if _has_header(rows) else [])
    if "text" in names and ("id" in names or "title" in names):
        yield from rows_to_pages((number, _to_mapping(names, row)) for number, row in enumerate(rows[1:], 1))
    else:
        yield Page(text="\n\n".join(render_rows(rows)))


def render_rows(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield a line for each row, with the header's names.

    If there is only a header, yield the header.
    """
    header = rows[0] if _has_header(rows) else []
    body = rows[1:] if header else rows
    yield from (_render_row(header, row) for row in body)
    if not body:
        yield "; ".join(filter(None, header))


def _parse_rows(text: str, name: str) -> list[list[str]]:
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
    return not any(
        NUMBER.fullmatch(cell)
        and not YEAR.fullmatch(cell)
        and len(rows) > 1
        and all(column < len(row) and NUMBER.fullmatch(row[column]) for row in rows[1:])
        for column, cell in enumerate(rows[0])
    )


def _render_row(header: Sequence[str], row: Sequence[str]) -> str:
    cells = (" ".join(cell.splitlines()) for cell in row)
    pairs = zip_longest(header, cells, fillvalue="")
    return "; ".join(f"{name}: {cell}" if name else cell for name, cell in pairs if cell)


def _column_names(header: Sequence[str]) -> list[str]:
    """Return unique column names.

    `Text` becomes `text`, a second `city` becomes `city~2`, and an empty name becomes `column 3`.
    """
    used: dict[str, int] = {}
    labels = (cell.casefold() if cell.casefold() in KNOWN_COLUMNS else cell for cell in header)
    return [unique_name(cell or f"column {number}", used) for number, cell in enumerate(labels, 1)]


def _to_mapping(names: Sequence[str], row: Sequence[str]) -> Row:
    """Map column names to cells; name extra cells by position."""
    cells = {names[index] if index < len(names) else f"column {index + 1}": cell for index, cell in enumerate(row)}
    return {"text": ""} | {name: cell for name, cell in cells.items() if cell}
