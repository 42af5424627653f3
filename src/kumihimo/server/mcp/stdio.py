"""index folders -> an MCP server on standard input and output, for a program that starts it."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from mcp.server.stdio import stdio_server

from kumihimo.app.opened.open_index import IndexPlace
from kumihimo.server.access import local_caller
from kumihimo.server.mcp.server import create_mcp_server
from kumihimo.server.workspace import open_workspace


def run_stdio(places: Sequence[IndexPlace | Path]) -> None:
    """Serve these indexes to one client until it closes the input."""
    asyncio.run(_serve(places))


async def _serve(places: Sequence[IndexPlace | Path]) -> None:
    workspace = open_workspace(places)
    server = create_mcp_server(workspace, lambda _: local_caller(workspace))
    try:
        async with stdio_server() as (received, sent):
            await server.run(received, sent, server.create_initialization_options())
    finally:
        await workspace.aclose()
