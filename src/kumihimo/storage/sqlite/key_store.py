"""keys of a server and what each has used -> keys.db in the index folder; of a key, only its hash."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from kumihimo.core.errors import IndexUnavailable
from kumihimo.core.usage import Usage

_SCHEMA = """
CREATE TABLE IF NOT EXISTS keys (id TEXT PRIMARY KEY, hash BLOB UNIQUE NOT NULL, name TEXT NOT NULL, role TEXT NOT NULL,
    rights TEXT NOT NULL, daily_tokens INTEGER, requests_per_minute INTEGER NOT NULL, created TEXT NOT NULL,
    revoked TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS key_usage (key TEXT NOT NULL, day TEXT NOT NULL, calls INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL, cost REAL NOT NULL,
    PRIMARY KEY (key, day)) WITHOUT ROWID;
"""
_KEY_COLUMNS = "id, name, role, rights, daily_tokens, requests_per_minute, created, revoked"
_ADD_USAGE = """INSERT INTO key_usage VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (key, day) DO UPDATE SET
    calls = calls + excluded.calls, prompt_tokens = prompt_tokens + excluded.prompt_tokens,
    completion_tokens = completion_tokens + excluded.completion_tokens, cost = cost + excluded.cost"""


class StoredKey(NamedTuple):
    """A key without its secret.

    rights: an expression; only documents that match are visible. daily_tokens: of model calls; None: no limit. created,
    revoked: ISO 8601, UTC; empty: not revoked.
    """

    id: str
    name: str
    role: str
    rights: str
    daily_tokens: int | None
    requests_per_minute: int
    created: str
    revoked: str


class KeyStore:
    """The keys of one index.

    The file is created with the first key. One that takes its place is read from the next call on.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "keys.db"
        self._connection: sqlite3.Connection | None = None
        self._file = (0, 0)  # that is open: device and number
        self._lock = Lock()

    def close(self) -> None:
        with self._lock:
            if self._connection:
                self._connection.close()
            self._connection = None

    def add(self, key: StoredKey, digest: bytes) -> None:
        """Store a new key."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if not self.path.exists():
            self.path.touch(mode=0o600)
        with self._open() as connection:
            connection.executescript(_SCHEMA)
            fields = (key.id, digest, *key[1:])
            connection.execute(f"INSERT INTO keys VALUES ({','.join('?' * len(fields))})", fields)

    def find(self, digest: bytes) -> StoredKey | None:
        """Return the key with this hash, revoked or not."""
        rows = self._all(f"SELECT {_KEY_COLUMNS} FROM keys WHERE hash = ?", digest)
        return StoredKey(*rows[0]) if rows else None

    def all_keys(self) -> list[StoredKey]:
        """Return all keys, the oldest first."""
        return [StoredKey(*row) for row in self._all(f"SELECT {_KEY_COLUMNS} FROM keys ORDER BY created, id")]

    def revoke(self, id: str, now: str) -> bool:
        """Revoke a key; return whether there is one with this id."""
        if not self.path.exists():
            return False
        with self._open() as connection:
            connection.execute("UPDATE keys SET revoked = ? WHERE id = ? AND revoked = ''", (now, id))
            return connection.execute("SELECT 1 FROM keys WHERE id = ?", (id,)).fetchone() is not None

    def add_usage(self, id: str, day: str, usage: Usage) -> None:
        """Add what a key has used on a day."""
        if not self.path.exists():  # deleted, and the key with it
            return
        counts = (usage.calls, usage.prompt_tokens, usage.completion_tokens, usage.cost or 0.0)
        with self._open() as connection:
            connection.execute(_ADD_USAGE, (id, day, *counts))

    def usage(self, id: str, day: str) -> Usage:
        """Return what a key has used on a day."""
        columns = "calls, prompt_tokens, completion_tokens, cost"
        rows = self._all(f"SELECT {columns} FROM key_usage WHERE key = ? AND day = ?", id, day)
        if not rows:
            return Usage()
        calls, prompt, completion, cost = rows[0]
        return Usage(calls, prompt, completion_tokens=completion, cost=cost)

    def _all(self, query: str, *values: object) -> list[Any]:
        if not self.path.exists():
            return []
        with self._open() as connection:
            return connection.execute(query, values).fetchall()

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection in a transaction. Raise IndexUnavailable if it fails."""
        try:
            with self._lock, self._connect() as connection:
                yield connection
        except (sqlite3.DatabaseError, OSError) as error:
            raise IndexUnavailable(
                f"{self.path} cannot be used ({error}): restore it, or delete it and make new keys"
            ) from error

    def _connect(self) -> sqlite3.Connection:
        """Return the connection to the file that is there now."""
        found = self.path.stat()
        if self._connection and self._file != (found.st_dev, found.st_ino):
            self._connection.close()
            self._connection = None
        if self._connection is None:
            self._connection = sqlite3.connect(self.path, timeout=10, check_same_thread=False)
            self._file = found.st_dev, found.st_ino
        return self._connection
