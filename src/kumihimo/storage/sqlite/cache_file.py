"""a path -> the tables of cache.db, errors with a remedy, and the repair of a damaged file."""

import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from shutil import disk_usage
from threading import Lock
from typing import Any

from kumihimo.core.errors import IndexUnavailable
from kumihimo.storage.cache_database import CacheDatabase, KeyClaims
from kumihimo.storage.sqlite.connection import SqliteConnection, database_address, is_immutable

_CREATE_TABLES = """
CREATE TABLE IF NOT EXISTS replies (key BLOB NOT NULL UNIQUE, value BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS counts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS usage (
    kind TEXT, scope TEXT, model TEXT, calls INTEGER, prompt_tokens INTEGER, cached_tokens INTEGER,
    completion_tokens INTEGER, cost REAL, seconds REAL, bytes INTEGER, PRIMARY KEY (kind, scope, model)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS batches (
    name TEXT PRIMARY KEY, server TEXT NOT NULL, wave INTEGER NOT NULL, prices TEXT NOT NULL, id TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS waiting (
    key BLOB PRIMARY KEY, batch TEXT NOT NULL, scope TEXT NOT NULL, model TEXT NOT NULL, bytes INTEGER NOT NULL
) WITHOUT ROWID
"""
log = logging.getLogger("kumihimo")
_NAME_ANOTHER = "name another cache with --cache FILE"
_IN_USE = "{} is in use by another process: run the same command again when that one has ended"
_MAX_TRIES, _PAUSE = 3000, 0.02  # to switch to the log; seconds between
_MIN_FREE = 1_000_000  # bytes
_MAX_GAP = 1000  # missing row numbers for each one found
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class CacheFile(CacheDatabase):
    """The `CacheDatabase` in one file of SQLite."""

    def __init__(self, path: Path) -> None:
        self.path, self.location = path, str(path)
        self.claims = KeyClaims.in_file(path.with_name(f"{path.name}-claims"))
        self._read_lock, self._write_lock = Lock(), Lock()
        self._reader: sqlite3.Connection | None = None
        self._writer: sqlite3.Connection | None = None

    def exists(self) -> bool:
        return self.path.exists()

    def is_writable(self) -> bool:
        return all(os.access(path, os.W_OK) for path in (self.path.parent, self.path) if path.exists())

    def prepare(self) -> None:
        """Open the connection that writes; create the file if needed.

        Raises IndexUnavailable if the disk has no room for a reply.
        """
        with self._write_lock:
            self._connect()
        if disk_usage(self.path.parent).free < _MIN_FREE:
            raise IndexUnavailable(f"the disk of {self.path} is full, so no model was asked: make room on it")

    def _connect(self) -> sqlite3.Connection:
        with explain_cache_errors(self.path):
            if self._writer is None:
                self._writer = open_to_write(self.path)
            return self._writer

    def has_table(self, name: str) -> bool:
        return bool(self.select("SELECT 1 FROM sqlite_master WHERE name = ?", name))

    @contextmanager
    def read(self) -> Iterator[SqliteConnection | None]:
        with self._read_lock, explain_cache_errors(self.path):
            if self._reader is None:
                self._reader = open_to_read(self.path)
            yield SqliteConnection(self._reader, self.path) if self._reader else None

    @contextmanager
    def write(self, *, synced: bool = False, erasing: bool = False) -> Iterator[SqliteConnection]:
        with self._write_lock, explain_cache_errors(self.path):
            connection = self._connect()
            connection.execute(f"PRAGMA synchronous = {'FULL' if synced else 'NORMAL'}")
            with connection:  # commits at the end, or rolls back
                connection.execute("BEGIN IMMEDIATE")
                if erasing:
                    connection.execute("PRAGMA secure_delete = ON")
                yield SqliteConnection(connection, self.path)

    def shrink(self) -> bool:
        """Overwrite free space; return whether no reader is in the way."""
        with self._write_lock, explain_cache_errors(self.path):
            connection = self._connect()
            connection.execute("VACUUM")
            blocked, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return not blocked

    def check(self, is_reply: Callable[[object], bool], *, repair: bool) -> list[str]:
        self.close()
        return check_cache(self.path, is_reply, repair=repair)

    def close(self) -> None:
        with self._read_lock, self._write_lock:
            for connection in filter(None, (self._writer, self._reader)):
                connection.close()
            self._writer = self._reader = None


