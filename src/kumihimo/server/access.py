"""a request -> Access: the index that it may use, by the table of rights, and what it may see and read there."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from inspect import Parameter, Signature, signature
from operator import itemgetter
from typing import Annotated, Any, Literal, TypeVar, cast

from fastapi import APIRouter, Depends, Request, Response
from starlette.types import Scope

from kumihimo.app.ask.query import Query
from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.processes.async_facade import AsyncKumihimo
from kumihimo.app.upkeep.keys import ROLES, Role
from kumihimo.core.errors import describe_unknown
from kumihimo.llm.budget import Budget
from kumihimo.server.problems import Forbidden, NotFound, Unauthorized
from kumihimo.server.responses import JsonResponse, write_json
from kumihimo.server.workspace import ServedIndex, Workspace
from kumihimo.text.translation import suggest_language

T = TypeVar("T")
INVALID_KEY = "this key is not valid here: it is unknown, or was revoked"


@dataclass(frozen=True, slots=True)
class IndexGrant:
    """The rights of a key on one index.

    rights: an expression; only documents that match are visible. key: its id; empty without a key. new_budget: returns
    the budget of one request, which counts for the key.
    """

    role: Role
    rights: str = ""
    key: str = ""
    new_budget: Callable[[], Budget | None] = field(default=lambda: None)

    def allows(self, route: str) -> bool:
        """Return whether the table allows a route, or a part of one."""
        right = RIGHTS[route]
        is_refused = bool(self.rights) and right.with_filter == "refused"
        return not is_refused and ROLES.index(self.role) >= ROLES.index(right.role or ROLES[0])

    def require(self, route: str) -> None:
        """Raise Forbidden unless the table allows a route, or a part."""
        if not self.allows(route):
            raise RIGHTS[route].error()


@dataclass(slots=True)
class Notes:
    """The indexes and the question of a request, for the audit log."""

    indexes: dict[str, None] = field(default_factory=dict)
    question: str = ""


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of one request: a grant for each index it may use, in the order of the server.

    key: its id; empty without a key. requests_per_minute: its rate limit; 0: none.
    """

    grants: Mapping[str, IndexGrant]
    key: str = ""
    requests_per_minute: int = 0
    notes: Notes = field(default_factory=Notes)


@dataclass(frozen=True, slots=True)
class Access:
    """A served index, and what the sender of the request may do with it."""

    served: ServedIndex
    grant: IndexGrant
    notes: Notes = field(default_factory=Notes)

    @property
    def rights(self) -> str:
        return self.grant.rights

    @property
    def questions(self) -> AsyncKumihimo:
        """Return the facade for asyncio, where the keys take turns."""
        return self.served.questions.for_caller(self.grant.key)

    async def read(self, read: Callable[[Snapshot], T], table: str = "") -> T:
        """Return the result of a read of what the sender may see.

        table: the one that is read; it is built first, if that costs nothing.
        """
        if table:
            await self.questions.prepare_method(table)
        return await self.questions.read(read, rights=self.rights)

    def query(self, question: str, method: str = "", **options: Any) -> Query:
        """Return a question of the sender, with its rights and its budget.

        options: as for `Query.of`. Raises SettingsError if it cannot be asked.
        """
        self.notes.question = question
        suggest_language(question)
        own = {"rights": self.rights, "paid_by": self.grant.new_budget(), "is_remote": True}
        return Query.of(question, method, **{**options, **own})

    async def respond(self, read: Callable[[Snapshot], Any], table: str = "") -> JsonResponse:
        """Return the result of a read as a response.

        table: as for `read`.
        """
        return JsonResponse(await self.read(lambda snapshot: write_json(read(snapshot)), table))


def find_access(request: Request, name: str = "", route: str = "") -> Access:
    """Return the access of a request to an index.

    Without a name, to the first one that the caller may use. route: of the table, by default that of the request.
    Raises as `choose_access`.
    """
    return choose_access(request.app.state.workspace, request.state.caller, route or name_of(request.scope), name)


def choose_access(workspace: Workspace, caller: Caller, route: str, name: str = "") -> Access:
    """Return the access of a caller to an index, for a route.

    Without a name, to the first one. Raises NotFound for an index that does not exist, or that the caller may not use,
    and Forbidden without the right.
    """
    found = name or next(iter(caller.grants), "")
    if found not in caller.grants:
        raise NotFound(describe_unknown("index", found, caller.grants))
    caller.notes.indexes[found] = None
    caller.grants[found].require(route)
    return Access(workspace.indexes[found], caller.grants[found], caller.notes)


async def find_allowed(request: Request) -> Access:  # a plain function would wait for a thread
    """Return the access to the index of an address.

    Raises as `choose_access`.
    """
    return find_access(request, request.path_params.get("index_name", ""))


def local_caller(workspace: Workspace) -> Caller:
    """Return a caller without a key: everything is allowed."""
    return Caller(dict.fromkeys(workspace.indexes, IndexGrant("admin")))


def find_caller(workspace: Workspace, digest: bytes) -> Caller:
    """Return the sender with this key.

    Raises Unauthorized for an unknown or revoked key.
    """
    grants: dict[str, IndexGrant] = {}
    rates: list[tuple[str, int]] = []
    for served in workspace.indexes.values():
        if key := served.keys.find(digest):
            grants[served.name] = IndexGrant(cast(Role, key.role), key.rights, key.id, partial(served.keys.budget, key))
            rates.append((key.id, key.requests_per_minute))
    if not grants:
        raise Unauthorized(INVALID_KEY)
    return Caller(grants, *min(rates, key=itemgetter(1)))


Allowed = Annotated[Access, Depends(find_allowed)]


def read_route(router: APIRouter, path: str, table: str = "") -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Return a decorator for functions that read a snapshot: they become routes.

    Its parameters after the snapshot are those of the route. table: as for `Access.read`.
    """

    def add(read: Callable[..., T]) -> Callable[..., T]:
        async def respond(access: Access, **values: Any) -> Response:
            return await access.respond(lambda snapshot: read(snapshot, **values), table)

        own = [Parameter("access", Parameter.KEYWORD_ONLY, annotation=Allowed)]
        own += [each.replace(kind=Parameter.KEYWORD_ONLY) for each in [*signature(read).parameters.values()][1:]]
        respond.__signature__ = Signature(own, return_annotation=Response)  # type: ignore[attr-defined]
        respond.__name__, respond.__doc__ = read.__name__, read.__doc__
        router.get(path)(respond)
        return read

    return add


# -- rights

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
    ("reader", "visible", "POST /v1/responses"),
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
    ("editor", "refused", "GET /api/v1/edits"),
    ("editor", "refused", "POST /api/v1/edits"),
    ("editor", "refused", "POST /edits"),
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
