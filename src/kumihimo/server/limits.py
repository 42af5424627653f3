"""connections and requests -> the same, within limits of number and time."""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import IPv6Address
from time import monotonic
from typing import Any

from starlette.requests import HTTPConnection
from uvicorn.protocols.http.h11_impl import H11Protocol

from kumihimo.core.network import read_ip
from kumihimo.server.problems import TooManyRequests
from kumihimo.server.settings import is_loopback

_REFUSAL = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 5\r\nConnection: close\r\n\r\n"
_MAX_TRACKED = 10_000
_FAILED_KEYS_PER_MINUTE = 20  # of one sender
_SHARED_BITS = 64  # of an IPv6 address; one sender has all addresses that begin with them


@dataclass(slots=True)
class Places:
    """The places for connections of one server.

    senders: how many each sender has. waiting: those without a request in progress, the longest first.
    """

    senders: Counter[str] = field(default_factory=Counter)
    waiting: dict[H11Protocol, None] = field(default_factory=dict)

    def leave(self, connection: H11Protocol, sender: str) -> None:
        """Forget a connection that has ended."""
        self.waiting.pop(connection, None)
        self.senders[sender] -= 1
        if not self.senders[sender]:
            del self.senders[sender]


class LimitedProtocol(H11Protocol):
    """The protocol of uvicorn, with limits for clients that send or read nothing.

    max_connections: at once; for one more, the one that has waited longest for a request is closed, and without such a
    one it gets 503. header_seconds: from the first byte of a request, or the begin of the connection, until its headers
    are complete. read_seconds: for which a response may stay unread. max_of_sender: connections of one other machine.
    """

    places: Places
    max_connections: int
    max_of_sender: int
    header_seconds: float
    read_seconds: float
    sender = ""
    _headers_due: asyncio.TimerHandle | None = None
    _reading_due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.sender = sender_of(self.client[0] if self.client else "")
        self.places.senders[self.sender] += 1
        if self._is_one_too_many():
            self.connections.discard(self)  # those that close count no more
            transport.write(_REFUSAL)
            transport.close()
            return
        self._note_waiting()
        self._await_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop(self._headers_due, self._reading_due)
        self.places.leave(self, self.sender)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._note_waiting()
        self._await_headers()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._note_waiting()
        if self.conn.trailing_data[0]:  # the beginning of the next request
            self._await_headers()
        if self.transport.get_write_buffer_size():
            self._await_reading()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop(self._reading_due)

    def _is_one_too_many(self) -> bool:
        """Return whether a limit is reached, and no idle connection was closed."""
        if self.places.senders[self.sender] > self.max_of_sender and not is_loopback(self.sender):
            return True
        return len(self.connections) > self.max_connections and not self._close_longest_waiting()

    def _close_longest_waiting(self) -> bool:
        """Close the connection that has waited longest; return whether one waits."""
        oldest = next(iter(self.places.waiting), None)
        if oldest is None:
            return False
        del self.places.waiting[oldest]
        self.connections.discard(oldest)
        if oldest.transport.get_write_buffer_size():
            oldest.transport.abort()
        oldest.transport.close()
        return True

    @property
    def _has_request(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _note_waiting(self) -> None:
        """Remember since when this connection waits for a request."""
        if self._has_request or self.transport.is_closing():
            self.places.waiting.pop(self, None)
        else:
            self.places.waiting.setdefault(self)

    def _await_headers(self) -> None:
        """Set a limit of time, unless a request is in progress."""
        if self._has_request:
            self._stop(self._headers_due, self._reading_due)
            self._headers_due = None
        elif self._headers_due is None and not self.transport.is_closing():
            self._headers_due = self.loop.call_later(self.header_seconds, self.transport.close)

    def _await_reading(self) -> None:
        """Set a limit of time until what was sent has been read."""
        self._stop(self._reading_due)
        self._reading_due = self.loop.call_later(self.read_seconds, self._abort_unread)

    def _abort_unread(self) -> None:
        if self.transport.get_write_buffer_size():
            self.transport.abort()

    def _stop(self, *timers: asyncio.TimerHandle | None) -> None:
        for timer in filter(None, timers):
            timer.cancel()


def limited_protocol(
    max_connections: int, header_seconds: float, read_seconds: float = 30.0, max_of_sender: int = 0
) -> type[LimitedProtocol]:
    """Return the protocol with these limits, as uvicorn takes it.

    max_of_sender: 0 for no such limit.
    """
    limits = {"max_connections": max_connections, "max_of_sender": max_of_sender or max_connections}
    seconds = {"header_seconds": header_seconds, "read_seconds": read_seconds}
    return type("LimitedProtocol", (LimitedProtocol,), {**limits, **seconds, "places": Places()})


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
    ip = read_ip(address)
    if isinstance(ip, IPv6Address) and not (ip.ipv4_mapped or ip.is_loopback):
        return str(IPv6Address(int(ip) >> _SHARED_BITS << _SHARED_BITS))
    return address
