"""a request -> Access: which index it may use, in which role, and what it may see."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import Annotated, cast

from fastapi import Depends, Request

from kumihimo.app.keys import ROLES, Role
from kumihimo.llm.budget import Budget
from kumihimo.server.problems import Forbidden, NotFound, Unauthorized
from kumihimo.server.workspace import ServedIndex, Workspace


@dataclass(frozen=True, slots=True)
class Grant:
    """What a key allows on one index.

    rights: an expression; only documents that match are visible. key: its id; empty without a key. new_budget: returns
    the budget of one request, which counts for the key.
    """

    role: Role
    rights: str = ""
    key: str = ""
    new_budget: Callable[[], Budget | None] = field(default=lambda: None)


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request: a grant for each index it may use.

    key: its id; empty without a key. requests_per_minute: its rate limit; 0: none.
    """

    grants: Mapping[str, Grant]
    key: str = ""
    requests_per_minute: int = 0


@dataclass(frozen=True, slots=True)
class Access:
    """A served index, and what the sender of the request may do with it."""

    served: ServedIndex
    grant: Grant

    @property
    def rights(self) -> str:
        return self.grant.rights

    def may(self, role: Role) -> bool:
        """Return whether the grant includes a role."""
        return ROLES.index(self.grant.role) >= ROLES.index(role)


def find_access(request: Request, name: str = "") -> Access:
    """Return the access to an index; without a name, to the first one that the caller may use.

    Raises NotFound for an index that does not exist, or that the caller may not use.
    """
    return choose_access(cast(Workspace, request.app.state.workspace), cast(Caller, request.state.caller), name)


def choose_access(workspace: Workspace, caller: Caller, name: str = "") -> Access:
    """Return the access of a caller to an index.

    Without a name, to the first one. Raises NotFound as `find_access`.
    """
    usable = [served for served in workspace.indexes.values() if served.name in caller.grants]
    found = next((served for served in usable if not name or served.name == name), None)
    if found is None:
        raise NotFound(f"no index {name!r}: GET /api/v1/indexes lists the names")
    return Access(found, caller.grants[found.name])


def require(role: Role) -> Callable[[Request], Access]:
    """Return a dependency: the access to the index of the path, for a role."""

    def find_and_check(request: Request) -> Access:
        access = find_access(request, request.path_params.get("index_name", ""))
        if not access.may(role):
            raise Forbidden(f"this needs a key with the role {role}: `kumi key new --role {role}` makes one")
        return access

    return find_and_check


def local_caller(workspace: Workspace) -> Caller:
    """Return a caller without a key: everything is allowed."""
    return Caller(dict.fromkeys(workspace.indexes, Grant("admin")))


def find_caller(workspace: Workspace, digest: bytes) -> Caller:
    """Return what a key may do on each index. Raise Unauthorized for an unknown or revoked key."""
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
Admin = Annotated[Access, Depends(require("admin"))]
