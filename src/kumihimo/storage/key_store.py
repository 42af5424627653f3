"""keys of a server -> what is stored of them and of their use; of a key, only its hash."""

from collections.abc import Callable, Sequence
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple

from kumihimo.core.errors import Cancelled
from kumihimo.core.usage import Usage
from kumihimo.storage.cache_database import SharedTables
from kumihimo.storage.session import Connection
from kumihimo.storage.sqlite.key_file import KeyFile

_KEY_COLUMNS = "id, name, role, rights, daily_tokens, requests_per_minute, created, revoked"
_COUNTS = "calls, prompt_tokens, completion_tokens, cost"
_ADD_USAGE = """INSERT INTO key_usage VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (key, day) DO UPDATE SET
    calls = key_usage.calls + excluded.calls, prompt_tokens = key_usage.prompt_tokens + excluded.prompt_tokens,
    completion_tokens = key_usage.completion_tokens + excluded.completion_tokens,
    cost = key_usage.cost + excluded.cost"""


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

    database: with the tables `keys`, `key_usage` and `key_reservations`; or the folder of an index, where the first key
    creates a file.
    """

    def __init__(self, database: SharedTables | Path) -> None:
        self.database = KeyFile(database / "keys.db") if isinstance(database, Path) else database

    def close(self) -> None:
        self.database.close()

    def add(self, key: StoredKey, digest: bytes) -> None:
        """Store a new key."""
        self.database.prepare()
        with self.database.write() as db:
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
        with self.database.write() as db:
            db.run("UPDATE keys SET revoked = ? WHERE id = ? AND revoked = ''", now, id)
            return bool(db.all("SELECT 1 FROM keys WHERE id = ?", id))

    def reserve(
        self, id: str, day: str, estimate: Usage, owner: str, admit: Callable[[Usage, Usage], bool]
    ) -> str | None:
        """Reserve a part of what a key may use.

        Returns the id of the reservation. owner: the process, whose other reservations are not counted. admit: receives
        what was used or reserved, and what was reserved; without its consent nothing is, and None is returned. Raises
        Cancelled if the key is revoked.
        """
        reservation = token_hex(8)
        with self.database.write() as db:
            db.run(_ADD_USAGE, id, day, *_counts(Usage()))  # no other process reserves until the end
            if not db.all("SELECT 1 FROM keys WHERE id = ? AND revoked = ''", id):
                raise Cancelled(f"the key {id} was revoked")
            reserved = _sum(db, "key_reservations WHERE key = ? AND day = ? AND owner <> ?", id, day, owner)
            if not admit(_sum(db, "key_usage WHERE key = ? AND day = ?", id, day) + reserved, reserved):
                return None
            values = reservation, id, day, owner, *_counts(estimate)
            db.run("INSERT INTO key_reservations VALUES (?, ?, ?, ?, ?, ?, ?, ?)", *values)
        return reservation

    def settle(self, reservation: str, usage: Usage) -> None:
        """Replace a reservation by what was used."""
        with self.database.write() as db:
            for id, day in db.all("SELECT key, day FROM key_reservations WHERE id = ?", reservation):
                db.run(_ADD_USAGE, id, day, *_counts(usage))
            db.run("DELETE FROM key_reservations WHERE id = ?", reservation)

    def usage(self, id: str, day: str) -> Usage:
        """Return what a key has used or reserved on a day.

        What a killed process has reserved stays so.
        """
        if not self.database.exists():
            return Usage()
        with self.database.write() as db:
            tables = ("key_usage", "key_reservations")
            return sum((_sum(db, f"{table} WHERE key = ? AND day = ?", id, day) for table in tables), Usage())

    def _all(self, query: str, *values: object) -> Sequence[tuple[Any, ...]]:
        if not self.database.exists():
            return []
        with self.database.write() as db:
            return db.all(query, *values)


def _counts(usage: Usage) -> tuple[object, ...]:
    return usage.calls, usage.prompt_tokens, usage.completion_tokens, usage.cost


def _sum(db: Connection, rows: str, *values: object) -> Usage:
    """Return the sum of the usage in these rows."""
    counts = db.all(f"SELECT {_COUNTS} FROM {rows}", *values)
    return sum((Usage(calls, prompt, 0, completion, cost) for calls, prompt, completion, cost in counts), Usage())
