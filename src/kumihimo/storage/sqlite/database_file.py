"""the file of an SQLite database -> its address, its lock and its log, and errors that name damage and remedy."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path, PurePath

from kumihimo.core.errors import IndexDamaged, IndexUnavailable
from kumihimo.storage import StorageError

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


def explain_error(path: Path, error: Exception) -> IndexUnavailable | StorageError:
    """Return our error for one of SQLite, with the remedy."""
    if "unable to open" in str(error):
        remedy = "check its permissions; if its disk is read-only, copy the folder to a place where you can write"
        return IndexUnavailable(f"{path} cannot be opened: {remedy}")
    if "readonly" in str(error):
        return IndexUnavailable(f"{path} cannot be written: allow it, or name another folder with `--index DIR`")
    if "not a database" in str(error):
        return IndexDamaged(f"{path} is no index ({error}): move it away and run `kumi index PATH` again")
    # a lock or a full disk does no harm to the file
    damage = ("Could not decode to UTF-8", "malformed JSON")
    if type(error) is sqlite3.DatabaseError or any(message in str(error) for message in damage):
        message = f"{path} is damaged ({error}): run `kumi check --repair`, or put your back-up in its place"
        return IndexDamaged(message)
    return StorageError(str(error))


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
    try:
        with closing(sqlite3.connect(path, timeout=timeout, isolation_level=None)) as lock:
            lock.execute("BEGIN EXCLUSIVE")
            yield
            lock.execute("ROLLBACK")
    except sqlite3.Error as error:
        raise StorageError(str(error)) from error
