"""an error -> application/problem+json (RFC 9457) with its remedy."""

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from kumihimo.core import errors

PROBLEM_TYPE = "application/problem+json"


class NotFound(errors.SettingsError):
    """A name or id that does not exist, or that the caller may not see."""


class Forbidden(errors.KumiError):
    """A request beyond the role of its key."""


_STATUSES: dict[type[errors.KumiError], int] = {  # the first class that fits counts
    NotFound: 404,
    Forbidden: 403,
    errors.ConsentRequired: 409,
    errors.SettingsError: 400,
    errors.LimitExceeded: 413,
    errors.SourceError: 400,
    errors.IndexBusy: 409,
    errors.IndexUnavailable: 503,
    errors.BudgetExceeded: 429,
    errors.RequestTimedOut: 504,
    errors.ItemFailed: 502,
    errors.ModelError: 502,
    errors.Cancelled: 504,
}


def status_of(error: errors.KumiError) -> int:
    """Return the HTTP status for an error."""
    return next((status for kind, status in _STATUSES.items() if isinstance(error, kind)), 500)


def problem(error: errors.KumiError, path: str = "") -> JSONResponse:
    """Return the response for an error.

    path: of the request; clients of `/v1` expect another form.
    """
    if path.startswith("/v1/"):
        from kumihimo.server.openai.errors import error_response  # here: it imports this module

        return error_response(error)
    status = status_of(error)
    body = {"type": "about:blank", "title": type(error).__name__, "status": status, "detail": str(error)}
    return JSONResponse(body, status, media_type=PROBLEM_TYPE)


def add_problem_handlers(app: FastAPI) -> None:
    """Answer each KumiError of a route with a problem."""

    @app.exception_handler(errors.KumiError)
    async def respond(request: Request, error: errors.KumiError) -> JSONResponse:
        return problem(error, request.url.path)
