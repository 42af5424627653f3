"""statements -> rows of one schema: a connection to PostgreSQL.

Readers must not wait for a build, so a build changes rows only: a table that is emptied or made again is a new
relation, such as `chunks@7`, and `relations` names the present one. Relations without a name are dropped by a later
build.
"""

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar
from zlib import crc32

from kumihimo.connections import connect_postgres
from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import IndexChanged, IndexUnavailable, KumiError, StorageError
from kumihimo.core.table import Codec, Row
from kumihimo.storage.database import Database

if TYPE_CHECKING:
    from psycopg import Connection, Cursor

    from kumihimo.storage.place import IndexPlace

_TEXT = 'TEXT COLLATE "C"'  # compares bytes, as Python and SQLite do
_TYPES = {"TEXT": _TEXT, "JSON": _TEXT, "INTEGER": "BIGINT", "REAL": "DOUBLE PRECISION", "BLOB": "BYTEA"}
_MIN_COPIED = 20  # rows; COPY has a cost of its own
_MIN_ANALYZED = 1000  # rows that were written before the planner looks at a table
_MAX_NAME = 63  # bytes; longer names are cut


@dataclass(slots=True)
class PostgresDb(Database):
    """A connection to one schema."""

    types: ClassVar[Mapping[str, str]] = _TYPES
    like: ClassVar[str] = "ILIKE"

    connection: "PostgresConnection"
    location: str
    written: Counter[str] = field(default_factory=Counter)  # rows by table, since the planner looked

    def explain(self, error: Exception) -> Exception:
        return explain(self.location, error, is_reading=bool(self.session and self.session.only_reads))

    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        rows, names = list(rows), ", ".join(f'"{column}"' for column in columns)
        self.written[table] += len(rows)
        if len(rows) < _MIN_COPIED:
            values = ", ".join("?" * len(columns))
            self.many(f"INSERT INTO {self.relation(table)} ({names}) VALUES ({values})", rows)
        else:
            relation = self.relation(table)
            self._guard(lambda: self._copy(f"COPY {relation} ({names}) FROM STDIN", rows))

    def _copy(self, sql: str, rows: Iterable[Sequence[object]]) -> None:
        with self.connection.driver.cursor(binary=True).copy(sql) as copy:
            for row in rows:
                copy.write_row(encode_row(row))

    def roll_back(self) -> None:
        """Leave the transaction, or close the connection."""
        import psycopg

        with self.lock:
            session, self.session = self.session, None
            try:
                if session:
                    session.stop()
                self.connection.driver.rollback()
            except psycopg.Error:
                self.connection.close()

    # -- tables

    def relation(self, table: str) -> str:
        return f'"{self._relations().get(table, table)}"'

    def _relations(self) -> dict[str, str]:
        if self.relations is None:
            self.relations = dict(self.all("SELECT name, relation FROM relations"))
        return self.relations

    def has(self, table: str) -> bool:
        return table in self._relations()

    def create_table(self, table: str, columns: str, *, by_key: bool = False) -> None:  # noqa: ARG002
        (number,) = self.all("SELECT nextval('relation_numbers')")[0]
        relation = f"{table}@{number}"
        self.run(f'CREATE TABLE "{relation}" ({columns})')
        update = "ON CONFLICT (name) DO UPDATE SET relation = excluded.relation"
        self.run(f"INSERT INTO relations VALUES (?, ?) {update}", table, relation)
        self._relations()[table] = relation

    def drop_table(self, table: str) -> None:
        if self._relations().pop(table, None):
            self.run("DELETE FROM relations WHERE name = ?", table)

    def create_rows(self, table: str, codec: Codec[Any]) -> None:
        self.create_table(table, self.rows_shape(table, codec))

    def rows_shape(self, table: str, codec: Codec[Any]) -> str:  # noqa: ARG002 (the same for every table)
        columns = zip(codec.columns, codec.sql_types, codec.nullable, strict=True)
        return ", ".join(
            f'"{name}" {self.types[kind]}{" PRIMARY KEY" if name == "id" else " NOT NULL" * (not nullable)}'
            for name, kind, nullable in columns
        )

    def write_rows(self, table: str, codec: Codec[Any], old: list[Row], new: list[Row]) -> None:
        if old:
            self.run(f"DELETE FROM {self.relation(table)} WHERE id = ANY(?)", [row[0] for row in old])
        self.insert(table, codec.columns, new)

    def index_rows(self, table: str, codec: Codec[Any]) -> None:
        for columns in codec.indexes:
            name = f"{self._relations()[table]}/{'_'.join(columns)}_id".encode()[:_MAX_NAME].decode(errors="ignore")
            names = ", ".join(f'"{column}"' for column in (*columns, "id"))
            self.run(f'CREATE INDEX IF NOT EXISTS "{name}" ON {self.relation(table)} ({names})')
        if self.written.pop(table, 0) >= _MIN_ANALYZED:
            self.run(f"ANALYZE {self.relation(table)}")

    def grouped(
        self, table: str, column: str, test: str, values: Sequence[str], limit: int | None = None
    ) -> list[tuple[str, Any]]:
        # its order keeps the planner from joining it, and so from reading a whole index for each value
        rows = f'SELECT id, "{column}" AS found FROM {self.relation(table)} WHERE {test} ORDER BY id LIMIT ?'
        each = "unnest(?::text[]) WITH ORDINALITY AS v(value, place)"
        query = f"SELECT v.value, r.found FROM {each} CROSS JOIN LATERAL ({rows}) AS r ORDER BY v.place, r.id"
        return [(value, found) for value, found in self.all(query, list(values), limit)]

    def glob(self, value: str, pattern: str) -> tuple[str, str]:
        return f"{value} ~ ?", glob_to_regex(pattern)


