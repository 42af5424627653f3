"""requests -> responses of one model server, within its limits: its address and key, and errors with a remedy."""

import json
import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from threading import Event, Lock, Semaphore
from time import monotonic
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from kumihimo.core.errors import ItemFailed, ModelError, RequestRefused, SettingsError
from kumihimo.llm.protocols import FailedTry, Q, R

if TYPE_CHECKING:
    from httpx2 import Response
    from openai import APIConnectionError, APIStatusError, OpenAI


class RateLimiter:
    """A rate limiter for the requests to one server.

    It spaces them evenly, and pauses them all when the server asks for it. Limits are per minute; 0: no limit.
    The tokens of a prompt are a guess until the server has counted them. slots: for the requests in flight.
    """

    def __init__(self, requests: int = 0, tokens: int = 0, in_flight: int = 8) -> None:
        self.slots = Semaphore(in_flight)
        self._request_interval = 60 / requests if requests else 0.0
        self._token_interval = 60 / tokens if tokens else 0.0
        self._next_request = self._next_tokens = self._paused_until = 0.0  # times of `monotonic`
        self._lock = Lock()
        self.stopped = Event()  # set: all waiting threads wake up, and no request waits

    def wait(self, tokens: int) -> None:
        """Wait until a request with this many tokens may go.

        Return at once while `stopped` is set.
        """
        send_at = -1.0
        while send_at < self._paused_until:  # a new pause puts the request back into the queue
            with self._lock:
                send_at = max(monotonic(), self._next_request, self._next_tokens, self._paused_until)
                self._next_request = send_at + self._request_interval
                self._next_tokens = send_at + tokens * self._token_interval
            if (remaining := send_at - monotonic()) > 0 and self.stopped.wait(remaining):
                return

    def correct(self, guessed: int, counted: int) -> None:
        """Correct the guessed tokens of a request; later ones move accordingly."""
        with self._lock:
            self._next_tokens += (counted - guessed) * self._token_interval

    def pause(self, seconds: float) -> None:
        """Pause all requests for this many seconds."""
        self._paused_until = max(self._paused_until, monotonic() + seconds)


def rate_limited(send: Callable[[Q], R], limiter: RateLimiter) -> Callable[[Q], R]:
    """Return `send` behind a rate limiter."""

    def wait_and_send(request: Q) -> R:
        guessed_tokens = request.size // 4
        limiter.wait(guessed_tokens)
        with limiter.slots:
            reply = send(request)
        limiter.correct(guessed_tokens, reply.usage.tokens)
        return reply

    return wait_and_send


OPENAI_URL = "https://api.openai.com/v1"
_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1", "0.0.0.0")
# The header of the SDK's `with_streaming_response`, which exists for its own routes only. The SDK then leaves the body
# to us, and we stop reading a body that arrives too slowly.
_STREAM_HEADERS = {"X-Stainless-Raw-Response": "stream"}
_SHORTER_PROMPT_HINT = "lower budget under [answer] or the method, size under [chunks], or use a model that takes more"
log = logging.getLogger("kumihimo")
_client_lock = Lock()


class Unreachable(FailedTry):
    """A failed connection."""


class ParameterRefused(FailedTry):
    """A request with a parameter that the server does not take; the next one goes without it."""


