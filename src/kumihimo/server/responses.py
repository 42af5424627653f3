"""values -> JSON in a response, made in a thread; news -> server-sent events, from the last one that a client has."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from fastapi import Response
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

HEARTBEAT = b": \n\n"  # a comment: proxies close a connection that is silent
_HEARTBEAT_SECONDS = 15.0
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # the second one is for nginx
_MAX_EVENTS = 500
_MAX_ID_DIGITS = 15
_DEPTH = 2  # of the parts of JSON that are written one by one
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))  # one for all: it keeps nothing


class JsonResponse(Response):
    """A response whose JSON has been written."""

    media_type = "application/json"


def write_json(value: object, depth: int = _DEPTH) -> bytes:
    """Return a value as JSON.

    Its parts are written one by one, since a thread that writes JSON lets no other run.

    >>> write_json({"evidence": [{"text": "七"}, None], "more": {}}).decode()
    '{"evidence":[{"text":"七"},null],"more":{}}'
    """
    if depth and isinstance(value, dict):
        items = (write_json(str(name)) + b":" + write_json(item, depth - 1) for name, item in value.items())
        return b"{" + b",".join(items) + b"}"
    if depth and isinstance(value, list | tuple):
        return b"[" + b",".join(write_json(item, depth - 1) for item in value) + b"]"
    return _ENCODER.encode(value).encode()


async def json_response(make: Callable[[], Any], status: int = 200) -> JsonResponse:
    """Return the response with the values that a function makes."""
    return JsonResponse(await run_in_threadpool(lambda: write_json(make())), status)


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


def event_response(events: AsyncGenerator[bytes, None]) -> StreamingResponse:
    """Return a response that streams events."""
    return StreamingResponse(with_heartbeat(events), media_type="text/event-stream", headers=_HEADERS)


async def with_heartbeat(
    events: AsyncGenerator[bytes, None], heartbeat: float = _HEARTBEAT_SECONDS
) -> AsyncGenerator[bytes, None]:
    """Yield events, and a comment after each silence.

    heartbeat: seconds of silence. The generator is closed at the end, also if the client leaves.
    """
    async with aclosing(events):
        waiting = asyncio.ensure_future(anext(events, None))
        try:
            while True:
                await asyncio.wait([waiting], timeout=heartbeat)
                if not waiting.done():
                    yield HEARTBEAT
                elif (event := waiting.result()) is None:
                    return
                else:
                    yield event
                    waiting = asyncio.ensure_future(anext(events, None))
        finally:
            waiting.cancel()
            await asyncio.wait([waiting])


def parse_last_event_id(value: str | None) -> int:
    """Return the id in a `Last-Event-ID` header; 0 without one.

    >>> parse_last_event_id("12"), parse_last_event_id("x"), parse_last_event_id(None)
    (12, 0, 0)
    """
    is_id = value is not None and value.isascii() and value.isdigit() and len(value) <= _MAX_ID_DIGITS
    return int(value) if value and is_id else 0
