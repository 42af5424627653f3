"""statements -> rows of one index.db: a connection to SQLite."""

import json
import sqlite3
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from kumihimo.core.digests import hash_parts
from kumihimo.core.table import Codec, Row
from kumihimo.storage.database import Database, like_pattern
from kumihimo.storage.sqlite.database_file import explain_error, in_lists, truncate_log
from kumihimo.storage.sqlite.shared_texts import drop_rows, find_wrong_uses, stored_rows, stored_table, table_ddl

T = TypeVar("T")


@dataclass(slots=True)
class Db(Database):
    """A connection to index.db. Each statement raises IndexDamaged if the file is damaged."""

    types: ClassVar[Mapping[str, str]] = {"JSON": "TEXT"} | {k: k for k in ("TEXT", "INTEGER", "REAL", "BLOB")}

    connection: sqlite3.Connection
    path: Path
    version: int = -1  # of the file, when its build was identified
    build: Hashable = None

    # -- statements

    def all(self, sql: str, *values: object) -> list[Row]:
        return self._guard(lambda: self.connection.execute(sql, values).fetchall())

    def all_in(self, sql: str, values: Sequence[object], rest: str = "") -> list[Row]:
        return [row for in_list, batch in in_lists(values) for row in self.all(f"{sql} {in_list} {rest}", *batch)]

    def run(self, sql: str, *values: object) -> None:
        self._guard(lambda: self.connection.execute(sql, values))

    def many(self, sql: str, rows: Iterable[Sequence[object]]) -> None:
        self._guard(lambda: self.connection.executemany(sql, rows))

    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        names = ", ".join(f'"{column}"' for column in columns)
        self.many(f'INSERT INTO "{table}" ({names}) VALUES ({", ".join("?" * len(columns))})', rows)

    def _guard(self, statement: Callable[[], T]) -> T:
        """Run a statement; raise IndexDamaged if the file is damaged."""
        try:
            if self.session:
                return self.session.run(statement)
            with self.lock:
                return statement()
        except sqlite3.Error as error:
            raise explain_error(self.path, error) from error

    def close(self) -> None:
        """Close the connection once no statement is running."""
        with self.lock:
            if self.session:
                self.session.stop()
            self.connection.close()

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

    def create_table(self, table: str, columns: str) -> None:
        self.drop_table(table)
        self.run(f'CREATE TABLE "{table}" ({columns})')

    def drop_table(self, table: str) -> None:
        drop_rows(self, table)

    def create_temporary(self, table: str, columns: str) -> None:
        self.run(f"CREATE TEMP TABLE {table} ({columns}) WITHOUT ROWID")

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

    def ids_grouped(self, table: str, column: str, values: Sequence[str], limit: int) -> list[tuple[str, str]]:
        subquery = f'SELECT id FROM "{table}" WHERE "{column}" = value ORDER BY id LIMIT ?'
        query = f"SELECT value, (SELECT json_group_array(id) FROM ({subquery})) FROM json_each(?)"
        groups = self.all(query, limit, json.dumps(list(values)))
        return [(value, id) for value, ids in groups for id in json.loads(ids)]

    def child_values(self, table: str, parents: Sequence[str], column: str) -> dict[str, list[Any]]:
        condition = "id > value || '.' AND id < value || '/'"  # / follows . in ASCII
        subquery = f'SELECT "{column}" AS child FROM "{table}" WHERE {condition} ORDER BY id'
        query = f"SELECT value, (SELECT json_group_array(child) FROM ({subquery})) FROM json_each(?)"
        return {parent: json.loads(values) for parent, values in self.all(query, json.dumps(list(parents)))}

    def glob(self, value: str, pattern: str) -> tuple[str, str]:
        return f"{value} GLOB ?", pattern

    def contains(self, value: str, text: str) -> tuple[str, str]:
        return f"{value} LIKE ? ESCAPE '!'", like_pattern(text)

    # -- damage

    def find_damage(self) -> list[str]:
        """Return what is wrong with the pages, their indexes and shared texts."""
        pages = [message for (message,) in self.all("PRAGMA integrity_check") if message != "ok"]
        return pages or find_wrong_uses(self)

    # -- the transaction

    def connect_session(self, *, only_reads: bool) -> "SqliteConnection":
        return SqliteConnection(self.connection, self.path, "BEGIN" if only_reads else "BEGIN IMMEDIATE")

    def build_id(self) -> Hashable:
        """Return what tells this build from others.

        The facts about an index hold the checksums of its tables; a search index that is made again is another table.
        """
        with self.locked():
            version = self.all("PRAGMA data_version")[0][0]
            if version != self.version:
                facts = chain.from_iterable(self.all("SELECT name, value FROM meta ORDER BY name"))
                self.build = self.all("PRAGMA schema_version")[0][0], hash_parts(*facts)
                self.version = version
            return self.build


@dataclass(slots=True)
class SqliteConnection:
    """A connection as a session uses it.

    begins_with: the statement that opens the transaction.
    """

    connection: sqlite3.Connection
    path: Path
    begins_with: str
    interrupted: type[Exception] = sqlite3.OperationalError
    version: int = -1  # of the file, when the build was noted
    facts: object = None  # about the index, then

    def begin(self) -> None:
        self.connection.execute(self.begins_with)

    def commit(self) -> None:
        self.connection.execute("COMMIT")
        if self.begins_with == "BEGIN":
            truncate_log(self.connection, self.path)

    def interrupt(self) -> None:
        self.connection.interrupt()

    def note_build(self) -> None:
        self.version, self.facts = self._data_version(), self._read_facts()

    def has_other_build(self) -> bool:
        if (version := self._data_version()) == self.version:
            return False
        self.version = version  # also changes where the log begins again
        return self._read_facts() != self.facts

    def _data_version(self) -> int:
        return int(self.connection.execute("PRAGMA data_version").fetchone()[0])

    def _read_facts(self) -> object:
        """Return the checksums of all tables, and other facts about the build."""
        return self.connection.execute("SELECT name, value FROM meta ORDER BY name").fetchall()