@dataclass(slots=True)
class ModelServer:
    """A model server and one account on it.

    key: the name of the environment variable that holds the key. timeout: seconds before a silent connection is closed.
    retries: how often a request is repeated. workers: maximum of requests in flight. api_version: for Azure
    deployments, else empty. refused_parameters: left out of requests. failures: requests in a row that failed after all
    tries; many of them open the circuit. refusals: requests that it has refused.
    """

    limiter: RateLimiter
    base_url: str
    key: str
    timeout: float
    retries: int
    workers: int
    api_version: str = ""
    refused_parameters: set[str] = field(default_factory=set)
    has_answered: bool = False
    failures: int = 0
    refusals: int = 0
    lock: Lock = field(default_factory=Lock)

    @property
    def failure_limit(self) -> int:
        """Return how many failed requests in a row open the circuit."""
        return max(8, 2 * self.workers)

    @property
    def url(self) -> str:
        return self.base_url or os.environ.get("OPENAI_BASE_URL", "") or OPENAI_URL

    @property
    def display_url(self) -> str:
        """Return the address without a password."""
        return re.sub(r"//[^/@]*@", "//", self.url)

    @property
    def client(self) -> "OpenAI":
        """Return the shared client for this address and key."""
        host = _host(self.url)
        if os.environ.get("KUMI_OFFLINE", "0") not in ("", "0") and host not in _LOCAL_HOSTS:
            remedy = "unset it, or use a server on this machine"
            raise ModelError(f"KUMI_OFFLINE is set, so {self.display_url} is not asked: {remedy}")
        api_key = os.environ.get(self.key, "").strip() if self.key else ""
        if not api_key and host == _host(OPENAI_URL):
            raise SettingsError(
                f"no key for {self.display_url}: put it into the environment as {self.key}, "
                "or name a server that needs none with base_url"
            )
        if not (api_key.isascii() and api_key.isprintable()):
            raise SettingsError(f"{self.key} holds no valid key: it has characters that a key cannot have")
        with _client_lock:
            return _create_client(self.url, api_key or "none", self.api_version, self.timeout)

    @contextmanager
    def post(self, route: str, body: Mapping[str, Any]) -> "Iterator[Response]":
        """Yield the response to one request.

        Parameters that the server has refused are left out.

        Raises ItemFailed while the circuit is open, FailedTry where another try may succeed, RequestRefused where the
        server rejects this request, ModelError where it rejects every request.
        """
        import httpx2
        import openai

        if self.failures >= self.failure_limit:
            raise ItemFailed(f"not asked: {self.display_url} failed {self.failure_limit} times in a row")
        client = self.client
        body = {name: value for name, value in body.items() if name not in self.refused_parameters}
        try:
            response = client.post(route, cast_to=httpx2.Response, body=body, options={"headers": _STREAM_HEADERS})
            with closing(response):
                yield response
        except openai.APIStatusError as error:
            raise self._status_error(error) from error
        except openai.APIConnectionError as error:
            raise self._connection_error(error) from None  # its cause may hold the key
        except httpx2.TimeoutException as error:
            message = f"{self.display_url} did not finish its answer within {self.timeout:g} s"
            raise FailedTry(message, paid=True) from error
        except (httpx2.HTTPError, httpx2.StreamError, openai.APIError) as error:
            raise FailedTry(f"{self.display_url} broke off its answer ({error})", paid=True) from error
        self.has_answered = True
        if self.failures:
            self.close_circuit()

    def close_circuit(self) -> None:
        """Send requests again."""
        with self.lock:
            self.failures = 0
            self.limiter.stopped.clear()

    def _connection_error(self, error: "APIConnectionError") -> Exception:
        import httpx2

        if isinstance(error.__cause__, httpx2.LocalProtocolError):
            return SettingsError(f"no valid request to {self.display_url}: check base_url and the key")
        if isinstance(error.__cause__, httpx2.ReadTimeout):
            return FailedTry(f"{self.display_url} did not answer within {self.timeout:g} s", paid=True)
        return Unreachable(f"{self.display_url} cannot be reached ({error.__cause__ or error})")

    def _status_error(self, error: "APIStatusError") -> Exception:
        code, message = error.status_code, f"{self.display_url} says: {_error_message(error)}"
        if code == 402 or (code == 429 and error.code == "insufficient_quota"):
            message = f"{message}: the account has no credit left"
            if not self.has_answered:
                return ModelError(message)
            with self.lock:
                self.failures = self.failure_limit
            return ItemFailed(message)
        message = f"{message} ({code})"
        if code in (408, 409, 429) or code >= 500:
            return FailedTry(message, wait=_retry_after(error), rate_limited=code in (429, 503))
        if code == 401 or (code == 403 and not self.has_answered):
            key_remedy = f"is the key in {self.key} the right one for it?"
            return ModelError(f"{message}: {key_remedy if self.key else 'name the variable of a key, `key`'}")
        if code in (404, 405) or 300 <= code < 400:
            return ModelError(f"{message}: {_address_remedy(error)}")
        return self._refusal_error(error, message)

    def _refusal_error(self, error: "APIStatusError", message: str) -> Exception:
        """Return the error for a refused request.

        A parameter that the server does not support is left out from now on; otherwise only this request fails.
        """
        if name := _refused_parameter(error):
            self.refused_parameters.add(name)
            log.warning("%s does not take %s: it is left out from now on", self.display_url, name)
            return ParameterRefused(message)
        if error.code == "context_length_exceeded" or "context" in message:
            return RequestRefused(f"{message}: {_SHORTER_PROMPT_HINT}")
        return RequestRefused(message)


