"""the text of a document -> its tables: rows with their cells by column."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kumihimo.generation.quoting.windows import is_rule_row
from kumihimo.text import numbers, sentences

_PAIR = re.compile(r"([^:;]{1,60}): (.*)", re.DOTALL)
_SUM_ROW = re.compile(
    r"^\W*(?:(?:grand|overall)\s+)?(?:total|sum|average|mean)\b|\btotals?\W*$|^\W*all\W*$|(?:合計|総計|小計|平均|总计|總計|合计)\W*$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table with its cells by column."""

    start: int
    end: int
    cells: Mapping[str, str]

    @property
    def sums_up(self) -> bool:
        """Return whether it is the total or the mean of other rows."""
        return any(_SUM_ROW.search(cell) and numbers.number_unit(cell) is None for cell in self.cells.values())


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of a table and the text above it."""

    rows: tuple[Row, ...]
    above: str


def read_tables(text: str, begin: int = 0) -> list[Table]:
    r"""Return the tables of a text whose cells have one column each.

    >>> [table] = read_tables("| boat | crew |\n|---|---|\n| Ebb | 4 |\n| Tide | 12 |")
    >>> [dict(row.cells) for row in table.rows]
    [{'boat': 'Ebb', 'crew': '4'}, {'boat': 'Tide', 'crew': '12'}]
    >>> [dict(row.cells) for table in read_tables("boat: Ebb; crew: 4\n\nboat: Tide; crew: 12") for row in table.rows]
    [{'boat': 'Ebb', 'crew': '4'}, {'boat': 'Tide', 'crew': '12'}]
    """
    tables: list[Table] = []
    rows: list[tuple[int, int]] = []
    above = ""
    for block in sentences.split_blocks(text, begin):
        if block.kind == "row":
            rows.append((block.start, block.end))
            continue
        tables += _build_tables(text, rows, above)
        above = (
            text[block.start : block.end]
            if block.kind == "heading" or rows
            else f"{above}\n{text[block.start : block.end]}"
        )
        above, rows = above[-600:], []
    return [*tables, *_build_tables(text, rows, above)]


def _build_tables(text: str, rows: Sequence[tuple[int, int]], above: str) -> Iterator[Table]:
    """Yield the table of these rows, if it has columns."""
    texts = [text[start:end] for start, end in rows]
    if len(rows) < 2:
        return
    if " | " in texts[0] or texts[0].startswith("|"):
        header, *cells = map(_split_row, texts)
        if len(set(header)) == len(header) and all(len(own) == len(header) for own in cells):
            yield Table(
                tuple(
                    Row(start, end, dict(zip(header, own, strict=True)))
                    for (start, end), own, line in zip(rows[1:], cells, texts[1:], strict=True)
                    if own != header and not is_rule_row(line)
                ),
                above,
            )
        return
    pieces = [[_PAIR.fullmatch(part.strip()) for part in line.split("; ")] for line in texts]
    counts = Counter(match[1] for line in pieces for match in line if match)
    names = {name for name, count in counts.items() if count > 1}
    records = [Row(*row, _named_cells(line, names)) for row, line in zip(rows, texts, strict=True)]
    begun, seen, first = 0, set[str](), ""
    for i, record in enumerate(records):
        if first not in record.cells and next(iter(record.cells), first) not in seen:  # another sheet
            yield from [Table(tuple(records[begun:i]), above)] if i else []
            begun, seen, first = i, set(), next(iter(record.cells), "")
        seen |= set(record.cells)
    yield Table(tuple(records[begun:]), above)


def _split_row(line: str) -> list[str]:
    r"""Return the cells of a row.

    >>> _split_row("| **a** | b \\| c |"), _split_row("Total | 4 |")
    (['a', 'b \\| c'], ['Total', '4', ''])
    """
    inner = re.sub(r"^\|(.*?)\|?$", r"\1", line.strip())
    return [cell.strip().strip("*_") for cell in re.split(r"(?<!\\)\|", inner)]


def _named_cells(line: str, names: set[str]) -> dict[str, str]:
    """Return the cells of `city: Otaru; founded: 1922`."""
    cells: dict[str, str] = {}
    last = ""
    for part in line.split("; "):
        match = _PAIR.fullmatch(part.strip())
        if match and (match[1] in names or not last):
            last = match[1]
            cells[last] = match[2]
        elif last:
            cells[last] += f"; {part}"
    return cells
