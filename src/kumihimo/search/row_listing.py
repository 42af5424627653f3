"""a table + an order + a part of a name -> its rows page by page, without reading the others."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar
from unicodedata import normalize

from kumihimo.core.errors import StepError, describe_unknown
from kumihimo.core.records import Record
from kumihimo.core.table import Table
from kumihimo.storage.sqlite.store import Db

R = TypeVar("R", bound=Record)
_CANDIDATES = 500  # rows of one query; some of them may be hidden
_GLOB_CHARS = "*?["
Position = tuple[int, Any, str]  # how well the text matches, the value of the order, the id


@dataclass(frozen=True, slots=True)
class Listing:
    """The order of the rows of a table, and which of them are listed.

    order: a column; the best matches of the text come first. text: a part of one of `columns`, in any case of letters;
    a JSON column counts as its items. any_of: columns and values; a row has one of them.
    """

    order: str
    descending: bool = False
    text: str = ""
    columns: tuple[str, ...] = ()
    any_of: Mapping[str, object] = field(default_factory=dict)

    def ids(self, db: Db, table: Table[Any], after: str = "") -> Iterator[str]:
        """Yield the ids of all matching rows, hidden ones too.

        after: the id of a row; the ones behind it. Nothing is yielded if that row is gone.
        """
        inner, values = self._matches(table)
        position = _read_position(db, inner, values, after) if after else None
        while not after or position:
            page = self._read_page(db, inner, values, position)
            yield from (id for _, _, id in page)
            if len(page) < _CANDIDATES:
                return
            after, position = page[-1][2], page[-1]

    def _read_page(self, db: Db, inner: str, values: list[object], position: Position | None) -> list[Position]:
        direction, beyond = ("DESC", "<") if self.descending else ("ASC", ">")
        condition, bound = "", list[object]()
        if position:
            match, key, id = position
            condition = f"WHERE match < ? OR (match = ? AND (key {beyond} ? OR (key = ? AND id > ?)))"
            bound = [match, match, key, key, id]
        order = f"ORDER BY match DESC, key {direction}, id LIMIT {_CANDIDATES}"
        rows = db.all(f"SELECT match, key, id FROM ({inner}) {condition} {order}", *values, *bound)
        return [(match, key, id) for match, key, id in rows]

    def _matches(self, table: Table[Any]) -> tuple[str, list[object]]:
        """Return the query of all matching rows, and its values."""
        kinds = dict(zip(table.codec.columns, table.codec.sql_types, strict=True))
        if unknown := next((name for name in (self.order, *self.columns, *self.any_of) if name not in kinds), ""):
            raise StepError(f"table {table.name}: {describe_unknown('column', unknown, kinds)}")
        match, values, conditions = "0", list[object](), list[str]()
        if self.text:
            plain, in_json = glob_pattern(self.text), glob_pattern(json.dumps(self.text, ensure_ascii=False)[1:-1])
            match = f'("{self.columns[0]}" GLOB ?) * 2 + ("{self.columns[0]}" GLOB ?)'
            conditions.append(" OR ".join(f'"{column}" GLOB ?' for column in self.columns))
            values += [plain, f"{plain}*"]
            values += [f"*{in_json if kinds[column] == 'JSON' else plain}*" for column in self.columns]
        if self.any_of:
            conditions.append(" OR ".join(f'"{column}" = ?' for column in self.any_of))
            values += self.any_of.values()
        where = f" WHERE {' AND '.join(f'({condition})' for condition in conditions)}" if conditions else ""
        return f'SELECT id, {match} AS match, "{self.order}" AS key FROM "{table.name}"{where}', values


def _read_position(db: Db, inner: str, values: list[object], id: str) -> Position | None:
    row = db.one(f"SELECT match, key, id FROM ({inner}) WHERE id = ?", *values, id)
    return (row[0], row[1], row[2]) if row else None


def list_rows(db: Db, table: Table[R], listing: Listing, after: str = "") -> Iterator[R]:
    """Yield the visible rows of a listing, read page by page.

    A text is compared again with what is visible of a row: hidden documents may hold other forms of a name.
    """
    batch: list[str] = []
    size = 20  # most callers want one page
    for id in listing.ids(db, table, after):
        batch.append(id)
        if len(batch) == size:
            yield from _visible_rows(table, listing, batch)
            batch, size = [], _CANDIDATES
    yield from _visible_rows(table, listing, batch)


def _visible_rows(table: Table[R], listing: Listing, ids: Iterable[str]) -> Iterator[R]:
    for row in table.get_many(ids).values():
        if not listing.text or _has_text(row, listing):
            yield row


def _has_text(row: Record, listing: Listing) -> bool:
    wanted = normalize("NFC", listing.text).casefold()
    values = (getattr(row, column) for column in listing.columns)
    texts = (text for value in values for text in (value if isinstance(value, tuple) else (value,)))
    return any(wanted in normalize("NFC", text).casefold() for text in texts)


def glob_pattern(text: str) -> str:
    """Return a GLOB pattern of a text in any case of letters.

    >>> glob_pattern("Æ 5*")
    '[æÆ] 5[*]'
    """
    parts = []
    for char in normalize("NFC", text):
        cases = [case for case in dict.fromkeys((char.lower(), char.upper())) if len(case) == 1]
        parts.append(f"[{''.join(cases)}]" if len(cases) > 1 or char in _GLOB_CHARS else char)
    return "".join(parts)
