"""one index.db -> what is damaged in it: the error of a statement, and a search for damage."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

from kumihimo.core.errors import IndexDamaged, IndexUnavailable

if TYPE_CHECKING:
    from kumihimo.core.wiring import Step
    from kumihimo.storage.sqlite.store import Db

_ORDINAL_CHARS = 6  # of an id: a point and five digits, after the id of the source row


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
    if type(error) is sqlite3.DatabaseError or "Could not decode to UTF-8" in str(error):
        message = f"{path} is damaged ({error}): run `kumi check --repair`, or put your back-up in its place"
        raise IndexDamaged(message) from error


def check_pages(db: Db) -> list[str]:
    """Return what SQLite finds wrong with the pages and their indexes."""
    return [message for (message,) in db.all("PRAGMA integrity_check") if message != "ok"]


def count_orphans(db: Db, step: Step) -> int:
    """Return the number of rows without their source row or group."""
    maker = f"substr(made.id, 1, length(made.id) - {_ORDINAL_CHARS})" if step.signature.many else "made.id"
    source = f'SELECT 1 FROM "{step.source}" AS source WHERE source."{step.key}" = {maker}'
    return int(db.all(f'SELECT count(*) FROM "{step.name}" AS made WHERE NOT EXISTS ({source})')[0][0])


def stored_columns(db: Db, table: str) -> tuple[str, ...]:
    """Return the columns of a table; none without a table."""
    return tuple(name for (name,) in db.all("SELECT name FROM pragma_table_info(?)", table))
