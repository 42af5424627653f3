"""the served indexes -> HTTP: their names, and what the sender may do with each."""

from typing import cast

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from kumihimo.server.access import Caller
from kumihimo.server.workspace import Workspace

router = APIRouter(tags=["indexes"])


@router.get("/indexes")
async def list_indexes(request: Request) -> JSONResponse:
    """List the indexes that the sender may use.

    The first one has the short addresses.
    """
    workspace, caller = cast(Workspace, request.app.state.workspace), cast(Caller, request.state.caller)
    roles = {name: caller.grants[name].role for name in workspace.indexes if name in caller.grants}
    indexes = [{"name": name, "role": role, "address": f"/api/v1/indexes/{name}"} for name, role in roles.items()]
    return JSONResponse({"indexes": indexes})
