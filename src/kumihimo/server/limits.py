"""connections, requests and their bodies -> the same, within limits of number, size and time."""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import IPv6Address
from time import monotonic
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from kumihimo.core import errors, network
from kumihimo.server import access, problems
from kumihimo.server.settings import ServerSettings, is_loopback

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
            raise problems.TooManyRequests(f"more than {per_minute:,} requests a minute: wait {seconds:.0f} s", seconds)


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
    ip = network.read_ip(address)
    if isinstance(ip, IPv6Address) and not (ip.ipv4_mapped or ip.is_loopback):
        return str(IPv6Address(int(ip) >> _SHARED_BITS << _SHARED_BITS))
    return address


# -- one request

LEFT = "left"  # of the state of a request: the event `left` of its Visit
_MIN_BYTES_A_SECOND = 1_000  # of a body, beside `body_seconds`
_LARGER_BODIES = {  # the limits of routes, as ServerSettings names them; others have `max_body`; JSON up to `max_text`
    "POST /api/v1/ask": "max_text",
    "POST /v1/chat/completions": "max_text",
    "POST /v1/responses": "max_text",
    "POST /v1/embeddings": "max_text",
    "POST /api/v1/documents": "max_upload",
    "POST /documents": "max_upload",
}
_DISCONNECT: Message = {"type": "http.disconnect"}


def takes_files(scope: Scope) -> bool:
    """Return whether the route of a request takes files."""
    return _LARGER_BODIES.get(access.name_of(scope)) == "max_upload"


class Visit:
    """A request while it is served.

    Its body comes within the limit of its route, and without long pauses. Its work is cancelled as soon as its sender
    leaves, its body reaches a limit, or `end` is called. left: is set then.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send, settings: ServerSettings) -> None:
        self.caller: access.Caller = scope["state"]["caller"]
        self.left = scope["state"][LEFT] = asyncio.Event()
        self._scope, self._receive, self._send, self._settings = scope, receive, send, settings
        headers = Headers(scope=scope)
        self._announced = headers.get("content-length", "0")
        self._is_form = headers.get("content-type", "").lower().startswith("multipart/")
        self._body_is_read, self._empty_body = asyncio.Event(), list[Message]()
        if self._announced == "0" and "transfer-encoding" not in headers:
            self._empty_body.append({"type": "http.request", "body": b"", "more_body": False})
            self._body_is_read.set()
        self._arrived, self._started = 0, 0.0
        self._is_begun = self._is_answered = False
        self._error: errors.KumiError | None = None

    async def serve(self, app: ASGIApp) -> None:
        """Let an application answer.

        Raises the error of `end`, unless the response has begun; then it ends there.
        """
        self._work = asyncio.ensure_future(app(self._scope, self.receive, self.send))
        watch = asyncio.ensure_future(self._watch())
        try:
            await asyncio.wait([self._work])
        finally:
            watch.cancel()
            self._work.cancel()
            await asyncio.wait([watch, self._work])
        failure = None if self._work.cancelled() else self._work.exception()
        if failure and not self.left.is_set():
            raise failure
        if self._error and not self._is_begun:
            raise self._error
        if self._error:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    def end(self, error: errors.KumiError | None = None) -> None:
        """Cancel the work, unless it is done.

        error: why; without it the sender has left.
        """
        if not (self._is_answered or self.left.is_set()):
            self._error = error
            self.left.set()
            self._work.cancel()

    async def _watch(self) -> None:
        """End the work when the sender leaves."""
        await self._body_is_read.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.end()

    async def send(self, message: Message) -> None:
        """Send a part of the response, unless nobody wants it."""
        if not self.left.is_set():
            self._is_begun = True
            self._is_answered = message["type"] == "http.response.body" and not message.get("more_body", False)
            await self._send(message)

    async def receive(self) -> Message:
        """Return the next part of the body.

        After the last one, wait until the sender has left.
        """
        if self._empty_body:
            return self._empty_body.pop()
        if self._body_is_read.is_set() or self.left.is_set():
            await self.left.wait()
            return _DISCONNECT
        try:
            message = await self._receive_part()
        except errors.KumiError as error:
            self.end(error)
            return _DISCONNECT
        if message["type"] == "http.disconnect":
            self.end()
        elif not message.get("more_body", False):
            self._body_is_read.set()
        return message

    async def _receive_part(self) -> Message:
        """Return the next part of the body.

        Raises TooLarge, before the first part if Content-Length says so, and TooSlow.
        """
        name = _LARGER_BODIES.get(access.name_of(self._scope), "max_body")
        limit: int = getattr(self._settings, "max_text" if name == "max_upload" and not self._is_form else name)
        too_large = problems.TooLarge(f"the body has more than {limit:,} bytes")
        if not self._announced.isdecimal() or int(self._announced) > limit:
            raise too_large
        seconds, now = self._settings.body_seconds, asyncio.get_running_loop().time()
        self._started = self._started or now
        ends = self._started + seconds + self._arrived / _MIN_BYTES_A_SECOND
        try:
            message = await asyncio.wait_for(self._receive(), max(0.0, min(seconds, ends - now)))
        except TimeoutError:
            raise problems.TooSlow(f"the body arrives too slowly: no part of it came for {seconds:g} s") from None
        self._arrived += len(message.get("body", b""))
        if self._arrived > limit:
            raise too_large
        return message
