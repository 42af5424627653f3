"""Harbours and their delays."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Harbour:
    """A harbour.

    delay: minutes from the passage of the moon to high water. bar: depth over the bar at low water, in metres.
    """

    name: str
    delay: int
    bar: float

    def may_enter(self, draught: float, height: float) -> bool:
        """Return whether a boat passes the bar. A margin of 30 cm stays under the keel."""
        return self.bar + height >= draught + 0.3


def read_harbours(path: Path) -> dict[str, Harbour]:
    """Read harbours from a file with a line each: name, delay, bar.

    Lines that begin with # are comments. Raises ValueError with the number of a wrong line.
    """
    harbours = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            try:
                name, delay, bar = line.split(",")
                harbours[name.strip()] = Harbour(name.strip(), int(delay), float(bar))
            except ValueError as error:
                raise ValueError(f"line {number}: name, delay in minutes, bar in metres") from error
    return harbours
