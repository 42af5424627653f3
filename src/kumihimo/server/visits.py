"""one request -> its body within the limit of its route, and the work for it, which ends with the wish for it."""

import asyncio

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kumihimo.core.errors import KumiError
from kumihimo.server.access import Caller, name_of
from kumihimo.server.problems import TooLarge, TooSlow
from kumihimo.server.settings import ServerSettings

LEFT = "left"  # of the state of a request: the event `left` of its Visit
_MIN_BYTES_A_SECOND = 1_000  # of a body, beside `body_seconds`
_LARGER_BODIES = {  # the limits of routes, as ServerSettings names them; all others have `max_body`
    "POST /api/v1/ask": "max_text",
    "POST /v1/chat/completions": "max_text",
    "POST /v1/embeddings": "max_text",
    "POST /api/v1/documents": "max_upload",
    "POST /documents": "max_upload",
}
_DISCONNECT: Message = {"type": "http.disconnect"}


def takes_files(scope: Scope) -> bool:
    """Return whether the route of a request takes files."""
    return _LARGER_BODIES.get(name_of(scope)) == "max_upload"


class Visit:
    """A request while it is served.

    Its body comes within the limit of its route, and without long pauses. Its work is cancelled as soon as its sender
    leaves, its body reaches a limit, or `end` is called. left: is set then.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send, settings: ServerSettings) -> None:
        self.caller: Caller = scope["state"]["caller"]
        self.left = scope["state"][LEFT] = asyncio.Event()
        self._scope, self._receive, self._send, self._settings = scope, receive, send, settings
        headers = Headers(scope=scope)
        self._announced = headers.get("content-length", "0")
        self._body_is_read, self._empty_body = asyncio.Event(), list[Message]()
        if self._announced == "0" and "transfer-encoding" not in headers:
            self._empty_body.append({"type": "http.request", "body": b"", "more_body": False})
            self._body_is_read.set()
        self._arrived, self._started = 0, 0.0
        self._is_begun = self._is_answered = False
        self._error: KumiError | None = None

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

    def end(self, error: KumiError | None = None) -> None:
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
        except KumiError as error:
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
        limit: int = getattr(self._settings, _LARGER_BODIES.get(name_of(self._scope), "max_body"))
        too_large = TooLarge(f"the body has more than {limit:,} bytes")
        if not self._announced.isdecimal() or int(self._announced) > limit:
            raise too_large
        seconds, now = self._settings.body_seconds, asyncio.get_running_loop().time()
        self._started = self._started or now
        ends = self._started + seconds + self._arrived / _MIN_BYTES_A_SECOND
        try:
            message = await asyncio.wait_for(self._receive(), max(0.0, min(seconds, ends - now)))
        except TimeoutError:
            raise TooSlow(f"the body arrives too slowly: no part of it came for {seconds:g} s") from None
        self._arrived += len(message.get("body", b""))
        if self._arrived > limit:
            raise too_large
        return message
