"""what determines a reply -> the reply: the one thing remembered between builds.

A reply is returned only once it is on disk, so that a build killed at any moment pays again at most
for what was in flight. Whoever finds the file free writes what all threads are waiting to write.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
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
_BATCH_KEYS = 500  # keys looked up at once
_USAGE_COLUMNS = ("calls", "prompt_tokens", "cached_tokens", "completion_tokens", "cost", "seconds", "bytes")
_ADD_USAGE = f"""
INSERT INTO usage VALUES (?, ?, ?{", ?" * len(_USAGE_COLUMNS)}) ON CONFLICT (kind, scope, model)
DO UPDATE SET {", ".join(f"{name} = {name} + excluded.{name}" for name in _USAGE_COLUMNS)}
"""


class UsageEntry(NamedTuple):
    """All that was spent for one step, method or role on one model, or that the memo saved."""

    kind: str  # spent, saved
    scope: str
    model: str
    usage: Usage
    bytes: int  # of the prompts


def cache_key(**determines: object) -> bytes:
    """The digest of everything that determines a reply: model, messages, parameters, schema, attempt."""
    text = json.dumps(determines, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class ResponseCache:
    """Replies by key, in one SQLite file that several threads and processes may share."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.hits = self.misses = 0
        self.used_keys: set[bytes] | None = None  # while not None: the keys asked for
        path.parent.mkdir(parents=True, exist_ok=True)
        self._read_lock, self._write_lock, self._lock = Lock(), Lock(), Lock()
        self._unwritten: list[tuple[bytes, bytes]] = []
        self._contested: set[bytes] = set()  # keys under which the file may hold another reply than ours
        self._unwritten_usage: dict[tuple[str, str, str], tuple[Usage, int]] = {}  # used and not yet written
        self._in_flight: dict[bytes, Future[bytes]] = {}
        self._db, self._writer = _open_cache(path), _open_cache(path)

    def get_or_fetch(self, key: bytes, fetch: Callable[[], bytes]) -> bytes:
        """The reply remembered under `key`, else what `ask` gives, remembered. Equal requests in flight are one."""
        with self._lock:
            if self.used_keys is not None:
                self.used_keys.add(key)
            if asked := self._in_flight.get(key):
                self.hits += 1
            else:
                mine = self._in_flight[key] = Future()
        if asked:
            return asked.result()
        try:
            value = self._get(key)
            if value is None:
                value = fetch()
                self._put(key, value)
                self.misses += 1
                if key in self._contested:
                    value = self._get(key) or value
            else:
                self.hits += 1
            mine.set_result(value)
        except BaseException as error:
            mine.set_exception(error)
            raise
        finally:
            with self._lock:
                self._in_flight.pop(key, None)
        return value

    def get_many(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        """Those of the keys that are remembered."""
        wanted = list(keys)
        found: dict[bytes, bytes] = {}
        for i in range(0, len(wanted), _BATCH_KEYS):
            part = wanted[i : i + _BATCH_KEYS]
            ask = f"SELECT key, value FROM replies WHERE key IN ({','.join('?' * len(part))})"
            with self._read_lock:
                found |= dict(self._db.execute(ask, part).fetchall())
        with self._lock:
            self.hits += len(found)
            if self.used_keys is not None:
                self.used_keys.update(found)
        return found

    def put_many(self, replies: Iterable[tuple[bytes, bytes]]) -> None:
        """Remember these, in one transaction."""
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

    def _put(self, key: bytes, value: bytes) -> None:
        with self._lock:
            self._unwritten.append((key, value))
        self._flush()

    def _flush(self, *, usage: bool = False) -> None:
        """Write all that waits; when this returns, what the caller added is on disk. usage: even if no reply waits."""
        with self._write_lock:
            with self._lock:
                if not self._unwritten and not (usage and self._unwritten_usage):
                    return
                batch, self._unwritten = self._unwritten, []
                amounts, self._unwritten_usage = self._unwritten_usage, {}
            try:
                with self._transaction():
                    put = self._writer.executemany("INSERT OR IGNORE INTO replies VALUES (?, ?)", batch)
                    if put.rowcount < len(batch):  # another process has been first with some of them
                        self._contested.update(key for key, _ in batch)
                    rows = [(*whom, *attrgetter(*_USAGE_COLUMNS[:-1])(u), size) for whom, (u, size) in amounts.items()]
                    self._writer.executemany(_ADD_USAGE, rows)
            except BaseException:
                with self._lock:
                    self._unwritten = batch + self._unwritten  # whoever waits for them tries by itself
                for whom, (u, size) in amounts.items():
                    self.record_usage(*whom, u, size)
                raise

    def record_usage(self, kind: str, scope: str, model: str, usage: Usage, size: int) -> None:
        """Note what was spent, or saved, on prompts of so many bytes; written with the next reply, or at the end."""
        whom = kind, scope, model
        with self._lock:
            before, so_far = self._unwritten_usage.get(whom, (Usage(), 0))
            self._unwritten_usage[whom] = before + usage, so_far + size

    def usage(self) -> list[UsageEntry]:
        """What was spent and saved, of all time, this session's included."""
        self._flush(usage=True)
        with self._read_lock:
            rows = self._db.execute("SELECT * FROM usage ORDER BY kind, scope, model").fetchall()
        return [UsageEntry(row[0], row[1], row[2], Usage(*row[3:9]), row[9]) for row in rows]

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._writer.execute("COMMIT")
        except BaseException:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
            raise

    def size(self) -> tuple[int, int]:
        """Replies, and bytes of their text."""
        with self._read_lock:
            ask = "SELECT count(*), ifnull(sum(length(value)), 0) FROM replies"
            ((replies, length),) = self._db.execute(ask).fetchall()
        return replies, length

    def totals(self) -> dict[str, int]:
        """Hits and misses of all time, this session's included."""
        with self._read_lock:
            told = dict(self._db.execute("SELECT name, value FROM counts").fetchall())
        return {"hits": told.get("hits", 0) + self.hits, "misses": told.get("misses", 0) + self.misses}

    def prune(self, used_keys: set[bytes]) -> int:
        """Erase every reply but these; gives how many went. What the file frees is overwritten."""
        with self._write_lock:
            with self._transaction():
                self._writer.execute("PRAGMA secure_delete = ON")
                held = [k for (k,) in self._writer.execute("SELECT key FROM replies").fetchall()]
                gone = [(k,) for k in held if k not in used_keys]
                self._writer.executemany("DELETE FROM replies WHERE key = ?", gone)
            self._writer.execute("VACUUM")
            self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return len(gone)

    def close(self) -> None:
        """Add this session's counts to the file's and let go of it."""
        self._flush(usage=True)
        with self._write_lock, self._transaction() if self.hits or self.misses else nullcontext():
            for name, value in (("hits", self.hits), ("misses", self.misses)):
                self._writer.execute(
                    "INSERT INTO counts VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = value + excluded.value",
                    (name, value),
                )
        with self._write_lock, self._read_lock:
            self._writer.close()
            self._db.close()


def _open_cache(path: Path) -> sqlite3.Connection:
    """A connection to a memo, made where there is none. Raises Unusable where the file is something else."""
    try:
        db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=60)
    except sqlite3.OperationalError as error:
        raise IndexUnavailable(f"{path} cannot be opened: name another memo with --cache FILE") from error
    try:
        held = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if held and "replies" not in held:
            raise IndexUnavailable(f"{path} is a database of something else: name another memo with --cache FILE")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        for statement in _CREATE_TABLES.split(";"):
            db.execute(statement)
    except (sqlite3.DatabaseError, IndexUnavailable) as error:
        db.close()
        if "readonly" in str(error):
            raise IndexUnavailable(f"{path} cannot be written: name another memo with --cache FILE") from error
        if type(error) is not sqlite3.DatabaseError:  # a lock, a full disk: the file is as good as before
            raise
        raise IndexUnavailable(f"{path} cannot be used ({error}): move it away; what it held is paid again") from error
    return db
