"""the server -> /health, /ready and /metrics, for those who run it."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, Response

from kumihimo.app.facade import Kumihimo
from kumihimo.core.errors import KumiError
from kumihimo.server.access import Admin
from kumihimo.server.problems import problem_response
from kumihimo.server.workspace import ServedIndex, Workspace

router = APIRouter(tags=["server"])


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
async def ready(workspace: Annotated[Workspace, Depends(find_workspace)]) -> Response:
    """Return 200 if each index can be read or is still empty, else 503."""
    states = [await _read_state(served) for served in workspace.indexes.values()]
    if failures := [state for state in states if state]:
        return problem_response(503, "Not ready", "; ".join(failures), "Look at the log of the server.")
    return JSONResponse({"status": "ready", "indexes": len(states)})


async def _read_state(served: ServedIndex) -> str:
    """Return why an index cannot be read; empty if it can, or has not been built."""
    if not (served.kumi.folder / "index.db").exists():
        return ""
    try:
        await served.questions.run(_read_anything)
    except KumiError as error:
        return f"{served.name}: {error}"
    return ""


def _read_anything(kumi: Kumihimo) -> bool:
    """Open a snapshot. Raise IndexUnavailable if there is none."""
    with kumi.snapshot() as snapshot:
        return bool(snapshot.table("documents"))


@router.get("/metrics")
async def metrics(request: Request, _: Admin) -> Response:
    """Return the metrics in the text format of Prometheus."""
    text: bytes = request.app.state.metrics.render()
    return Response(text, media_type="text/plain; version=0.0.4")
