"""/mcp -> the same by HTTP, for clients of both kinds: each request with its own access, and cancelled by leaving."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Literal

import httpx2
import pytest
from mcp import Client
from mcp.types import CallToolResult

from kumihimo.server.access import Caller, Grant, local_caller
from kumihimo.server.app import create_app
from kumihimo.server.workspace import Workspace
from tests.server.running import Answering, running, serving_one, with_caller

Mode = Literal["auto", "legacy"]
MODES: tuple[Mode, ...] = ("auto", "legacy")  # without and with a session
QUESTION = "Who drew the tide gates?"


@pytest.fixture(scope="module")
def address(harbour: Workspace) -> Iterator[str]:
    with running(with_caller(create_app(harbour), local_caller(harbour))) as address:
        yield f"{address}/mcp"


def call(address: str, mode: Mode, name: str, **arguments: Any) -> CallToolResult:
    async def run() -> CallToolResult:
        async with Client(address, mode=mode) as client:
            return await client.call_tool(name, arguments)

    return asyncio.run(run())


@pytest.mark.parametrize("mode", MODES)
def test_tools_and_resources_are_there(address: str, mode: Mode) -> None:
    async def run() -> tuple[int, str, list[str | None]]:
        news: list[str | None] = []

        async def hear(progress: float, total: float | None, message: str | None) -> None:
            news.append(message)

        async with Client(address, mode=mode) as client:
            asked = await client.call_tool("ask", {"question": QUESTION}, progress_callback=hear)
            resources = (await client.list_resources()).resources
            read = await client.read_resource(resources[0].uri)
            assert asked.structured_content
            assert asked.structured_content["citations"]
            return len((await client.list_tools()).tools), getattr(read.contents[0], "text", ""), news

    tools, text, news = asyncio.run(run())
    assert tools == 6
    assert "The ferry" in text
    assert news == ["searching"]


@pytest.mark.parametrize("mode", MODES)
def test_a_question_that_is_cancelled_gives_up_its_place(harbour: Workspace, mode: Mode) -> None:
    answering = Answering(f"cancelled {mode}")

    async def run(address: str) -> CallToolResult:
        async with Client(f"{address}/mcp", mode=mode) as client:
            waiting = asyncio.create_task(client.call_tool("ask", {"question": "Who waits?"}))
            assert await asyncio.to_thread(answering.began.wait, 30)
            waiting.cancel()
            return await client.call_tool("ask", {"question": "Who answers?"})

    with serving_one(harbour, answering) as at:
        answer = asyncio.run(run(at))
        answering.may_end.set()
    assert "at once" in str(answer.structured_content)


def open_session(address: str, **headers: str) -> httpx2.Response:
    """A session as clients before 2026 open it."""
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    return post(address, {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}, **headers)


def post(address: str, body: Any, **headers: str) -> httpx2.Response:
    accept = {"accept": "application/json, text/event-stream"}
    return httpx2.post(address, json=body, headers=accept | {n.replace("_", "-"): v for n, v in headers.items()})


def test_a_client_of_a_session_that_leaves_gives_up_its_place(harbour: Workspace) -> None:
    answering = Answering("left a session")
    with serving_one(harbour, answering) as at:
        session = open_session(f"{at}/mcp").headers["mcp-session-id"]
        post(f"{at}/mcp", {"jsonrpc": "2.0", "method": "notifications/initialized"}, mcp_session_id=session)
        headers = {"accept": "application/json, text/event-stream", "mcp-session-id": session}
        params = {"name": "ask", "arguments": {"question": "Who waits?"}}
        body = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
        with httpx2.stream("POST", f"{at}/mcp", json=body, headers=headers):
            assert answering.began.wait(30)
        assert "at once" in str(call(f"{at}/mcp", "auto", "ask", question="Who answers?").structured_content)
        answering.may_end.set()


def test_a_session_belongs_to_the_key_that_opened_it(harbour: Workspace) -> None:
    app = create_app(harbour)
    callers = {name: with_caller(app, Caller({"harbour": Grant("reader", key=name)})) for name in ("one", "other")}

    async def by_header(scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope.get("headers", ()))
        await callers[headers.get(b"x-name", b"one").decode()](scope, receive, send)

    listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    with running(by_header) as at:
        session = open_session(f"{at}/mcp").headers["mcp-session-id"]
        post(f"{at}/mcp", {"jsonrpc": "2.0", "method": "notifications/initialized"}, mcp_session_id=session)
        assert post(f"{at}/mcp", listing, mcp_session_id=session).status_code == 200
        assert post(f"{at}/mcp", listing, mcp_session_id=session, x_name="other").status_code == 404


def test_nothing_is_sent_without_a_request(address: str) -> None:
    response = httpx2.get(address, headers={"accept": "text/event-stream"})
    assert (response.status_code, response.headers["allow"]) == (405, "POST, DELETE")


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"jsonrpc": "2.0"}', b"\xff", b'{"id": ' * 500])
def test_a_body_that_is_no_message_is_refused(address: str, body: bytes) -> None:
    headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    assert httpx2.post(address, content=body, headers=headers).status_code == 400
