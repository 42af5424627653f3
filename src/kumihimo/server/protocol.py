"""a connection -> HTTP by uvicorn, within limits on connections and on time before the headers."""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

_REFUSAL = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 5\r\nConnection: close\r\n\r\n"


def limited_protocol(max_connections: int, header_seconds: float) -> type[asyncio.Protocol]:
    """Return the protocol for uvicorn.

    max_connections: at once; others get 503 and are closed. header_seconds: until the headers of the first request.
    """

    class LimitedProtocol(H11Protocol):
        """The protocol of uvicorn, with a limit for connections that send nothing."""

        waiting: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > max_connections:
                transport.write(_REFUSAL)
                transport.close()
                return
            self.waiting = self.loop.call_later(header_seconds, self._close_silent)

        def _close_silent(self) -> None:
            if self.cycle is None and not self.transport.is_closing():
                self.transport.close()

        def connection_lost(self, exc: Exception | None) -> None:
            if self.waiting:
                self.waiting.cancel()
            super().connection_lost(exc)

    return LimitedProtocol
