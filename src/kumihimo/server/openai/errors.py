"""an error -> a response in the shape of OpenAI's API."""

from fastapi.responses import JSONResponse

from kumihimo.core import errors
from kumihimo.server.problems import NotFound, TooManyRequests, headers_of, remedy_of, status_of

_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


class ModelNotFound(NotFound):
    """A name under `/v1/models` that does not exist, or that the caller may not use."""


class BadParameter(errors.SettingsError):
    """A parameter of a request that cannot be used as it is."""

    def __init__(self, message: str, param: str) -> None:
        super().__init__(message)
        self.param = param


def error_body(error: errors.KumiError, status: int) -> dict[str, object]:
    """Return the body of a response for an error, with the remedy."""
    message = f"{error}. {remedy_of(error)}" if status in _TYPES else str(error)
    kind = _TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    param = "model" if isinstance(error, ModelNotFound) else getattr(error, "param", None)
    return {"error": {"message": message, "type": kind, "param": param, "code": _code(error)}}


def openai_error(error: errors.KumiError) -> JSONResponse:
    """Return the response for an error.

    Clients try again only where another try may succeed.
    """
    status = status_of(error)
    may_retry = isinstance(error, errors.IndexBusy | TooManyRequests)
    headers = headers_of(error) if may_retry else {"x-should-retry": "false", **headers_of(error)}
    return JSONResponse(error_body(error, status), status, headers)


def _code(error: errors.KumiError) -> str | None:
    if isinstance(error, ModelNotFound):
        return "model_not_found"
    return "insufficient_quota" if isinstance(error, errors.BudgetExceeded) else None
