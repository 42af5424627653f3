"""a table over one connection -> its raw rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kumihimo.core.table import Row

if TYPE_CHECKING:
    from kumihimo.storage.sqlite.store import Db


@dataclass(frozen=True, slots=True)
class SqlRows:
    """The raw rows of one table over one connection."""

    db: Db
    table: str

    def get(self, id: str) -> Row | None:
        return self.db.one(f'SELECT * FROM "{self.table}" WHERE id = ?', id)

    def get_many(self, ids: Sequence[str]) -> list[Row]:
        return self.db.all_in(f'SELECT * FROM "{self.table}" WHERE id IN (?)', ids)

    def where(self, columns: tuple[str, ...], values: tuple[object, ...]) -> list[Row]:
        condition = " AND ".join(f'"{column}" IS ?' for column in columns)
        return self.db.all(f'SELECT * FROM "{self.table}" WHERE {condition} ORDER BY id', *values)

    def ids(self, columns: tuple[str, ...], values: tuple[object, ...]) -> list[str]:
        condition = " AND ".join(f'"{column}" IS ?' for column in columns)
        return [id for (id,) in self.db.all(f'SELECT id FROM "{self.table}" WHERE {condition} ORDER BY id', *values)]

    def ids_grouped(self, column: str, values: Sequence[str], limit: int | None = None) -> list[tuple[str, str]]:
        if limit is None:
            query = f'SELECT "{column}", id FROM "{self.table}" WHERE "{column}" IN (?) ORDER BY "{column}", id'
            return self.db.all_in(query, values)
        subquery = f'SELECT id FROM "{self.table}" WHERE "{column}" = value ORDER BY id LIMIT ?'
        query = f"SELECT value, (SELECT json_group_array(id) FROM ({subquery})) FROM json_each(?)"
        groups = self.db.all(query, limit, json.dumps(list(values)))
        return [(value, id) for value, ids in groups for id in json.loads(ids)]

    def child_values(self, parents: Sequence[str], column: str) -> dict[str, list[Any]]:
        condition = "id > value || '.' AND id < value || '/'"  # / follows . in ASCII
        subquery = f'SELECT "{column}" AS child FROM "{self.table}" WHERE {condition} ORDER BY id'
        query = f"SELECT value, (SELECT json_group_array(child) FROM ({subquery})) FROM json_each(?)"
        return {parent: json.loads(values) for parent, values in self.db.all(query, json.dumps(list(parents)))}

    def pages(self, *columns: str) -> Iterator[list[Row]]:
        names = "*" if not columns else ", ".join(f'"{c}"' for c in ("id", *columns))
        for page in self.db.paged(f'SELECT {names} FROM "{self.table}" WHERE id > ?'):
            yield [row[1:] for row in page] if columns else page

    def count(self) -> int:
        return int(self.db.all(f'SELECT count(*) FROM "{self.table}"')[0][0])
