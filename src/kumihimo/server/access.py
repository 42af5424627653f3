"""a request -> Access: the index that it may use, by the table of rights, and what it may see and read there."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from inspect import Parameter, Signature, signature
from operator import itemgetter
from typing import Annotated, Any, TypeVar, cast

from fastapi import APIRouter, Depends, Request, Response

from kumihimo.app.ask.query import Query
from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.processes.async_facade import AsyncKumihimo
from kumihimo.app.upkeep.keys import ROLES, Role
from kumihimo.core.errors import describe_unknown
from kumihimo.llm.budget import Budget
from kumihimo.server.problems import NotFound, Unauthorized
from kumihimo.server.responses import JsonResponse, encode_json
from kumihimo.server.rights import RIGHTS, name_of
from kumihimo.server.workspace import ServedIndex, Workspace
from kumihimo.text.translation import suggest_language

T = TypeVar("T")
INVALID_KEY = "this key is not valid here: it is unknown, or was revoked"


@dataclass(frozen=True, slots=True)
class Grant:
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

    grants: Mapping[str, Grant]
    key: str = ""
    requests_per_minute: int = 0
    notes: Notes = field(default_factory=Notes)


@dataclass(frozen=True, slots=True)
class Access:
    """A served index, and what the sender of the request may do with it."""

    served: ServedIndex
    grant: Grant
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
        return JsonResponse(await self.read(lambda snapshot: encode_json(read(snapshot)), table))


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
    return Caller(dict.fromkeys(workspace.indexes, Grant("admin")))


def find_caller(workspace: Workspace, digest: bytes) -> Caller:
    """Return the sender with this key.

    Raises Unauthorized for an unknown or revoked key.
    """
    grants: dict[str, Grant] = {}
    rates: list[tuple[str, int]] = []
    for served in workspace.indexes.values():
        if key := served.keys.find(digest):
            grants[served.name] = Grant(cast(Role, key.role), key.rights, key.id, partial(served.keys.budget, key))
            rates.append((key.id, key.requests_per_minute))
    if not grants:
        raise Unauthorized(INVALID_KEY)
    return Caller(grants, *min(rates, key=itemgetter(1)))


Allowed = Annotated[Access, Depends(find_allowed)]


def read_route(router: APIRouter, path: str, table: str = "") -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Return a decorator that serves what a function reads of a snapshot.

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