@contextmanager
def explain_cache_errors(path: Path) -> Iterator[None]:
    """Raise IndexUnavailable, which names the cache and a remedy."""
    try:
        yield
    except sqlite3.Error as error:
        raise IndexUnavailable(_explain_error(path, error)) from error
    except PermissionError as error:  # Windows moves no file that another process has opened
        raise IndexUnavailable(_IN_USE.format(path)) from error


def _explain_error(path: Path, error: sqlite3.Error) -> str:
    explanations = {
        sqlite3.SQLITE_FULL: f"{path} cannot be written, since the disk is full: "
        "make room, and run the same command again",
        sqlite3.SQLITE_READONLY: f"{path} cannot be written: {_NAME_ANOTHER}",
        sqlite3.SQLITE_CANTOPEN: f"{path} cannot be opened: {_NAME_ANOTHER}",
        sqlite3.SQLITE_BUSY: _IN_USE.format(path),
        sqlite3.SQLITE_IOERR: f"{path} cannot be read or written (disk I/O error): check the disk",
        sqlite3.SQLITE_CORRUPT: f"{path} is damaged: `kumi check --repair` keeps the replies that can be read",
        sqlite3.SQLITE_NOTADB: f"{path} is damaged, or no cache: `kumi check --repair` keeps the replies that can be "
        f"read; or {_NAME_ANOTHER}",
    }
    return explanations.get(_error_code(error), f"{path} cannot be used ({error}): {_NAME_ANOTHER}")


def open_to_read(path: Path) -> sqlite3.Connection | None:
    """Return a connection that reads; None without a cache."""
    if not path.exists():
        return None
    with ExitStack() as stack:
        db = stack.enter_context(closing(_connect_to_read(path)))
        if not _has_tables(db, path):
            return None
        stack.pop_all()
    return db


