"""A body ends at its limit of bytes and of time, and a malformed one makes one short error."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from pydantic import TypeAdapter, ValidationError
from starlette.testclient import TestClient
from starlette.types import Message, Receive, Scope, Send

from kumihimo.server.access import Caller
from kumihimo.server.api.ask import AskBody
from kumihimo.server.api.builds import BuildOptions
from kumihimo.server.api.parameters import Body
from kumihimo.server.app import create_app
from kumihimo.server.limits import Visit
from kumihimo.server.openai import requests
from kumihimo.server.pages.context import INDEX_PREFIXES
from kumihimo.server.problems import BadParameter, TooLarge, TooSlow
from kumihimo.server.settings import ServerSettings
from kumihimo.server.workspace import open_workspace
from tests.server.clients import LOCAL, Open

MANY = {str(n): n for n in range(101)}


def part(body: bytes, *, more: bool = True) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


def receive_all(parts: Sequence[Message], max_body: int, seconds: float = 30, **headers: str) -> list[Message]:
    """All parts of a body within limits; after the last part nothing comes any more."""
    received = list[Message]()

    async def play() -> None:
        waiting: Iterator[Message] = iter(parts)

        async def receive() -> Message:
            following = next(waiting, None)
            if following is None:
                await asyncio.Event().wait()
            assert following
            return following

        async def read_all(scope: Scope, receive: Receive, send: Send) -> None:
            while not received or received[-1].get("more_body"):
                received.append(await receive())

        scope = request_scope(headers={name.replace("_", "-"): value for name, value in headers.items()})
        settings = ServerSettings(max_body=max_body, body_seconds=seconds)
        await Visit(scope, receive, ignore, settings).serve(read_all)

    asyncio.run(play())
    return received


def request_scope(**values: Any) -> dict[str, Any]:
    """What a server tells an application of a request without a key."""
    headers = [(name.encode(), value.encode("latin-1")) for name, value in values.pop("headers", {}).items()]
    place = {"type": "http", "method": "POST", "path": "/"}
    return {**place, "headers": headers, "state": {"caller": Caller({})}, **values}


async def ignore(_: Message) -> None: ...


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
        receive_all([part(b"abc")], 100, seconds=0.01, content_length="9")


def test_a_request_without_a_body_has_an_empty_one() -> None:
    assert receive_all([part(b"", more=False)], 5) == [part(b"", more=False)]


# -- the limit belongs to the route


KINDS = {
    "json": {"content-type": "application/json"},
    "multipart": {"content-type": "multipart/form-data; boundary=x"},
    "form": {"content-type": "application/x-www-form-urlencoded"},
    "text": {"content-type": "text/plain"},
    "none": {},
    "bytes": {"content-type": "application/octet-stream"},
    "packed": {"content-type": "application/json", "content-encoding": "gzip"},
}
LIMITS = ServerSettings(max_body=1000, max_text=2000, max_upload=3000)
CHUNK = 700
BEGIN = b'--x\r\nContent-Disposition: form-data; name="f"; filename="a.md"\r\n\r\n'.ljust(CHUNK, b"x")
LARGER = {
    ("POST", "/documents"): LIMITS.max_upload,
    ("POST", "/indexes/{index_name}/documents"): LIMITS.max_upload,
    ("POST", "/api/v1/documents"): LIMITS.max_upload,
    ("POST", "/api/v1/indexes/{index_name}/documents"): LIMITS.max_upload,
    ("POST", "/api/v1/ask"): LIMITS.max_text,
    ("POST", "/api/v1/indexes/{index_name}/ask"): LIMITS.max_text,
    ("POST", "/v1/chat/completions"): LIMITS.max_text,
    ("POST", "/v1/responses"): LIMITS.max_text,
    ("POST", "/v1/embeddings"): LIMITS.max_text,
}


@dataclass
class Sent:
    """A request whose body never ends, and what came of it."""

    status: int = 0
    parts: int = 0


async def send_endless(app: FastAPI, method: str, path: str, headers: dict[str, str]) -> Sent:
    sent, is_answered = Sent(), asyncio.Event()

    async def receive() -> Message:
        await asyncio.sleep(0)
        if is_answered.is_set():
            return {"type": "http.disconnect"}
        sent.parts += 1
        return part(BEGIN if sent.parts == 1 else b"x" * CHUNK)

    async def send(message: Message) -> None:
        sent.status = message.get("status", sent.status)
        if message["type"] == "http.response.body":
            is_answered.set()

    about = {"host": "127.0.0.1", "accept": "application/json, text/event-stream", "transfer-encoding": "chunked"}
    place = {"method": method, "path": path, "raw_path": path.encode(), "query_string": b"", "scheme": "http"}
    more = {"http_version": "1.1", "root_path": "", "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8460)}
    await app(request_scope(headers=about | headers, **place, **more), receive, send)
    return sent


def routes_of(app: FastAPI) -> list[tuple[str, str]]:
    """Method and path of each route that may have a body."""
    described = app.openapi()["paths"]
    api = [(method.upper(), path) for path, methods in described.items() for method in methods]
    pages = [("POST", f"{prefix}{path}") for prefix in INDEX_PREFIXES for path in PAGES]
    return sorted({*api, *pages, *(("POST", path) for path in ("/login", "/logout", "/preferences", "/mcp"))})


PAGES = ("/", "/edits", "/documents", "/documents/{id}/delete", "/builds", "/builds/{id}/cancel")


@pytest.fixture(scope="module")
def app(harbour_folder: Path) -> Iterator[FastAPI]:
    """The whole application, with small limits."""
    app = create_app(open_workspace([harbour_folder], LIMITS), LIMITS)
    with TestClient(app):  # MCP has to run
        yield app


def expected(method: str, path: str, kind: str) -> Sent:
    """What becomes of a body without end: a route that takes it reads one part beyond its limit."""
    is_program, limit = path.startswith(("/api/", "/v1/", "/mcp")), LARGER.get((method, path), LIMITS.max_body)
    if method != "POST":
        return Sent(415 if is_program and method == "DELETE" and kind in ("form", "text", "none") else 0)
    if is_program and kind in ("form", "text", "none"):
        return Sent(415)
    if limit == LIMITS.max_upload and kind != "multipart":
        if not is_program or kind == "bytes":
            return Sent(400)
        limit = LIMITS.max_text  # of texts in JSON
    if is_program and path.endswith("/cancel"):
        return Sent(404)
    return Sent(413, limit // CHUNK + 1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_body_has_the_limit_of_its_route_whatever_its_type(kind: str, app: FastAPI) -> None:
    async def play() -> dict[tuple[str, str], Sent]:
        names = {"{index_name}": "harbour", "{id}": "x", "{id:path}": "x", "{table}": "chunks", "{name:path}": "kumi"}
        found: dict[tuple[str, str], Sent] = {}
        for method, path in routes_of(app):
            address = path
            for name, value in names.items():
                address = address.replace(name, value)
            found[method, path] = await send_endless(app, method, address, KINDS[kind])
        return found

    found = asyncio.run(play())
    wanted = {route: expected(*route, kind) for route in found}
    assert {route: sent.parts for route, sent in found.items()} == {route: sent.parts for route, sent in wanted.items()}
    assert {route: sent.status for route, sent in found.items() if wanted[route].status} == {
        route: sent.status for route, sent in wanted.items() if sent.status
    }


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


BAD: list[Any] = [{}] * 10_000


@pytest.mark.parametrize(
    ("adapter", "body"),
    [
        (TypeAdapter(Body[AskBody]), {"question": "Who?", "settings": {"k": BAD}}),
        (TypeAdapter(Body[AskBody]), {"question": "Who?", "settings": {str(n): BAD[:1000] for n in range(50)}}),
        (TypeAdapter(Body[AskBody]), {"question": "Who?", "history": BAD}),
        (TypeAdapter(Body[BuildOptions]), {"paths": BAD, "methods": BAD}),
        (requests._CHAT, {"model": "kumi", "messages": BAD}),
        (requests._CHAT, {"model": "kumi", "messages": [{"role": "user", "content": 5}] * 2000, "tool_choice": BAD}),
        (requests._CHAT, {"model": "kumi", "messages": [], "kumihimo": {"settings": {"k": BAD}}}),
        (requests._EMBEDDINGS, {"model": BAD, "input": [1.5]}),
    ],
)
def test_a_long_wrong_value_makes_few_errors(adapter: TypeAdapter[Any], body: Any) -> None:
    """Pydantic makes one of each part that is wrong, and takes much longer for it than for a right one."""
    with pytest.raises(ValidationError) as caught:
        adapter.validate_python(body)
    assert caught.value.error_count() <= 4002


@pytest.mark.parametrize("item", [1.5, {}, [], "", None, [{}], ["a"], [1]])
def test_texts_to_embed_are_counted_first(item: Any) -> None:
    with pytest.raises(BadParameter, match="input has 10,000 texts, and 2,048 is the limit"):
        requests.EmbeddingRequest.parse(json.dumps({"model": "kumi", "input": [item] * 10_000}).encode())


def test_parts_of_a_message_that_are_no_texts_are_left_out() -> None:
    messages = [{"role": "user", "content": BAD}, {"role": "user", "content": [1, {"type": "text", "text": "Who?"}]}]
    read = requests.parse_chat(json.dumps({"model": "kumi", "messages": messages}).encode())
    with pytest.raises(BadParameter, match="a part of the type none: only text is understood"):
        requests.split_conversation(read.messages)
