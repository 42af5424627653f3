"""the path of a database of SQLite -> its address, its lock and its log; statements -> rows of an index.db."""

import json
import os
import sqlite3
import time
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePath
from typing import Any, ClassVar

from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import IndexDamaged, IndexUnavailable, StorageError
from kumihimo.core.table import Codec, Row
from kumihimo.storage.database import Database
from kumihimo.storage.sqlite.shared_texts import drop_rows, find_wrong_uses, stored_rows, stored_table, table_ddl

_MAX_LISTED = 1000  # values of one query


@dataclass(slots=True)
class Db(Database):
    """A connection to index.db. Each statement raises IndexDamaged if the file is damaged."""

    types: ClassVar[Mapping[str, str]] = {"JSON": "TEXT"} | {k: k for k in ("TEXT", "INTEGER", "REAL", "BLOB")}
    like: ClassVar[str] = "LIKE"

    connection: "SqliteConnection"
    path: Path

    def explain(self, error: Exception) -> Exception:
        return explain_error(self.path, error)

    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        names = ", ".join(f'"{column}"' for column in columns)
        self.many(f'INSERT INTO "{table}" ({names}) VALUES ({", ".join("?" * len(columns))})', rows)

    # -- tables

    def relation(self, table: str) -> str:
        return f'"{table}"'

    def has(self, table: str) -> bool:
        session, tables = self.session, "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
        if not session or not session.only_reads:
            return self.one(f"{tables} AND name = ?", table) is not None
        if self.relations is None:  # once, since a question looks for its tables at each row
            self.relations = {name: name for (name,) in self.all(tables)}
        return table in self.relations

    def create_table(self, table: str, columns: str, *, by_key: bool = False) -> None:
        self.drop_table(table)
        self.run(f'CREATE TABLE "{table}" ({columns}){" WITHOUT ROWID" * by_key}')

    def drop_table(self, table: str) -> None:
        drop_rows(self, table)

    def create_rows(self, table: str, codec: Codec[Any]) -> None:
        for statement in table_ddl(table, codec).split(";"):
            self.run(statement)

    def rows_shape(self, table: str, codec: Codec[Any]) -> str:
        return table_ddl(table, codec)

    def write_rows(self, table: str, codec: Codec[Any], old: list[Row], new: list[Row]) -> None:
        stored = stored_table(table, codec)
        self.many(f'DELETE FROM "{stored}" WHERE id = ?', ((row[0],) for row in old))
        self.insert(stored, codec.columns, stored_rows(self, codec, old, new))

    def index_rows(self, table: str, codec: Codec[Any]) -> None:
        for columns in codec.indexes:
            name, names = "_".join([table, *columns]), ", ".join(f'"{c}"' for c in (*columns, "id"))
            self.run(f'CREATE INDEX IF NOT EXISTS "{name}" ON "{stored_table(table, codec)}" ({names})')

    def grouped(
        self, table: str, column: str, test: str, values: Sequence[str], limit: int | None = None
    ) -> list[tuple[str, Any]]:
        rows = f'SELECT "{column}" AS found FROM "{table}" WHERE {test} ORDER BY id LIMIT ?'
        query = f"SELECT v.value, (SELECT json_group_array(found) FROM ({rows})) FROM json_each(?) AS v"
        groups = self.all(query, -1 if limit is None else limit, json.dumps(list(values)))
        found = json.loads(f"[{','.join(group for _, group in groups)}]")  # faster than one by one
        return [(value, each) for (value, _), own in zip(groups, found, strict=True) for each in own]

    def glob(self, value: str, pattern: str) -> tuple[str, str]:
        return f"{value} GLOB ?", pattern

    # -- damage

    def find_damage(self) -> list[str]:
        """Return what is wrong with the pages, their indexes and shared texts."""
        pages = [message for (message,) in self.all("PRAGMA integrity_check") if message != "ok"]
        return pages or find_wrong_uses(self)


