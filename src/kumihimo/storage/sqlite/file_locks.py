"""a path -> its address for SQLite, a lock on the file, and whether a database there can be locked at all."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path, PurePath

from kumihimo.storage.sqlite.log_file import log_size


def database_address(path: PurePath, options: str = "") -> str:
    """Return the address of a database, for `uri=True`.

    SQLite accepts no host there, as `as_uri` writes it for a network path of Windows.
    """
    address = path.as_uri()
    return f"{address if address.startswith('file:///') else address.replace('file://', 'file:////', 1)}{options}"


def is_immutable(path: Path) -> bool:
    """Return whether to read a database without its log and locks.

    A folder that is read-only to us cannot hold them. An existing log has rows that are not in the file.
    """
    path = path.resolve()
    return not os.access(path.parent, os.W_OK) and not log_size(path)


@contextmanager
def exclusive_lock(path: Path, *, timeout: float) -> Iterator[None]:
    """Hold a lock on this file until the process ends.

    timeout: in seconds.
    """
    with closing(sqlite3.connect(path, timeout=timeout, isolation_level=None)) as lock:
        lock.execute("BEGIN EXCLUSIVE")
        yield
        lock.execute("ROLLBACK")
