"""a workspace -> the FastAPI application, and its description in /openapi.json."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI

from kumihimo.server import access, limits, monitoring, problems, security
from kumihimo.server.api import include_api
from kumihimo.server.mcp.server import add_mcp
from kumihimo.server.monitoring import Metrics, RequestLog
from kumihimo.server.openai.routes import router as openai_router
from kumihimo.server.pages import add_pages
from kumihimo.server.pages.errors import add_error_handlers
from kumihimo.server.sessions import COOKIE, Sessions
from kumihimo.server.settings import ServerSettings
from kumihimo.server.workspace import Workspace

_SCHEMES = {
    "key": {"type": "http", "scheme": "bearer", "description": "A key, from `kumi key new`."},
    "session": {"type": "apiKey", "in": "cookie", "name": COOKIE, "description": "The session of the page."},
}
_TEXT = {"type": "string"}
_PROBLEM = {
    "type": "object",
    "description": "Why a request has failed (RFC 9457), and what its sender can do.",
    "required": ["type", "title", "status", "detail", "remedy"],
    "properties": {"type": _TEXT, "title": _TEXT, "status": {"type": "integer"}, "detail": _TEXT, "remedy": _TEXT},
}
_OPENAI_ERROR = {
    "type": "object",
    "description": "Why a request has failed, as OpenAI's clients expect it.",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": _TEXT,
                "type": _TEXT,
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "null"]},
            },
        }
    },
}
_FAILURES = {  # of every route that needs a key
    "400": "A value of the request is wrong.",
    "401": "The key is missing, unknown or revoked.",
    "403": "The key does not allow this.",
    "404": "There is nothing with this name or id that the key may see.",
    "413": "The request is too large.",
    "429": "There were too many requests, or the budget is used up. `Retry-After` has seconds.",
    "503": "The index cannot be read, or has not been built for this.",
}
_UNUSED = ("HTTPValidationError", "ValidationError")  # of FastAPI, whose errors are problems here


def create_app(workspace: Workspace, settings: ServerSettings | None = None) -> FastAPI:
    """Return the application that serves these indexes; its end closes them."""
    settings = settings or ServerSettings()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await workspace.aclose()

    app = FastAPI(title="Kumihimo", version=version("kumihimo"), docs_url=None, redoc_url=None, lifespan=lifespan)
    app.state.workspace, app.state.settings = workspace, settings
    app.state.sessions, app.state.metrics, app.state.failed_keys = Sessions(), Metrics(workspace), limits.RateLimits()
    app.state.log, app.state.reading, app.state.unreadable = RequestLog(settings), None, {}
    add_error_handlers(app)
    app.include_router(monitoring.router)
    include_api(app)
    app.include_router(openai_router)
    add_mcp(app, workspace, settings)
    add_pages(app)
    describe_app(app)
    app.add_middleware(security.Guard, workspace=workspace, settings=settings, sessions=app.state.sessions)
    return app


def describe_app(app: FastAPI) -> None:
    """Let an application describe its security and its errors too."""
    describe_routes = app.openapi

    def describe() -> dict[str, Any]:
        description = describe_routes()
        components: dict[str, Any] = description.setdefault("components", {})
        if "securitySchemes" not in components:
            components["securitySchemes"] = _SCHEMES
            _add_failures(description, components.setdefault("schemas", {}))
        return description

    app.openapi = describe  # type: ignore[method-assign]


def _add_failures(description: dict[str, Any], schemas: dict[str, Any]) -> None:
    """Add the errors of each operation, and their schemas."""
    for name in _UNUSED:
        schemas.pop(name, None)
    schemas |= {"Problem": _PROBLEM, "OpenAIError": _OPENAI_ERROR}
    description["security"] = [{"key": []}, {"session": []}, {}]  # on loopback, none is needed
    operations = ((path, each) for path, methods in description["paths"].items() for each in methods.values())
    for path, operation in operations:
        responses: dict[str, Any] = operation["responses"]
        responses.pop("422", None)
        failures = {} if access.needs_no_key(path) else _FAILURES
        if access.needs_no_key(path):
            operation["security"] = []
        is_openai = path.startswith("/v1/")
        kind, schema = ("application/json", "OpenAIError") if is_openai else (problems.PROBLEM_TYPE, "Problem")
        content = {kind: {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
        responses |= {status: {"description": text, "content": content} for status, text in failures.items()}
        responses["default"] = {"description": "Another failure.", "content": content}