_FACTS = "SELECT name, value FROM meta UNION ALL SELECT relation, name FROM relations ORDER BY 1, 2"


@dataclass(slots=True)
class PostgresConnection:
    """An open connection to PostgreSQL."""

    driver: "Connection[Any]"

    @property
    def error(self) -> type[Exception]:
        from psycopg import Error

        return Error

    def all(self, sql: str, *values: object) -> list[Row]:
        rows: list[Row] = self._execute(sql, values).fetchall()
        return list(map(decode_row, rows))

    def all_in(self, sql: str, values: Sequence[object], rest: str = "") -> list[Row]:
        return self.all(f"{sql} = ANY(?) {rest}", list(values))

    def run(self, sql: str, *values: object) -> int:
        return self._execute(sql, values).rowcount

    def many(self, sql: str, rows: Iterable[Sequence[object]]) -> int:
        cursor, encoded = self.driver.cursor(), [encode_row(row) for row in rows]
        if encoded:
            cursor.executemany(with_placeholders(sql), encoded)
        return cursor.rowcount if encoded else 0

    def _execute(self, sql: str, values: Sequence[object]) -> "Cursor[Any]":
        return self.driver.cursor(binary=True).execute(with_placeholders(sql), encode_row(values))

    def microseconds(self) -> int:
        [(microseconds,)] = self.all("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
        return int(microseconds)

    def begin(self, *, only_reads: bool) -> None:
        self.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY" if only_reads else "BEGIN")

    def commit(self, *, only_reads: bool) -> None:  # noqa: ARG002 (the server has no log to empty)
        self.run("COMMIT")

    def interrupt(self) -> None:
        self.driver.cancel_safe()

    def build_id(self) -> Hashable:
        """Return what tells the present build from others."""
        return hash_parts(*(part for row in self.all(_FACTS) for part in row))

    def close(self) -> None:
        self.driver.close()


@cache
def with_placeholders(sql: str) -> str:
    """Return SQL with the placeholders of psycopg.

    >>> with_placeholders("SELECT id FROM t WHERE n % 2 = ?")
    'SELECT id FROM t WHERE n %% 2 = %s'
    """
    return sql.replace("%", "%%").replace("?", "%s")


_MARK = "\ufdd0"  # no character of any text; PostgreSQL stores no null character
_ESCAPES = {"\0": f"{_MARK}0", _MARK: f"{_MARK}1"}
_UNESCAPES = {escape: char for char, escape in _ESCAPES.items()}
_UNSAFE = re.compile(f"[\0{_MARK}]")
_ESCAPE = re.compile(f"{_MARK}[01]")
_REGEX_SIGNS = frozenset("\\^$.|+(){}")


def encode_row(row: Sequence[Any]) -> Row:
    """Return values as PostgreSQL stores them.

    >>> encode_row(("a", True, float("nan"), 2.5, None))
    ('a', 1, None, 2.5, None)
    """
    return tuple(_encode(value) if type(value) in _CONVERTED else value for value in row)


def _encode(value: Any) -> Any:
    if isinstance(value, str):
        return _UNSAFE.sub(lambda char: _ESCAPES[char[0]], value) if "\0" in value or _MARK in value else value
    if isinstance(value, float):
        return value if value == value else None
    return int(value) if isinstance(value, bool) else list(encode_row(value))


_CONVERTED = frozenset({str, bool, float, list})


def decode_row(row: Row) -> Row:
    """Return the values of a row, with null characters.

    >>> decode_row(encode_row(("a\\0b", 1)))
    ('a\\x00b', 1)
    """
    if not any(type(value) is str and _MARK in value for value in row):
        return row
    return tuple(_decode(value) if isinstance(value, str) else value for value in row)


def _decode(value: str) -> str:
    return _ESCAPE.sub(lambda escape: _UNESCAPES[escape[0]], value)


def glob_to_regex(pattern: str) -> str:
    """Return a GLOB pattern as a regular expression.

    >>> glob_to_regex("*[^0-9A-Z]sea.[*]*")
    '^.*[^0-9A-Z]sea\\\\.[*].*$'
    """
    parts: list[str] = []
    in_brackets = False
    for char in pattern:
        in_brackets = (in_brackets or char == "[") and char != "]"
        if not in_brackets and char in "*?":
            parts.append(".*" if char == "*" else ".")
        elif not in_brackets and char in _REGEX_SIGNS:
            parts.append(f"\\{char}")
        else:
            parts.append("\\\\" if char == "\\" else char)
    return f"^{''.join(parts)}$"


_TIMEOUT = 10  # seconds to reach a server
OPTIONS: dict[str, Any] = {"autocommit": True, "client_encoding": "utf8", "connect_timeout": _TIMEOUT}


def connect(place: "IndexPlace") -> "Connection[Any]":
    """Return a new connection, which commits each statement.

    Raises IndexUnavailable where there is no server.
    """
    connection = connect_postgres(place.database, str(place), **OPTIONS)
    use_schema(connection, place.schema)
    return connection


def use_schema(connection: "Connection[Any]", schema: str) -> None:
    """Use a schema for table names without one."""
    connection.execute(f'SET search_path TO "{schema}", public')


@contextmanager
def creating(connection: "Connection[Any]", schema: str) -> Iterator[None]:
    """Create a schema, and tables inside the context.

    No other process does so meanwhile.
    """
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [crc32(schema.encode())])
        if connection.execute("SELECT to_regnamespace(%s)", [f'"{schema}"']).fetchone() == (None,):
            connection.execute(f'CREATE SCHEMA "{schema}"')
        yield


