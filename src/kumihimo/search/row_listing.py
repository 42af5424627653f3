"""a table + an order + a part of a name -> its rows page by page, without reading the others."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import merge
from typing import Any, TypeVar
from unicodedata import normalize

from kumihimo.core.errors import StepError, describe_unknown
from kumihimo.core.records import Record
from kumihimo.core.table import Row, Table
from kumihimo.storage.database import Database

R = TypeVar("R", bound=Record)
_CANDIDATES = 500  # rows of one query; some of them may be hidden
_GLOB_CHARS = "*?["
_LETTERS = "0-9A-Za-zÀ-\u1fff"  # of scripts that put spaces between words; for SQLite as for `re`
_EXACT, _WORD, _BEGINNING, _PART = 3, 2, 1, 0  # how well a text matches
Position = tuple[int, Any, str]  # how well the text matches, the value of the order, the id


@dataclass(frozen=True, slots=True)
class Listing:
    """The order of the rows of a table, and which of them are listed.

    order: a column, of numbers if `descending`; the best matches of the text come first: whole values of the first of
    `columns`, then whole words, then beginnings, then others. text: a part of one of `columns`, in any case of
    letters; a JSON column counts as its items. any_of: columns and values; a row has one of them.
    """

    order: str
    descending: bool = False
    text: str = ""
    columns: tuple[str, ...] = ()
    any_of: Mapping[str, object] = field(default_factory=dict)

    def ids(self, db: Database, table: Table[Any], after: str = "") -> Iterator[str]:
        """Yield the ids of all matching rows that are shown as stored.

        after: the id of a row; the ones behind it. Nothing is yielded if that row is gone or hidden.
        """
        start = self.find(db, table, after) if after else None
        if start or not after:
            yield from (id for _, _, id in self.positions(db, table, start))

    def find(self, db: Database, table: Table[Any], id: str) -> Position | None:
        """Return the position of a row that is shown as stored."""
        inner, values = self._matches(db, table)
        rows = db.all(f"SELECT match, key, id FROM ({inner}) AS matches WHERE id = ?", *values, id)
        return next(((match, key, id) for match, key, id in rows if _is_whole(table, id)), None)

    def positions(self, db: Database, table: Table[Any], start: Position | None) -> Iterator[Position]:
        """Yield the positions of rows that are shown as stored, in order.

        start: the position before the first one; None: all.
        """
        inner, values = self._matches(db, table)
        while True:
            page = self._read_page(db, inner, values, start)
            yield from (position for position in page if _is_whole(table, position[2]))
            if len(page) < _CANDIDATES:
                return
            start = page[-1]

    def sort_key(self, position: Position) -> Position:
        """Return a key that sorts positions as the database does."""
        match, key, id = position
        return -match, -key if self.descending else key, id

    def partial_positions(self, table: Table[Any]) -> dict[str, Position]:
        """Return the positions of partial rows with the text."""
        places = {name: table.codec.columns.index(name) for name in (self.order, *self.any_of)}
        found: dict[str, Position] = {}
        for row in table.view.partial_rows() if table.view else ():
            is_wanted = not self.any_of or any(row[places[name]] == value for name, value in self.any_of.items())
            if is_wanted and (match := self._rate(table, row)) is not None:
                found[row[0]] = match, row[places[self.order]], row[0]
        return found

    def _rate(self, table: Table[Any], row: Row) -> int | None:
        """Return how well a row has the text; None: not at all."""
        if not self.text:
            return _PART
        record = table.codec.decode(row)
        if not _has_text(record, self):
            return None
        first, wanted = _fold(str(getattr(record, self.columns[0]))), _fold(self.text)
        if first == wanted:
            return _EXACT
        if _is_words(self.text) and re.search(f"[^{_LETTERS}]{re.escape(wanted)}[^{_LETTERS}]", f" {first} "):
            return _WORD
        return _BEGINNING if first.startswith(wanted) else _PART

    def _read_page(self, db: Database, inner: str, values: list[object], position: Position | None) -> list[Position]:
        direction, beyond = ("DESC", "<") if self.descending else ("ASC", ">")
        condition, bound = "", list[object]()
        if position:
            match, key, id = position
            condition = f"WHERE match < ? OR (match = ? AND (key {beyond} ? OR (key = ? AND id > ?)))"
            bound = [match, match, key, key, id]
        order = f"ORDER BY match DESC, key {direction}, id LIMIT {_CANDIDATES}"
        rows = db.all(f"SELECT match, key, id FROM ({inner}) AS matches {condition} {order}", *values, *bound)
        return [(match, key, id) for match, key, id in rows]

    def _matches(self, db: Database, table: Table[Any]) -> tuple[str, list[object]]:
        """Return the query of all matching rows, and its values."""
        kinds = dict(zip(table.codec.columns, table.codec.sql_types, strict=True))
        if unknown := next((name for name in (self.order, *self.columns, *self.any_of) if name not in kinds), ""):
            raise StepError(f"table {table.name}: {describe_unknown('column', unknown, kinds)}")
        match, values, conditions = str(_PART), list[object](), list[str]()
        if self.text:
            match, values = self._match_sql(db, glob_pattern(self.text))
            in_json = json.dumps(self.text, ensure_ascii=False)[1:-1]
            tests = [_contains(db, name, in_json if kinds[name] == "JSON" else self.text) for name in self.columns]
            conditions.append(" OR ".join(sql for sql, _ in tests))
            values += [pattern for _, pattern in tests]
        if self.any_of:
            conditions.append(" OR ".join(f'"{column}" = ?' for column in self.any_of))
            values += self.any_of.values()
        where = f" WHERE {' AND '.join(f'({condition})' for condition in conditions)}" if conditions else ""
        return f'SELECT id, {match} AS match, "{self.order}" AS key FROM {db.relation(table.name)}{where}', values

    def _match_sql(self, db: Database, pattern: str) -> tuple[str, list[object]]:
        """Return the SQL of how well a row has the text.

        pattern: of the text. With the SQL come its values.
        """
        first = f'"{self.columns[0]}"'
        cases: list[tuple[str, int, str]] = [(first, _EXACT, pattern)]
        if _is_words(self.text):
            cases.append((f"' ' || {first} || ' '", _WORD, f"*[^{_LETTERS}]{pattern}[^{_LETTERS}]*"))
        cases.append((first, _BEGINNING, f"{pattern}*"))
        tests = [(*db.glob(value, pattern), match) for value, match, pattern in cases]
        sql = " ".join(f"WHEN {test} THEN {match}" for test, _, match in tests)
        return f"CASE {sql} ELSE {_PART} END", [value for _, value, _ in tests]


def _is_words(text: str) -> bool:
    """Return whether a text begins and ends as words do.

    >>> [_is_words(text) for text in ("Long Arm", "Émile", "渡し", "C++")]
    [True, True, False, False]
    """
    return bool(re.match(f"[{_LETTERS}]", text[0]) and re.match(f"[{_LETTERS}]", text[-1]))


def list_rows(db: Database, table: Table[R], listing: Listing, after: str = "") -> Iterator[R]:
    """Yield the visible rows of a listing, read page by page.

    Rows that are shown in part stand where what is shown of them belongs. A text is compared again with the rows that
    are read: the pattern of the database finds a little more.
    """
    partial = listing.partial_positions(table)
    start = (partial.get(after) or listing.find(db, table, after)) if after else None
    if after and not start:
        return
    key = listing.sort_key
    behind = sorted((p for p in partial.values() if not start or key(p) > key(start)), key=key)
    batch: list[str] = []
    size = 20  # most callers want one page
    for _, _, id in merge(listing.positions(db, table, start), behind, key=key):
        batch.append(id)
        if len(batch) == size:
            yield from _visible_rows(table, listing, batch)
            batch, size = [], min(2 * size, _CANDIDATES)
    yield from _visible_rows(table, listing, batch)


def _visible_rows(table: Table[R], listing: Listing, ids: Iterable[str]) -> Iterator[R]:
    for row in table.get_many(ids).values():
        if not listing.text or _has_text(row, listing):
            yield row


def _is_whole(table: Table[Any], id: str) -> bool:
    return table.view is None or table.view.is_whole(id)


def _has_text(row: Record, listing: Listing) -> bool:
    wanted = _fold(listing.text)
    values = (getattr(row, column) for column in listing.columns)
    texts = (text for value in values for text in (value if isinstance(value, tuple) else (value,)))
    return any(wanted in _fold(text) for text in texts)


def _fold(text: str) -> str:
    return normalize("NFC", text).casefold()


def _contains(db: Database, column: str, text: str) -> tuple[str, str]:
    """Return a test for a text in a column, in any case.

    For ASCII, this takes a fraction of the time of a GLOB pattern.
    """
    if text.isascii():
        return db.contains(f'"{column}"', text)
    return db.glob(f'"{column}"', f"*{glob_pattern(text)}*")


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
