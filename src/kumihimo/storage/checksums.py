"""rows -> the checksum of their table, by which a damaged one is found."""

from collections.abc import Iterable
from zlib import crc32

from kumihimo.core.table import Row


def sum_rows(rows: Iterable[Row]) -> int:
    """Return a checksum of rows, the same in any order.

    The checksum of a table is the sum of those of its rows, so a change of some rows needs no look at the others.
    """
    return sum(crc32(repr(list(map(_stored_value, row))).encode()) for row in rows)


def _stored_value(value: object) -> object:
    """Return a value as a store gives it back."""
    if type(value) is str:  # most are
        return value
    if isinstance(value, int | float):
        return None if value != value else float(value) + 0.0  # -0.0 becomes 0.0
    return "".join(value) if isinstance(value, str) else value


def checksum_name(table: str) -> str:
    """Return the name of the checksum of a table, in `meta`."""
    return f"sum_{table}"
