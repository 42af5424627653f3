"""a workspace -> the MCP server over it, for any transport."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import mcp_types as types
from mcp.server import Server, ServerRequestContext
from mcp.shared.exceptions import MCPError

from kumihimo.core.errors import BudgetExceeded, Cancelled, KumiError
from kumihimo.server.access import Access, Caller
from kumihimo.server.mcp import resources
from kumihimo.server.mcp.arguments import parse_arguments
from kumihimo.server.mcp.tools import TOOLS, Tool, ToolCall
from kumihimo.server.problems import remedy_of
from kumihimo.server.workspace import Workspace

T = TypeVar("T")
RequestContext = ServerRequestContext[Any, Any]
log = logging.getLogger("kumihimo")
LEFT = "left"  # of the state of a request: an event, set once its sender has gone
INSTRUCTIONS = (
    "Kumihimo answers questions from the user's own documents, with citations. Use ask for an answer, search for the "
    "passages behind it, open_citation to check or read on, report for an overview, entity for a person, place or "
    "thing, list_documents for what there is. Say only what the passages say, and cite them."
)


def create_mcp_server(workspace: Workspace, find_caller: Callable[[RequestContext], Caller]) -> Server[Any]:
    """Return the server of these indexes.

    find_caller: returns the sender of a request, so that each one sees what it may see.
    """
    handlers = _Handlers(workspace, find_caller)
    return Server(
        "kumihimo",
        version=_version(),
        title="Kumihimo",
        instructions=INSTRUCTIONS,
        get_tool_input_schema=lambda name: TOOLS[name].input_schema if name in TOOLS else None,
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_templates,
        on_read_resource=handlers.read_resource,
    )


def _version() -> str:
    from importlib import metadata

    return metadata.version("kumihimo")


class _Handlers:
    """The functions that answer requests."""

    def __init__(self, workspace: Workspace, find_caller: Callable[[RequestContext], Caller]) -> None:
        self.workspace, self.find_caller = workspace, find_caller

    async def list_tools(self, context: RequestContext, _: object) -> types.ListToolsResult:
        """List the tools, with the indexes that the caller may use."""
        names = ToolCall(self.workspace, self.find_caller(context), _ignore).indexes
        return types.ListToolsResult(tools=[_describe_tool(tool, names) for tool in TOOLS.values()])

    async def call_tool(self, context: RequestContext, params: types.CallToolRequestParams) -> types.CallToolResult:
        """Run a tool; an error becomes a result that names the remedy."""
        tool = TOOLS.get(params.name)
        if tool is None:
            raise MCPError(types.INVALID_PARAMS, f"no tool {params.name!r}. Known: {', '.join(TOOLS)}")
        call = ToolCall(self.workspace, self.find_caller(context), _progress_reporter(context))
        try:
            arguments = parse_arguments(tool.argument_adapter, params.arguments or {})
            result = await _until_left(context, tool.run(call, arguments))
            values = tool.result_adapter.dump_python(result, mode="json")
        except BudgetExceeded as error:
            return _error_result(f"{error}. {remedy_of(error)}")
        except KumiError as error:
            return _error_result(str(error))
        except MCPError:
            raise
        except Exception:  # the outermost door of a call: the client gets no details of the server
            log.exception("the tool %s failed", tool.name)
            return _error_result("the server has failed: its log says why")
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=str(result))], structured_content=values
        )

    async def list_resources(
        self, context: RequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """List a page of documents and reports, one index after the other."""
        call = ToolCall(self.workspace, self.find_caller(context), _ignore)
        names = call.indexes
        cursor = (params and params.cursor) or (resources.first_cursor(names[0]) if names else "")
        if not cursor:
            return types.ListResourcesResult(resources=[])
        after = _checked(lambda: resources.parse_cursor(cursor))
        access = _checked(lambda: call.access(after.index))
        found, following = await self._read(context, access, lambda s: resources.list_page(s, after))
        if not following and after.index != names[-1]:
            following = resources.first_cursor(names[names.index(after.index) + 1])
        return types.ListResourcesResult(resources=found, next_cursor=following or None)

    async def list_templates(self, *_: object) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=resources.TEMPLATES)

    async def read_resource(
        self, context: RequestContext, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        """Return the text of a document or of a report."""
        address = _checked(lambda: resources.Address.parse(params.uri))
        call = ToolCall(self.workspace, self.find_caller(context), _ignore)
        access = _checked(lambda: call.access(address.index))
        contents = await self._read(context, access, lambda s: resources.read_resource(s, address))
        return types.ReadResourceResult(contents=[contents])

    async def _read(self, context: RequestContext, access: Access, read: Callable[[Any], T]) -> T:
        """Return a result read from what the caller may see."""

        def run(kumi: Any) -> T:
            with kumi.snapshot(rights=access.rights) as snapshot:
                return read(snapshot)

        try:
            return await _until_left(context, access.served.questions.run(run))
        except KumiError as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from error


async def _until_left(context: RequestContext, work: Awaitable[T]) -> T:
    """Return the result of some work. Raise Cancelled if the client leaves."""
    left = context.request.scope["state"].get(LEFT) if context.request else None
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


def _describe_tool(tool: Tool, indexes: tuple[str, ...]) -> types.Tool:
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
        output_schema=tool.output_schema,
        annotations=types.ToolAnnotations(title=tool.title, read_only_hint=True, open_world_hint=False),
    )


def _progress_reporter(context: RequestContext) -> Callable[[str], Awaitable[None]]:
    """Return a function that sends news, each kind once."""
    sent: dict[str, None] = {}

    async def report(message: str) -> None:
        if message not in sent:
            sent[message] = None
            await context.session.report_progress(len(sent), message=message)

    return report


async def _ignore(_: str) -> None:
    """Send nothing."""


def _error_result(message: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=message)], is_error=True)


def _checked(call: Callable[[], T]) -> T:
    """Return the result of a call. Raise MCPError for a KumiError."""
    try:
        return call()
    except KumiError as error:
        raise MCPError(types.INVALID_PARAMS, str(error)) from error
