"""everything that determines a reply -> the reply: the only state kept between builds.

A reply is returned only once it is on disk, so that a build killed at any moment pays again at most
for the requests in flight. The first thread that finds the file free writes the replies of all threads.
"""

import json
import sqlite3
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from hashlib import blake2b
from operator import attrgetter
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from kumihimo.core.errors import IndexUnavailable
from kumihimo.core.usage import Usage

_CREATE_TABLES = """
CREATE TABLE IF NOT EXISTS replies (key BLOB NOT NULL UNIQUE, value BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS counts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS usage (
    kind TEXT, scope TEXT, model TEXT, calls INTEGER, prompt_tokens INTEGER, cached_tokens INTEGER,
    completion_tokens INTEGER, cost REAL, seconds REAL, bytes INTEGER, PRIMARY KEY (kind, scope, model)
) WITHOUT ROWID
"""
_BATCH_KEYS = 500  # keys of one query
_USAGE_COLUMNS = ("calls", "prompt_tokens", "cached_tokens", "completion_tokens", "cost", "seconds", "bytes")
_ADD_USAGE = f"""
INSERT INTO usage VALUES (?, ?, ?{", ?" * len(_USAGE_COLUMNS)}) ON CONFLICT (kind, scope, model)
DO UPDATE SET {", ".join(f"{name} = {name} + excluded.{name}" for name in _USAGE_COLUMNS)}
"""


class UsageEntry(NamedTuple):
    """The usage of one scope with one model, spent or saved.

    kind: spent, or saved by the cache. scope: a step, method or role.
    """

    kind: str  # spent, saved
    scope: str
    model: str
    usage: Usage
    bytes: int  # of the prompts