@dataclass(slots=True)
class SqliteConnection:
    """An open connection to a file of SQLite."""

    driver: sqlite3.Connection
    path: Path
    error: ClassVar[type[Exception]] = sqlite3.Error
    version: int = -1  # of the file, when its build was identified
    build: Hashable = None

    def all(self, sql: str, *values: object) -> list[Row]:
        return self.driver.execute(sql, values).fetchall()

    def all_in(self, sql: str, values: Sequence[object], rest: str = "") -> list[Row]:
        batches = (values[i : i + _MAX_LISTED] for i in range(0, len(values), _MAX_LISTED))
        return [row for v in batches for row in self.all(f"{sql} IN ({','.join('?' * len(v))}) {rest}", *v)]

    def run(self, sql: str, *values: object) -> int:
        return self.driver.execute(sql, values).rowcount

    def many(self, sql: str, rows: Iterable[Sequence[object]]) -> int:
        return self.driver.executemany(sql, rows).rowcount

    def microseconds(self) -> int:
        return time.time_ns() // 1000

    def begin(self, *, only_reads: bool) -> None:
        self.run("BEGIN" if only_reads else "BEGIN IMMEDIATE")

    def commit(self, *, only_reads: bool) -> None:
        self.run("COMMIT")
        if only_reads:
            truncate_log(self.driver, self.path)

    def interrupt(self) -> None:
        self.driver.interrupt()

    def build_id(self) -> Hashable:
        """Return what tells the present build from others.

        The facts about an index hold the checksums of its tables; a search index that is made again is another table.
        The version of the file also changes where the log begins again.
        """
        [(version,)] = self.all("PRAGMA data_version")
        if version != self.version:
            facts = chain.from_iterable(self.all("SELECT name, value FROM meta ORDER BY name"))
            self.build = self.all("PRAGMA schema_version")[0][0], hash_parts(*facts)
            self.version = version
        return self.build

    def close(self) -> None:
        self.driver.close()


_BUSY_TIMEOUT = 5000  # milliseconds; the default of Python


def log_size(path: Path) -> int:
    """Return the bytes of the log of a database; 0 without one."""
    with suppress(FileNotFoundError):
        return path.with_name(f"{path.name}-wal").stat().st_size
    return 0


def truncate_log(connection: sqlite3.Connection, path: Path) -> None:
    """Empty the log, unless a reader or a build needs it.

    A build does so at its end, but readers of the earlier state may still be there. Whoever reads the new state before
    the log is copied into the file has to leave too; whoever comes later reads the file alone. So under steady traffic
    the log lasts as long as one or two questions read.
    """
    if not log_size(path):
        return
    # whoever cannot do it leaves it to the next build, which names the reason
    with suppress(sqlite3.DatabaseError):
        connection.execute("PRAGMA busy_timeout = 0")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.execute(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT}")


def explain_error(path: Path, error: Exception) -> IndexUnavailable | StorageError:
    """Return our error for one of SQLite, with the remedy."""
    if "unable to open" in str(error):
        remedy = "check its permissions; if its disk is read-only, copy the folder to a place where you can write"
        return IndexUnavailable(f"{path} cannot be opened: {remedy}")
    if "readonly" in str(error):
        return IndexUnavailable(f"{path} cannot be written: allow it, or name another folder with `--index DIR`")
    if "not a database" in str(error):
        return IndexDamaged(f"{path} is no index ({error}): move it away and run `kumi index PATH` again")
    # a lock or a full disk does no harm to the file
    damage = ("Could not decode to UTF-8", "malformed JSON")
    if type(error) is sqlite3.DatabaseError or any(message in str(error) for message in damage):
        message = f"{path} is damaged ({error}): run `kumi check --repair`, or put your back-up in its place"
        return IndexDamaged(message)
    return StorageError(str(error))


def database_address(path: PurePath, options: str = "") -> str:
    """Return the address of a database, for `uri=True`.

    SQLite accepts no host there, as `as_uri` writes it for a network path of Windows.
    """
    address = path.as_uri()
    return f"{address if address.startswith('file:///') else address.replace('file://', 'file:////', 1)}{options}"


def is_immutable(path: Path) -> bool:
    """Return whether to read a database without its log and locks.

    A folder that is read-only to us cannot hold them. An existing log has rows that are not in the file.
    """
    path = path.resolve()
    return not os.access(path.parent, os.W_OK) and not log_size(path)


@contextmanager
def exclusive_lock(path: Path, *, timeout: float) -> Iterator[None]:
    """Hold a lock on this file until the process ends.

    timeout: in seconds.
    """
    try:
        with closing(sqlite3.connect(path, timeout=timeout, isolation_level=None)) as lock:
            lock.execute("BEGIN EXCLUSIVE")
            yield
            lock.execute("ROLLBACK")
    except sqlite3.Error as error:
        raise StorageError(str(error)) from error
