"""the file of an SQLite database -> its address, its lock and its log, and errors that name damage and remedy."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path, PurePath

from kumihimo.core.errors import IndexDamaged, IndexUnavailable

_BUSY_TIMEOUT = 5000  # milliseconds; the default of Python


def log_size(path: Path) -> int:
    """Return the bytes of the log of a database; 0 without one."""
    with suppress(FileNotFoundError):
        return path.with_name(f"{path.name}-wal").stat().st_size
    return 0


def truncate_log(connection: sqlite3.Connection, path: Path) -> None:
    """Empty the log, unless a reader or a build needs it.

    A build does so at its end, but readers of the earlier state may still be there. Whoever reads the new state before
    the log is copied into the file has to leave too; whoever comes later reads the file alone. So under steady traffic
    the log lasts as long as one or two questions read.
    """
    if not log_size(path):
        return
    # whoever cannot do it leaves it to the next build, which names the reason
    with suppress(sqlite3.DatabaseError):
        connection.execute("PRAGMA busy_timeout = 0")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.execute(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT}")


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
