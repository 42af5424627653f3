"""A body ends at its limit of bytes and of time, and a malformed one makes one short error."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from starlette.datastructures import Headers
from starlette.testclient import TestClient
from starlette.types import Message

from kumihimo.server.limits import BodyLimits
from kumihimo.server.problems import TooLarge, TooSlow
from tests.server.clients import LOCAL, Open

MANY = {str(n): n for n in range(101)}


def part(body: bytes, *, more: bool = True) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


def receive_all(parts: Sequence[Message], max_bytes: int, seconds: float = 30, **headers: str) -> list[Message]:
    """All parts of a body within limits; after the last part nothing comes any more."""

    async def play() -> list[Message]:
        waiting: Iterator[Message] = iter(parts)

        async def receive() -> Message:
            following = next(waiting, None)
            if following is None:
                await asyncio.Event().wait()
            assert following
            return following

        names = {name.replace("_", "-"): value for name, value in headers.items()}
        limits, received = BodyLimits(receive, Headers(names), max_bytes, seconds), list[Message]()
        while not received or received[-1]["more_body"]:
            received.append(await limits.receive())
        return received

    return asyncio.run(play())


def test_a_body_within_its_limits_passes() -> None:
    parts = [part(b"abc"), part(b"de"), part(b"", more=False)]
    assert receive_all(parts, 5, content_length="5") == parts


@pytest.mark.parametrize("length", ["6", "1_0", "-1", "x", "", "²"])
def test_a_length_beyond_the_limit_is_refused_before_the_body(length: str) -> None:
    with pytest.raises(TooLarge, match="more than 5 bytes"):
        receive_all([], 5, content_length=length)


def test_a_body_longer_than_it_says_is_cut_off() -> None:
    with pytest.raises(TooLarge, match="more than 5 bytes"):
        receive_all([part(b"abc"), part(b"def")], 5, transfer_encoding="chunked")


def test_a_body_that_stops_is_given_up() -> None:
    with pytest.raises(TooSlow, match=r"for 0\.01 s"):
        receive_all([part(b"abc")], 100, seconds=0.01)


def test_a_client_that_leaves_after_its_body_is_not_too_slow() -> None:
    async def play() -> str:
        messages = iter([part(b"abc", more=False), {"type": "http.disconnect"}])

        async def receive() -> Message:
            await asyncio.sleep(0)
            return next(messages)

        limits = BodyLimits(receive, Headers({}), 5, 0.001)
        await limits.receive()
        await asyncio.sleep(0.002)
        return str((await limits.receive())["type"])

    assert asyncio.run(play()) == "http.disconnect"


# -- errors of large bodies: pydantic makes one for each wrong part


@pytest.fixture
def client(open_client: Open) -> TestClient:
    return open_client(LOCAL)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("ask", MANY),
        ("retrieve", MANY),
        ("plan", MANY),
        ("builds", MANY),
        ("documents/paths", MANY),
        ("ask", {"question": "Who?", "history": [MANY]}),
    ],
)
def test_too_many_fields_are_one_error(client: TestClient, path: str, body: Any) -> None:
    response = client.post(f"/api/v1/{path}", json=body)
    assert response.status_code == 400
    assert response.json()["detail"].endswith("It has more than 100 fields")


def test_some_wrong_fields_are_named(client: TestClient) -> None:
    detail = client.post("/api/v1/ask", json={"question": "Who?", "metod": "bm25", "k": 3}).json()["detail"]
    assert detail == "metod: Unexpected keyword argument; k: Unexpected keyword argument"


def test_too_many_messages_are_one_error(client: TestClient) -> None:
    response = client.post("/v1/chat/completions", json={"model": "kumi", "messages": [{}] * 2001})
    assert (response.status_code, response.json()["error"]["param"]) == (400, "messages")
