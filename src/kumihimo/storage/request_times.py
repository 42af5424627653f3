"""one clock and three times for each server -> when the next request may go, for all processes that share them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from kumihimo.storage.cache_database import CacheDatabase

Times = list[float]  # when the next request may go, by the limits of requests and of tokens; the end of a pause
_KINDS = ("request", "tokens", "pause")
_MICRO = 1_000_000
_MAX_AHEAD = 3600  # seconds; a later time was written with a wrong clock
_LOCK = "INSERT INTO counts VALUES (?, 0) ON CONFLICT (name) DO UPDATE SET value = counts.value"  # until the end
_STORE = "INSERT INTO counts VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"


class QueueTimes(ABC):
    """The queue for requests to one server. Times are seconds of a clock."""

    @abstractmethod
    def open(self) -> AbstractContextManager[tuple[float, Times]]:
        """Yield the time now, and the times to change.

        Nobody else changes them until the end.
        """

    def reserve(self, request_seconds: float, token_seconds: float) -> tuple[float, float]:
        """Take the next time; return it, and the time now.

        Later requests wait so long after it: for the limit of requests, and for that of tokens.
        """
        with self.open() as (now, times):
            send_at = max(now, *times)
            times[:2] = send_at + request_seconds, send_at + token_seconds
        return send_at, now

    def move(self, request_seconds: float, token_seconds: float) -> None:
        """Move later requests."""
        with self.open() as (_, times):
            times[:2] = times[0] + request_seconds, times[1] + token_seconds

    def pause(self, seconds: float) -> None:
        with self.open() as (now, times):
            times[2] = max(times[2], now + seconds)

    def paused_until(self) -> float:
        with self.open() as (_, times):
            return times[2]


@dataclass(frozen=True, slots=True)
class RequestTimes(QueueTimes):
    """The times of a server in the response cache. name: of the server and the account."""

    database: Callable[[], CacheDatabase]
    name: str

    @contextmanager
    def open(self) -> Iterator[tuple[float, Times]]:
        keys = [f"{kind} {self.name}" for kind in _KINDS]
        with self.database().write() as db:
            db.run(_LOCK, keys[0])
            stored: dict[str, int] = {}
            for key in keys:
                stored |= db.all("SELECT name, value FROM counts WHERE name = ?", key)
            now = db.microseconds() / _MICRO
            times = [time if (time := stored.get(key, 0) / _MICRO) <= now + _MAX_AHEAD else now for key in keys]
            yield now, times
            db.many(_STORE, [(key, round(time * _MICRO)) for key, time in zip(keys, times, strict=True)])
