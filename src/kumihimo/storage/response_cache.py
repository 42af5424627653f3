"""everything that determines a reply -> the reply: the only state kept between builds.

A reply is returned only once it is on disk, so that a build killed at any moment pays again at most
for the requests in flight. The first thread that finds the file free writes the replies of all threads.
Threads and processes claim the keys that they fetch, so that a reply is paid for once.
"""

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from hashlib import blake2b
from operator import attrgetter
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from kumihimo.core.errors import BudgetExceeded, Cancelled, IndexBusy
from kumihimo.core.usage import Usage
from kumihimo.storage.cache_database import CacheDatabase
from kumihimo.storage.sqlite.cache_file import CacheFile

DAMAGE_ERRORS = (ValueError, TypeError, RecursionError)  # what a parser raises for a damaged reply
Parser = Callable[[bytes], Any]  # bytes of a reply -> the reply
log = logging.getLogger("kumihimo")
USAGE_COLUMNS = ("calls", "prompt_tokens", "cached_tokens", "completion_tokens", "cost", "seconds", "bytes")
ADD_USAGE = f"""
INSERT INTO usage VALUES (?, ?, ?{", ?" * len(USAGE_COLUMNS)}) ON CONFLICT (kind, scope, model)
DO UPDATE SET {", ".join(f"{name} = usage.{name} + excluded.{name}" for name in USAGE_COLUMNS)}
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
    """Replies by key, shared by threads and processes.

    Nothing is created before the first reply is fetched. database: or the path of a file.
    """

    def __init__(self, database: CacheDatabase | Path) -> None:
        self.database = CacheFile(database) if isinstance(database, Path) else database
        self.hits = self.misses = 0
        self.used_keys: set[bytes] | None = None  # the requested keys, while it is not None
        self._write_lock, self._lock = Lock(), Lock()
        self._unwritten: list[tuple[bytes, bytes]] = []
        self._contested: set[bytes] = set()  # keys whose stored reply may differ from ours
        self._damaged: set[bytes] = set()  # keys whose stored reply the next one replaces
        self._unwritten_usage: dict[tuple[str, str, str], tuple[Usage, int]] = {}
        self._in_flight: dict[bytes, Future[Any]] = {}
        self._is_closed = False

    def get_or_fetch(
        self, key: bytes, fetch: Callable[[], bytes], parse: Parser = bytes, *, dry_run: bool = False
    ) -> Any:
        """Return the parsed reply: the cached one, else fetch and cache it.

        Equal requests in flight become one, in all processes. A damaged reply is fetched again. dry_run: `fetch` only
        raises an error, so no other process waits for it.
        """
        own: Future[Any] = Future()
        while (running := self._join(key, own)) is not own:
            try:
                return running.result()
            except (BudgetExceeded, Cancelled):  # the other caller gave up: this one asks itself
                continue
        try:
            reply = self.get_or_fetch_many([key], lambda _: {key: fetch()}, parse, dry_run=dry_run)[key]
        except BaseException as error:
            self._leave(key)
            own.set_exception(error)
            raise
        self._leave(key)
        own.set_result(reply)
        return reply

    def _join(self, key: bytes, own: Future[Any]) -> Future[Any]:
        """Return the request in flight for a key, else our own."""
        with self._lock:
            if self.used_keys is not None:
                self.used_keys.add(key)
            running = self._in_flight.setdefault(key, own)
            self.hits += running is not own
            return running

    def _leave(self, key: bytes) -> None:
        with self._lock:
            self._in_flight.pop(key, None)

    def get_or_fetch_many(
        self,
        keys: Sequence[bytes],
        fetch: Callable[[list[bytes]], Mapping[bytes, bytes]],
        parse: Parser = bytes,
        *,
        dry_run: bool = False,
    ) -> dict[bytes, Any]:
        """Return the parsed replies of all keys; fetch and cache missing ones.

        `fetch` may be called several times, since it gets the keys that no other thread or process is fetching.
        """
        replies = self.get_many(keys, parse)
        while missing := [key for key in keys if key not in replies]:
            if dry_run:
                return replies | {key: parse(value) for key, value in fetch(missing).items()}
            self.database.prepare()
            with self.database.claims.claim(missing) as claimed:
                replies |= self.get_many(claimed, parse)  # another process may have stored them by now
                if unpaid := [key for key in claimed if key not in replies]:
                    fetched = fetch(unpaid)
                    replies |= {key: parse(value) for key, value in fetched.items()}
                    self.put_many(fetched.items())
                    if contested := self._contested.intersection(fetched):
                        replies |= self._load(contested, parse)
        return replies

    def get_many(self, keys: Iterable[bytes], parse: Parser = bytes) -> dict[bytes, Any]:
        """Return the cached replies among these keys, without damaged ones."""
        replies = self._load(keys, parse)
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

    def _load(self, keys: Iterable[bytes], parse: Parser) -> dict[bytes, Any]:
        replies: dict[bytes, Any] = {}
        for key, value in self.database.select_in("SELECT key, value FROM replies WHERE key", list(keys)):
            try:
                replies[key] = parse(value)
            except DAMAGE_ERRORS:
                self._record_damage(key)
        return replies

    def _record_damage(self, key: bytes) -> None:
        with self._lock:
            if key not in self._damaged:
                self._damaged.add(key)
                log.warning("%s: a damaged reply is not used; the model is asked again", self.database.location)

    def _flush(self, *, usage: bool = False) -> None:
        """Write all waiting replies to disk, those of the caller included.

        usage: write the usage even if no reply waits.
        """
        with self._write_lock, self._disconnected_if_closed():
            with self._lock:
                if not self._unwritten and not (usage and self._unwritten_usage and self.database.is_writable()):
                    return
                batch, self._unwritten = self._unwritten, []
                amounts, self._unwritten_usage = self._unwritten_usage, {}
            try:
                self._write_batch(batch, amounts)
            except BaseException:
                with self._lock:
                    self._unwritten = batch + self._unwritten  # the threads that wait for them try to write them
                for owner, (u, size) in amounts.items():
                    self._add_usage(owner, u, size)
                raise

    @contextmanager
    def _disconnected_if_closed(self) -> Iterator[None]:
        """Leave no connection open after `close`: a late reply is still stored."""
        try:
            yield
        finally:
            if self._is_closed:
                self.database.close()

    def _write_batch(
        self, batch: list[tuple[bytes, bytes]], amounts: Mapping[tuple[str, str, str], tuple[Usage, int]]
    ) -> None:
        damaged = self._damaged.intersection(key for key, _ in batch)
        counts = attrgetter(*USAGE_COLUMNS[:-1])
        with self.database.write() as db:
            db.many("DELETE FROM replies WHERE key = ?", ((key,) for key in damaged))
            inserted = db.many("INSERT INTO replies VALUES (?, ?) ON CONFLICT DO NOTHING", batch)
            if inserted < len(batch):  # another process stored some of them before us
                self._contested.update(key for key, _ in batch)
            db.many(ADD_USAGE, [(*owner, *counts(usage), size) for owner, (usage, size) in amounts.items()])
        with self._lock:
            self._damaged -= damaged

    def record_usage(
        self, kind: str, scope: str, model: str, usage: Usage, size: int, *, at_once: bool = False
    ) -> None:
        """Record usage, spent or saved, on prompts of this many bytes.

        It is written with the next reply, or on close. at_once: before this returns.
        """
        self._add_usage((kind, scope, model), usage, size)
        if at_once or self._is_closed:
            self._flush(usage=True)

    def _add_usage(self, owner: tuple[str, str, str], usage: Usage, size: int) -> None:
        with self._lock:
            earlier_usage, earlier_size = self._unwritten_usage.get(owner, (Usage(), 0))
            self._unwritten_usage[owner] = earlier_usage + usage, earlier_size + size

    def is_waiting(self, key: bytes) -> bool:
        """Return whether the reply is ordered in a batch."""
        query = "SELECT 1 FROM waiting WHERE key = ?"
        return self.database.has_table("waiting") and bool(self.database.select(query, key))

    def usage(self) -> list[UsageEntry]:
        """Return all usage, spent and saved, this session included."""
        self._flush(usage=True)
        rows = self.database.select("SELECT * FROM usage ORDER BY kind, scope, model")
        return [UsageEntry(row[0], row[1], row[2], Usage(*row[3:9]), row[9]) for row in rows]

    def exists(self) -> bool:
        return self.database.exists()

    def stats(self) -> dict[str, int]:
        """Return the number of replies, their bytes, hits and misses."""
        replies, size = self.size()
        return {"replies": replies, "bytes": size, **self.totals()}

    def size(self) -> tuple[int, int]:
        """Return the number of replies, and the bytes of their text."""
        rows = self.database.select("SELECT count(*), CAST(coalesce(sum(length(value)), 0) AS BIGINT) FROM replies")
        return rows[0] if rows else (0, 0)

    def totals(self) -> dict[str, int]:
        """Return all hits and misses, this session included."""
        counts = dict(self.database.select("SELECT name, value FROM counts"))
        return {"hits": counts.get("hits", 0) + self.hits, "misses": counts.get("misses", 0) + self.misses}

    def prune(self, used_keys: set[bytes]) -> int:
        """Delete all other replies, and return how many were deleted.

        Freed space in the file is overwritten. Raises IndexBusy while an earlier state is read; then repeat it.
        """
        self.database.prepare()
        with self._write_lock:
            with self.database.write(erasing=True) as db:
                stored = [key for (key,) in db.all("SELECT key FROM replies")]
                deleted = [(key,) for key in stored if key not in used_keys]
                db.many("DELETE FROM replies WHERE key = ?", deleted)
            is_free = self.database.shrink()
        if not is_free:
            location = self.database.location
            raise IndexBusy(
                f"another process reads {location}, so its files still hold the erased replies: end that process, "
                "then run `kumi cache prune`"
            )
        return len(deleted)

    def check(self, is_reply: Callable[[object], bool], *, repair: bool = False) -> list[str]:
        """Return what is damaged in the file.

        is_reply: whether a stored value can be read. repair: delete the damaged replies, or put the others into a new
        file.
        """
        with self._write_lock:
            return self.database.check(is_reply, repair=repair)

    def close(self) -> None:
        """Add this session's counts to the file, and close it."""
        self._flush(usage=True)
        if (self.hits or self.misses) and self.database.is_writable():
            update = "ON CONFLICT (name) DO UPDATE SET value = counts.value + excluded.value"
            with self._write_lock, self.database.write() as db:
                counts = [("hits", self.hits), ("misses", self.misses)]
                db.many(f"INSERT INTO counts VALUES (?, ?) {update}", counts)
        with self._write_lock:
            self._is_closed = True
            self.database.close()
            self.database.claims.close()
