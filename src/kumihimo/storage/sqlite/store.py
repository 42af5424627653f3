"""a folder -> index.db: tables in SQLite, one transaction per build, one read transaction per question."""

import json
import sqlite3
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from threading import Lock, RLock
from typing import Any, TypeVar

from kumihimo.core.cancel import CancelToken, check_cancelled
from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import IndexBusy, IndexUnavailable, NewerFormat
from kumihimo.core.redaction import redact
from kumihimo.core.table import Row
from kumihimo.storage import IndexTransaction
from kumihimo.storage.sqlite.build_memory import BuildMemory
from kumihimo.storage.sqlite.file_locks import database_address, is_immutable
from kumihimo.storage.sqlite.integrity import raise_if_unusable
from kumihimo.storage.sqlite.log_file import truncate_log
from kumihimo.storage.sqlite.rows import SqlRows as SqlRows
from kumihimo.storage.sqlite.schema import FORMAT, file_format, prepare_tables
from kumihimo.storage.sqlite.session import Session

T = TypeVar("T")
PAGE_ROWS = 1000  # rows of one query; an open cursor would keep the log from being truncated
_REWRITE_TIMEOUT = 10_000  # milliseconds to wait for other processes
_BUSY_TIMEOUT = 1000  # milliseconds to wait for another build
_POLL_MILLISECONDS = 50  # between two looks at a token


