"""a workspace -> the FastAPI application."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import APIRouter, FastAPI

from kumihimo.server import system_routes
from kumihimo.server.metrics import Metrics
from kumihimo.server.problems import add_problem_handlers
from kumihimo.server.security import Guard
from kumihimo.server.sessions import Sessions
from kumihimo.server.settings import ServerSettings
from kumihimo.server.workspace import Workspace

INDEX_PREFIXES = ("/api/v1", "/api/v1/indexes/{index_name}")  # of the first index, and of each


def create_app(workspace: Workspace, settings: ServerSettings | None = None) -> FastAPI:
    """Return the application that serves these indexes; its end closes them."""
    settings = settings or ServerSettings()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await workspace.aclose()

    app = FastAPI(title="Kumihimo", docs_url=None, redoc_url=None, lifespan=lifespan)
    app.state.workspace, app.state.settings = workspace, settings
    app.state.sessions, app.state.metrics = Sessions(), Metrics(workspace)
    add_problem_handlers(app)
    app.include_router(system_routes.router)
    app.add_middleware(Guard, workspace=workspace, settings=settings, sessions=app.state.sessions)
    return app


def include_index_routes(app: FastAPI, router: APIRouter) -> None:
    """Add routes under the address of the first index, and of each index."""
    for prefix in INDEX_PREFIXES:
        app.include_router(router, prefix=prefix)
