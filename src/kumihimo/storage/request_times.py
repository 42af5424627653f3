"""a response cache -> the times of the next requests to a server, shared by all processes that use the cache."""

from collections.abc import Callable
from dataclasses import dataclass

from kumihimo.storage.cache_database import CacheDatabase, CacheWriter

_KINDS = ("request", "tokens", "pause")  # when the next request may go, by the limits of both kinds; the end of a pause
_MICRO = 1_000_000
_MAX_AHEAD = 3600 * _MICRO  # a later time was written with a wrong clock
_LOCK = "INSERT INTO counts VALUES (?, 0) ON CONFLICT (name) DO UPDATE SET value = counts.value"  # until the end
_STORE = "INSERT INTO counts VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"


@dataclass(frozen=True, slots=True)
class RequestTimes:
    """The `QueueTimes` of a server, in the response cache. name: of the server and the account."""

    database: Callable[[], CacheDatabase]
    name: str

    def reserve(self, request_seconds: float, token_seconds: float) -> tuple[float, float]:
        with self.database().write() as db:
            now, times = self._load(db)
            send_at = max(now, *times)
            request, tokens = send_at + _micro(request_seconds), send_at + _micro(token_seconds)
            self._save(db, [request, tokens, times[2]])
        return send_at / _MICRO, now / _MICRO

    def move(self, request_seconds: float, token_seconds: float) -> None:
        with self.database().write() as db:
            _, times = self._load(db)
            self._save(db, [times[0] + _micro(request_seconds), times[1] + _micro(token_seconds), times[2]])

    def pause(self, seconds: float) -> None:
        with self.database().write() as db:
            now, times = self._load(db)
            self._save(db, [times[0], times[1], max(times[2], now + _micro(seconds))])

    def paused_until(self) -> float:
        with self.database().write() as db:
            return self._load(db)[1][2] / _MICRO

    def _load(self, db: CacheWriter) -> tuple[int, list[int]]:
        """Return the time now, and the stored times.

        No other process changes them until the transaction ends.
        """
        db.run(_LOCK, self._key(_KINDS[0]))
        stored: dict[str, int] = {}
        for kind in _KINDS:
            stored |= db.all("SELECT name, value FROM counts WHERE name = ?", self._key(kind))
        now = db.microseconds()
        times = [stored.get(self._key(kind), 0) for kind in _KINDS]
        return now, [time if time <= now + _MAX_AHEAD else now for time in times]

    def _save(self, db: CacheWriter, times: list[int]) -> None:
        db.many(_STORE, [(self._key(kind), time) for kind, time in zip(_KINDS, times, strict=True)])

    def _key(self, kind: str) -> str:
        return f"{kind} {self.name}"


def _micro(seconds: float) -> int:
    return round(seconds * _MICRO)
