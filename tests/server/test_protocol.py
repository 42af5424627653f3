"""A connection has to send its headers and read its responses in time, and frames its bodies in one way."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any, NamedTuple
from unittest.mock import create_autospec

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from kumihimo.server.app import create_app
from kumihimo.server.limits import LimitedProtocol, limited_protocol
from kumihimo.server.workspace import Workspace
from tests.server.clients import LOCAL
from tests.server.running import running

Address = tuple[str, int]
GET = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
JSON = b"Host: localhost\r\nContent-Type: application/json\r\n"


async def answer(_: Scope, __: Receive, send: Send) -> None:
    """An application that answers each request before its body has arrived."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


class Flood:
    """An application whose response has no end. left: once its client is given up."""

    def __init__(self) -> None:
        self.left = Event()

    async def __call__(self, _: Scope, receive: Receive, send: Send) -> None:
        leaving = asyncio.create_task(self._wait(receive))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while not leaving.done():
            await send({"type": "http.response.body", "body": b"x" * 2**20, "more_body": True})
            await asyncio.sleep(0)
        self.left.set()

    async def _wait(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass


def address_of(url: str) -> Address:
    host, _, port = url.removeprefix("http://").partition(":")
    return host, int(port)


def read_all(connection: socket.socket) -> bytes:
    connection.settimeout(30)
    received = b""
    while part := connection.recv(65536):
        received += part
    return received


def read_one(connection: socket.socket) -> bytes:
    """A response of `answer`."""
    received = b""
    while not received.endswith(b"ok") and (part := connection.recv(65536)):
        received += part
    return received


@contextmanager
def connected(address: Address) -> Iterator[socket.socket]:
    with socket.create_connection(address) as connection:
        connection.settimeout(30)
        yield connection


class Quick(NamedTuple):
    """A server that answers at once."""

    address: Address
    protocol: type[LimitedProtocol]

    def lose_patience(self) -> None:
        """From now on, headers have to be complete at once."""
        self.protocol.header_seconds = 0.05


@pytest.fixture(scope="module")
def quick_server() -> Iterator[Quick]:
    protocol = limited_protocol(50, 30)
    with running(answer, lifespan="off", http=protocol) as url:
        yield Quick(address_of(url), protocol)


@pytest.fixture
def quick(quick_server: Quick) -> Quick:
    quick_server.protocol.header_seconds = 30
    return quick_server


@pytest.fixture(scope="module")
def address(harbour: Workspace) -> Iterator[Address]:
    """A server of the index, as `kumi serve` runs it."""
    app = create_app(Workspace(harbour.indexes), LOCAL)
    with running(app, lifespan="off", http=limited_protocol(50, 30)) as url:
        yield address_of(url)


@pytest.mark.parametrize("requests", [1, 3])
def test_headers_of_a_later_request_that_never_end_are_cut_off(quick: Quick, requests: int) -> None:
    with connected(quick.address) as connection:
        for _ in range(requests):
            connection.sendall(GET)
            assert read_one(connection).endswith(b"ok")
        quick.lose_patience()
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
        assert read_all(connection) == b""


def test_headers_that_begin_with_the_request_before_are_cut_off(quick: Quick) -> None:
    with connected(quick.address) as connection:
        connection.sendall(GET)
        assert read_one(connection).endswith(b"ok")
        quick.lose_patience()
        connection.sendall(GET + b"GET / HTTP/1.1\r\nX-Slow: ")
        assert read_all(connection).count(b"200 OK") == 1


def test_a_body_that_comes_after_its_response_is_cut_off(quick: Quick) -> None:
    with connected(quick.address) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\n" + JSON + b"Content-Length: 1000000\r\n\r\n")
        assert read_one(connection).endswith(b"ok")
        quick.lose_patience()
        connection.sendall(b"x")
        assert read_all(connection) == b""


class Timers:
    """An event loop whose timers never ring. live: how many are set for these seconds."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._set: list[tuple[float, asyncio.TimerHandle]] = []

    def call_later(self, seconds: float, *call: Any) -> asyncio.TimerHandle:
        self._set.append((seconds, self._loop.call_later(1000, *call)))
        return self._set[-1][1]

    def live(self, seconds: float) -> int:
        return sum(each == seconds and not handle.cancelled() for each, handle in self._set)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)


def fake_transport(address: str) -> Any:
    transport = create_autospec(asyncio.Transport, instance=True)
    transport.is_closing.return_value, transport.get_write_buffer_size.return_value = False, 0
    transport.get_extra_info.side_effect = lambda name: (address, 1) if name == "peername" else None
    return transport


def configured(protocol: type[LimitedProtocol]) -> Any:
    config: Any = uvicorn.Config(answer, lifespan="off", http=protocol)
    config.load()
    return config


def test_only_headers_that_have_begun_are_timed() -> None:
    async def play() -> list[int]:
        timers, config = Timers(), configured(limited_protocol(50, 7.0))
        protocol = config.http_protocol_class(config, ServerState(), {}, timers)
        protocol.connection_made(fake_transport("192.0.2.1"))
        counts = [timers.live(7)]
        for _ in range(3):
            for part in (GET[:20], GET[20:]):
                protocol.data_received(part)
                counts.append(timers.live(7))
            await asyncio.gather(*protocol.tasks)
            counts.append(timers.live(7))
        protocol.connection_lost(None)
        return [*counts, timers.live(7), timers.live(config.timeout_keep_alive)]

    assert asyncio.run(play()) == [1, *[1, 0, 0] * 3, 0, 0]


class Doors:
    """Connections of a server with so many places."""

    def __init__(self, limits: type[LimitedProtocol]) -> None:
        self.config, self.state = configured(limits), ServerState()

    def open(self, address: str = "127.0.0.1") -> Any:
        protocol = self.config.http_protocol_class(self.config, self.state, {}, asyncio.get_running_loop())
        protocol.connection_made(fake_transport(address))
        return protocol

    async def end(self) -> None:
        await asyncio.gather(*self.state.tasks)
        for protocol in [*self.state.connections]:
            protocol.connection_lost(None)


@pytest.mark.parametrize(
    ("address", "taken"),
    [("192.0.2.1", 3), ("2001:db8::{:x}", 3), ("2001:db8:0:{:x}::1", 12), ("127.0.0.1", 12), ("::1", 12), ("", 3)],
)
def test_one_machine_does_not_get_all_connections(address: str, taken: int) -> None:
    async def play() -> list[bool]:
        doors = Doors(limited_protocol(10, 30, max_of_sender=3))
        opened = [doors.open(address.format(i)) for i in range(12)]
        assert len(doors.state.connections) == min(taken, 10)
        assert not doors.open("198.51.100.1").transport.write.called
        await doors.end()
        return [each.transport.write.called for each in opened]

    assert asyncio.run(play()) == [False] * taken + [True] * (12 - taken)


def test_a_sender_has_its_places_again_when_its_connections_have_ended() -> None:
    async def play() -> None:
        doors = Doors(limited_protocol(10, 30, max_of_sender=1))
        first, second = doors.open("192.0.2.1"), doors.open("192.0.2.1")
        assert [each.transport.write.called for each in (first, second)] == [False, True]
        for each in (first, second):
            each.connection_lost(None)
        assert first.places.senders == {}
        assert not doors.open("192.0.2.1").transport.write.called
        await doors.end()

    asyncio.run(play())


def test_one_connection_more_closes_the_one_that_has_waited_longest() -> None:
    async def play() -> None:
        doors = Doors(limited_protocol(3, 30))
        busy, silent, half = doors.open(), doors.open(), doors.open()
        busy.data_received(GET)
        half.data_received(GET[:20])
        assert not doors.open().transport.write.called
        assert [each.transport.close.called for each in (busy, silent, half)] == [False, True, False]
        await asyncio.gather(*busy.tasks)  # from now on it waits too, not as long as the others
        doors.open()
        assert half.transport.close.called
        assert not busy.transport.close.called
        await doors.end()

    asyncio.run(play())


def test_a_connection_too_many_is_refused_if_each_has_a_request() -> None:
    async def play() -> None:
        doors = Doors(limited_protocol(2, 30))
        for each in (doors.open(), doors.open()):
            each.data_received(GET)
        refused = doors.open()
        assert refused.transport.write.call_args.args[0].startswith(b"HTTP/1.1 503")
        assert refused.transport.close.called
        await doors.end()
        assert refused not in doors.state.connections

    asyncio.run(play())


def test_a_response_that_nobody_has_read_is_not_waited_for() -> None:
    async def play() -> None:
        doors = Doors(limited_protocol(1, 30))
        unread = doors.open()
        unread.transport.get_write_buffer_size.return_value = 9
        doors.open()
        assert unread.transport.abort.called
        await doors.end()

    asyncio.run(play())


def test_a_response_that_nobody_reads_is_given_up() -> None:
    flood = Flood()
    with (
        running(flood, lifespan="off", http=limited_protocol(50, 30, read_seconds=0.2)) as url,
        connected(address_of(url)) as connection,
    ):
        connection.sendall(GET)
        assert flood.left.wait(30)


SMUGGLED = [
    b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
    b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcd",
    b"Content-Length: +4\r\n\r\nabcd",
    b"Content-Length: 4, 5\r\n\r\nabcd",
    b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    b"Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n",
    b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
    b"X y: z\r\n\r\n",
    b"Host: evil.example\r\n\r\n",
    b"X: a\x00b\r\n\r\n",
]


@pytest.mark.parametrize("rest", SMUGGLED)
def test_a_request_that_a_proxy_may_read_in_another_way_is_refused(address: Address, rest: bytes) -> None:
    """The next request on the connection is not answered."""
    with connected(address) as connection:
        connection.sendall(b"POST /api/v1/ask HTTP/1.1\r\n" + JSON + rest + GET)
        received = read_all(connection)
    assert received.startswith((b"HTTP/1.1 400", b"HTTP/1.1 501"))
    assert received.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize("method", [b"TRACE", b"CONNECT", b"PUT", b"get", b"PATCH", b"X-ANY"])
def test_other_methods_do_nothing(address: Address, method: bytes) -> None:
    request = b" /api/v1/ask HTTP/1.1\r\nX-HTTP-Method-Override: POST\r\nConnection: close\r\n" + JSON + b"\r\n"
    with connected(address) as connection:
        connection.sendall(method + request)
        assert read_all(connection).startswith(b"HTTP/1.1 405")
