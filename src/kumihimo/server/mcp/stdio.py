"""standard input and output -> the MCP server of some indexes, for a program that starts it."""

import asyncio

from mcp.server.stdio import stdio_server

from kumihimo.server.access import Caller
from kumihimo.server.mcp.server import create_mcp_server
from kumihimo.server.workspace import Workspace


def run_stdio(workspace: Workspace, caller: Caller) -> None:
    """Serve one client until it closes the input."""
    asyncio.run(_serve(workspace, caller))


async def _serve(workspace: Workspace, caller: Caller) -> None:
    server = create_mcp_server(workspace, lambda _: caller)
    async with stdio_server() as (received, sent):
        await server.run(received, sent, server.create_initialization_options())
