"""/mcp -> the same by HTTP, for clients of both kinds: each request with its own access, and cancelled by leaving."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree
from typing import Any, Literal

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult

from kumihimo.app.upkeep.keys import create_key
from kumihimo.server.settings import ServerSettings
from tests.server.running import Answering, serving, serving_one

Mode = Literal["auto", "legacy"]
MODES: tuple[Mode, ...] = ("auto", "legacy")  # without and with a session
QUESTION = "Who drew the tide gates?"


@pytest.fixture(scope="module")
def address(harbour_folder: Path) -> Iterator[str]:
    with serving(harbour_folder) as server:
        yield f"{server.address}/mcp"


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
def test_a_question_that_is_cancelled_gives_up_its_place(harbour_folder: Path, mode: Mode) -> None:
    answering = Answering(f"cancelled {mode}")

    async def run(address: str) -> CallToolResult:
        async with Client(f"{address}/mcp", mode=mode) as client:
            waiting = asyncio.create_task(client.call_tool("ask", {"question": "Who waits?"}))
            assert await asyncio.to_thread(answering.began.wait, 30)
            waiting.cancel()
            return await client.call_tool("ask", {"question": "Who answers?"})

    with serving_one(harbour_folder, answering) as at:
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


def test_a_client_of_a_session_that_leaves_gives_up_its_place(harbour_folder: Path) -> None:
    answering = Answering("left a session")
    with serving_one(harbour_folder, answering) as at:
        session = open_session(f"{at}/mcp").headers["mcp-session-id"]
        post(f"{at}/mcp", {"jsonrpc": "2.0", "method": "notifications/initialized"}, mcp_session_id=session)
        headers = {"accept": "application/json, text/event-stream", "mcp-session-id": session}
        params = {"name": "ask", "arguments": {"question": "Who waits?"}}
        body = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
        with httpx2.stream("POST", f"{at}/mcp", json=body, headers=headers):
            assert answering.began.wait(30)
        assert "at once" in str(call(f"{at}/mcp", "auto", "ask", question="Who answers?").structured_content)
        answering.may_end.set()


@pytest.fixture(scope="module")
def keys(harbour_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, str]]]:
    """A server that asks for keys, and the keys of two readers."""
    folder = tmp_path_factory.mktemp("keys") / "harbour" / ".kumi"
    copytree(harbour_folder, folder)
    tokens = {name: create_key([folder], "reader", rights=f'author = "{name}"')[1] for name in ("Nell Attery", "Joss")}
    with serving(folder, settings=ServerSettings(require_keys=True)) as server:
        yield f"{server.address}/mcp", tokens


def test_without_a_valid_key_there_is_nothing(keys: tuple[str, dict[str, str]]) -> None:
    address, _ = keys
    assert open_session(address).status_code == 401
    assert open_session(address, authorization="Bearer kumi_wrong").status_code == 401
    assert httpx2.get(address).status_code == 401


@pytest.mark.parametrize("mode", MODES)
def test_a_key_sees_its_documents_alone(keys: tuple[str, dict[str, str]], mode: Mode) -> None:
    address, tokens = keys

    async def run() -> tuple[Any, list[str]]:
        headers = {"Authorization": f"Bearer {tokens['Nell Attery']}"}
        async with (
            httpx2.AsyncClient(headers=headers) as http,
            Client(streamable_http_client(address, http_client=http), mode=mode) as client,
        ):
            listed = await client.call_tool("list_documents", {})
            resources = (await client.list_resources()).resources
            return listed.structured_content, [resource.name for resource in resources]

    listed, resources = asyncio.run(run())
    assert [document["uri"] for document in listed["documents"]] == ["files/seeds.md"]
    assert resources[0] == "files/seeds.md"
    assert not any("ferry" in name or "gates" in name for name in resources)


def test_a_session_belongs_to_the_key_that_opened_it(keys: tuple[str, dict[str, str]]) -> None:
    address, tokens = keys
    listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    own, other = ({"authorization": f"Bearer {tokens[name]}"} for name in ("Nell Attery", "Joss"))
    session = open_session(address, **own).headers["mcp-session-id"]
    post(address, {"jsonrpc": "2.0", "method": "notifications/initialized"}, mcp_session_id=session, **own)
    assert post(address, listing, mcp_session_id=session, **own).status_code == 200
    assert post(address, listing, mcp_session_id=session, **other).status_code == 404
    assert post(address, listing, mcp_session_id=session).status_code == 401


def test_a_page_of_another_site_reaches_nothing(address: str) -> None:
    assert open_session(address, origin="https://evil.example").status_code == 403
    assert open_session(address, host="evil.example").status_code == 421


def test_nothing_is_sent_without_a_request(address: str) -> None:
    response = httpx2.get(address, headers={"accept": "text/event-stream"})
    assert (response.status_code, response.headers["allow"]) == (405, "POST, DELETE")


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"jsonrpc": "2.0"}', b"\xff", b'{"id": ' * 500])
def test_a_body_that_is_no_message_is_refused(address: str, body: bytes) -> None:
    headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    assert httpx2.post(address, content=body, headers=headers).status_code == 400
