"""an error -> application/problem+json (RFC 9457) with its remedy."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from kumihimo.core import errors
from kumihimo.server.languages import accepted_language
from kumihimo.text.translation import translate

PROBLEM_TYPE = "application/problem+json"
PROGRAM_PATHS = ("/api/", "/v1/", "/mcp")  # for programs: they get problems, not pages


class NotFound(errors.SettingsError):
    """An unknown name or id, or one that the caller may not see."""


class InvalidRequest(errors.SettingsError):
    """A request with a part that is missing, too long or of the wrong type."""


class Forbidden(errors.KumiError):
    """A request beyond the role of its key, or from a foreign page."""


class Unauthorized(errors.KumiError):
    """A request without a valid key."""


class TooManyRequests(errors.KumiError):
    """A request beyond a rate limit. seconds: until the next one may come."""

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


class TooLarge(errors.KumiError):
    """A request with more bytes, headers or items than the server takes."""


class TooSlow(errors.KumiError):
    """A request whose body arrives too slowly."""


class WrongHost(errors.KumiError):
    """A request to a host name that the server does not have."""


class WrongType(errors.KumiError):
    """A request with a body of another type than the route takes."""


_STATUSES: dict[type[errors.KumiError], int] = {  # the first class that fits counts
    NotFound: 404,
    Forbidden: 403,
    Unauthorized: 401,
    TooManyRequests: 429,
    TooLarge: 413,
    TooSlow: 408,
    WrongHost: 421,
    WrongType: 415,
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
_REMEDIES: dict[type[errors.KumiError], str] = {  # in the words of the HTTP interface
    NotFound: "List the names and ids first.",
    Forbidden: "Use a key with a higher role, or send the request from this server's own page.",
    Unauthorized: "Send the header `Authorization: Bearer KEY`. An administrator makes keys with `kumi key new`.",
    TooManyRequests: "Wait for the seconds in the header Retry-After.",
    TooLarge: "Send less, in several requests.",
    TooSlow: "Send the request again over a faster connection.",
    WrongHost: "Use the address that the server prints, or start it with `--allow-host NAME`.",
    WrongType: "Send the body as application/json, and files as multipart/form-data.",
    errors.ConsentRequired: 'Ask for a plan, then send the build again with "consent": true.',
    errors.SettingsError: "Correct the value that the detail names.",
    errors.SourceError: "Correct the path, or upload the file.",
    errors.IndexBusy: "Wait until the running build has ended.",
    errors.IndexUnavailable: "Add documents, or build the index for the method that the detail names.",
    errors.BudgetExceeded: "Wait until the budget is renewed, or ask for a larger one.",
    errors.RequestTimedOut: "Ask again, or raise `timeout` of the model.",
    errors.ItemFailed: "Ask again. If it fails again, look at the model server.",
    errors.ModelError: "Check the address, key and name of the model in kumi.toml.",
    errors.Cancelled: "Ask for less, or start the server with a longer time limit.",
    errors.KumiError: "Send the request again. If it fails again, look at the log of the server.",
}


def status_of(error: errors.KumiError) -> int:
    """Return the HTTP status for an error."""
    return next((status for kind, status in _STATUSES.items() if isinstance(error, kind)), 500)


def remedy_of(error: errors.KumiError) -> str:
    """Return what the sender can do about an error."""
    return next((remedy for kind, remedy in _REMEDIES.items() if isinstance(error, kind)), "")


def problem(error: errors.KumiError, path: str = "", language: str = "en") -> Response:
    """Return the response for an error.

    path: of the request; clients of `/v1` expect another form. language: of the message.
    """
    headers = {}
    if isinstance(error, Unauthorized):
        headers["WWW-Authenticate"] = 'Bearer realm="Kumihimo"'
    if isinstance(error, TooManyRequests):
        headers["Retry-After"] = str(max(1, round(error.seconds)))
    if path.startswith("/v1/"):
        from kumihimo.server.openai.errors import error_response  # here: it imports this module

        response = error_response(error)
        response.headers.update(headers)
        return response
    detail = translate(str(error), language)
    return problem_response(status_of(error), type(error).__name__, detail, remedy_of(error), headers)


def problem_response(
    status: int, title: str, detail: str, remedy: str, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """Return a problem with these fields."""
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail, "remedy": remedy}
    return JSONResponse(body, status, headers=headers, media_type=PROBLEM_TYPE)


def add_problem_handlers(app: FastAPI) -> None:
    """Answer each error of a route with a problem.

    Other exceptions are for `Guard`.
    """

    @app.exception_handler(errors.KumiError)
    async def respond(request: Request, error: errors.KumiError) -> Response:
        language = accepted_language(request.headers.get("accept-language", ""))
        return problem(error, request.url.path, language)

    @app.exception_handler(RequestValidationError)
    async def respond_invalid(request: Request, error: RequestValidationError) -> Response:
        return problem(InvalidRequest(describe_invalid(error.errors())), request.url.path)

    @app.exception_handler(HTTPException)
    async def respond_http(request: Request, error: HTTPException) -> Response:
        if error.status_code == 404 and wants_page(request.url.path, request.headers):
            from kumihimo.server.pages.errors import error_page  # here: it imports this module

            return error_page(request, 404, f"there is no page at {request.url.path}: begin at the start")
        if error.status_code == 404:
            return problem(NotFound(f"there is nothing at {request.url.path}: see /openapi.json"), request.url.path)
        title = HTTPStatus(error.status_code).phrase
        return problem_response(error.status_code, title, str(error.detail), "See /openapi.json.", error.headers)


def wants_page(path: str, headers: Mapping[str, str]) -> bool:
    """Return whether a person in a browser has sent a request."""
    return not path.startswith(PROGRAM_PATHS) and "text/html" in headers.get("accept", "")


def unexpected_problem() -> JSONResponse:
    """Return the response for an exception; its reason is not shown."""
    detail = "the server failed in a way that was not foreseen: its log has the reason"
    return problem_response(500, "Internal Server Error", detail, "Tell the administrator of this server.")


def describe_invalid(problems: Any) -> str:
    """Return which fields of a request are wrong, and why.

    >>> describe_invalid([{"loc": ("body", "question"), "msg": "Field required"}])
    'question: Field required'
    """
    first = list(problems)[:5]
    places = (".".join(str(part) for part in item["loc"][1:]) or str(item["loc"][0]) for item in first)
    return "; ".join(f"{place}: {item['msg']}" for place, item in zip(places, first, strict=True))
