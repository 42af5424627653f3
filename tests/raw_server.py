"""bytes -> a server on this machine that answers each request with them, and records the requests."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Thread

from tests.fake_replies import http_response


@dataclass
class RawServer:
    """A server that answers with any bytes, in one thread.

    response: what it sends, in pieces; without any it resets the connection once it has the request.
    """

    response: Iterable[bytes]
    listener: socket.socket
    requests: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.address = ":".join(map(str, self.listener.getsockname()))

    @property
    def url(self) -> str:
        return f"http://{self.address}/v1"

    def serve(self) -> None:
        with suppress(OSError):  # the listener was closed
            while True:
                connection, _ = self.listener.accept()
                with connection, suppress(OSError):
                    self.requests.append(_read_request(connection))
                    self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        if not self.response:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        for piece in self.response:
            connection.sendall(piece)


def _read_request(connection: socket.socket) -> bytes:
    request = b""
    while b"\r\n\r\n" not in request:
        request += connection.recv(65536) or b"\r\n\r\n"
    head, _, body = request.partition(b"\r\n\r\n")
    length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
    while len(body) < length:
        body += connection.recv(65536) or b" " * length
    return head + b"\r\n\r\n" + body


@contextmanager
def run_raw_server(*response: bytes, host: str = "127.0.0.1") -> Iterator[RawServer]:
    """Run a server with this response; stop it at the end."""
    with socket.create_server((host, 0)) as listener:
        server = RawServer(response, listener)
        thread = Thread(target=server.serve, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(60)


def refusal(status: int, message: str, headers: str = "Content-Type: application/json") -> bytes:
    """Return an error response with this message."""
    return http_response({"error": {"message": message}}, status, headers + "\r\nConnection: close")


def completion(text: str) -> bytes:
    """Return a chat response with this text."""
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return http_response(json.dumps({"choices": [choice]}).encode(), headers="Connection: close")