def cache_key(**determinants: object) -> bytes:
    """Return the digest of everything that determines a reply.

    That is the model, messages, parameters, schema and attempt.
    """
    text = json.dumps(determinants, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class ResponseCache:
    """Replies by key, in one SQLite file shared by threads and processes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.hits = self.misses = 0
        self.used_keys: set[bytes] | None = None  # the requested keys, while it is not None
        path.parent.mkdir(parents=True, exist_ok=True)
        self._read_lock, self._write_lock, self._lock = Lock(), Lock(), Lock()
        self._unwritten: list[tuple[bytes, bytes]] = []
        self._contested: set[bytes] = set()  # keys whose stored reply may differ from ours
        self._unwritten_usage: dict[tuple[str, str, str], tuple[Usage, int]] = {}
        self._in_flight: dict[bytes, Future[bytes]] = {}
        self._db, self._writer = _open_cache(path), _open_cache(path)

    def get_or_fetch(self, key: bytes, fetch: Callable[[], bytes]) -> bytes:
        """Return the cached reply, else fetch and cache it.

        Equal requests in flight become one.
        """
        with self._lock:
            if self.used_keys is not None:
                self.used_keys.add(key)
            if running := self._in_flight.get(key):
                self.hits += 1
            else:
                own = self._in_flight[key] = Future()
        if running:
            return running.result()
        try:
            value = self._get(key)
            if value is None:
                value = fetch()
                self.put_many([(key, value)])
                if key in self._contested:
                    value = self._get(key) or value
            else:
                self.hits += 1
            own.set_result(value)
        except BaseException as error:
            own.set_exception(error)
            raise
        finally:
            with self._lock:
                self._in_flight.pop(key, None)
        return value

    def get_many(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        """Return the cached replies among these keys."""
        wanted_keys = list(keys)
        replies: dict[bytes, bytes] = {}
        for i in range(0, len(wanted_keys), _BATCH_KEYS):
            batch = wanted_keys[i : i + _BATCH_KEYS]
            query = f"SELECT key, value FROM replies WHERE key IN ({','.join('?' * len(batch))})"
            with self._read_lock:
                replies |= dict(self._db.execute(query, batch).fetchall())
        with self._lock:
            self.hits += len(replies)
            if self.used_keys is not None:
                self.used_keys.update(replies)
        return replies

    def put_many(self, replies: Iterable[tuple[bytes, bytes]]) -> None:
        """Store these replies, in one transaction."""
        replies = list(replies)
        with self._lock:
            if self.used_keys is not None:
                self.used_keys.update(k for k, _ in replies)
            self.misses += len(replies)
            self._unwritten += replies
        self._flush()

    def _get(self, key: bytes) -> bytes | None:
        with self._read_lock:
            row = self._db.execute("SELECT value FROM replies WHERE key = ?", (key,)).fetchone()
        return None if row is None else row[0]

    def _flush(self, *, usage: bool = False) -> None:
        """Write all waiting replies to disk, those of the caller included.

        usage: write the usage even if no reply waits.
        """
        with self._write_lock:
            with self._lock:
                if not self._unwritten and not (usage and self._unwritten_usage):
                    return
                batch, self._unwritten = self._unwritten, []
                amounts, self._unwritten_usage = self._unwritten_usage, {}
            try:
                with self._writer:  # commits at the end, or rolls back
                    self._writer.execute("BEGIN IMMEDIATE")
                    inserted = self._writer.executemany("INSERT OR IGNORE INTO replies VALUES (?, ?)", batch)
                    if inserted.rowcount < len(batch):  # another process stored some of them before us
                        self._contested.update(key for key, _ in batch)
                    counts = attrgetter(*_USAGE_COLUMNS[:-1])
                    rows = [(*owner, *counts(usage), size) for owner, (usage, size) in amounts.items()]
                    self._writer.executemany(_ADD_USAGE, rows)
            except BaseException:
                with self._lock:
                    self._unwritten = batch + self._unwritten  # the threads that wait for them try to write them
                for owner, (u, size) in amounts.items():
                    self.record_usage(*owner, u, size)
                raise

    def record_usage(self, kind: str, scope: str, model: str, usage: Usage, size: int) -> None:
        """Record usage, spent or saved, on prompts of this many bytes.

        It is written with the next reply, or on close.
        """
        owner = kind, scope, model
        with self._lock:
            earlier_usage, earlier_size = self._unwritten_usage.get(owner, (Usage(), 0))
            self._unwritten_usage[owner] = earlier_usage + usage, earlier_size + size

    def usage(self) -> list[UsageEntry]:
        """Return all usage, spent and saved, this session included."""
        self._flush(usage=True)
        with self._read_lock:
            rows = self._db.execute("SELECT * FROM usage ORDER BY kind, scope, model").fetchall()
        return [UsageEntry(row[0], row[1], row[2], Usage(*row[3:9]), row[9]) for row in rows]

    def size(self) -> tuple[int, int]:
        """Return the number of replies, and the bytes of their text."""
        with self._read_lock:
            query = "SELECT count(*), ifnull(sum(length(value)), 0) FROM replies"
            ((replies, length),) = self._db.execute(query).fetchall()
        return replies, length

    def totals(self) -> dict[str, int]:
        """Return all hits and misses, this session included."""
        with self._read_lock:
            counts = dict(self._db.execute("SELECT name, value FROM counts").fetchall())
        return {"hits": counts.get("hits", 0) + self.hits, "misses": counts.get("misses", 0) + self.misses}

    def prune(self, used_keys: set[bytes]) -> int:
        """Delete all other replies, and return how many were deleted.

        Freed space in the file is overwritten.
        """
        with self._write_lock:
            with self._writer:
                self._writer.execute("BEGIN IMMEDIATE")
                self._writer.execute("PRAGMA secure_delete = ON")
                stored = [k for (k,) in self._writer.execute("SELECT key FROM replies").fetchall()]
                deleted = [(k,) for k in stored if k not in used_keys]
                self._writer.executemany("DELETE FROM replies WHERE key = ?", deleted)
            self._writer.execute("VACUUM")
            self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return len(deleted)

    def close(self) -> None:
        """Add this session's counts to the file, and close it."""
        self._flush(usage=True)
        if self.hits or self.misses:
            with self._write_lock, self._writer:
                add = "INSERT INTO counts VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = value + excluded.value"
                self._writer.execute("BEGIN IMMEDIATE")
                self._writer.executemany(add, [("hits", self.hits), ("misses", self.misses)])
        with self._write_lock, self._read_lock:
            self._writer.close()
            self._db.close()


def adopt_old_cache(path: Path) -> None:
    """Rename memo.db, the cache of version 0.1, to use its replies."""
    old = path.with_name("memo.db")
    if path.name == "cache.db" and old.exists() and not path.exists():
        for suffix in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                Path(f"{old}{suffix}").rename(f"{path}{suffix}")


def _open_cache(path: Path) -> sqlite3.Connection:
    """Return a connection to a cache file, and create it if needed.

    Raises IndexUnavailable where the file is something else.
    """
    try:
        db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=60)
    except sqlite3.OperationalError as error:
        raise IndexUnavailable(f"{path} cannot be opened: name another cache with --cache FILE") from error
    try:
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if tables and "replies" not in tables:
            raise IndexUnavailable(f"{path} is a database of something else: name another cache with --cache FILE")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        for statement in _CREATE_TABLES.split(";"):
            db.execute(statement)
    except (sqlite3.DatabaseError, IndexUnavailable) as error:
        db.close()
        if "readonly" in str(error):
            raise IndexUnavailable(f"{path} cannot be written: name another cache with --cache FILE") from error
        if type(error) is not sqlite3.DatabaseError:  # a lock or a full disk does no harm to the file
            raise
        message = f"{path} cannot be used ({error}): move it away; its replies are paid for again"
        raise IndexUnavailable(message) from error
    return db
