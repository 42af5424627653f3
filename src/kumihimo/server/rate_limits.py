"""requests of a key or an address -> TooManyRequests beyond so many a minute."""

from collections import OrderedDict
from collections.abc import Callable
from time import monotonic

from kumihimo.server.problems import TooManyRequests

_MAX_TRACKED = 10_000


class RateLimits:
    """A token bucket for each name: it holds the requests of one minute, and fills evenly."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # name -> requests left, time

    def check(self, name: str, per_minute: int) -> None:
        """Raise TooManyRequests if nothing is left for this name."""
        left, now = self._left(name, per_minute), self._clock()
        if left < 1:
            seconds = (1 - left) * 60 / per_minute
            raise TooManyRequests(f"more than {per_minute:,} requests a minute: wait {seconds:.0f} s", seconds)
        self._buckets[name] = left, now

    def take(self, name: str, per_minute: int) -> None:
        """Count one request. Raise TooManyRequests if nothing is left."""
        self.check(name, per_minute)
        left, now = self._buckets[name]
        self._buckets[name] = left - 1, now

    def _left(self, name: str, per_minute: int) -> float:
        left, time = self._buckets.pop(name, (float(per_minute), self._clock()))
        left = min(float(per_minute), left + (self._clock() - time) * per_minute / 60)
        self._buckets[name] = left, self._clock()
        while len(self._buckets) > _MAX_TRACKED:
            self._buckets.popitem(last=False)
        return left
