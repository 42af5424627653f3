"""the body of a request -> the same, within a limit of bytes and of time."""

import asyncio

from starlette.datastructures import Headers
from starlette.types import Message, Receive

from kumihimo.core.errors import KumiError
from kumihimo.server.problems import TooLarge, TooSlow

_MIN_BYTES_A_SECOND = 1_000  # of a body, beside `seconds`


class BodyLimits:
    """The body of one request, received within limits.

    seconds: without any part of the body. Beside them, the body has a second for each 1,000 bytes. error: the limit
    that was reached.
    """

    def __init__(self, receive: Receive, headers: Headers, max_bytes: int, seconds: float) -> None:
        self._receive, self._max_bytes, self._seconds = receive, max_bytes, seconds
        announced = headers.get("content-length", "0")
        self._is_too_large = not announced.isdecimal() or int(announced) > max_bytes
        self._arrived, self._is_complete, self._started = 0, False, 0.0
        self.error: KumiError | None = None

    async def receive(self) -> Message:
        """Return the next part of the body.

        Raises TooLarge, before any part if Content-Length says so, and TooSlow.
        """
        if self._is_complete:
            return await self._receive()
        try:
            return await self._receive_part()
        except KumiError as error:
            self.error = error
            raise

    async def _receive_part(self) -> Message:
        if self._is_too_large:
            raise TooLarge(f"the body has more than {self._max_bytes:,} bytes")
        now = asyncio.get_running_loop().time()
        self._started = self._started or now
        ends = self._started + self._seconds + self._arrived / _MIN_BYTES_A_SECOND
        try:
            message = await asyncio.wait_for(self._receive(), max(0.0, min(self._seconds, ends - now)))
        except TimeoutError:
            raise TooSlow(f"the body arrives too slowly: no part of it came for {self._seconds:g} s") from None
        self._arrived += len(message.get("body", b""))
        if self._arrived > self._max_bytes:
            raise TooLarge(f"the body has more than {self._max_bytes:,} bytes")
        self._is_complete = not message.get("more_body", False)
        return message
