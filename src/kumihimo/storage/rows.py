"""a table over one connection -> its raw rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kumihimo.core.table import Row

if TYPE_CHECKING:
    from kumihimo.storage.database import Database


@dataclass(frozen=True, slots=True)
class SqlRows:
    """The raw rows of one table over one connection."""

    db: Database
    table: str

    def get(self, id: str) -> Row | None:
        return self.db.one(f"SELECT * FROM {self.db.relation(self.table)} WHERE id = ?", id)

    def get_many(self, ids: Sequence[str]) -> list[Row]:
        return self.db.all_in(f"SELECT * FROM {self.db.relation(self.table)} WHERE id IN (?)", ids)

    def where(self, columns: tuple[str, ...], values: tuple[object, ...]) -> list[Row]:
        return self._select("*", columns, values)

    def ids(self, columns: tuple[str, ...], values: tuple[object, ...]) -> list[str]:
        return [id for (id,) in self._select("id", columns, values)]

    def _select(self, names: str, columns: tuple[str, ...], values: tuple[object, ...]) -> list[Row]:
        tests = (
            f'"{column}" IS NULL' if value is None else f'"{column}" = ?'
            for column, value in zip(columns, values, strict=True)
        )
        condition = " AND ".join(tests)
        present = (value for value in values if value is not None)
        return self.db.all(
            f"SELECT {names} FROM {self.db.relation(self.table)} WHERE {condition} ORDER BY id", *present
        )

    def ids_grouped(self, column: str, values: Sequence[str], limit: int | None = None) -> list[tuple[str, str]]:
        if limit is not None:
            return self.db.ids_grouped(self.table, column, values, limit)
        relation = self.db.relation(self.table)
        query = f'SELECT "{column}", id FROM {relation} WHERE "{column}" IN (?) ORDER BY "{column}", id'
        return self.db.all_in(query, values)

    def child_values(self, parents: Sequence[str], column: str) -> dict[str, list[Any]]:
        return self.db.child_values(self.table, parents, column)

    def pages(self, *columns: str) -> Iterator[list[Row]]:
        names = "*" if not columns else ", ".join(f'"{c}"' for c in ("id", *columns))
        for page in self.db.paged(f"SELECT {names} FROM {self.db.relation(self.table)} WHERE id > ?"):
            yield [row[1:] for row in page] if columns else page

    def count(self) -> int:
        return int(self.db.all(f"SELECT count(*) FROM {self.db.relation(self.table)}")[0][0])