def open_to_write(path: Path) -> sqlite3.Connection:
    """Return a connection that writes, and create the file if needed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        db = stack.enter_context(closing(_connect(path)))
        _has_tables(db, path)
        _switch_to_log(db)
        db.execute("PRAGMA synchronous = NORMAL")
        db.executescript(f"BEGIN IMMEDIATE; {_CREATE_TABLES}; COMMIT")
        stack.pop_all()
    return db


def _switch_to_log(db: sqlite3.Connection) -> None:
    """Use a write-ahead log; wait for another process that does the same.

    SQLite does not wait here by itself.
    """
    for tries_left in reversed(range(_MAX_TRIES)):
        try:
            db.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if _error_code(error) != sqlite3.SQLITE_BUSY or not tries_left:
                raise
            time.sleep(_PAUSE)
        else:
            return


def _connect_to_read(path: Path) -> sqlite3.Connection:
    return _connect(path, "?immutable=1" if is_immutable(path) else "")


def _connect(path: Path, options: str = "") -> sqlite3.Connection:
    address = database_address(path.resolve(), options)
    return sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False, timeout=60)


def _has_tables(db: sqlite3.Connection, path: Path) -> bool:
    """Return whether there are replies. Raise IndexUnavailable for other tables."""
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if tables and "replies" not in tables:
        raise IndexUnavailable(f"{path} is a database of something else: {_NAME_ANOTHER}")
    return bool(tables)


def check_cache(path: Path, is_reply: Callable[[object], bool], *, repair: bool) -> list[str]:
    """Return what is damaged in a cache.

    repair: delete the damaged replies. If the file itself is damaged, a new one gets all other replies, and the old one
    stays beside it.
    """
    if not path.exists():
        return []
    with explain_cache_errors(path), closing(_connect_to_read(path)) as db:
        if error := _find_file_error(db, path):
            if repair:
                _rebuild_file(db, path, is_reply)
            return [f"the file is damaged: {error}"]
        if not _has_tables(db, path):
            return []
        damaged = [(rowid,) for rowid, value in db.execute("SELECT rowid, value FROM replies") if not is_reply(value)]
        if damaged and repair:
            with db:
                db.execute("BEGIN IMMEDIATE")
                db.executemany("DELETE FROM replies WHERE rowid = ?", damaged)
            log.warning("%s: %s damaged replies were deleted", path, len(damaged))
    return [f"{len(damaged):,} replies cannot be read"] if damaged else []


def _find_file_error(db: sqlite3.Connection, path: Path) -> str:
    """Return the first error in the pages; an empty text without errors."""
    try:
        _has_tables(db, path)
        ((result,),) = db.execute("PRAGMA integrity_check(1)").fetchall()
    except sqlite3.DatabaseError as error:
        if _error_code(error) not in _DAMAGE:
            raise
        return str(error)
    return "" if result == "ok" else " ".join(result.removeprefix("*** in database main ***").split())


def _rebuild_file(old_db: sqlite3.Connection, path: Path, is_reply: Callable[[object], bool]) -> None:
    """Replace a damaged file by one with its readable rows."""
    new_path, old_path = path.with_name(f"{path.name}-new"), damaged_copy(path)
    if path.read_bytes()[:16] not in (b"SQLite format 3\0", bytes(16)):
        raise IndexUnavailable(f"{path} is no cache, so it stays as it is: {_NAME_ANOTHER}")
    if old_path.exists():
        raise IndexUnavailable(f"{old_path} is in the way: it holds an earlier damaged cache; move it away")
    delete_database(new_path)
    old_db.execute("PRAGMA writable_schema = ON")  # or SQLite reads no row of a file that is too short
    old_db.execute("PRAGMA busy_timeout = 1000")
    old_db.execute("PRAGMA locking_mode = EXCLUSIVE")
    with _suppress_damage():  # no other process may write now
        old_db.execute("BEGIN IMMEDIATE")
    with closing(open_to_write(new_path)) as new, new:
        new.execute("BEGIN IMMEDIATE")
        replies = (row for row in _readable_replies(old_db) if is_reply(row[1]))
        copied = new.executemany("INSERT OR IGNORE INTO replies VALUES (?, ?)", replies).rowcount
        for table in ("counts", "usage", "batches", "waiting"):
            for row in _readable_rows(old_db, f"SELECT * FROM {table}"):
                new.execute(f"INSERT OR IGNORE INTO {table} VALUES ({', '.join('?' * len(row))})", row)
    old_db.close()
    for suffix in ("-wal", "-shm", ""):  # the log first: it must not stay beside the new file
        with suppress(FileNotFoundError):
            Path(f"{path}{suffix}").replace(f"{old_path}{suffix}")
    new_path.replace(path)
    log.warning("%s is a new file with the %s replies that can be read; %s is the old one", path, copied, old_path)


def _readable_replies(db: sqlite3.Connection) -> Iterator[tuple[Any, ...]]:
    """Yield the replies that can be read in a damaged file.

    The table and its index are read from both ends, to learn the row numbers; those between them are tried too.
    """
    row_numbers: set[int] = set()
    for order in ("key", "key DESC", "rowid", "rowid DESC"):
        row_numbers.update(number for (number,) in _readable_rows(db, f"SELECT rowid FROM replies ORDER BY {order}"))
    first, last = min(row_numbers, default=0), max(row_numbers, default=-1)
    some_are_damaged = last - first > _MAX_GAP * len(row_numbers)
    for number in sorted(row_numbers) if some_are_damaged else range(first, last + 1):
        yield from _readable_rows(db, "SELECT key, value FROM replies NOT INDEXED WHERE rowid = ?", number)


def _readable_rows(db: sqlite3.Connection, query: str, *values: object) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a query up to the first damaged one."""
    with _suppress_damage():
        yield from db.execute(query, values)


@contextmanager
def _suppress_damage() -> Iterator[None]:
    """Leave out the rows that are on damaged pages."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if _error_code(error) not in (*_DAMAGE, sqlite3.SQLITE_ERROR):  # the last: a table is missing
            raise


def damaged_copy(path: Path) -> Path:
    """Return where a repair moves a damaged cache."""
    return path.with_name(f"{path.name}-damaged")


def delete_database(path: Path) -> None:
    """Delete a database and its log; folders stay."""
    for file in (Path(f"{path}{suffix}") for suffix in ("", "-wal", "-shm")):
        if file.is_file():
            file.unlink()


def _error_code(error: sqlite3.Error) -> int:
    """Return the code of an error; 0 if it has none."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
