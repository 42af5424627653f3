"""a request -> Access: which index it may use, in which role, and what it may see."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal, cast, get_args

from fastapi import Depends, Request

from kumihimo.llm.budget import Budget
from kumihimo.server.problems import Forbidden, NotFound
from kumihimo.server.workspace import ServedIndex, Workspace

Role = Literal["reader", "editor", "admin"]  # each may do what the ones before it may
ROLES: tuple[Role, ...] = get_args(Role)


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
    """The sender of a request, as authentication found it: a grant for each index it may use."""

    grants: Mapping[str, Grant]


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


Reader = Annotated[Access, Depends(require("reader"))]
Editor = Annotated[Access, Depends(require("editor"))]
Admin = Annotated[Access, Depends(require("admin"))]
