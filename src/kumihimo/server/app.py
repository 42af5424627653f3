"""a workspace -> the FastAPI application."""

from fastapi import APIRouter, FastAPI

from kumihimo.server.access import Caller, Grant
from kumihimo.server.mcp.endpoint import add_mcp
from kumihimo.server.openai.routes import router as openai_router
from kumihimo.server.problems import add_problem_handlers
from kumihimo.server.settings import ServerSettings
from kumihimo.server.workspace import Workspace

INDEX_PREFIXES = ("/api/v1", "/api/v1/indexes/{index_name}")  # of the first index, and of each


def create_app(workspace: Workspace, settings: ServerSettings | None = None) -> FastAPI:
    """Return the application that serves these indexes."""
    app = FastAPI(title="Kumihimo", docs_url=None, redoc_url=None)
    app.state.workspace, app.state.settings = workspace, settings or ServerSettings()
    add_problem_handlers(app)
    app.include_router(openai_router)
    add_mcp(app, workspace, app.state.settings)
    return app


def include_index_routes(app: FastAPI, router: APIRouter) -> None:
    """Add routes under the address of the first index, and of each index."""
    for prefix in INDEX_PREFIXES:
        app.include_router(router, prefix=prefix)


def local_caller(workspace: Workspace) -> Caller:
    """Return a caller without a key: everything is allowed."""
    return Caller(dict.fromkeys(workspace.indexes, Grant("admin")))
