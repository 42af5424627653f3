"""the place of an index -> a connection to its schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kumihimo.core.errors import IndexUnavailable
from kumihimo.text.packages import loading_extra

if TYPE_CHECKING:
    from psycopg import Connection

    from kumihimo.storage.place import IndexPlace

_TIMEOUT = 10  # seconds to reach a server
OPTIONS: dict[str, Any] = {"autocommit": True, "client_encoding": "utf8", "connect_timeout": _TIMEOUT}


def connect(place: IndexPlace) -> Connection[Any]:
    """Return a new connection, which commits each statement.

    Raises IndexUnavailable where there is no server.
    """
    try:
        with loading_extra("postgres", "psycopg"):
            import psycopg
    except ModuleNotFoundError as error:
        raise IndexUnavailable(f"{place} needs psycopg: `pip install 'kumihimo[postgres]'`") from error
    try:
        connection = psycopg.connect(place.database, **OPTIONS)
    except (psycopg.OperationalError, psycopg.ProgrammingError) as error:
        raise IndexUnavailable(f"{place} cannot be reached: {' '.join(str(error).split())}") from error
    use_schema(connection, place.schema)
    return connection


def use_schema(connection: Connection[Any], schema: str) -> None:
    """Make a schema the one that statements mean."""
    connection.execute(f'SET search_path TO "{schema}", public')
