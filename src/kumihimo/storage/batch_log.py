"""requests in batches -> which batch each waits for, beside the replies in cache.db.

A request is written down before it is submitted, and its reply is stored in the transaction that takes it off the list:
so a process that is killed at any moment pays nothing twice.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from kumihimo.core.usage import Usage
from kumihimo.storage.cache_database import CacheDatabase
from kumihimo.storage.response_cache import ADD_USAGE, USAGE_COLUMNS
from kumihimo.storage.session import Connection
from kumihimo.storage.sqlite.cache_file import CacheFile

SpentUsage = Mapping[tuple[str, str], tuple[Usage, int]]  # scope, model -> usage, bytes of the prompts


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
    """The batches of one response cache, shared by processes.

    database: of the cache, or the path of its file.
    """

    def __init__(self, database: CacheDatabase | Path) -> None:
        self.database = CacheFile(database) if isinstance(database, Path) else database

    def close(self) -> None:
        self.database.close()
        self.database.claims.close()

    @contextmanager
    def claim(self, keys: Sequence[bytes]) -> Iterator[set[bytes]]:
        """Claim requests, or the name of a batch.

        A process holds them while it submits or collects; others wait for it.
        """
        self.database.prepare()
        self.database.close()
        with self.database.claims.claim(keys) as claimed:
            yield set(claimed)

    def batches(self) -> list[LoggedBatch]:
        """Return all batches, in the order of their waves."""
        rows = self._read("SELECT name, server, wave, prices, id FROM batches ORDER BY wave, name")
        return [
            LoggedBatch(name, server, wave, tuple(json.loads(prices)), id) for name, server, wave, prices, id in rows
        ]

    def waiting(self, batch: str = "") -> list[WaitingRequest]:
        """Return the requests of a batch, or of all."""
        condition, values = ("WHERE batch = ?", [batch]) if batch else ("", [])
        rows = self._read(f"SELECT key, scope, model, bytes FROM waiting {condition} ORDER BY key", *values)
        return [WaitingRequest(*row) for row in rows]

    def add(self, batch: LoggedBatch, requests: Iterable[WaitingRequest]) -> list[bytes]:
        """Write down a batch and its requests, before it is submitted.

        Return the keys that neither wait already nor have a reply; only those belong to it.
        """
        insert = "INSERT INTO waiting VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
        with self._write() as db:
            added = [
                r.key
                for r in requests
                if not db.all("SELECT 1 FROM replies WHERE key = ?", r.key)
                and db.run(insert, r.key, batch.name, r.scope, r.model, r.bytes)
            ]
            if added:
                row = (batch.name, batch.server, batch.wave, json.dumps(batch.prices), batch.id)
                db.run("INSERT INTO batches VALUES (?, ?, ?, ?, ?)", *row)
        return added

    def set_id(self, name: str, id: str) -> None:
        """Note the server's id of a batch."""
        with self._write() as db:
            db.run("UPDATE batches SET id = ? WHERE name = ?", id, name)

    def finish(self, name: str, replies: Iterable[tuple[bytes, bytes]] = (), spent: SpentUsage | None = None) -> None:
        """Store the replies and the usage of a batch; forget it.

        spent: usage and bytes of prompts by scope and model. Requests without a reply can be asked again.
        """
        counts = attrgetter(*USAGE_COLUMNS[:-1])
        with self._write() as db:
            if not db.run("DELETE FROM batches WHERE name = ?", name):
                return  # another process was faster
            db.run("DELETE FROM waiting WHERE batch = ?", name)
            db.many("INSERT INTO replies VALUES (?, ?) ON CONFLICT DO NOTHING", replies)
            amounts = (spent or {}).items()
            db.many(ADD_USAGE, [("spent", *owner, *counts(usage), size) for owner, (usage, size) in amounts])

    @contextmanager
    def _write(self) -> Iterator[Connection]:
        """Yield one transaction; sync it to disk. No connection stays open."""
        with self.database.write(synced=True) as db:
            yield db
        self.database.close()

    def _read(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Return rows; none before the first batch."""
        rows = self.database.select(query, *values) if self.database.has_table("waiting") else []
        self.database.close()
        return rows
