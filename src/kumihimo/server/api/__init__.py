"""an application -> the routes under /api/v1, of the first index and of each."""

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

from kumihimo.core.errors import SettingsError
from kumihimo.server.api import ask, builds, communities, documents, entities, indexes, state, trace
from kumihimo.server.problems import problem

INDEX_PREFIXES = ("/api/v1", "/api/v1/indexes/{index_name}")  # of the first index, and of each
_MAX_ERRORS = 5


class InvalidRequest(SettingsError):
    """A request with a part that is missing, too long or of the wrong type."""


def include_api(app: FastAPI) -> None:
    """Add the routes of the API, and answer invalid requests with problems."""
    app.state.charges = set()
    app.include_router(indexes.router, prefix=INDEX_PREFIXES[0])
    for module in (ask, builds, communities, documents, entities, state, trace):
        for prefix in INDEX_PREFIXES:
            app.include_router(module.router, prefix=prefix)

    @app.exception_handler(RequestValidationError)
    async def respond(_: Request, error: RequestValidationError) -> JSONResponse:
        return problem(InvalidRequest(describe_invalid(error)))


def describe_invalid(error: RequestValidationError) -> str:
    """Return what is wrong with a request, without repeating its values."""
    parts = [f"{'.'.join(map(str, each['loc'][1:]))}: {each['msg']}".strip(": ") for each in error.errors()]
    return f"{'; '.join(parts[:_MAX_ERRORS])}: see /openapi.json for what this address takes"
