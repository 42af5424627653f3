"""keys of a server -> what is stored of them and of their use; of a key, only its hash."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from kumihimo.core.usage import Usage
from kumihimo.storage.sqlite.key_file import KeyFile

_KEY_COLUMNS = "id, name, role, rights, daily_tokens, requests_per_minute, created, revoked"
_ADD_USAGE = """INSERT INTO key_usage VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (key, day) DO UPDATE SET
    calls = key_usage.calls + excluded.calls, prompt_tokens = key_usage.prompt_tokens + excluded.prompt_tokens,
    completion_tokens = key_usage.completion_tokens + excluded.completion_tokens,
    cost = key_usage.cost + excluded.cost"""


class KeyDatabase(Protocol):
    """Where the keys of an index are: the tables `keys` and `key_usage`."""

    def exists(self) -> bool: ...
    def create(self) -> None: ...
    def open(self) -> "AbstractContextManager[KeyTransaction]": ...
    def close(self) -> None: ...


class KeyTransaction(Protocol):
    """A transaction over the keys."""

    def all(self, sql: str, *values: object) -> Sequence[tuple[Any, ...]]: ...
    def run(self, sql: str, *values: object) -> int: ...


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

    database: or the folder of an index; its file is created with the first key.
    """

    def __init__(self, database: KeyDatabase | Path) -> None:
        self.database = KeyFile(database / "keys.db") if isinstance(database, Path) else database

    def close(self) -> None:
        self.database.close()

    def add(self, key: StoredKey, digest: bytes) -> None:
        """Store a new key."""
        self.database.create()
        with self.database.open() as db:
            db.run(f"INSERT INTO keys ({_KEY_COLUMNS}, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", *key, digest)

    def find(self, digest: bytes) -> StoredKey | None:
        """Return the key with this hash, revoked or not."""
        rows = self._all(f"SELECT {_KEY_COLUMNS} FROM keys WHERE hash = ?", digest)
        return StoredKey(*rows[0]) if rows else None

    def all_keys(self) -> list[StoredKey]:
        """Return all keys, the oldest first."""
        return [StoredKey(*row) for row in self._all(f"SELECT {_KEY_COLUMNS} FROM keys ORDER BY created, id")]

    def revoke(self, id: str, now: str) -> bool:
        """Revoke a key; return whether there is one with this id."""
        if not self.database.exists():
            return False
        with self.database.open() as db:
            db.run("UPDATE keys SET revoked = ? WHERE id = ? AND revoked = ''", now, id)
            return bool(db.all("SELECT 1 FROM keys WHERE id = ?", id))

    def add_usage(self, id: str, day: str, usage: Usage) -> None:
        """Add what a key has used on a day."""
        if not self.database.exists():  # deleted, and the key with it
            return
        counts = (usage.calls, usage.prompt_tokens, usage.completion_tokens, usage.cost or 0.0)
        with self.database.open() as db:
            db.run(_ADD_USAGE, id, day, *counts)

    def usage(self, id: str, day: str) -> Usage:
        """Return what a key has used on a day."""
        columns = "calls, prompt_tokens, completion_tokens, cost"
        rows = self._all(f"SELECT {columns} FROM key_usage WHERE key = ? AND day = ?", id, day)
        if not rows:
            return Usage()
        calls, prompt, completion, cost = rows[0]
        return Usage(calls, prompt, completion_tokens=completion, cost=cost)

    def _all(self, query: str, *values: object) -> Sequence[tuple[Any, ...]]:
        if not self.database.exists():
            return []
        with self.database.open() as db:
            return db.all(query, *values)
