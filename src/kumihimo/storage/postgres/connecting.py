"""the place of an index -> a connection to its schema; an error of psycopg -> one of ours that names the remedy."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from zlib import crc32

from kumihimo.connections import connect_postgres
from kumihimo.core.errors import IndexChanged, IndexUnavailable, KumiError
from kumihimo.storage import StorageError

if TYPE_CHECKING:
    from psycopg import Connection

    from kumihimo.storage.place import IndexPlace

_TIMEOUT = 10  # seconds to reach a server
OPTIONS: dict[str, Any] = {"autocommit": True, "client_encoding": "utf8", "connect_timeout": _TIMEOUT}


def connect(place: "IndexPlace") -> "Connection[Any]":
    """Return a new connection, which commits each statement.

    Raises IndexUnavailable where there is no server.
    """
    connection = connect_postgres(place.database, str(place), **OPTIONS)
    use_schema(connection, place.schema)
    return connection


def use_schema(connection: "Connection[Any]", schema: str) -> None:
    """Use a schema for table names without one."""
    connection.execute(f'SET search_path TO "{schema}", public')


@contextmanager
def creating(connection: "Connection[Any]", schema: str) -> Iterator[None]:
    """Create a schema, and tables inside the context.

    No other process does so meanwhile.
    """
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [crc32(schema.encode())])
        if connection.execute("SELECT to_regnamespace(%s)", [f'"{schema}"']).fetchone() == (None,):
            connection.execute(f'CREATE SCHEMA "{schema}"')
        yield


def rewrite_table(connection: "Connection[Any]", table: str) -> None:
    """Rewrite a table without deleted rows.

    The statistics of the planner, which are values of rows, are made again too. ANALYZE keeps those of an empty table,
    but a change of types drops them, also to the same types.
    """
    connection.execute(f'VACUUM (FULL, ANALYZE) "{table}"')
    columns = f"""
        SELECT string_agg(format('ALTER %I TYPE %s%s', attname, format_type(atttypid, atttypmod),
            CASE attcollation WHEN 0 THEN '' ELSE ' COLLATE ' || attcollation::regcollation END), ', ')
        FROM pg_attribute WHERE attrelid = '"{table}"'::regclass AND attnum > 0 AND NOT attisdropped
            AND NOT EXISTS (SELECT FROM "{table}")
    """
    if (row := connection.execute(columns).fetchone()) and row[0]:
        connection.execute(f'ALTER TABLE "{table}" {row[0]}')


@contextmanager
def explain_errors(location: str) -> Iterator[None]:
    """Raise IndexUnavailable with a remedy where the server fails."""
    from psycopg import Error

    try:
        yield
    except Error as error:
        raise explain(location, error) from error


def explain(location: str, error: Exception, *, is_reading: bool = False) -> KumiError | StorageError:
    """Return our error for one of psycopg, with its remedy.

    is_reading: a missing table is one of a build that has ended.
    """
    from psycopg import OperationalError, errors

    reason = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, errors.UndefinedTable) and is_reading:
        return IndexChanged("another build has ended in the middle of the question: ask again")
    if isinstance(error, errors.InsufficientPrivilege):
        reason = str(error).splitlines()[0]
        return IndexUnavailable(
            f"{location}: {reason}: connect as a role that may, or GRANT it (see the page on PostgreSQL)"
        )
    if isinstance(error, errors.DiskFull):
        return IndexUnavailable(f"the disk of {location} is full: make room, and run the same command again")
    if isinstance(error, errors.QueryCanceled):
        return IndexUnavailable(f"{location} stopped a statement ({reason}): raise its statement_timeout")
    if isinstance(error, OperationalError):
        return IndexUnavailable(f"{location} failed ({reason}): run the same command again when the server is well")
    return StorageError(str(error))
