"""one index.db -> what is damaged in it: the error of a statement, and a search for damage."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

from kumihimo.core.errors import IndexDamaged, IndexUnavailable

if TYPE_CHECKING:
    from kumihimo.core.table import Row
    from kumihimo.storage.sqlite.store import Db


def raise_if_unusable(path: Path, error: sqlite3.DatabaseError) -> None:
    """Raise IndexUnavailable with a remedy if the file is unusable."""
    if "unable to open" in str(error):
        remedy = "check its permissions; if its disk is read-only, copy the folder to a place where you can write"
        raise IndexUnavailable(f"{path} cannot be opened: {remedy}") from error
    if "readonly" in str(error):
        message = f"{path} cannot be written: allow it, or name another folder with `--index DIR`"
        raise IndexUnavailable(message) from error
    if "not a database" in str(error):
        message = f"{path} is no index ({error}): move it away and run `kumi index PATH` again"
        raise IndexDamaged(message) from error
    # a lock or a full disk does no harm to the file
    damage = ("Could not decode to UTF-8", "malformed JSON")
    if type(error) is sqlite3.DatabaseError or any(message in str(error) for message in damage):
        message = f"{path} is damaged ({error}): run `kumi check --repair`, or put your back-up in its place"
        raise IndexDamaged(message) from error


def sum_rows(rows: Iterable[Row]) -> int:
    """Return a checksum of rows, the same in any order.

    The checksum of a table is the sum of those of its rows, so a change of some rows needs no look at the others.
    """
    return sum(crc32(repr(list(map(_stored_value, row))).encode()) for row in rows)


def _stored_value(value: object) -> object:
    """Return a value as SQLite gives it back."""
    if type(value) is str:  # most are
        return value
    if isinstance(value, int | float):
        return None if value != value else float(value) + 0.0  # -0.0 becomes 0.0
    return "".join(value) if isinstance(value, str) else value


def checksum_name(table: str) -> str:
    """Return the name of the checksum of a table, in `meta`."""
    return f"sum_{table}"


def check_pages(db: Db) -> list[str]:
    """Return what SQLite finds wrong with the pages and their indexes."""
    return [message for (message,) in db.all("PRAGMA integrity_check") if message != "ok"]


def stored_columns(db: Db, table: str) -> tuple[str, ...]:
    """Return the columns of a table; none without a table."""
    return tuple(name for (name,) in db.all("SELECT name FROM pragma_table_info(?)", table))
