"""records -> Table: a table in memory, as a step is given it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from kumihimo.core.records import Record
from kumihimo.core.table import Row, Table, codec, lookup_values
from kumihimo.core.view_rows import hide

R = TypeVar("R", bound=Record)


def hide_rows(table: Table[R], visible: Callable[[str], bool]) -> Table[R]:
    """Return the table with only these rows."""
    view = hide(table.rows, visible)
    return Table(table.name, table.codec, view, table.record_lookup, view)


class Held:
    """Rows by id, and by whatever columns they were once asked for. read: how many were, one by one or some."""

    def __init__(self, columns: tuple[str, ...], rows: Iterable[Row]) -> None:
        self.columns, self.rows, self.read = columns, {row[0]: row for row in rows}, 0
        self.found: dict[tuple[str, ...], dict[tuple[object, ...], list[Row]]] = {}

    def get_many(self, ids: Sequence[str]) -> list[Row]:
        rows = [self.rows[id] for id in ids if id in self.rows]
        self.read += len(rows)
        return rows

    def where(self, columns: tuple[str, ...], values: tuple[object, ...]) -> list[Row]:
        if columns not in self.found:
            by = self.found[columns] = defaultdict(list)
            for row in self.rows.values():
                by[self._of(row, columns)].append(row)
        return self.found[columns].get(values, [])

    def ids(self, columns: tuple[str, ...], values: tuple[object, ...]) -> list[str]:
        return [row[0] for row in self.where(columns, values)]

    def ids_grouped(self, column: str, values: Sequence[str], most: int | None = None) -> list[tuple[str, str]]:
        return [(value, id) for value in values for id in self.ids((column,), (value,))[:most]]

    def child_values(self, makers: Sequence[str], column: str) -> dict[str, list[Any]]:
        at = self.columns.index(column)
        return {m: [row[at] for row in self.rows.values() if row[0].startswith(f"{m}.")] for m in makers}

    def pages(self, *columns: str) -> Iterator[list[Row]]:
        yield [self._of(row, columns) for row in self.rows.values()] if columns else list(self.rows.values())

    def count(self) -> int:
        return len(self.rows)

    def _of(self, row: Row, columns: tuple[str, ...]) -> Row:
        return tuple(lookup_values(self.columns, row, columns))


def table(record: type[R], records: Iterable[R], *, shuffled: bool = False) -> Table[R]:
    """Sorted by id, as the store has them."""
    kept = codec(record)
    rows = [kept.encode(r.id, r) for r in records]
    return Table(record.__name__.lower(), kept, Held(kept.columns, rows if shuffled else sorted(rows)))
