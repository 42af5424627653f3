"""the write-ahead log of a database -> an empty one, as soon as no reader needs it."""

import sqlite3
from contextlib import suppress
from pathlib import Path

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
