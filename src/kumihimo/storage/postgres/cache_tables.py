"""a schema of PostgreSQL -> the tables of a response cache and the keys of a server in it, for all its processes.

Claims on keys of the cache are advisory locks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import RLock
from typing import TYPE_CHECKING, Any
from zlib import crc32

from kumihimo.storage.cache_database import CacheDatabase, KeyClaims
from kumihimo.storage.postgres.connection import PostgresConnection, connect, creating, explain_errors, rewrite_table

if TYPE_CHECKING:
    from psycopg import Connection

    from kumihimo.storage.place import IndexPlace

CACHE_TABLES = """
CREATE TABLE IF NOT EXISTS replies (key BYTEA PRIMARY KEY, value BYTEA NOT NULL);
CREATE TABLE IF NOT EXISTS counts (name TEXT COLLATE "C" PRIMARY KEY, value BIGINT NOT NULL);
CREATE TABLE IF NOT EXISTS usage (
    kind TEXT COLLATE "C", scope TEXT COLLATE "C", model TEXT COLLATE "C", calls BIGINT, prompt_tokens BIGINT,
    cached_tokens BIGINT, completion_tokens BIGINT, cost DOUBLE PRECISION, seconds DOUBLE PRECISION, bytes BIGINT,
    PRIMARY KEY (kind, scope, model)
);
CREATE TABLE IF NOT EXISTS batches (
    name TEXT COLLATE "C" PRIMARY KEY, server TEXT NOT NULL, wave BIGINT NOT NULL, prices TEXT NOT NULL,
    id TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS waiting (
    key BYTEA PRIMARY KEY, batch TEXT NOT NULL, scope TEXT NOT NULL, model TEXT NOT NULL, bytes BIGINT NOT NULL
)
"""
_SHRINK_TIMEOUT = "10s"  # to wait for readers
_PAGE_ROWS = 500


class SchemaTables:
    """The `SharedTables` in a schema, over one connection for all threads.

    tables: the statements that create them. A connection that was lost is opened again, except in the middle of a
    transaction.
    """

    def __init__(self, place: IndexPlace, location: str, tables: str) -> None:
        self.place, self.location, self.tables = place, location, tables
        self._names = re.findall(r"CREATE TABLE IF NOT EXISTS (\w+)", tables)
        self._found: set[str] = set()  # tables that were there: nobody drops them
        self._lock = RLock()
        self._connection: Connection[Any] | None = None

    @contextmanager
    def open(self) -> Iterator[Connection[Any]]:
        with self._lock, explain_errors(self.location):
            if self._connection is None or self._connection.closed:
                self._connection = connect(self.place)
            yield self._connection

    def all(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        with self.open() as connection:
            return PostgresConnection(connection).all(sql, *values)

    def has_table(self, name: str) -> bool:
        if name not in self._found:
            if self.all("SELECT to_regclass(?)", f'"{self.place.schema}".{name}')[0][0] is None:
                return False
            self._found.add(name)
        return True

    def exists(self) -> bool:
        return self.has_table(self._names[0])

    def prepare(self) -> None:
        """Create the schema and tables that are missing."""
        if not self.has_table(self._names[-1]):
            with self.open() as connection, creating(connection, self.place.schema):
                connection.execute(self.tables)

    @contextmanager
    def write(self, *, synced: bool = False, erasing: bool = False) -> Iterator[PostgresConnection]:  # noqa: ARG002 (always synced)
        self.prepare()
        with self.open() as connection, connection.transaction():
            yield PostgresConnection(connection)

    def close(self) -> None:
        with self._lock:
            if self._connection:
                self._connection.close()
            self._connection = None


class CacheTables(SchemaTables, CacheDatabase):
    """The `CacheDatabase` in the schema of an index."""

    def __init__(self, place: IndexPlace) -> None:
        super().__init__(place, f"the cache of {place}", CACHE_TABLES)
        self.claims = KeyClaims(lambda: _AdvisoryLocks(place, self.location))

    def is_writable(self) -> bool:
        can_write = "has_schema_privilege(current_schema(), 'CREATE')"
        if self.exists():
            can_write = "has_table_privilege('replies', 'INSERT') AND has_table_privilege('usage', 'INSERT')"
        return bool(self.all(f"SELECT {can_write}")[0][0])

    @contextmanager
    def read(self) -> Iterator[PostgresConnection | None]:
        with self.open() as connection:
            yield PostgresConnection(connection) if self.exists() else None

    def shrink(self) -> bool:
        """Rewrite the replies; return whether no reader is in the way."""
        from psycopg.errors import LockNotAvailable

        with self.open() as connection:
            try:
                connection.execute(f"SET lock_timeout = '{_SHRINK_TIMEOUT}'")
                rewrite_table(connection, "replies")
            except LockNotAvailable:
                return False
            finally:
                connection.execute("SET lock_timeout = 0")
        return True

    def check(self, is_reply: Callable[[object], bool], *, repair: bool) -> list[str]:
        damaged: list[bytes] = []
        last = b""
        while page := self.select(
            f"SELECT key, value FROM replies WHERE key > ? ORDER BY key LIMIT {_PAGE_ROWS}", last
        ):
            damaged += [key for key, value in page if not is_reply(value)]
            last = page[-1][0]
        if damaged and repair:
            with self.write() as db:
                db.run("DELETE FROM replies WHERE key = ANY(?)", damaged)
        return [f"{len(damaged):,} replies cannot be read"] if damaged else []


@dataclass(slots=True)
class _AdvisoryLocks:
    """Locks of the server; a lost connection frees them."""

    place: IndexPlace
    location: str
    numbers: set[int] = field(default_factory=set)  # that threads of this process have
    lock: RLock = field(default_factory=RLock)
    connection: Connection[Any] | None = None

    def try_lock(self, numbers: Iterable[int]) -> set[int]:
        """Lock the free numbers, and return them."""
        with self.lock, explain_errors(self.location):
            wanted = sorted(set(numbers) - self.numbers)
            sql = "SELECT n, pg_try_advisory_lock(%s, n) FROM unnest(%s::int[]) AS n"
            found = self._connect().execute(sql, [self._space, wanted]).fetchall()
            locked = {number for number, is_ours in found if is_ours}
            self.numbers |= locked
        return locked

    def unlock(self, numbers: set[int]) -> None:
        """Unlock numbers that `try_lock` has locked."""
        from psycopg import OperationalError

        with self.lock:
            self.numbers -= numbers
            with suppress(OperationalError):  # the server has freed them
                if self.connection and not self.connection.closed:
                    sql = "SELECT pg_advisory_unlock(%s, n) FROM unnest(%s::int[]) AS n"
                    self.connection.execute(sql, [self._space, sorted(numbers)])

    def close(self) -> None:
        with self.lock:
            if self.connection:
                self.connection.close()

    @property
    def _space(self) -> int:
        return crc32(f"claims of {self.place.schema}".encode()) >> 1

    def _connect(self) -> Connection[Any]:
        if self.connection is None or self.connection.closed:
            self.numbers.clear()
            self.connection = connect(self.place)
        return self.connection


KEY_TABLES = """
CREATE TABLE IF NOT EXISTS keys (
    id TEXT COLLATE "C" PRIMARY KEY, hash BYTEA UNIQUE NOT NULL, name TEXT NOT NULL, role TEXT NOT NULL,
    rights TEXT NOT NULL, daily_tokens BIGINT, requests_per_minute BIGINT NOT NULL, created TEXT COLLATE "C" NOT NULL,
    revoked TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS key_usage (
    key TEXT COLLATE "C" NOT NULL, day TEXT COLLATE "C" NOT NULL, calls BIGINT NOT NULL, prompt_tokens BIGINT NOT NULL,
    completion_tokens BIGINT NOT NULL, cost DOUBLE PRECISION NOT NULL, PRIMARY KEY (key, day)
);
CREATE TABLE IF NOT EXISTS key_reservations (
    id TEXT COLLATE "C" PRIMARY KEY, key TEXT COLLATE "C" NOT NULL, day TEXT COLLATE "C" NOT NULL, owner TEXT NOT NULL,
    calls BIGINT NOT NULL, prompt_tokens BIGINT NOT NULL, completion_tokens BIGINT NOT NULL,
    cost DOUBLE PRECISION NOT NULL
)
"""
