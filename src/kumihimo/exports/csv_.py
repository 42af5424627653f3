"""the tables of the graph -> a folder of CSV files that a spreadsheet opens and a program reads."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path

from kumihimo.app.community_tree import held
from kumihimo.app.safe_write import folder
from kumihimo.app.snapshot import Reading

TABLES = ("entities", "relations", "claims", "communities", "members", "reports")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def write(reading: Reading, path: Path) -> dict[str, int]:
    """A file for each table; lists as JSON."""
    reading.table("entities")
    count = dict.fromkeys(TABLES, 0)

    def fill(made: Path) -> None:
        for name in TABLES:
            with (made / f"{name}.csv").open("w", encoding="utf-8", newline="") as out:
                rows = csv.writer(out, lineterminator="\n")
                rows.writerow(columns(reading, name))
                for row in values(reading, name):
                    rows.writerow(map(_cell, row))
                    count[name] += 1

    folder(path, fill)
    return count


def columns(reading: Reading, name: str) -> tuple[str, ...]:
    """What is told of each row of a table, in the order of `values`."""
    return (*held(reading, name).codec.columns, *(["community"] if name == "members" else []))


def values(reading: Reading, name: str) -> Iterator[tuple[object, ...]]:
    """The rows of a table, by id."""
    table = held(reading, name)
    cells = attrgetter(*table.codec.columns)
    for record in table:
        yield (*cells(record), *([record.id.rpartition(".")[0]] if name == "members" else []))


def _cell(value: object) -> object:
    """As it is written: a text that a spreadsheet would take for a formula begins with an apostrophe.

    >>> _cell("=HYPERLINK(1)"), _cell("oats"), _cell(-1.5), _cell(("a", "b")), _cell(None)
    ("'=HYPERLINK(1)", 'oats', -1.5, '["a", "b"]', '')
    """
    if isinstance(value, str):
        return f"'{value}" if value.startswith(_FORMULA) else value.replace("\0", "\ufffd")
    if isinstance(value, tuple):
        return json.dumps(value, ensure_ascii=False)
    return "" if value is None else value
