"""a workspace -> the FastAPI application."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI

from kumihimo.server import system_routes
from kumihimo.server.api import include_api
from kumihimo.server.mcp.endpoint import add_mcp
from kumihimo.server.metrics import Metrics
from kumihimo.server.openai.routes import router as openai_router
from kumihimo.server.openapi import describe_app
from kumihimo.server.pages import add_pages
from kumihimo.server.problems import add_problem_handlers
from kumihimo.server.rate_limits import RateLimits
from kumihimo.server.security import Guard
from kumihimo.server.sessions import Sessions
from kumihimo.server.settings import ServerSettings
from kumihimo.server.workspace import Workspace


def create_app(workspace: Workspace, settings: ServerSettings | None = None) -> FastAPI:
    """Return the application that serves these indexes; its end closes them."""
    settings = settings or ServerSettings()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await workspace.aclose()

    app = FastAPI(title="Kumihimo", version=version("kumihimo"), docs_url=None, redoc_url=None, lifespan=lifespan)
    app.state.workspace, app.state.settings = workspace, settings
    app.state.sessions, app.state.metrics, app.state.failed_keys = Sessions(), Metrics(workspace), RateLimits()
    app.state.reading, app.state.unreadable = None, {}
    add_problem_handlers(app)
    app.include_router(system_routes.router)
    include_api(app)
    app.include_router(openai_router)
    add_mcp(app, workspace, settings)
    add_pages(app)
    describe_app(app)
    app.add_middleware(Guard, workspace=workspace, settings=settings, sessions=app.state.sessions)
    return app
