"""one write transaction -> SqlLedger: the tables during a build, and the stored state of each step."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import Any, Protocol
from zlib import crc32

from kumihimo.core.table import Codec, Row, lookup_hash, lookup_values
from kumihimo.core.wiring import ROOT
from kumihimo.storage.database import PAGE_ROWS, Database, SqlRows

RESERVED_NAMES = ("steps", "failed", "looked", "meta", "texts", "files", "relations", "todo", "changed")  # not of steps
_REMOVED_WAVE = -(2**62)  # of keys whose row was removed: it runs before all other waves


class DerivedView(Protocol):
    """A search structure over a table, updated with it."""

    def replace(self, old: list[Row], new: list[Row]) -> None: ...
    def clear(self) -> None: ...


class SqlLedger:
    """A `core.engine.Ledger` over one connection.

    Every statement is read to its end at once.
    """

    def __init__(self, db: Database) -> None:
        self.db = db
        self.views: defaultdict[str, list[DerivedView]] = defaultdict(list)
        self.todo_count = 0
        self.rows_written: dict[str, int] = {}  # by table: new and changed rows
        self._empty_at_start: set[str] = set()  # every row in these tables is new, so changes are not recorded
        self._changed_tables: set[str] = set()
        self._watched_keys: defaultdict[str, set[str]] = defaultdict(set)
        self._watched_lookups: defaultdict[str, set[tuple[str, ...]]] = defaultdict(set)
        self._changed_lookups: defaultdict[str, set[int]] = defaultdict(set)
        self._codecs: dict[str, Codec[Any]] = {}
        self._sums: dict[str, int] = {}  # the checksum of each table
        self._dropped_tables: set[str] = set()  # with them go the tables made from them
        self._current_work = ("", "", "", False)
        self._last_wave: int | None = None
        text = db.types["TEXT"]
        db.run(f"CREATE TEMP TABLE todo (wave {db.types['INTEGER']}, key {text}, PRIMARY KEY (wave, key))")
        db.run(f"CREATE TEMP TABLE changed (tbl {text}, col {text}, key {text}, PRIMARY KEY (tbl, col, key))")

    # -- tables

    def ensure_table(self, table: str, codec: Codec[Any], source: str = "", key: str = "") -> bool:
        """Create the table if needed; return whether old rows were dropped.

        source, key: the table and column that key its rows; `*`: it is made as a whole. Without a key its step reads
        the earlier rows, so that they are kept.
        """
        shape = f"{self.db.rows_shape(table, codec)} -- {source}.{key}"
        stored = self.db.one("SELECT shape FROM steps WHERE step = ?", table)
        emptied = (bool(key) and source in self._dropped_tables) or (stored is not None and stored[0] != shape)
        if emptied:
            self._dropped_tables.add(table)
            self.db.drop_table(table)
            self.db.run("DELETE FROM looked WHERE step = ?", table)
            self._changed_tables.add(table)
            for view in self.views[table]:
                view.clear()
        if emptied or stored is None:
            self.db.create_rows(table, codec)
            update = "ON CONFLICT (step) DO UPDATE SET fingerprint = NULL, shape = excluded.shape"
            self.db.run(f"INSERT INTO steps VALUES (?, NULL, ?) {update}", table, shape)
        self._codecs[table] = codec
        if self.db.one(f"SELECT 1 FROM {self.db.relation(table)} LIMIT 1") is None:
            self._empty_at_start.add(table)
        known_sum = 0 if table in self._empty_at_start else self.db.meta(checksum_name(table))
        self._sums[table] = sum(map(sum_rows, self.rows(table).pages())) if known_sum is None else known_sum
        return emptied

    def retire(self, steps: list[str]) -> None:
        """Drop the tables that are not built any more.

        The response cache makes them again. A table that is made as a whole stays if its step reads its earlier rows,
        as `communities` does. One with keys, as `reports`, does not: its rows hold texts, and documents may be removed
        while no step updates it. What its step remembered may be paid again.
        """
        for step, shape in self.db.all("SELECT step, shape FROM steps"):
            if step not in steps and step != ROOT:
                self.db.run("DELETE FROM looked WHERE step = ?", step)
                self.db.run("DELETE FROM failed WHERE step = ?", step)
                self.db.run("UPDATE steps SET fingerprint = NULL WHERE step = ?", step)
                if not shape.endswith("."):
                    self.db.run("DELETE FROM steps WHERE step = ?", step)
                    self.db.drop_table(step)

    def settle(self, table: str) -> None:
        """Create the indexes: quicker after a bulk load than during it."""
        self.db.index_rows(table, self._codecs[table])
        if self.db.meta(checksum_name(table)) != self._sums[table]:
            self.db.set_meta(checksum_name(table), self._sums[table])

    def rows(self, table: str) -> SqlRows:
        return SqlRows(self.db, table)

    def grouped(self, table: str, column: str, keys: list[str]) -> dict[str, list[Row]]:
        """Return the rows of each key, sorted by id."""
        position = self._codecs[table].columns.index(column)
        by_key: defaultdict[str, list[Row]] = defaultdict(list)
        order = "id" if column == "id" else f'"{column}", id'
        query = f'SELECT * FROM {self.db.relation(table)} WHERE "{column}"'
        for row in self.db.all_in(query, keys, f"ORDER BY {order}"):
            by_key[row[position]].append(row)
        return by_key

    def rows_by_maker(self, table: str, makers: list[str], *, many: bool) -> dict[str, list[Row]]:
        """Return the rows that these makers (sorted) made before."""
        if table in self._empty_at_start or not makers:
            return {}
        if not many:
            return self.grouped(table, "id", makers)
        query = f"SELECT * FROM {self.db.relation(table)} WHERE id > ? AND id < ? ORDER BY id"
        if not self._current_work[3]:
            return {maker: self.db.all(query, f"{maker}.", f"{maker}/") for maker in makers}
        by_maker: defaultdict[str, list[Row]] = defaultdict(list)
        first, last = min(f"{maker}." for maker in makers), max(f"{maker}/" for maker in makers)
        for row in self.db.all(query, first, last):
            by_maker[row[0].rpartition(".")[0]].append(row)
        return by_maker

    def change(self, table: str, old: list[Row], new: list[Row]) -> None:
        """Delete the old rows and insert the new; changed rows are both."""
        if not old and not new:
            return
        self._changed_tables.add(table)
        self._sums[table] += sum_rows(new) - sum_rows(old)
        self.rows_written[table] = self.rows_written.get(table, 0) + len(new)
        self.db.write_rows(table, self._codecs[table], old, new)
        if table not in self._empty_at_start:
            self._record_changes(table, old)
            self._record_changes(table, new)
        for view in self.views[table]:
            view.replace(old, new)

    # -- what changed

    def watch(self, table: str, key: str | None, lookup_keys: Iterable[tuple[str, ...]]) -> None:
        """Record, from now on, the changed keys and lookups of this table."""
        self._watched_keys[table].update([key] if key else [])
        self._watched_lookups[table].update(lookup_keys)

    def changed(self, table: str) -> bool:
        return table in self._changed_tables

    def changed_lookups(self, table: str) -> set[int] | None:
        """Return the lookups with a changed answer; None: possibly all."""
        if table in self._empty_at_start and table in self._changed_tables:
            return None
        return self._changed_lookups[table]

    def _record_changes(self, table: str, rows: list[Row]) -> None:
        columns = self._codecs[table].columns
        for column in self._watched_keys[table]:
            position = columns.index(column)
            keys = ((table, column, row[position]) for row in rows if row[position] is not None)
            self.db.many("INSERT INTO changed VALUES (?, ?, ?) ON CONFLICT DO NOTHING", keys)
        for lookup in self._watched_lookups[table]:
            hashes = (lookup_hash(table, lookup, lookup_values(columns, row, lookup)) for row in rows)
            self._changed_lookups[table].update(hashes)

    # -- work

    def todo(self, step: str, source: str, key: str, wave: str, *, everything: bool) -> None:
        """List the keys to work on: changed keys, failed keys, or all."""
        everything = everything or source in self._empty_at_start
        self._current_work = (source, key, wave, everything)
        self._last_wave = None
        self.db.run("DELETE FROM todo")
        if everything:
            level, distinct = (f'-"{wave}"' if wave else "0"), ("" if key == "id" else "DISTINCT")
            keys = f'SELECT {distinct} {level}, "{key}" FROM {self.db.relation(source)} WHERE "{key}" IS NOT NULL'
            self.db.run(f"INSERT INTO todo {keys} ORDER BY 1, 2")
        self.add_keys(self._changed_keys(source, key))
        self.add_keys(self.failures(step))

    def _changed_keys(self, table: str, column: str) -> Iterator[str]:
        for page in self.db.paged("SELECT key FROM changed WHERE tbl = ? AND col = ? AND key > ?", table, column):
            yield from (key for (key,) in page)

    def add_keys(self, keys: Iterable[str]) -> None:
        """Work on these keys too, unless their wave has passed."""
        source, key, wave, _ = self._current_work
        remaining = iter(keys)
        while batch := list(islice(remaining, PAGE_ROWS)):
            levels = dict.fromkeys(batch, _REMOVED_WAVE if wave else 0)
            if wave:
                query = f'SELECT "{key}", -"{wave}" FROM {self.db.relation(source)} WHERE "{key}"'
                levels |= dict(self.db.all_in(query, batch))
            open_keys = (
                (level, k) for k, level in levels.items() if self._last_wave is None or level > self._last_wave
            )
            self.db.many("INSERT INTO todo VALUES (?, ?) ON CONFLICT DO NOTHING", open_keys)

    def waves(self) -> Iterator[Iterator[list[str]]]:
        """Yield the keys, deepest wave first, in sorted pages.

        A wave may add keys to later waves.
        """
        finished = 0
        while True:
            (wave, remaining) = self.db.all("SELECT min(wave), count(*) FROM todo")[0]
            if wave is None:
                return
            self.todo_count = finished + remaining
            yield self._pages(wave)
            self._last_wave = wave
            self.db.run("DELETE FROM todo WHERE wave = ?", wave)
            finished = self.todo_count - self.db.all("SELECT count(*) FROM todo")[0][0]

    def _pages(self, wave: int) -> Iterator[list[str]]:
        for page in self.db.paged("SELECT key FROM todo WHERE wave = ? AND key > ?", wave, limit=512):
            yield [key for (key,) in page]

    # -- stored between builds

    def fingerprint(self, step: str) -> str | None:
        row = self.db.one("SELECT fingerprint FROM steps WHERE step = ?", step)
        return row[0] if row else None

    def set_fingerprint(self, step: str, fingerprint: str) -> None:
        self.db.run("UPDATE steps SET fingerprint = ? WHERE step = ?", fingerprint, step)

    def failures(self, step: str) -> dict[str, str]:
        return dict(self.db.all("SELECT maker, error FROM failed WHERE step = ? ORDER BY maker", step))

    def record_failures(self, step: str, errors: Iterable[tuple[str, str | None]]) -> None:
        self.db.record_failures(step, errors)

    def dependencies(self, step: str) -> Iterator[tuple[str, bytes]]:
        for page in self.db.paged("SELECT maker, at FROM looked WHERE step = ? AND maker > ?", step):
            yield from ((maker, lookups) for maker, lookups in page)

    def record_dependencies(self, step: str, dependencies: Iterable[tuple[str, bytes]]) -> None:
        """Store the lookups of each maker; one without lookups has no row."""
        dependencies = list(dependencies)
        deleted = ((step, maker) for maker, lookups in dependencies if not lookups)
        self.db.many("DELETE FROM looked WHERE step = ? AND maker = ?", deleted)
        stored = ((step, maker, lookups) for maker, lookups in dependencies if lookups)
        update = "ON CONFLICT (step, maker) DO UPDATE SET at = excluded.at"
        self.db.many(f"INSERT INTO looked VALUES (?, ?, ?) {update}", stored)

    # -- files of the sources, with the stamp of their last read

    def files(self) -> list[tuple[str, str, str]]:
        """Return (uri, source, stamp) of every file, sorted by uri."""
        rows = self.db.all("SELECT uri, source, stamp FROM files ORDER BY uri")
        return [(uri, source, stamp) for uri, source, stamp in rows]

    def record_file(self, uri: str, source: str, stamp: str) -> None:
        """Store the stamp of a file that was read."""
        update = "ON CONFLICT (uri) DO UPDATE SET source = excluded.source, stamp = excluded.stamp"
        self.db.run(f"INSERT INTO files VALUES (?, ?, ?) {update}", uri, source, stamp)

    def reset_file(self, uri: str) -> None:
        """Make the next build read this file again."""
        self.db.run("UPDATE files SET stamp = '' WHERE uri = ?", uri)

    def forget_file(self, uri: str) -> None:
        """Forget one file."""
        self.db.run("DELETE FROM files WHERE uri = ?", uri)

    def forget_files(self) -> None:
        """Forget all files, so that the next build reads them again."""
        self.db.run("DELETE FROM files")

    def documents_at(self, uri: str, id: str) -> list[Row]:
        """Return the document with this id, and all in file `uri`."""
        condition = "file = ? OR id = ? OR (file > ? AND file < ?)"  # 0 follows / in ASCII
        query = f"SELECT * FROM {self.db.relation(ROOT)} WHERE {condition} ORDER BY id"
        return self.db.all(query, uri, id, f"{uri}/", f"{uri}0")


def drop_retired_tables(db: Database, steps: Collection[str]) -> None:
    """Drop the tables of steps that are not built any more.

    The communities stay: they remember ids, not texts.
    """
    for (step,) in db.all("SELECT step FROM steps"):
        if step not in (*steps, ROOT, "communities"):
            db.run("DELETE FROM steps WHERE step = ?", step)
            db.drop_table(step)


def sum_rows(rows: Iterable[Row]) -> int:
    """Return a checksum of rows, the same in any order.

    The checksum of a table is the sum of those of its rows, so a change of some rows needs no look at the others.
    """
    texts = (repr([value if type(value) is str else _stored_value(value) for value in row]) for row in rows)
    return sum(map(crc32, map(str.encode, texts)))


def _stored_value(value: object) -> object:
    """Return a value as a store gives it back."""
    if isinstance(value, int | float):
        return None if value != value else float(value) + 0.0  # -0.0 becomes 0.0
    return "".join(value) if isinstance(value, str) else value


def checksum_name(table: str) -> str:
    """Return the name of the checksum of a table, in `meta`."""
    return f"sum_{table}"