@dataclass(slots=True)
class Db:
    """A connection for all threads.

    A lock covers each statement and the reading of its rows. Each statement raises IndexDamaged if the file is damaged.
    """

    connection: sqlite3.Connection
    path: Path
    lock: RLock = field(default_factory=RLock)
    memory: BuildMemory = field(default_factory=BuildMemory)  # of all connections
    version: int = -1  # of the file, when its build was identified
    build: Hashable = None
    session: Session | None = None  # the transaction that is under way

    def all(self, sql: str, *values: object) -> list[Row]:
        return self._guard(lambda: self.connection.execute(sql, values).fetchall())

    def one(self, sql: str, *values: object) -> Row | None:
        return next(iter(self.all(sql, *values)), None)

    def all_in(self, sql: str, values: Sequence[object]) -> list[Row]:
        """Return the rows of a query that contains `IN (?)`.

        It runs in batches, for any number of values.
        """
        rows: list[Row] = []
        for i in range(0, len(values), PAGE_ROWS):
            batch = values[i : i + PAGE_ROWS]
            rows += self.all(sql.replace("IN (?)", f"IN ({','.join('?' * len(batch))})"), *batch)
        return rows

    def paged(self, sql: str, *values: object, limit: int = 0) -> Iterator[list[Row]]:
        """Yield the rows page by page.

        The query ends with a condition `key > ?`, where `key` is its first column.
        """
        last_key = ""
        while page := self.all(f"{sql} ORDER BY 1 LIMIT {limit or PAGE_ROWS}", *values, last_key):
            last_key = page[-1][0]
            yield page

    @contextmanager
    def rows_one_by_one(self, sql: str, *values: object) -> Iterator[Iterable[Row]]:
        """Yield an iterable that computes each row as it is read."""
        try:
            running = self.session.running() if self.session else self.lock
            with running, closing(self.connection.execute(sql, values)) as rows:
                yield rows
        except sqlite3.DatabaseError as error:
            raise_if_unusable(self.path, error)
            raise

    def run(self, sql: str, *values: object) -> None:
        self._guard(lambda: self.connection.execute(sql, values))

    def many(self, sql: str, rows: Any) -> None:
        self._guard(lambda: self.connection.executemany(sql, rows))

    def _guard(self, statement: Callable[[], T]) -> T:
        """Run a statement; raise IndexDamaged if the file is damaged."""
        try:
            if self.session:
                return self.session.run(statement)
            with self.lock:
                return statement()
        except sqlite3.DatabaseError as error:
            raise_if_unusable(self.path, error)
            raise

    def close(self) -> None:
        """Close the connection once no statement is running."""
        with self.lock:
            if self.session:
                self.session.stop()
            self.connection.close()

    def begin_reading(self, cancel: CancelToken | None = None) -> None:
        """Open a transaction that only reads; a token can stop it."""
        on_release = partial(truncate_log, self.connection, self.path)
        self._begin(Session(self.connection, self.lock, "BEGIN", cancel, on_release))

    def begin_writing(self, cancel: CancelToken | None = None) -> None:
        """Open the transaction of a build; a token can stop it."""
        self._begin(Session(self.connection, self.lock, "BEGIN IMMEDIATE", cancel))

    def _begin(self, session: Session) -> None:
        self._guard(session.begin)
        self.session = session

    def commit(self) -> None:
        """Commit the transaction, which no token stops any more."""
        session, self.session = self.session, None
        if session:
            self._guard(session.end)

    def released(self) -> AbstractContextManager[None]:
        """Hold no transaction inside the context, while a model speaks.

        The next statement opens it again, and raises IndexChanged if another build has ended meanwhile.
        """
        return self.session.released() if self.session else nullcontext()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other threads from this connection."""
        with self.session.locked() if self.session else self.lock:
            yield

    def has(self, table: str) -> bool:
        session, tables = self.session, "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
        if not session or not session.only_reads:
            return self.one(f"{tables} AND name = ?", table) is not None
        if session.tables is None:  # once, since a question looks for its tables at each row
            session.tables = frozenset(name for (name,) in self.all(tables))
        return table in session.tables

    def meta(self, name: str, default: Any = None) -> Any:
        """Return a fact about the index, such as its sources or models."""
        row = self.one("SELECT value FROM meta WHERE name = ?", name)
        return default if row is None else json.loads(row[0])

    def set_meta(self, name: str, value: object) -> None:
        self.run("INSERT OR REPLACE INTO meta VALUES (?, ?)", name, json.dumps(value, sort_keys=True))

    def once_per_build(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return a computed value, the same until the index changes.

        For transactions that only read. All connections share it, so it must not hold this one.
        """
        return self.memory.get(self._identify_build(), key, compute, self.check_cancelled)

    def _identify_build(self) -> Hashable:
        """Return what tells this build from others.

        The facts about an index hold the checksums of its tables; a search index that is made again is another table.
        """
        with self.locked():
            version = self.all("PRAGMA data_version")[0][0]
            if version != self.version:
                facts = chain.from_iterable(self.all("SELECT name, value FROM meta ORDER BY name"))
                self.build = self.all("PRAGMA schema_version")[0][0], hash_parts(*facts)
                self.version = version
            return self.build

    def check_cancelled(self) -> None:
        """Raise Cancelled if the command of this connection is to stop."""
        check_cancelled(self.session.cancel if self.session else None)

    def rows(self, table: str) -> SqlRows:
        return SqlRows(self, table)

    def count(self, table: str) -> int:
        return SqlRows(self, table).count()

    def value(self, table: str, id: str, column: str) -> Any:
        (value,) = self.values(table, id, column)
        return value

    def values(self, table: str, id: str, *columns: str) -> Sequence[Any]:
        names = ", ".join(f'"{column}"' for column in columns)
        return self.one(f'SELECT {names} FROM "{table}" WHERE id = ?', id) or (None,) * len(columns)

    def column(self, table: str, column: str) -> list[Any]:
        return [value for (value,) in self.all(f'SELECT "{column}" FROM "{table}" ORDER BY 1')]

    def fingerprints(self) -> dict[str, str]:
        return dict(self.all("SELECT step, fingerprint FROM steps WHERE fingerprint IS NOT NULL"))

    def failures(self) -> tuple[tuple[str, str, str], ...]:
        return tuple((step, item, error) for step, item, error in self.all("SELECT * FROM failed ORDER BY step, maker"))

    def view_states(self, kind: str) -> list[Any]:
        names = self.all("SELECT value FROM meta WHERE name GLOB ? ORDER BY name", f"{kind}_*")
        return [json.loads(value) for (value,) in names]

    def documents_with(self, key: str) -> list[tuple[str, Any]]:
        """Return (uri, value) of each document with this metadata key."""
        query = "SELECT uri, metadata FROM documents WHERE metadata LIKE ? ORDER BY uri"
        rows = ((uri, json.loads(metadata)) for uri, metadata in self.all(query, f'%"{key}"%'))
        return [(uri, metadata[key]) for uri, metadata in rows if key in metadata]

    def record_failures(self, step: str, errors: Iterable[tuple[str, str | None]]) -> None:
        """Store the failed makers and their errors; None removes a maker."""
        entries = [(maker, error and redact(error)) for maker, error in errors]
        self.many("DELETE FROM failed WHERE step = ? AND maker = ?", ((step, maker) for maker, _ in entries))
        self.many("INSERT INTO failed VALUES (?, ?, ?)", ((step, maker, error) for maker, error in entries if error))

    @contextmanager
    def rolled_back(self) -> Iterator[None]:
        """Undo every change made inside the context."""
        self.run("SAVEPOINT undone")
        try:
            yield
        finally:
            self.run("ROLLBACK TO undone")
            self.run("RELEASE undone")


def as_db(transaction: IndexTransaction) -> Db:
    """Return the SQLite connection of a transaction, for storage and search."""
    if not isinstance(transaction, Db):
        raise TypeError(f"this needs an index in SQLite, not {type(transaction).__name__}")
    return transaction


