"""a schema of PostgreSQL -> the keys of a server in it, which all servers of the index share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kumihimo.storage.postgres.cache_tables import SharedConnection, SqlRunner
from kumihimo.storage.postgres.connecting import SchemaPlace

_TABLES = """
CREATE TABLE IF NOT EXISTS keys (
    id TEXT COLLATE "C" PRIMARY KEY, hash BYTEA UNIQUE NOT NULL, name TEXT NOT NULL, role TEXT NOT NULL,
    rights TEXT NOT NULL, daily_tokens BIGINT, requests_per_minute BIGINT NOT NULL, created TEXT COLLATE "C" NOT NULL,
    revoked TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS key_usage (
    key TEXT COLLATE "C" NOT NULL, day TEXT COLLATE "C" NOT NULL, calls BIGINT NOT NULL, prompt_tokens BIGINT NOT NULL,
    completion_tokens BIGINT NOT NULL, cost DOUBLE PRECISION NOT NULL, PRIMARY KEY (key, day)
)
"""


class KeyTables:
    """The `KeyDatabase` in the schema of an index."""

    def __init__(self, place: SchemaPlace) -> None:
        self._shared = SharedConnection(place, f"the keys of {place}")

    def exists(self) -> bool:
        return self._shared.has_table("keys")

    def create(self) -> None:
        self._shared.create_tables(_TABLES)

    @contextmanager
    def open(self) -> Iterator[SqlRunner]:
        """Yield a transaction. Raise IndexUnavailable if it fails."""
        with self._shared.open() as connection, connection.transaction():
            yield SqlRunner(connection)

    def close(self) -> None:
        self._shared.disconnect()
