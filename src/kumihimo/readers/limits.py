"""`[reading]` and `[fetching]` of kumi.toml -> the limits of a file, and how addresses are fetched."""

import re
from dataclasses import dataclass, replace
from math import ceil
from typing import Annotated

from kumihimo.core.errors import LimitExceeded
from kumihimo.core.settings import Bounds, Patience, Seconds, TextForm

_BASE_BYTES, _FULL_BYTES = 10_000, 200_000  # a file may take its share of the time: of 5 kB 23 seconds of 300
_AGENT = TextForm(
    "a name in ASCII letters, such as Kumihimo (me@example.org)", re.compile("[!-~]([ -~]*[!-~])?").fullmatch
)
_LIMIT_UNITS = {
    "size": "MB",
    "text": "million characters of text",
    "rows": "rows",
    "memory": "MB of memory",
    "seconds": "seconds of processor time",
}


@dataclass(frozen=True, kw_only=True)
class ReadingLimits:
    """The limits of one file. Its fields are the settings of `[reading]`.

    size: of the file, in MB. text: of all its documents with their metadata, in millions of characters. rows: the
    number of its documents. memory: of the process that reads it, in MB. seconds: of processor time; by the clock it
    may take four times as long.
    """

    size: Annotated[int, Bounds(1, 1_000_000)] = 500
    text: Annotated[int, Bounds(1, 1_000_000)] = 250
    rows: Annotated[int, Bounds(1, 1_000_000_000)] = 1_000_000
    memory: Annotated[int, Bounds(1, 10_000_000)] = 2_000
    seconds: Annotated[int, Bounds(1, 1_000_000)] = 300

    def for_size(self, size: int) -> "ReadingLimits":
        """Return the limits of a file of so many bytes.

        A damaged file of a few kilobytes can take any time and memory. Text recognition needs more than half of the
        memory, whatever the size.
        """
        share = min(1, (size + _BASE_BYTES) / _FULL_BYTES)
        return replace(self, seconds=ceil(self.seconds * share), memory=ceil(self.memory * (0.6 + 0.4 * share)))

    def error(self, name: str, setting: str) -> LimitExceeded:
        """Return the error for a file over a limit."""
        limit = f"{getattr(self, setting):,} {_LIMIT_UNITS[setting]} (reading.{setting})"
        verb = "needs" if setting in ("memory", "seconds") else "holds"
        return LimitExceeded(f"{name}: it {verb} more than {limit}: split the file, or raise this setting")


@dataclass(frozen=True, kw_only=True)
class FetchSettings:
    """The settings of `[fetching]`.

    delay: seconds between two requests to a host. timeout: seconds until a server has to answer. user_agent: the name
    under which it asks.
    """

    delay: Patience = 1.0
    timeout: Seconds = 30.0
    user_agent: Annotated[str, Bounds(1, 1000), _AGENT] = "Kumihimo"
