"""a workspace -> calls of its tools by the SDK's client, without a transport."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from mcp import Client

from kumihimo.server.access import Caller, local_caller
from kumihimo.server.mcp.server import create_mcp_server
from kumihimo.server.workspace import Workspace
from tests.fixtures_index import write_reports

Talk = Callable[[Callable[[Client], Awaitable[Any]]], Any]


def talk_to(workspace: Workspace, caller: Caller | None = None) -> Talk:
    """Return a function that connects a client, and lets another function talk by it."""

    def talk(conversation: Callable[[Client], Awaitable[Any]]) -> Any:
        async def run() -> Any:
            server = create_mcp_server(workspace, lambda _: caller or local_caller(workspace))
            async with Client(server) as client:
                return (await asyncio.gather(conversation(client), return_exceptions=True))[0]

        result = asyncio.run(run())
        if isinstance(result, BaseException):
            raise result
        return result

    return talk


@pytest.fixture(autouse=True, scope="session")
def reports(harbour: Workspace) -> None:
    """The graph and the reports of the index."""
    for served in harbour.indexes.values():
        write_reports(served.kumi)


@pytest.fixture(scope="session")
def talk(harbour: Workspace) -> Talk:
    """A client of the workspace with three documents."""
    return talk_to(harbour)