class Store:
    """The file `index.db` of one index folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "index.db"
        self._idle: list[tuple[int, Db]] = []  # inode of the file, connection
        self._lock = Lock()
        self._memory = BuildMemory()

    @contextmanager
    def read_transaction(self, cancel: CancelToken | None = None) -> Iterator[Db]:
        """Open a read transaction: a snapshot of one finished build.

        cancel: stops its statements, which raise Cancelled.
        """
        inode, db = self._acquire()
        try:
            db.begin_reading(cancel)
            version = file_format(db)  # the first read fixes the snapshot
            self._check_format(version)
            if version == 0 and not self.path.stat().st_size:
                raise IndexUnavailable(
                    f"{self.path} is empty: `kumi index PATH` builds it again, from the folders it held"
                )
            if version == 0:
                remedy = "wait, or start again with `kumi index PATH`"
                raise IndexUnavailable(f"the first build of {self.folder} is not finished: {remedy}")
            yield db
            db.commit()
        except BaseException:
            db.close()
            raise
        with self._lock:
            self._idle.append((inode, db))

    @contextmanager
    def write_transaction(
        self, *, wait: bool = False, rebuild: bool = False, cancel: CancelToken | None = None
    ) -> Iterator[Db]:
        """Open the write transaction of a build: its lock and its swap.

        rebuild: drop what can be built again, also in an index of an older version. cancel: stops the wait and the
        statements, which raise Cancelled. Raises IndexBusy where another build runs.
        """
        with closing(self._open_to_write()) as db:  # without COMMIT, this rolls back
            self._begin_write(db, cancel, wait=wait, rebuild=rebuild)
            prepare_tables(db, rebuild=rebuild)
            yield db
            check_cancelled(cancel)
            db.commit()
            db.run("PRAGMA busy_timeout = 50")  # a reader may hold the log: then the next build truncates it
            db.all("PRAGMA wal_checkpoint(TRUNCATE)")

    def rewrite(self, *, wait: bool = False) -> None:
        """Rewrite the file and empty its log, without deleted rows.

        Raises IndexBusy while a build runs or an earlier state is read; wait: until they end.
        """
        with closing(self._open_to_write()) as db:
            while not _rewrite_file(db):
                if not wait:
                    raise IndexBusy(
                        f"another process uses {self.folder}, so its files still hold what you removed: "
                        "end that process, then run `kumi remove --forget`"
                    )

    def close(self) -> None:
        with self._lock:
            while self._idle:
                self._idle.pop()[1].close()

    def _acquire(self) -> tuple[int, Db]:
        """Return the inode of the present file, and a connection to it."""
        if not self.path.is_file():
            raise IndexUnavailable(f"there is no index in {self.folder}: make one with `kumi index PATH`")
        inode = self.path.stat().st_ino
        with self._lock:
            while self._idle:
                file_inode, db = self._idle.pop()
                if file_inode == inode:
                    return file_inode, db
                db.close()
        immutable = is_immutable(self.path)
        db = Db(_connect(self.path, immutable=immutable), self.path, memory=self._memory)
        db.run("PRAGMA query_only = 1")
        return 0 if immutable else inode, db  # an immutable connection serves one question only

    def _open_to_write(self) -> Db:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise IndexUnavailable(
                f"{self.folder} is a file: name a folder for the index with `--index DIR`"
            ) from error
        if self.path.is_dir():
            raise IndexUnavailable(f"{self.path} is a folder: name another place for the index with `--index DIR`")
        ignore = self.folder / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n")
        db = Db(_connect(self.path), self.path)
        db.run("PRAGMA secure_delete = ON")
        return db

    def _begin_write(self, db: Db, cancel: CancelToken | None, *, wait: bool, rebuild: bool) -> None:
        tries, timeout = 0, _POLL_MILLISECONDS if cancel else _BUSY_TIMEOUT  # SQLite's own wait cannot be cancelled
        while True:
            try:
                db.run(f"PRAGMA busy_timeout = {timeout}")
                self._check_format(file_format(db), rebuild=rebuild)
                db.all("PRAGMA journal_mode = WAL")
                db.run("PRAGMA synchronous = NORMAL")
                db.run("PRAGMA cache_size = -131072")
                db.begin_writing(cancel)
            except sqlite3.OperationalError as error:
                if "locked" not in str(error):
                    raise
                tries += 1
                check_cancelled(cancel)
                if not wait and tries * timeout >= _BUSY_TIMEOUT:
                    message = f"another build is running on {self.folder}: wait for it with `--wait`, or stop it"
                    raise IndexBusy(message) from error
                if wait:
                    time.sleep(0.1)
            else:
                return

    def _check_format(self, version: int, *, rebuild: bool = False) -> None:
        if version > FORMAT:
            raise NewerFormat(
                f"the index in {self.folder} has format {version}, this version reads up to {FORMAT}: "
                "upgrade with `pip install -U kumihimo`, or make a new index with `--index DIR`"
            )
        if 0 < version < FORMAT and not rebuild:
            raise IndexUnavailable(
                f"the index in {self.folder} was built by an older version: run `kumi index --rebuild`; "
                "cached replies of models are kept"
            )


def _connect(path: Path, *, immutable: bool = False) -> sqlite3.Connection:
    address = database_address(path.resolve(), "?immutable=1") if immutable else str(path)
    return sqlite3.connect(address, uri=immutable, isolation_level=None, check_same_thread=False, cached_statements=128)


def _rewrite_file(db: Db) -> bool:
    """Rewrite the file, empty its log; return whether that succeeded."""
    db.run(f"PRAGMA busy_timeout = {_REWRITE_TIMEOUT}")
    try:
        db.run("VACUUM")
    except sqlite3.OperationalError as error:
        if "locked" not in str(error):
            raise
        return False
    blocked, *_ = db.all("PRAGMA wal_checkpoint(TRUNCATE)")[0]
    return not blocked
