"""a schema of PostgreSQL -> tables: one transaction per build, one snapshot per question."""

import logging
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING
from zlib import crc32

from kumihimo.connections import open_postgres_pool
from kumihimo.core.cancel import CancelToken, check_cancelled
from kumihimo.core.errors import IndexBusy, IndexUnavailable
from kumihimo.storage.database import BuildMemory, check_format
from kumihimo.storage.postgres import cache_tables, connection as server
from kumihimo.storage.postgres.connection import PostgresConnection, PostgresDb

if TYPE_CHECKING:
    from psycopg_pool import ConnectionPool  # noqa: TID251 (a type)

    from kumihimo.storage.place import IndexPlace

FORMAT = 2  # of the schema; version 0.2 wrote 1
_KEPT_BY_REBUILD = "communities"  # remember
_KEPT_META = ("sources", "methods", "models", "origins", "build", "format")
_MAX_READERS, _POOL_TIMEOUT = 32, 30.0  # connections; seconds to wait for one
_POLL_SECONDS, _BUSY_TIMEOUT = 0.05, 1.0  # between two looks for the end of another build; a killed one ends late
_DROP_TIMEOUT = "200ms"  # to wait for readers of an old relation
_REWRITE_SECONDS = 10  # to wait for readers of an earlier state
_LOCK_SPACE = 0x6B756D69  # "kumi": of our locks, among all of a database

_TABLES = """
CREATE SEQUENCE IF NOT EXISTS relation_numbers;
CREATE TABLE IF NOT EXISTS relations (name {text} PRIMARY KEY, relation {text} NOT NULL);
CREATE TABLE IF NOT EXISTS steps  (step {text} PRIMARY KEY, fingerprint {text}, shape {text});
CREATE TABLE IF NOT EXISTS failed (step {text}, maker {text}, error {text} NOT NULL, PRIMARY KEY (step, maker));
CREATE TABLE IF NOT EXISTS looked (step {text}, maker {text}, at BYTEA NOT NULL, PRIMARY KEY (step, maker));
CREATE TABLE IF NOT EXISTS meta   (name {text} PRIMARY KEY, value {text} NOT NULL);
CREATE TABLE IF NOT EXISTS files  (uri {text} PRIMARY KEY, source {text} NOT NULL, stamp {text} NOT NULL)
"""


