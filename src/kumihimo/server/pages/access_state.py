"""a request -> its CSRF token, session and usable indexes."""

from typing import cast

from fastapi import Request

from kumihimo.server.access import Caller
from kumihimo.server.workspace import Workspace


def is_signed_in(request: Request) -> bool:
    return any(grant.key for grant in cast(Caller, request.state.caller).grants.values())


def usable_indexes(request: Request) -> list[str]:
    """Return the names of the indexes that the sender may use."""
    workspace, caller = cast(Workspace, request.app.state.workspace), cast(Caller, request.state.caller)
    return [name for name in workspace.indexes if name in caller.grants]
