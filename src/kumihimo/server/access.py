"""a request -> Access: which indexes it may use, in which role, and what it may see and read there."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import Annotated, TypeVar, cast

from fastapi import Depends, Request

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.facade import Kumihimo
from kumihimo.app.upkeep.keys import ROLES, Role
from kumihimo.llm.budget import Budget
from kumihimo.server.events import cancel_on_disconnect
from kumihimo.server.problems import Forbidden, NotFound, Unauthorized
from kumihimo.server.workspace import ServedIndex, Workspace

T = TypeVar("T")


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


@dataclass(slots=True)
class Notes:
    """The indexes and the question of a request, for the audit log."""

    indexes: dict[str, None] = field(default_factory=dict)
    question: str = ""


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of one request: a grant for each index it may use.

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

    def may(self, role: Role) -> bool:
        """Return whether the grant includes a role."""
        return ROLES.index(self.grant.role) >= ROLES.index(role)

    async def read(self, read: Callable[[Snapshot], T]) -> T:
        """Return the result of a read of what the sender may see."""

        def read_with_rights(kumi: Kumihimo) -> T:
            with kumi.snapshot(rights=self.rights) as snapshot:
                return read(snapshot)

        return await self.served.questions.run(read_with_rights)


def find_access(request: Request, name: str = "") -> Access:
    """Return the access to an index.

    Without a name, to the first one that the caller may use.

    Raises NotFound for an index that does not exist, or that the caller may not use.
    """
    return choose_access(request.app.state.workspace, request.state.caller, name)


def choose_access(workspace: Workspace, caller: Caller, name: str = "") -> Access:
    """Return the access of a caller to an index.

    Without a name, to the first one. Raises NotFound as `find_access`.
    """
    found = name or next(iter(usable_names(workspace, caller)), "")
    if found not in caller.grants:
        raise NotFound(f"no index {name!r}: GET /api/v1/indexes lists the names")
    caller.notes.indexes[found] = None
    return Access(workspace.indexes[found], caller.grants[found], caller.notes)


def usable_names(workspace: Workspace, caller: Caller) -> list[str]:
    """Return the indexes that a caller may use, the first one first."""
    return [name for name in workspace.indexes if name in caller.grants]


def usable_indexes(request: Request) -> list[str]:
    """Return the indexes that the sender of a request may use."""
    return usable_names(request.app.state.workspace, request.state.caller)


def check_access(request: Request, role: Role) -> Access:
    """Return the access to the index of an address.

    Raises NotFound as `find_access`, and Forbidden without the role.
    """
    access = find_access(request, request.path_params.get("index_name", ""))
    if not access.may(role):
        raise Forbidden(f"this needs a key with the role {role}: `kumi key new --role {role}` makes one")
    return access


async def read_index(request: Request, access: Access, read: Callable[[Snapshot], T]) -> T:
    """Return the result of a read; a client that leaves ends it."""
    return await cancel_on_disconnect(request, access.read(read))


def require(role: Role) -> Callable[[Request], Awaitable[Access]]:
    """Return a dependency that finds the access for a role."""

    async def find_and_check(request: Request) -> Access:  # a plain function would wait for a thread
        return check_access(request, role)

    return find_and_check


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
        raise Unauthorized("this key is not valid here: it is unknown, or was revoked")
    return Caller(grants, *min(rates, key=itemgetter(1)))


Reader = Annotated[Access, Depends(require("reader"))]
Editor = Annotated[Access, Depends(require("editor"))]
