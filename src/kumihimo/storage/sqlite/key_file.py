"""a path -> the keys of a server in keys.db."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from kumihimo.core.errors import IndexUnavailable
from kumihimo.storage.sqlite.connection import SqliteConnection

_SCHEMA = """
CREATE TABLE IF NOT EXISTS keys (id TEXT PRIMARY KEY, hash BLOB UNIQUE NOT NULL, name TEXT NOT NULL, role TEXT NOT NULL,
    rights TEXT NOT NULL, daily_tokens INTEGER, requests_per_minute INTEGER NOT NULL, created TEXT NOT NULL,
    revoked TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS key_usage (key TEXT NOT NULL, day TEXT NOT NULL, calls INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL, cost REAL NOT NULL,
    PRIMARY KEY (key, day)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS key_reservations (id TEXT PRIMARY KEY, key TEXT NOT NULL, day TEXT NOT NULL,
    owner TEXT NOT NULL, calls INTEGER NOT NULL, prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL,
    cost REAL NOT NULL) WITHOUT ROWID;
"""


class KeyFile:
    """The keys in a file. One that takes its place is read from the next call on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = None
        self._file = (0, 0)  # that is open: device and number
        self._lock = Lock()

    def exists(self) -> bool:
        return self.path.exists()

    def prepare(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if not self.path.exists():
            self.path.touch(mode=0o600)
        with self.write():
            pass

    @contextmanager
    def write(self) -> Iterator[SqliteConnection]:
        """Yield a transaction. Raise IndexUnavailable if it fails."""
        try:
            with self._lock, self._connect() as connection:
                yield SqliteConnection(connection, self.path)
        except (sqlite3.DatabaseError, OSError) as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                raise IndexUnavailable(
                    f"{self.path} cannot be used ({error}): restore it, or delete it and make new keys"
                ) from error
            raise IndexUnavailable(
                f"{self.path} cannot be used ({error}): check the disk and its free space"
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
            self._connection.executescript(_SCHEMA)
        return self._connection

    def close(self) -> None:
        with self._lock:
            if self._connection:
                self._connection.close()
            self._connection = None
