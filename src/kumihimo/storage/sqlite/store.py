"""a folder -> index.db: tables in SQLite, one transaction per build, one read transaction per question."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Lock

from kumihimo.core.cancel import CancelToken, check_cancelled
from kumihimo.core.errors import IndexBusy, IndexUnavailable, StorageError
from kumihimo.storage.database import BuildMemory, check_format
from kumihimo.storage.sqlite.connection import Db, SqliteConnection, database_address, explain_error, is_immutable

_REWRITE_TIMEOUT = 10_000  # milliseconds to wait for other processes
_BUSY_TIMEOUT = 1000  # milliseconds to wait for another build
_POLL_MILLISECONDS = 50  # between two looks at a token


class SqliteStore:
    """The file `index.db` of one index folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "index.db"
        self._idle: list[tuple[int, Db]] = []  # inode of the file, connection
        self._lock = Lock()
        self._memory = BuildMemory()

    @property
    def location(self) -> str:
        return str(self.path)

    def exists(self) -> bool:
        """Return whether the folder holds an index."""
        return self.path.is_file()

    def is_read_only(self) -> bool:
        """Return whether nothing can be built here."""
        return is_immutable(self.path)

    def size(self) -> int:
        """Return the bytes of all files in the folder."""
        return sum(map(_file_size, self.folder.rglob("*")))

    @contextmanager
    def read_transaction(self, cancel: CancelToken | None = None) -> Iterator[Db]:
        """Open a read transaction: a snapshot of one finished build.

        cancel: stops its statements, which raise Cancelled.
        """
        inode, db = self._acquire()
        try:
            db.begin(cancel, only_reads=True)
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
                db.begin(cancel)
            except StorageError as error:
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
        check_format(version or FORMAT, FORMAT, str(self.folder), rebuild=rebuild)


def _connect(path: Path, *, immutable: bool = False) -> SqliteConnection:
    address = database_address(path.resolve(), "?immutable=1") if immutable else str(path)
    try:
        driver = sqlite3.connect(
            address, uri=immutable, isolation_level=None, check_same_thread=False, cached_statements=128
        )
    except sqlite3.Error as error:
        raise explain_error(path, error) from error
    return SqliteConnection(driver, path)


def _file_size(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except FileNotFoundError:  # a build has just removed it
        return 0


def _rewrite_file(db: Db) -> bool:
    """Rewrite the file, empty its log; return whether that succeeded."""
    db.run(f"PRAGMA busy_timeout = {_REWRITE_TIMEOUT}")
    try:
        db.run("VACUUM")
    except StorageError as error:
        if "locked" not in str(error):
            raise
        return False
    blocked, *_ = db.all("PRAGMA wal_checkpoint(TRUNCATE)")[0]
    return not blocked


FORMAT = 4  # of index.db; version 0.1 wrote 1
_KEPT_BY_REBUILD = ("communities", "meta", "steps")  # communities remember; meta holds the sources and methods
_KEPT_META = ("sources", "methods", "models", "origins", "build", "file")  # the last two number other files

LEDGER_TABLES = """
CREATE TABLE IF NOT EXISTS steps  (step TEXT PRIMARY KEY, fingerprint TEXT, shape TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS failed (step TEXT, maker TEXT, error TEXT NOT NULL, PRIMARY KEY (step, maker)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS looked (step TEXT, maker TEXT, at BLOB NOT NULL, PRIMARY KEY (step, maker)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS meta   (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS texts  (n INTEGER PRIMARY KEY, id BLOB UNIQUE, text TEXT NOT NULL, uses INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS files  (uri TEXT PRIMARY KEY, source TEXT NOT NULL, stamp TEXT NOT NULL) WITHOUT ROWID;
"""


def file_format(db: Db) -> int:
    """Return the file's format; 0 where nothing was written yet."""
    version = int(db.all("PRAGMA user_version")[0][0])
    if version == 0 and db.one("SELECT 1 FROM sqlite_master"):
        raise IndexUnavailable(f"{db.path} is a database of something else: name another folder with `--index DIR`")
    return version


def prepare_tables(db: Db, *, rebuild: bool) -> None:
    """Create missing ledger tables; to rebuild, drop the others first."""
    if rebuild and file_format(db):
        _drop_tables(db)
    for statement in filter(str.strip, LEDGER_TABLES.split(";")):
        db.run(statement)
    db.run(f"PRAGMA user_version = {FORMAT}")


def _drop_tables(db: Db) -> None:
    """Drop the tables that a build makes, except the communities."""
    query = (
        "SELECT type, name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'"
        " ORDER BY sql LIKE 'CREATE VIRTUAL%' DESC"  # a full-text table takes its own tables with it
    )
    for kind, name in db.all(query):
        if name not in _KEPT_BY_REBUILD:
            db.run(f'DROP {kind} IF EXISTS "{name}"')
    db.run(f"DELETE FROM meta WHERE name NOT IN ({','.join('?' * len(_KEPT_META))})", *_KEPT_META)
    db.run("DELETE FROM steps WHERE step <> 'communities'")
    db.run("UPDATE steps SET fingerprint = NULL")