def connect_server(settings: Mapping[str, Any]) -> ModelServer:
    """Return the server of a model with these settings.

    Raises SettingsError for values out of bounds.
    """
    for name, minimum in {"workers": 1, "retries": 0, "requests_per_minute": 0, "tokens_per_minute": 0}.items():
        if settings[name] < minimum:
            raise SettingsError(f"{name} is at least {minimum}, not {settings[name]}")
    if settings["timeout"] <= 0:
        raise SettingsError(f"timeout is more than 0 seconds, not {settings['timeout']:g}")
    limiter = RateLimiter(settings["requests_per_minute"], settings["tokens_per_minute"], settings["workers"])
    names = ("base_url", "key", "api_version", "timeout", "retries", "workers")
    return ModelServer(limiter, **{name: settings[name] for name in names if name in settings})


def _address_remedy(error: "APIStatusError") -> str:
    if "model" in f"{error.code} {_error_message(error)}".lower():
        return "set `model` to one that the server has"
    route = "/rerank" if error.request.url.path.endswith("/rerank") else "/chat/completions"
    return f"base_url is the part of the address before {route}, usually with /v1 at its end"


OPTIONAL_PARAMETERS = (  # left out where a server refuses them
    "response_format",
    "temperature",
    "max_tokens",
    "max_completion_tokens",
    "reasoning_effort",
    "stream_options",
    "encoding_format",
    "top_n",
)
_UNKNOWN_CODES = ("unsupported_parameter", "unsupported_value", "unknown_parameter")
_UNKNOWN_PHRASES = (
    "not support",
    "unsupported",
    "unknown",
    "unrecognized",
    "not permitted",
    "not available",
    "grammar",
)


def _refused_parameter(error: "APIStatusError") -> str:
    """Return the optional parameter that the server complains about."""
    request, message = json.loads(error.request.content), _error_message(error)
    if error.code not in _UNKNOWN_CODES and not any(word in message.lower() for word in _UNKNOWN_PHRASES):
        return ""
    names = [error.param, *(name for name in OPTIONAL_PARAMETERS if name in message)]
    response_format = request.get("response_format") or {}
    is_about_format = "response_format" in names or any(word in message for word in ("schema", "grammar", "guided"))
    if response_format and is_about_format:
        return "json_schema" if response_format["type"] == "json_schema" else "response_format"
    return next((name for name in names if name in OPTIONAL_PARAMETERS and name in request), "")


def read_json_body(pieces: Iterable[bytes], timeout: float) -> Any:
    """Return the JSON of a response body.

    A body that is no object, such as a bare list, becomes the `data` of one. Raises FailedTry where the body takes
    longer than `timeout`, or is no JSON.
    """
    deadline, body = monotonic() + timeout, b""
    for piece in pieces:
        body += piece
        if monotonic() > deadline:
            raise FailedTry(f"the answer did not come within {timeout:g} s", paid=True)
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise garbled_error() from error
    return value if isinstance(value, dict) else {"data": value}


def garbled_error() -> FailedTry:
    return FailedTry("the answer is not what a model server answers: is base_url right?", paid=True)


@cache
def _host(url: str) -> str:
    """Return the host of an address. Raise SettingsError for anything else."""
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and parts.hostname and (parts.port or True)
    except ValueError:
        is_address = False
    if not is_address:
        raise SettingsError(f"base_url {url!r} is no address: write it like http://localhost:11434/v1")
    return str(parts.hostname)


@cache
def _create_client(url: str, api_key: str, api_version: str, timeout: float) -> "OpenAI":
    import httpx2
    import openai

    timeouts = httpx2.Timeout(timeout, connect=min(timeout, 10.0))
    options: dict[str, Any] = {"api_key": api_key, "max_retries": 0, "timeout": timeouts}
    if api_version:
        return openai.AzureOpenAI(azure_endpoint=url, api_version=api_version, **options)
    return openai.OpenAI(base_url=url, **options)


def _error_message(error: "APIStatusError") -> str:
    body = error.body if isinstance(error.body, Mapping) else {}
    detail = body.get("message") or body.get("detail") or body.get("error")
    return " ".join(str(detail or error.response.reason_phrase or "no reason given").split())[:300].rstrip(".")


def _retry_after(error: "APIStatusError") -> float | None:
    """Return the seconds of the Retry-After header, which may be a date."""
    headers = error.response.headers
    with suppress(KeyError, ValueError):
        return max(0.0, float(headers["retry-after-ms"]) / 1000)
    with suppress(KeyError, ValueError):
        return max(0.0, float(headers["retry-after"]))
    with suppress(KeyError, ValueError, TypeError):
        return max(0.0, (parsedate_to_datetime(headers["retry-after"]) - datetime.now(UTC)).total_seconds())
    return None
