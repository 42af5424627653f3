"""a workspace -> the MCP server over it: at /mcp, or on standard input and output."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import mcp_types as types
from fastapi import FastAPI, Response
from mcp.server import Server, ServerRequestContext
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from kumihimo.app.opened.open_index import IndexPlace
from kumihimo.core.errors import BudgetExceeded, Cancelled, KumiError
from kumihimo.server import limits, problems
from kumihimo.server.access import Access, Caller, choose_access, local_caller
from kumihimo.server.mcp import resources
from kumihimo.server.mcp.tools import TOOLS, Report, Tool, ToolCall
from kumihimo.server.settings import ServerSettings
from kumihimo.server.workspace import Workspace, open_workspace

T = TypeVar("T")
RequestContext = ServerRequestContext[Any, Any]
log = logging.getLogger("kumihimo")
INSTRUCTIONS = (
    "Kumihimo answers questions from the user's own documents, with citations. Use ask for an answer, search for the "
    "passages behind it, open_citation to check or read on, report for an overview, entity for a person, place or "
    "thing, list_documents for what there is. Say only what the passages say, and cite them."
)
PATH = "/mcp"
_MAX_SESSIONS = 4000  # of clients before 2026, 42 kB each: more than one key may open until they end
_IDLE_SECONDS = 1200.0


def create_mcp_server(workspace: Workspace, find_caller: Callable[[RequestContext], Caller]) -> Server[Any]:
    """Return the server of these indexes.

    find_caller: returns the sender of a request, so that each one sees what it may see.
    """
    from importlib import metadata

    handlers = _Handlers(workspace, find_caller)
    return Server(
        "kumihimo",
        version=metadata.version("kumihimo"),
        title="Kumihimo",
        instructions=INSTRUCTIONS,
        get_tool_input_schema=lambda name: TOOLS[name].input_schema if name in TOOLS else None,
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_templates,
        on_read_resource=handlers.read_resource,
    )


class _Handlers:
    """The functions that answer requests."""

    def __init__(self, workspace: Workspace, find_caller: Callable[[RequestContext], Caller]) -> None:
        self.workspace, self.find_caller = workspace, find_caller

    async def list_tools(self, context: RequestContext, _: object) -> types.ListToolsResult:
        """List the tools, with the indexes that the caller may use."""
        names = [*self.find_caller(context).grants]
        return types.ListToolsResult(tools=[_describe_tool(tool, names) for tool in TOOLS.values()])

    async def call_tool(self, context: RequestContext, params: types.CallToolRequestParams) -> types.CallToolResult:
        """Run a tool; an error becomes a result that names the remedy."""
        tool = TOOLS.get(params.name)
        if tool is None:
            raise MCPError(types.INVALID_PARAMS, f"no tool {params.name!r}. Known: {', '.join(TOOLS)}")
        caller = self.find_caller(context)
        try:
            arguments = tool.parse(params.arguments or {})
            access = self._access(caller, f"MCP tools/call {tool.name}", arguments.pop("index"))
            call = ToolCall(access, tuple(caller.grants), _progress_reporter(context))
            result = await _until_left(context, tool.run(call, **arguments))
            text = types.TextContent(type="text", text=result.text)
            return types.CallToolResult(content=[text], structured_content=result.values)
        except BudgetExceeded as error:
            return _error_result(f"{error}. {problems.remedy_of(error)}")
        except KumiError as error:
            return _error_result(str(error))
        except MCPError:
            raise
        except Exception:  # the outermost door of a call: the client gets no details of the server
            log.exception("the tool %s failed", tool.name)
            return _error_result("the server has failed: its log says why")

    async def list_resources(
        self, context: RequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """List a page of documents and reports, one index after the other."""
        caller = self.find_caller(context)
        names = [*caller.grants]
        cursor = (params and params.cursor) or (resources.first_cursor(names[0]) if names else "")
        if not cursor:
            return types.ListResourcesResult(resources=[])
        with _protocol_errors():
            after = resources.parse_cursor(cursor)
            access = self._access(caller, "MCP resources/list", after.index)
            read = access.read(lambda s: resources.list_page(s, after))
            found, following = await _until_left(context, read)
        if not following and after.index != names[-1]:
            following = resources.first_cursor(names[names.index(after.index) + 1])
        return types.ListResourcesResult(resources=found, next_cursor=following or None)

    async def list_templates(self, *_: object) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=resources.TEMPLATES)

    async def read_resource(
        self, context: RequestContext, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        """Return the text of a document or of a report."""
        with _protocol_errors():
            address = resources.KumiUri.parse(params.uri)
            access = self._access(self.find_caller(context), "MCP resources/read", address.index)
            read = access.read(lambda s: resources.read_resource(s, address))
            return types.ReadResourceResult(contents=[await _until_left(context, read)])

    def _access(self, caller: Caller, route: str, index: str) -> Access:
        return choose_access(self.workspace, caller, route, index)


async def _until_left(context: RequestContext, work: Awaitable[T]) -> T:
    """Return the result of some work. Raise Cancelled if the client leaves."""
    left = context.request.scope["state"].get(limits.LEFT) if context.request else None
    if left is None:
        return await work
    task, leaving = asyncio.ensure_future(work), asyncio.ensure_future(left.wait())
    try:
        await asyncio.wait([task, leaving], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise Cancelled("the client has left")
        return task.result()
    finally:
        for future in (task, leaving):
            future.cancel()
        await asyncio.gather(task, leaving, return_exceptions=True)


def _describe_tool(tool: Tool, indexes: Sequence[str]) -> types.Tool:
    """Return the description of a tool for a client.

    indexes: the names that its argument may have.
    """
    schema = dict(tool.input_schema)
    properties = dict(schema["properties"])
    if len(indexes) > 1:
        properties["index"] = {**properties["index"], "enum": ["", *indexes]}
    else:
        del properties["index"]
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema={**schema, "properties": properties},
        annotations=types.ToolAnnotations(title=tool.title, read_only_hint=True, open_world_hint=False),
    )


def _progress_reporter(context: RequestContext) -> Report:
    """Return a function that sends news, each kind once."""
    sent: dict[str, None] = {}

    async def report(message: str) -> None:
        if message not in sent:
            sent[message] = None
            await context.session.report_progress(len(sent), message=message)

    return report


def _error_result(message: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=message)], is_error=True)


@contextmanager
def _protocol_errors() -> Iterator[None]:
    """Raise MCPError for a KumiError."""
    try:
        yield
    except KumiError as error:
        raise MCPError(types.INVALID_PARAMS, str(error)) from error


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
        key = scope["state"]["caller"].key  # the owner of a session: others may not use it
        scope["user"] = AuthenticatedUser(AccessToken(token="", client_id=key, scopes=[]))
        assert self._manager  # the application is running
        await self._manager.handle_request(scope, receive, send)


def _find_caller(context: RequestContext) -> Caller:
    """Return the sender of a request, never that of a session."""
    assert context.request  # by HTTP there is one
    return cast(Caller, context.request.state.caller)


def add_mcp(app: FastAPI, workspace: Workspace, settings: ServerSettings) -> None:
    """Add the endpoint to an application, and to its lifespan."""
    endpoint, run_app = McpEndpoint(workspace, settings), app.router.lifespan_context
    app.router.routes.append(Route(PATH, endpoint))

    @asynccontextmanager
    async def run_both(_: FastAPI) -> AsyncIterator[Mapping[str, Any]]:
        async with endpoint.run(), run_app(app) as state:
            yield state or {}

    app.router.lifespan_context = run_both


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
