"""The table for the wall."""

from collections.abc import Iterable
from datetime import datetime


class WallTable:
    """A table of one month, a row for each day."""

    def __init__(self, harbour: str, rows: Iterable[tuple[datetime, float]]) -> None:
        self.harbour, self.rows = harbour, list(rows)

    def to_text(self, width: int = 40) -> str:
        """Return the table as text.

        Times are rounded to five minutes, because nobody can see less on the gauge.
        """
        lines = [self.harbour.center(width)]
        for time, height in self.rows:
            rounded = time.replace(minute=time.minute // 5 * 5)
            lines.append(f"{rounded:%d %H:%M}  {height:4.1f} m")
        return "\n".join(lines)
