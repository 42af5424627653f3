"""HTTP requests to /mcp -> the MCP server, under the checks and the access of the application."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

from fastapi import FastAPI
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from kumihimo.server.access import Caller
from kumihimo.server.mcp.server import LEFT, RequestContext, create_mcp_server
from kumihimo.server.settings import ServerSettings
from kumihimo.server.workspace import Workspace

PATH = "/mcp"
_MAX_SESSIONS = 4000  # of clients before 2026, 42 kB each: more than one key may open until they end
_IDLE_SECONDS = 1200.0


class McpEndpoint:
    """The ASGI application at `/mcp`: streamable HTTP, for clients of every version of the protocol."""

    def __init__(self, workspace: Workspace, settings: ServerSettings) -> None:
        self.workspace, self.settings = workspace, settings
        self._manager: StreamableHTTPSessionManager | None = None

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Serve requests as long as the context lasts."""
        self._manager = StreamableHTTPSessionManager(
            create_mcp_server(self.workspace, _find_caller),
            max_request_body_size=self.settings.max_body,
            max_sessions=_MAX_SESSIONS,
            session_idle_timeout=_IDLE_SECONDS,
        )
        try:
            async with self._manager.run():
                yield
        finally:
            self._manager = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in ("POST", "DELETE"):  # nothing is sent without a request
            await Response(status_code=405, headers={"allow": "POST, DELETE"})(scope, receive, send)
            return
        left = asyncio.Event()
        scope["state"] = {**scope["state"], LEFT: left}
        scope["user"] = _owner(scope["state"]["caller"])

        async def receive_and_notice() -> Message:
            message = await receive()
            if message["type"] == "http.disconnect":
                left.set()
            return message

        assert self._manager  # the application is running
        await self._manager.handle_request(scope, receive_and_notice, send)


def _find_caller(context: RequestContext) -> Caller:
    """Return the sender of a request, never that of a session."""
    assert context.request  # by HTTP there is one
    return cast(Caller, context.request.state.caller)


def _owner(caller: Caller) -> AuthenticatedUser:
    """Return the owner of a session: the key that may use it."""
    return AuthenticatedUser(AccessToken(token="", client_id=caller.key, scopes=[]))


def add_mcp(app: FastAPI, workspace: Workspace, settings: ServerSettings) -> None:
    """Add the endpoint to an application, and to its lifespan."""
    endpoint, run_app = McpEndpoint(workspace, settings), app.router.lifespan_context
    app.router.routes.append(Route(PATH, endpoint))

    @asynccontextmanager
    async def run_both(_: FastAPI) -> AsyncIterator[Mapping[str, Any]]:
        async with endpoint.run(), run_app(app) as state:
            yield state or {}

    app.router.lifespan_context = run_both
