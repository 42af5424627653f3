"""tables of the graph -> a folder of CSV files, for spreadsheets and programs."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path

from kumihimo.app.community_tree import table_or_empty
from kumihimo.app.safe_write import write_folder
from kumihimo.app.snapshot import Snapshot

GRAPH_TABLES = ("entities", "relations", "claims", "communities", "members", "reports")
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def write_csv(snapshot: Snapshot, path: Path) -> dict[str, int]:
    """Write one file for each table; lists as JSON."""
    snapshot.table("entities")
    count = dict.fromkeys(GRAPH_TABLES, 0)

    def fill(target: Path) -> None:
        for name in GRAPH_TABLES:
            with (target / f"{name}.csv").open("w", encoding="utf-8", newline="") as out:
                rows = csv.writer(out, lineterminator="\n")
                rows.writerow(column_names(snapshot, name))
                for row in table_rows(snapshot, name):
                    rows.writerow(map(_cell, row))
                    count[name] += 1

    write_folder(path, fill)
    return count


def column_names(snapshot: Snapshot, name: str) -> tuple[str, ...]:
    """Return the column names of a table, in the order of `table_rows`."""
    return (*table_or_empty(snapshot, name).codec.columns, *(["community"] if name == "members" else []))


def table_rows(snapshot: Snapshot, name: str) -> Iterator[tuple[object, ...]]:
    """Yield the rows of a table, by id."""
    table = table_or_empty(snapshot, name)
    cells = attrgetter(*table.codec.columns)
    for record in table:
        yield (*cells(record), *([record.id.rpartition(".")[0]] if name == "members" else []))


def _cell(value: object) -> object:
    """Return the value of a cell.

    A text that a spreadsheet would read as a formula starts with an apostrophe.

    >>> _cell("=HYPERLINK(1)"), _cell("oats"), _cell(-1.5), _cell(("a", "b")), _cell(None)
    ("'=HYPERLINK(1)", 'oats', -1.5, '["a", "b"]', '')
    """
    if isinstance(value, str):
        return f"'{value}" if value.startswith(_FORMULA_STARTS) else value.replace("\0", "\ufffd")
    if isinstance(value, tuple):
        return json.dumps(value, ensure_ascii=False)
    return "" if value is None else value
