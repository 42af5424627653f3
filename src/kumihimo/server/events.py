"""news -> server-sent events, from the last one that a client has."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from fastapi.responses import StreamingResponse

HEARTBEAT = b": \n\n"  # a comment: proxies close a connection that is silent
_HEARTBEAT_SECONDS = 15.0
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # the second one is for nginx
_MAX_EVENTS = 500
_MAX_ID_DIGITS = 15


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """An event for a client.

    id: of its log, from 1 on; 0: of no log. data: JSON values.
    """

    name: str
    data: Mapping[str, Any]
    id: int = 0

    def encode(self) -> bytes:
        """Return the event in the format of server-sent events.

        >>> ServerEvent("token", {"text": "One\\nline"}, id=7).encode()
        b'id: 7\\nevent: token\\ndata: {"text": "One\\\\nline"}\\n\\n'
        """
        id_line = f"id: {self.id}\n" if self.id else ""
        data = json.dumps(self.data, ensure_ascii=False)
        return f"{id_line}event: {self.name}\ndata: {data}\n\n".encode(errors="replace")


class EventLog:
    """A log of events, for one event loop.

    limit: how many events it keeps, the newest. A client that asks for older ones begins with the oldest of them.
    """

    def __init__(self, limit: int = _MAX_EVENTS) -> None:
        self.events: deque[ServerEvent] = deque(maxlen=limit)
        self.is_closed = False
        self._last_id = 0
        self._changed = asyncio.Event()

    def append(self, name: str, data: Mapping[str, Any]) -> ServerEvent:
        """Add an event, and wake all subscribers."""
        self._last_id += 1
        event = ServerEvent(name, data, self._last_id)
        self.events.append(event)
        self._wake()
        return event

    def close(self) -> None:
        """End all subscriptions once they have the last event."""
        self.is_closed = True
        self._wake()

    async def subscribe(self, after: int = 0) -> AsyncGenerator[ServerEvent, None]:
        """Yield the events after this id, old ones and new.

        It ends when the log is closed.
        """
        while True:
            changed = self._changed
            for event in [event for event in self.events if event.id > after]:
                after = event.id
                yield event
            if changed is self._changed:
                if self.is_closed:
                    return
                await changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def event_response(events: AsyncIterator[bytes], headers: Mapping[str, str] = _HEADERS) -> StreamingResponse:
    """Return a response that streams events."""
    return StreamingResponse(with_heartbeat(events), media_type="text/event-stream", headers=headers)


async def with_heartbeat(
    events: AsyncIterator[bytes], heartbeat: float = _HEARTBEAT_SECONDS
) -> AsyncGenerator[bytes, None]:
    """Yield events, and a comment after each silence.

    heartbeat: seconds of silence. The iterator is closed at the end, also if the client leaves.
    """
    waiting: asyncio.Future[bytes] | None = None
    try:
        while True:
            waiting = waiting or asyncio.ensure_future(anext(events))
            await asyncio.wait([waiting], timeout=heartbeat)
            if not waiting.done():
                yield HEARTBEAT
                continue
            finished, waiting = waiting, None
            try:
                event = finished.result()
            except StopAsyncIteration:
                return
            yield event
    finally:
        await _close(events, waiting)


async def _close(events: AsyncIterator[bytes], waiting: asyncio.Future[bytes] | None) -> None:
    """Stop waiting for the next event, and close the iterator."""
    if waiting:
        waiting.cancel()
        with suppress(asyncio.CancelledError, StopAsyncIteration):
            await waiting
    if isinstance(events, AsyncGenerator):
        await events.aclose()


def parse_last_event_id(value: str | None) -> int:
    """Return the id in a `Last-Event-ID` header; 0 without one.

    >>> parse_last_event_id("12"), parse_last_event_id("x"), parse_last_event_id(None)
    (12, 0, 0)
    """
    is_id = value is not None and value.isascii() and value.isdigit() and len(value) <= _MAX_ID_DIGITS
    return int(value) if value and is_id else 0