class PostgresStore:
    """One schema of a database."""

    def __init__(self, place: "IndexPlace") -> None:
        self.place, self.location = place, str(place)
        self._memory, self._lock = BuildMemory(), Lock()
        self._pool: ConnectionPool | None = None

    def exists(self) -> bool:
        """Return whether the schema holds an index."""
        with self._pooled() as db:
            return self._has_tables(db)

    def is_read_only(self) -> bool:
        """Return whether this role may not build."""
        with self._pooled() as db:
            return self._has_tables(db) and not db.all("SELECT has_table_privilege('meta', 'INSERT')")[0][0]

    def size(self) -> int:
        """Return the bytes of all tables, with their indexes."""
        query = "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class WHERE relkind = 'r'"
        with self._pooled() as db:
            return int(db.all(f"{query} AND relnamespace = to_regnamespace(?)", f'"{self.place.schema}"')[0][0])

    @contextmanager
    def read_transaction(self, cancel: CancelToken | None = None) -> Iterator[PostgresDb]:
        """Open a read transaction: a snapshot of one finished build.

        cancel: stops its statements, which raise Cancelled.
        """
        with self._pooled() as db:
            try:
                db.begin(cancel, only_reads=True)
                if not self._has_tables(db) or not (version := db.meta("format", 0)):
                    raise IndexUnavailable(
                        f"there is no index in {self.location}: make one with `kumi index PATH --index ADDRESS`"
                    )
                check_format(version, FORMAT, self.location)
                yield db
                db.commit()
            except BaseException:
                db.roll_back()
                raise

    @contextmanager
    def write_transaction(
        self, *, wait: bool = False, rebuild: bool = False, cancel: CancelToken | None = None
    ) -> Iterator[PostgresDb]:
        """Open the write transaction of a build.

        rebuild: make all tables again, also of an index of an older version. cancel: stops the wait and the statements,
        which raise Cancelled. Raises IndexBusy where another build runs.
        """
        with closing(self._open()) as db:  # without COMMIT, this rolls back
            self._lock_builds(db, cancel, wait=wait)
            self._drop_unused(db)
            with server.explain_errors(self.location), server.creating(db.connection.driver, self.place.schema):
                if not self.place.cache_file:  # now: the cache does not wait for this build, and roles can get rights
                    db.connection.driver.execute(cache_tables.CACHE_TABLES)
            db.begin(cancel)
            self._prepare_tables(db, rebuild=rebuild)
            yield db
            check_cancelled(cancel)
            db.commit()

    def rewrite(self, *, wait: bool = False) -> None:
        """Rewrite all tables without deleted rows.

        Raises IndexBusy while a build runs or an earlier state is read; wait: until they end.
        """
        with closing(self._open()) as db:
            self._lock_builds(db, None, wait=wait)
            from psycopg.errors import LockNotAvailable

            with server.explain_errors(self.location):
                try:
                    self._wait_for_readers(db, None if wait else time.monotonic() + _REWRITE_SECONDS)
                    relations = self._drop_unused(db)
                    db.run(f"SET lock_timeout = '{0 if wait else _REWRITE_SECONDS}s'")
                    for relation in relations:
                        server.rewrite_table(db.connection.driver, relation)
                except (LockNotAvailable, TimeoutError) as error:
                    raise IndexBusy(
                        f"another process uses {self.location}, so its tables still hold what you removed: "
                        "end that process, then run `kumi remove --forget`"
                    ) from error

    def close(self) -> None:
        with self._lock:
            pool, self._pool = self._pool, None
        if pool:
            pool.close()

    # -- connections

    def _open(self) -> PostgresDb:
        connection = PostgresConnection(server.connect(self.place))
        return PostgresDb(connection, self.location, memory=self._memory)

    @contextmanager
    def _pooled(self) -> Iterator[PostgresDb]:
        """Yield a connection of the pool, for one snapshot."""
        from psycopg_pool import PoolTimeout

        try:
            with server.explain_errors(self.location), self._open_pool().connection() as driver:
                yield PostgresDb(PostgresConnection(driver), self.location, memory=self._memory)
        except PoolTimeout as error:
            raise IndexUnavailable(
                f"{self.location} has no free connection for {_POOL_TIMEOUT:g} s: ask less at once, or raise "
                "max_connections of the server"
            ) from error

    def _open_pool(self) -> "ConnectionPool":
        logging.getLogger("psycopg").addHandler(logging.NullHandler())  # our errors name what it warns of
        with self._lock:
            if self._pool is None:
                self._pool = open_postgres_pool(
                    self.place.database,
                    self.location,
                    server.OPTIONS,
                    min_size=0,
                    max_size=_MAX_READERS,
                    num_workers=1,
                    timeout=_POOL_TIMEOUT,
                    configure=partial(server.use_schema, schema=self.place.schema),
                )
            return self._pool

    # -- builds

    def _lock_builds(self, db: PostgresDb, cancel: CancelToken | None, *, wait: bool) -> None:
        """Keep other builds of this schema away until the connection ends."""
        key = crc32(self.place.schema.encode()) >> 1
        polls = 0
        while not db.all("SELECT pg_try_advisory_lock(?, ?)", _LOCK_SPACE, key)[0][0]:
            polls += 1
            if not wait and polls * _POLL_SECONDS > _BUSY_TIMEOUT:
                raise IndexBusy(f"another build is running on {self.location}: wait for it with `--wait`, or stop it")
            check_cancelled(cancel)
            time.sleep(_POLL_SECONDS)

    def _has_tables(self, db: PostgresDb) -> bool:
        return db.one("SELECT to_regclass(?)", f'"{self.place.schema}".relations') != (None,)

    def _prepare_tables(self, db: PostgresDb, *, rebuild: bool) -> None:
        """Create missing tables; to rebuild, forget the others first."""
        if not self._has_tables(db):
            for statement in _TABLES.format(text=db.types["TEXT"]).split(";"):
                db.run(statement)
        version = db.meta("format", FORMAT)
        check_format(version, FORMAT, self.location, rebuild=rebuild)
        if rebuild:
            _forget_tables(db)
        if db.meta("format") != FORMAT:
            db.set_meta("format", FORMAT)

    def _wait_for_readers(self, db: PostgresDb, deadline: float | None) -> None:
        """Wait until nothing in the database reads an earlier state.

        Rows that it sees would outlast their removal. Raises TimeoutError at the deadline.
        """
        (now,) = db.all("SELECT pg_snapshot_xmax(pg_current_snapshot())::xid::text")[0]
        readers = """
            SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'
            AND pid <> pg_backend_pid() AND age(backend_xmin) > age(?::text::xid)
        """
        while db.all(readers, now):
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError
            time.sleep(_POLL_SECONDS)

    def _drop_unused(self, db: PostgresDb) -> list[str]:
        """Drop relations of earlier builds; return the names of the others.

        Readers of those builds keep theirs: the next build tries again.
        """
        if not self._has_tables(db):
            return []
        query = "SELECT tablename::text FROM pg_tables WHERE schemaname = ? ORDER BY 1"
        names = [name for (name,) in db.all(query, self.place.schema)]
        used = {relation for (relation,) in db.all("SELECT relation FROM relations")}
        db.run(f"SET lock_timeout = '{_DROP_TIMEOUT}'")
        for name in names:
            if "@" in name and name not in used:
                with suppress(IndexUnavailable):  # in use
                    db.run(f'DROP TABLE "{name}"')
        db.run("SET lock_timeout = 0")
        return [name for name in names if "@" not in name or name in used]


def _forget_tables(db: PostgresDb) -> None:
    """Forget the tables that a build makes, except the communities."""
    for (name,) in db.all("SELECT name FROM relations"):
        if name != _KEPT_BY_REBUILD:
            db.drop_table(name)
    for table in ("failed", "looked", "files"):
        db.run(f"DELETE FROM {table}")
    db.run("DELETE FROM meta WHERE name <> ALL(?)", list(_KEPT_META))
    db.run("DELETE FROM steps WHERE step <> ?", _KEPT_BY_REBUILD)
    db.run("UPDATE steps SET fingerprint = NULL")
