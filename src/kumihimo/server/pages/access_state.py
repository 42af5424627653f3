"""a request -> the session of its browser, and the indexes that its sender may use."""

from typing import cast

from fastapi import Request

from kumihimo.server.access import Caller
from kumihimo.server.sessions import cookie_name
from kumihimo.server.workspace import Workspace


def is_signed_in(request: Request) -> bool:
    """Return whether the browser has the session of a key."""
    caller = cast(Caller, request.state.caller)
    return bool(caller.key) and cookie_name(request) in request.cookies


def usable_indexes(request: Request) -> list[str]:
    """Return the names of the indexes that the sender may use."""
    workspace, caller = cast(Workspace, request.app.state.workspace), cast(Caller, request.state.caller)
    return [name for name in workspace.indexes if name in caller.grants]
