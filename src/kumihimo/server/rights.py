"""a route -> the right to use it: the role it needs, and what a key with a filter may do there."""

from dataclasses import dataclass
from typing import Literal

from starlette.types import Scope

from kumihimo.app.upkeep.keys import Role
from kumihimo.server.problems import Forbidden

WithFilter = Literal["visible", "whole", "refused"]

# Parts of what a route does. A response leaves out a part that is not allowed, and a change is refused.
BUILD_PLAN = "POST /api/v1/plan: of a build"
BUILD_DETAILS = "GET /api/v1/builds: names and numbers"
SPENT = "GET /api/v1/usage: what all keys spent"
FACTS = "GET /api/v1/status: paths, sources and sizes"
WHOLE_FILE = "DELETE /api/v1/documents/{id}: with parts that may be hidden"

# The lowest role, empty for anyone without a key; and what a key with a filter may do. `visible`: only documents that
# match exist there, and builds are its own alone. `whole`: the same as without a filter, for no document shows there.
_TABLE: tuple[tuple[Role | Literal[""], WithFilter, str], ...] = (
    ("", "whole", "GET /health"),
    ("", "whole", "GET /ready"),
    ("", "whole", "GET /login"),
    ("", "whole", "POST /login"),
    ("", "whole", "POST /preferences"),
    ("", "whole", "GET /static/{version}/{language}/{name}"),
    ("reader", "whole", "POST /logout"),
    ("reader", "whole", "GET /openapi.json"),
    ("reader", "whole", "GET /api/v1/indexes"),
    ("reader", "whole", "GET /api/v1/methods"),
    ("reader", "whole", "GET /api/v1/usage"),
    ("reader", "whole", "GET /v1/models"),
    ("reader", "whole", "GET /v1/models/{name:path}"),
    ("reader", "whole", "POST /v1/embeddings"),
    ("reader", "whole", "MCP tools/list"),
    ("reader", "whole", "MCP resources/templates/list"),
    ("reader", "visible", "GET /api/v1/status"),
    ("reader", "visible", "GET /api/v1/overview"),
    ("reader", "visible", "GET /api/v1/documents"),
    ("reader", "visible", "GET /api/v1/documents/{id}"),
    ("reader", "visible", "GET /api/v1/documents/{id}/text"),
    ("reader", "visible", "GET /api/v1/trace/{table}/{id:path}"),
    ("reader", "visible", "GET /api/v1/entities"),
    ("reader", "visible", "GET /api/v1/entities/{id}"),
    ("reader", "visible", "GET /api/v1/entities/{id}/relations"),
    ("reader", "visible", "GET /api/v1/entities/{id}/passages"),
    ("reader", "visible", "GET /api/v1/entities/{id}/neighbours"),
    ("reader", "visible", "GET /api/v1/path"),
    ("reader", "visible", "GET /api/v1/communities"),
    ("reader", "visible", "GET /api/v1/communities/{id}"),
    ("reader", "visible", "GET /api/v1/reports"),
    ("reader", "visible", "GET /api/v1/reports/{id}"),
    ("reader", "visible", "POST /api/v1/retrieve"),
    ("reader", "visible", "POST /api/v1/ask"),
    ("reader", "visible", "POST /api/v1/plan"),
    ("reader", "visible", "POST /v1/chat/completions"),
    ("reader", "visible", "POST /mcp"),
    ("reader", "visible", "DELETE /mcp"),
    ("reader", "visible", "MCP tools/call search"),
    ("reader", "visible", "MCP tools/call ask"),
    ("reader", "visible", "MCP tools/call open_citation"),
    ("reader", "visible", "MCP tools/call list_documents"),
    ("reader", "visible", "MCP tools/call entity"),
    ("reader", "visible", "MCP tools/call report"),
    ("reader", "visible", "MCP resources/list"),
    ("reader", "visible", "MCP resources/read"),
    ("reader", "visible", "GET /"),
    ("reader", "visible", "POST /"),
    ("reader", "visible", "GET /overview"),
    ("reader", "visible", "GET /documents"),
    ("reader", "visible", "GET /documents/{id}"),
    ("reader", "visible", "GET /graph"),
    ("reader", "visible", "GET /reports"),
    ("reader", "visible", "GET /reports/{id}"),
    ("reader", "visible", "GET /trace/{table}/{id:path}"),
    ("reader", "visible", "GET /status"),
    ("editor", "visible", "POST /api/v1/documents"),
    ("editor", "visible", "DELETE /api/v1/documents/{id}"),
    ("editor", "visible", "GET /api/v1/builds"),
    ("editor", "visible", "GET /api/v1/builds/{id}"),
    ("editor", "visible", "GET /api/v1/builds/{id}/events"),
    ("editor", "visible", "POST /api/v1/builds/{id}/cancel"),
    ("editor", "visible", "POST /documents"),
    ("editor", "visible", "GET /documents/{id}/delete"),
    ("editor", "visible", "POST /documents/{id}/delete"),
    ("editor", "visible", "POST /builds/{id}/cancel"),
    ("editor", "refused", "POST /api/v1/documents/paths"),
    ("editor", "refused", "POST /api/v1/builds"),
    ("editor", "refused", "POST /builds"),
    ("editor", "refused", BUILD_PLAN),
    ("editor", "refused", BUILD_DETAILS),
    ("editor", "refused", SPENT),
    ("editor", "refused", FACTS),
    ("editor", "refused", WHOLE_FILE),
    ("admin", "refused", "GET /metrics"),
)


@dataclass(frozen=True, slots=True)
class Right:
    """The right that a route needs, or a part of what it does.

    role: the lowest one that has it. with_filter: what a key with a filter may do.
    """

    role: Role | Literal[""]
    with_filter: WithFilter

    def error(self) -> Forbidden:
        """Return the error for a key without this right."""
        filter_part = " and no filter" if self.with_filter == "refused" else ""
        return Forbidden(f"this needs a key with the role {self.role}{filter_part}: `kumi key new --role {self.role}`")


RIGHTS = {route: Right(role, with_filter) for role, with_filter, route in _TABLE}
_OPEN_PATHS = {route.partition(" ")[2].partition("{")[0] for route, right in RIGHTS.items() if not right.role}


def needs_no_key(path: str) -> bool:
    """Return whether anyone may send requests to a path."""
    return path in _OPEN_PATHS or any(path.startswith(start) for start in _OPEN_PATHS if start.endswith("/"))


def route_of(scope: Scope) -> str:
    """Return the path of a route, with names for variable parts."""
    # a route of FastAPI has its prefix apart since 0.16x; one of Starlette is not in the scope
    route = scope.get("fastapi", {}).get("effective_route_context") or scope.get("route")
    is_fixed = "endpoint" in scope and not scope.get("path_params")
    return str(getattr(route, "path", scope["path"] if is_fixed else "none"))


def name_of(scope: Scope) -> str:
    """Return the name of a request's route in the table.

    It is the same for the first index and for an index that the address names.
    """
    return f"{scope['method']} {route_of(scope).replace('/indexes/{index_name}', '')}"
