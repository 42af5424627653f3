"""the error of a statement -> an error that names the damage and the remedy."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from kumihimo.core.errors import IndexDamaged, IndexUnavailable


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
