"""requests in batches -> which batch each waits for, beside the replies in cache.db.

A request is written down before it is submitted, and its reply is stored in the transaction that takes it off the list:
so a process that is killed at any moment pays nothing twice.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from kumihimo.core.usage import Usage
from kumihimo.storage.key_claims import KeyClaims
from kumihimo.storage.sqlite.cache_file import explain_cache_errors, open_to_read, open_to_write
from kumihimo.storage.sqlite.response_cache import ADD_USAGE, USAGE_COLUMNS

Spent = Mapping[tuple[str, str], tuple[Usage, int]]  # scope, model -> usage, bytes of the prompts


class LoggedBatch(NamedTuple):
    """A batch that was submitted, or is about to be.

    name: ours. server: its address. wave: how many batches followed each other. prices: prompt, cached, completion. id:
    the server's; empty: perhaps not submitted.
    """

    name: str
    server: str
    wave: int
    prices: tuple[float | None, ...]
    id: str = ""


class WaitingRequest(NamedTuple):
    """A request in a batch: its cache key, and who pays for it. bytes: of the prompt."""

    key: bytes
    scope: str
    model: str
    bytes: int


class BatchLog:
    """The batches of one response cache, shared by processes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._claims = KeyClaims(path.with_name(f"{path.name}-claims"))

    def close(self) -> None:
        self._claims.close()

    @contextmanager
    def claim(self, keys: Sequence[bytes]) -> Iterator[set[bytes]]:
        """Claim requests, or the name of a batch.

        A process holds them while it submits or collects; others wait for it.
        """
        with self._connect(), self._claims.claim(keys) as claimed:
            yield set(claimed)

    def batches(self) -> list[LoggedBatch]:
        """Return all batches, in the order of their waves."""
        rows = self._read("SELECT name, server, wave, prices, id FROM batches ORDER BY wave, name")
        return [
            LoggedBatch(name, server, wave, tuple(json.loads(prices)), id) for name, server, wave, prices, id in rows
        ]

    def waiting(self, batch: str = "") -> list[WaitingRequest]:
        """Return the requests of a batch, or of all."""
        rows = self._read("SELECT key, scope, model, bytes FROM waiting WHERE ? IN ('', batch) ORDER BY key", batch)
        return [WaitingRequest(*row) for row in rows]

    def add(self, batch: LoggedBatch, requests: Iterable[WaitingRequest]) -> list[bytes]:
        """Write down a batch and its requests, before it is submitted.

        Return the keys that neither wait already nor have a reply; only those belong to it.
        """
        insert = (
            "INSERT INTO waiting SELECT ?1, ?2, ?3, ?4, ?5 WHERE ?1 NOT IN (SELECT key FROM replies WHERE key = ?1)"
        )
        with self._write() as db:
            added = [
                r.key
                for r in requests
                if db.execute(
                    f"{insert} ON CONFLICT DO NOTHING", (r.key, batch.name, r.scope, r.model, r.bytes)
                ).rowcount
            ]
            if added:
                row = (batch.name, batch.server, batch.wave, json.dumps(batch.prices), batch.id)
                db.execute("INSERT INTO batches VALUES (?, ?, ?, ?, ?)", row)
        return added

    def set_id(self, name: str, id: str) -> None:
        """Note the server's id of a batch."""
        with self._write() as db:
            db.execute("UPDATE batches SET id = ? WHERE name = ?", (id, name))

    def finish(self, name: str, replies: Iterable[tuple[bytes, bytes]] = (), spent: Spent | None = None) -> None:
        """Store the replies and the usage of a batch; forget it.

        spent: usage and bytes of prompts by scope and model. Requests without a reply can be asked again.
        """
        counts = attrgetter(*USAGE_COLUMNS[:-1])
        with self._write() as db:
            if not db.execute("DELETE FROM batches WHERE name = ?", (name,)).rowcount:
                return  # another process was faster
            db.execute("DELETE FROM waiting WHERE batch = ?", (name,))
            db.executemany("INSERT OR IGNORE INTO replies VALUES (?, ?)", replies)
            db.executemany(
                ADD_USAGE, [("spent", *owner, *counts(usage), size) for owner, (usage, size) in (spent or {}).items()]
            )

    @contextmanager
    def _connect(self) -> Iterator[sqlite3.Connection]:
        with explain_cache_errors(self.path), closing(open_to_write(self.path)) as db:
            yield db

    @contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection in one transaction; sync it to disk."""
        with self._connect() as db:
            db.execute("PRAGMA synchronous = FULL")
            with db:
                db.execute("BEGIN IMMEDIATE")
                yield db

    def _read(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Return rows; none before the first batch."""
        with explain_cache_errors(self.path):
            db = open_to_read(self.path)
            if db is None:
                return []
            with closing(db):
                if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'waiting'").fetchall():
                    return []
                return db.execute(query, values).fetchall()
