"""a connection -> HTTP by uvicorn, within limits on connections, and on time to send headers and to read responses."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from kumihimo.server.rate_limits import sender_of
from kumihimo.server.settings import is_loopback

_REFUSAL = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 5\r\nConnection: close\r\n\r\n"


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
        """Return whether this sender has all its places, or nobody waits."""
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
