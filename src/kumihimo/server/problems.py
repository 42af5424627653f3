"""an error -> application/problem+json (RFC 9457) with its remedy, or the same in the shape of OpenAI's API."""

from collections.abc import Mapping
from typing import Any, TypeVar

from fastapi.responses import JSONResponse

from kumihimo.core import errors
from kumihimo.text.translation import find_language, translate

T = TypeVar("T")
PROBLEM_TYPE = "application/problem+json"
INTERNAL = "the server has made a mistake: its log has the details; ask again, and report it if that happens each time"
_OPENAI_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
PROGRAM_PATHS = ("/api/", "/v1/", "/mcp")  # for programs: they get problems, not pages


class NotFound(errors.SettingsError):
    """An unknown name or id, or one that the caller may not see."""


class ModelNotFound(NotFound):
    """A name under `/v1/models` that does not exist, or that the caller may not use."""


class BadParameter(errors.SettingsError):
    """A parameter of a request that cannot be used as it is."""

    def __init__(self, message: str, param: str) -> None:
        super().__init__(message)
        self.param = param


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


class NotStored(errors.KumiError):
    """An upload that the disk of the server does not take."""


class WrongHost(errors.KumiError):
    """A request to a host name that the server does not have."""


class WrongType(errors.KumiError):
    """A request with a body of another type than the route takes."""


# The HTTP status for an error, and the remedy in the words of the HTTP interface; the first class that fits counts.
_RESPONSES: dict[type[errors.KumiError], tuple[int, str]] = {
    NotFound: (404, "List the names and ids first."),
    Forbidden: (403, "Use a key with a higher role, or send the request from this server's own page."),
    Unauthorized: (
        401,
        "Send the header `Authorization: Bearer KEY`. An administrator makes keys with `kumi key new`.",
    ),
    TooManyRequests: (429, "Wait for the seconds in the header Retry-After."),
    TooLarge: (413, "Send less, in several requests."),
    TooSlow: (408, "Send the request again over a faster connection."),
    NotStored: (507, "Send the files again once the server has space for them."),
    WrongHost: (421, "Use the address that the server prints, or start it with `--allow-host NAME`."),
    WrongType: (415, "Send the body as application/json, and files as multipart/form-data."),
    errors.ConsentRequired: (409, 'Ask for a plan, then send the build again with "consent": true.'),
    errors.SettingsError: (400, "Correct the value that the detail names."),
    errors.LimitExceeded: (413, "Correct the path, or upload the file."),
    errors.SourceError: (400, "Correct the path, or upload the file."),
    errors.IndexBusy: (409, "Wait until the running build has ended."),
    errors.IndexUnavailable: (503, "Add documents, or build the index for the method that the detail names."),
    errors.BudgetExceeded: (429, "Wait until the budget is renewed, or ask for a larger one."),
    errors.RequestTimedOut: (504, "Ask again, or raise `timeout` of the model."),
    errors.ItemFailed: (502, "Ask again. If it fails again, look at the model server."),
    errors.ModelError: (502, "Check the address, key and name of the model in kumi.toml."),
    errors.Cancelled: (504, "Ask for less, or start the server with a longer time limit."),
    errors.KumiError: (500, "Send the request again. If it fails again, look at the log of the server."),
}


def status_of(error: errors.KumiError) -> int:
    """Return the HTTP status for an error."""
    return next(status for kind, (status, _) in _RESPONSES.items() if isinstance(error, kind))


def remedy_of(error: errors.KumiError) -> str:
    """Return what the sender can do about an error."""
    return next(remedy for kind, (_, remedy) in _RESPONSES.items() if isinstance(error, kind))


def headers_of(error: errors.KumiError) -> dict[str, str]:
    """Return the headers that say how, or when, to come back."""
    if isinstance(error, TooManyRequests):
        return {"Retry-After": str(max(1, round(error.seconds)))}
    return {"WWW-Authenticate": 'Bearer realm="Kumihimo"'} if isinstance(error, Unauthorized) else {}


def error_response(error: errors.KumiError, path: str, language: str = "en") -> JSONResponse:
    """Return the response for an error of a request to a path."""
    return openai_error(error) if path.startswith("/v1/") else problem(error, language)


def problem(error: errors.KumiError, language: str = "en") -> JSONResponse:
    """Return the problem for an error, with its message in a language."""
    detail = translate(str(error), language)
    return problem_response(status_of(error), type(error).__name__, detail, remedy_of(error), headers_of(error))


def problem_response(
    status: int, title: str, detail: str, remedy: str, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """Return a problem with these fields."""
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail, "remedy": remedy}
    return JSONResponse(body, status, headers=headers, media_type=PROBLEM_TYPE)


def error_body(error: errors.KumiError, status: int) -> dict[str, object]:
    """Return the body of a response for an error, with the remedy."""
    message = f"{error}. {remedy_of(error)}" if status in _OPENAI_TYPES else str(error)
    kind = _OPENAI_TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    param = "model" if isinstance(error, ModelNotFound) else getattr(error, "param", None)
    return {"error": {"message": message, "type": kind, "param": param, "code": _openai_code(error)}}


def openai_error(error: errors.KumiError) -> JSONResponse:
    """Return the response for an error.

    Clients try again only where another try may succeed.
    """
    status = status_of(error)
    may_retry = isinstance(error, errors.IndexBusy | TooManyRequests)
    headers = headers_of(error) if may_retry else {"x-should-retry": "false", **headers_of(error)}
    return JSONResponse(error_body(error, status), status, headers)


def _openai_code(error: errors.KumiError) -> str | None:
    if isinstance(error, ModelNotFound):
        return "model_not_found"
    return "insufficient_quota" if isinstance(error, errors.BudgetExceeded) else None


def accepted_language(headers: Mapping[str, str]) -> str:
    """Return the language that a browser asks for and a catalogue has.

    >>> headers = ("zh-TW;q=0.8, ja;q=0.7", "de", "en;q=0, ja;q=x")
    >>> [accepted_language({"accept-language": header}) for header in headers]
    ['zh-Hant', 'en', 'en']
    """
    weights: dict[str, float] = {}
    for part in headers.get("accept-language", "").split(","):
        name, _, parameters = part.strip().partition(";")
        if language := find_language(name.strip()):
            weights.setdefault(language, _parse_weight(parameters))
    return max((name for name in weights if weights[name]), key=weights.__getitem__, default="en")


def _parse_weight(parameters: str) -> float:
    try:
        return float(parameters.partition("q=")[2] or 1)
    except ValueError:
        return 0.0


def wants_page(path: str, headers: Mapping[str, str]) -> bool:
    """Return whether a person in a browser has sent a request."""
    return not path.startswith(PROGRAM_PATHS) and "text/html" in headers.get("accept", "")


def describe_invalid(problems: Any) -> str:
    """Return which fields of a request are wrong, and why.

    >>> describe_invalid([{"loc": ("body", "question"), "msg": "Field required"}])
    'question: Field required'
    """
    first = list(problems)[:5]
    places = (".".join(str(part) for part in item["loc"][1:]) or str(item["loc"][0]) for item in first)
    return "; ".join(f"{place}: {item['msg']}" for place, item in zip(places, first, strict=True))


def require_row(row: T | None, kind: str, id: str) -> T:
    """Return the row. Raise NotFound if none is visible."""
    if row is None:
        raise NotFound(f"no {kind} {id[:100]!r}: it may have changed since; list them again")
    return row
