"""requests of a key or an address -> TooManyRequests beyond so many a minute."""

from collections import OrderedDict
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address
from time import monotonic

from starlette.requests import HTTPConnection

from kumihimo.server.problems import TooManyRequests

_MAX_TRACKED = 10_000
_FAILED_KEYS_PER_MINUTE = 20  # of one sender
_SHARED_BITS = 64  # of an IPv6 address; one sender has all addresses that begin with them


class RateLimits:
    """A token bucket for each name: it holds the requests of one minute, and fills evenly."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # name -> requests left, time

    def take(self, name: str, per_minute: int) -> None:
        """Count one request. Raise TooManyRequests if nothing is left."""
        now = self._clock()
        left, before = self._buckets.pop(name, (float(per_minute), now))
        left = min(float(per_minute), left + (now - before) * per_minute / 60)
        self._buckets[name] = left - (left >= 1), now
        if len(self._buckets) > _MAX_TRACKED:
            self._buckets.popitem(last=False)
        if left < 1:
            seconds = (1 - left) * 60 / per_minute
            raise TooManyRequests(f"more than {per_minute:,} requests a minute: wait {seconds:.0f} s", seconds)


def count_failed_key(request: HTTPConnection) -> None:
    """Count a wrong key. Raise TooManyRequests if its sender has tried many.

    A right key still opens the server: another program may have the same address.
    """
    failures: RateLimits = request.app.state.failed_keys
    failures.take(sender_of(request.client.host if request.client else ""), _FAILED_KEYS_PER_MINUTE)


def sender_of(address: str) -> str:
    """Return the part of an address that its sender cannot change.

    >>> [sender_of(address) for address in ("192.0.2.7", "2001:db8:1:2:3::4", "::1", "testclient")]
    ['192.0.2.7', '2001:db8:1:2::', '::1', 'testclient']
    """
    try:
        ip = ip_address(address)
    except ValueError:
        return address
    if isinstance(ip, IPv6Address) and not (ip.ipv4_mapped or ip.is_loopback):
        return str(IPv6Address(int(ip) >> _SHARED_BITS << _SHARED_BITS))
    return address
