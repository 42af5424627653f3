"""one write transaction -> SqlLedger: the tables as they are becoming, and what is remembered of each step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from kumihimo.core.table import Codec, Row, lookup_hash
from kumihimo.core.wiring import ROOT
from kumihimo.storage.sqlite.store import PAGE_ROWS, Db, SqlRows

_TEMPORARY_TABLES = """
CREATE TEMP TABLE todo (wave INTEGER, key TEXT, PRIMARY KEY (wave, key)) WITHOUT ROWID;
CREATE TEMP TABLE changed (tbl TEXT, col TEXT, key TEXT, PRIMARY KEY (tbl, col, key)) WITHOUT ROWID
"""
_REMOVED_WAVE = -(2**62)  # the wave of keys whose row is gone: their rows go first


class DerivedView(Protocol):
    """Another shape of a table, kept in step with it."""

    def replace(self, old: list[Row], new: list[Row]) -> None: ...
    def clear(self) -> None: ...


class SqlLedger:
    """`core.flow.Ledger` over one SQLite connection; every statement is read to its end at once."""

    def __init__(self, db: Db) -> None:
        self.db = db
        self.views: defaultdict[str, list[DerivedView]] = defaultdict(list)
        self.todo_count = 0
        self.rows_written: dict[str, int] = {}  # rows put into each table, new or changed
        self._empty_at_start: set[str] = set()  # tables that were empty: all in them is new, so nothing is noted
        self._changed_tables: set[str] = set()
        self._watched_keys: defaultdict[str, set[str]] = defaultdict(set)
        self._watched_lookups: defaultdict[str, set[tuple[str, ...]]] = defaultdict(set)
        self._changed_lookups: defaultdict[str, set[int]] = defaultdict(set)
        self._columns: dict[str, tuple[str, ...]] = {}
        self._indexes: dict[str, list[tuple[str, ...]]] = {}
        self._dropped_tables: set[str] = set()  # tables whose rows had to go, and with them all that was made of them
        self._current_work = ("", "", "", False)
        self._last_wave: int | None = None
        for statement in _TEMPORARY_TABLES.split(";"):
            db.run(statement)

    # -- tables

    def ensure_table(self, table: str, codec: Codec[Any], source: str = "", key: str = "") -> bool:
        """Make sure the table is there with these columns; true if what it held had to go.

        source, key: what its rows are keyed by; no key: it is made as a whole, and keeps its rows to compare with.
        """
        wanted = f"{_ddl(table, codec)} -- {source}.{key}"
        held = self.db.one("SELECT shape FROM steps WHERE step = ?", table)
        emptied = (bool(key) and source in self._dropped_tables) or (held is not None and held[0] != wanted)
        if emptied:
            self._dropped_tables.add(table)
            self.db.run(f'DROP TABLE IF EXISTS "{table}"')
            self.db.run("DELETE FROM looked WHERE step = ?", table)
            self._changed_tables.add(table)
            for view in self.views[table]:
                view.clear()
        if emptied or held is None:
            self.db.run(_ddl(table, codec))
            self.db.run("INSERT OR REPLACE INTO steps VALUES (?, NULL, ?)", table, wanted)
        self._columns[table] = codec.columns
        self._indexes[table] = [look for look in codec.lookup_keys if look != ("id",)]
        if self.db.one(f'SELECT 1 FROM "{table}" LIMIT 1') is None:
            self._empty_at_start.add(table)
        return emptied

    def retire(self, steps: list[str]) -> None:
        """Drop the tables of keyed steps that are not built any more: the memo makes them again.

        Those of whole steps stay, as what they had made before: they may remember.
        """
        for step, shape in self.db.all("SELECT step, shape FROM steps"):
            if step not in steps and step != ROOT:
                self.db.run("DELETE FROM looked WHERE step = ?", step)
                self.db.run("DELETE FROM failed WHERE step = ?", step)
                self.db.run("UPDATE steps SET fingerprint = NULL WHERE step = ?", step)
                if not shape.endswith("."):
                    self.db.run("DELETE FROM steps WHERE step = ?", step)
                    self.db.run(f'DROP TABLE IF EXISTS "{step}"')

    def settle(self, table: str) -> None:
        """Make the indexes, which is quicker after a bulk load than during it."""
        for columns in self._indexes[table]:
            name = "_".join([table, *columns])
            listed = ", ".join(f'"{c}"' for c in (*columns, "id"))
            self.db.run(f'CREATE INDEX IF NOT EXISTS "{name}" ON "{table}" ({listed})')

    def rows(self, table: str) -> SqlRows:
        return SqlRows(self.db, table)

    def grouped(self, table: str, column: str, keys: list[str]) -> dict[str, list[Row]]:
        """The rows of each key, sorted by id."""
        at = self._columns[table].index(column)
        marks = ",".join("?" * len(keys))
        found: defaultdict[str, list[Row]] = defaultdict(list)
        order = "id" if column == "id" else f'"{column}", id'
        for row in self.db.all(f'SELECT * FROM "{table}" WHERE "{column}" IN ({marks}) ORDER BY {order}', *keys):
            found[row[at]].append(row)
        return found

    def rows_by_maker(self, table: str, makers: list[str], *, many: bool) -> dict[str, list[Row]]:
        """What these makers (sorted) made before."""
        if table in self._empty_at_start or not makers:
            return {}
        if not many:
            return self.grouped(table, "id", makers)
        between = f'SELECT * FROM "{table}" WHERE id > ? AND id < ? ORDER BY id'
        if not self._current_work[3]:
            return {maker: self.db.all(between, f"{maker}.", f"{maker}/") for maker in makers}
        found: defaultdict[str, list[Row]] = defaultdict(list)
        first, last = min(f"{maker}." for maker in makers), max(f"{maker}/" for maker in makers)
        for row in self.db.all(between, first, last):
            found[row[0].rpartition(".")[0]].append(row)
        return found

    def change(self, table: str, old: list[Row], new: list[Row]) -> None:
        """Take rows away and put others; a changed row is in both."""
        if not old and not new:
            return
        self._changed_tables.add(table)
        self.rows_written[table] = self.rows_written.get(table, 0) + len(new)
        self.db.many(f'DELETE FROM "{table}" WHERE id = ?', ((row[0],) for row in old))
        marks = ",".join("?" * len(self._columns[table]))
        self.db.many(f'INSERT INTO "{table}" VALUES ({marks})', new)
        if table not in self._empty_at_start:
            self._record_changes(table, old)
            self._record_changes(table, new)
        for view in self.views[table]:
            view.replace(old, new)

    # -- what changed

    def watch(self, table: str, key: str | None, lookup_keys: Iterable[tuple[str, ...]]) -> None:
        """Note, from now on, which keys and which look-ups of this table have another answer."""
        self._watched_keys[table].update([key] if key else [])
        self._watched_lookups[table].update(lookup_keys)

    def changed(self, table: str) -> bool:
        return table in self._changed_tables

    def changed_lookups(self, table: str) -> set[int] | None:
        """The look-ups whose answer changed; None where any may have."""
        return None if table in self._empty_at_start and table in self._changed_tables else self._changed_lookups[table]

    def _record_changes(self, table: str, rows: list[Row]) -> None:
        columns = self._columns[table]
        for column in self._watched_keys[table]:
            at = columns.index(column)
            keys = ((table, column, row[at]) for row in rows if row[at] is not None)
            self.db.many("INSERT OR IGNORE INTO changed VALUES (?, ?, ?)", keys)
        for asked in self._watched_lookups[table]:
            ats = [columns.index(column) for column in asked]
            self._changed_lookups[table].update(lookup_hash(table, asked, [row[at] for at in ats]) for row in rows)

    # -- work

    def todo(self, step: str, source: str, key: str, wave: str, *, everything: bool) -> None:
        """List the keys to work on: those that changed, those that failed, or all."""
        everything = everything or source in self._empty_at_start
        self._current_work = (source, key, wave, everything)
        self._last_wave = None
        self.db.run("DELETE FROM todo")
        if everything:
            level, kind = (f'-"{wave}"' if wave else "0"), ("" if key == "id" else "DISTINCT")
            keys = f'SELECT {kind} {level}, "{key}" FROM "{source}" WHERE "{key}" IS NOT NULL'
            self.db.run(f"INSERT INTO todo {keys} ORDER BY 1, 2")
        self.add_keys(self._changed_keys(source, key))
        self.add_keys(self.failures(step))

    def _changed_keys(self, table: str, column: str) -> Iterator[str]:
        after = ""
        ask = f"SELECT key FROM changed WHERE tbl = ? AND col = ? AND key > ? ORDER BY key LIMIT {PAGE_ROWS}"
        while page := self.db.all(ask, table, column, after):
            after = page[-1][0]
            yield from (key for (key,) in page)

    def add_keys(self, keys: Iterable[str]) -> None:
        """Work on these too, where their wave has not passed."""
        source, key, wave, _ = self._current_work
        for batch in _batches(keys, PAGE_ROWS):
            levels = dict.fromkeys(batch, _REMOVED_WAVE if wave else 0)
            if wave:
                marks = ",".join("?" * len(batch))
                levels |= dict(
                    self.db.all(f'SELECT "{key}", -"{wave}" FROM "{source}" WHERE "{key}" IN ({marks})', *batch)
                )
            late = ((level, k) for k, level in levels.items() if self._last_wave is None or level > self._last_wave)
            self.db.many("INSERT OR IGNORE INTO todo VALUES (?, ?)", late)

    def waves(self) -> Iterator[Iterator[list[str]]]:
        """The keys, deepest wave first, in sorted pages; a wave may add to the ones after it."""
        finished = 0
        while True:
            (wave, left) = self.db.all("SELECT min(wave), count(*) FROM todo")[0]
            if wave is None:
                return
            self.todo_count = finished + left
            yield self._pages(wave)
            self._last_wave = wave
            self.db.run("DELETE FROM todo WHERE wave = ?", wave)
            finished = self.todo_count - self.db.all("SELECT count(*) FROM todo")[0][0]

    def _pages(self, wave: int) -> Iterator[list[str]]:
        after = ""
        ask = "SELECT key FROM todo WHERE wave = ? AND key > ? ORDER BY key LIMIT 512"
        while page := [key for (key,) in self.db.all(ask, wave, after)]:
            after = page[-1]
            yield page

    # -- remembered between builds

    def fingerprint(self, step: str) -> str | None:
        row = self.db.one("SELECT fingerprint FROM steps WHERE step = ?", step)
        return row[0] if row else None

    def set_fingerprint(self, step: str, fingerprint: str) -> None:
        self.db.run("UPDATE steps SET fingerprint = ? WHERE step = ?", fingerprint, step)

    def failures(self, step: str) -> dict[str, str]:
        return dict(self.db.all("SELECT maker, error FROM failed WHERE step = ? ORDER BY maker", step))

    def record_failures(self, step: str, errors: Iterable[tuple[str, str | None]]) -> None:
        write_failures(self.db, step, errors)

    def dependencies(self, step: str) -> Iterator[tuple[str, bytes]]:
        after = ""
        ask = f"SELECT maker, at FROM looked WHERE step = ? AND maker > ? ORDER BY maker LIMIT {PAGE_ROWS}"
        while page := self.db.all(ask, step, after):
            after = page[-1][0]
            yield from ((maker, at) for maker, at in page)

    def record_dependencies(self, step: str, dependencies: Iterable[tuple[str, bytes]]) -> None:
        """Write down what each maker looked up; one that looked nothing up leaves no line."""
        dependencies = list(dependencies)
        self.db.many("DELETE FROM looked WHERE step = ? AND maker = ?", ((step, m) for m, at in dependencies if not at))
        self.db.many("INSERT OR REPLACE INTO looked VALUES (?, ?, ?)", ((step, m, at) for m, at in dependencies if at))


def write_failures(db: Db, step: str, errors: Iterable[tuple[str, str | None]]) -> None:
    """Write down what failed, and why; None takes it off the list."""
    told = list(errors)
    db.many("DELETE FROM failed WHERE step = ? AND maker = ?", ((step, maker) for maker, _ in told))
    db.many("INSERT INTO failed VALUES (?, ?, ?)", ((step, maker, error) for maker, error in told if error))


def _ddl(table: str, codec: Codec[Any]) -> str:
    columns = ", ".join(
        f'"{name}" {"TEXT" if kind == "JSON" else kind}{" PRIMARY KEY" * (name == "id")}{"" if null else " NOT NULL"}'
        for name, kind, null in zip(codec.columns, codec.sql_types, codec.nullable, strict=True)
    )
    return f'CREATE TABLE "{table}" ({columns}){"" if codec.record.BIG else " WITHOUT ROWID"}'


def _batches(keys: Iterable[str], size: int) -> Iterator[list[str]]:
    batch: list[str] = []
    for key in keys:
        batch.append(key)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
