"""the server -> /health, /ready and /metrics, for those who run it."""

import asyncio
import logging
from typing import Annotated, cast

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, Response

from kumihimo.app.facade import Kumihimo
from kumihimo.core.errors import KumiError
from kumihimo.server.access import Caller
from kumihimo.server.problems import Forbidden, problem_response
from kumihimo.server.workspace import ServedIndex, Workspace

router = APIRouter(tags=["server"])
log = logging.getLogger("kumihimo")


def find_workspace(request: Request) -> Workspace:
    """Return the served indexes."""
    workspace: Workspace = request.app.state.workspace
    return workspace


@router.get("/health")
async def health() -> dict[str, str]:
    """Return at once: the process is alive."""
    from importlib.metadata import version

    return {"status": "ok", "version": version("kumihimo")}


@router.get("/ready")
async def ready(request: Request, workspace: Annotated[Workspace, Depends(find_workspace)]) -> Response:
    """Return 200 if each index can be read, else 503.

    It needs no key, and names no index: the log does. However many ask, the indexes are read once at a time.
    """
    state = request.app.state
    if state.reading is None or state.reading.done():
        state.reading = asyncio.create_task(_read_all(workspace, state.unreadable))
    failures, count = await asyncio.shield(state.reading), len(workspace.indexes)
    if failures:
        return problem_response(
            503, "Not ready", f"{failures} of {count} indexes cannot be read", "Look at the log of the server."
        )
    return JSONResponse({"status": "ready", "indexes": count})


async def _read_all(workspace: Workspace, unreadable: dict[str, str]) -> int:
    """Return how many indexes cannot be read.

    unreadable: name -> reason, as it was before; what is new goes to the log.
    """
    before = dict(unreadable)
    unreadable.clear()
    for served in workspace.indexes.values():
        if reason := await _read_state(served):
            unreadable[served.name] = reason
            if before.get(served.name) != reason:
                log.warning("the index %s cannot be read: %s", served.name, reason)
    return len(unreadable)


async def _read_state(served: ServedIndex) -> str:
    """Return why an index cannot be read; empty if it can."""
    if not served.kumi.store.exists():
        return ""
    try:
        await served.questions.run(_read_anything)
    except KumiError as error:
        return str(error)
    return ""


def _read_anything(kumi: Kumihimo) -> bool:
    """Open a snapshot. Raise IndexUnavailable if there is none."""
    with kumi.snapshot() as snapshot:
        return bool(snapshot.table("documents"))


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """Return the metrics in the text format of Prometheus.

    They are of the indexes that the key may administer without a filter; of the whole server, if these are all.
    """
    grants = cast(Caller, request.state.caller).grants
    names = [name for name, grant in grants.items() if grant.role == "admin" and not grant.rights]
    if not names:
        raise Forbidden("this needs a key with the role admin and without a filter: `kumi key new --role admin`")
    text: bytes = request.app.state.metrics.render(names)
    return Response(text, media_type="text/plain; version=0.0.4")