def rewrite_table(connection: "Connection[Any]", table: str) -> None:
    """Rewrite a table without deleted rows.

    The statistics of the planner, which are values of rows, are made again too. ANALYZE keeps those of an empty table,
    but a change of types drops them, also to the same types.
    """
    connection.execute(f'VACUUM (FULL, ANALYZE) "{table}"')
    columns = f"""
        SELECT string_agg(format('ALTER %I TYPE %s%s', attname, format_type(atttypid, atttypmod),
            CASE attcollation WHEN 0 THEN '' ELSE ' COLLATE ' || attcollation::regcollation END), ', ')
        FROM pg_attribute WHERE attrelid = '"{table}"'::regclass AND attnum > 0 AND NOT attisdropped
            AND NOT EXISTS (SELECT FROM "{table}")
    """
    if (row := connection.execute(columns).fetchone()) and row[0]:
        connection.execute(f'ALTER TABLE "{table}" {row[0]}')


@contextmanager
def explain_errors(location: str) -> Iterator[None]:
    """Raise IndexUnavailable with a remedy where the server fails."""
    from psycopg import Error

    try:
        yield
    except Error as error:
        raise explain(location, error) from error


def explain(location: str, error: Exception, *, is_reading: bool = False) -> KumiError | StorageError:
    """Return our error for one of psycopg, with its remedy.

    is_reading: a missing table is one of a build that has ended.
    """
    from psycopg import OperationalError, errors

    reason = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, errors.UndefinedTable) and is_reading:
        return IndexChanged("another build has ended in the middle of the question: ask again")
    if isinstance(error, errors.InsufficientPrivilege):
        reason = str(error).splitlines()[0]
        return IndexUnavailable(
            f"{location}: {reason}: connect as a role that may, or GRANT it (see the page on PostgreSQL)"
        )
    if isinstance(error, errors.DiskFull):
        return IndexUnavailable(f"the disk of {location} is full: make room, and run the same command again")
    if isinstance(error, errors.QueryCanceled):
        return IndexUnavailable(f"{location} stopped a statement ({reason}): raise its statement_timeout")
    if isinstance(error, OperationalError):
        return IndexUnavailable(f"{location} failed ({reason}): run the same command again when the server is well")
    return StorageError(str(error))
