"""requests -> responses of one model server, within its limits: its address and key, and errors with a remedy."""

import json
import logging
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any

from kumihimo.connections import check_connection
from kumihimo.core.errors import ItemFailed, ModelError, RequestRefused, SettingsError
from kumihimo.core.network import MODEL
from kumihimo.core.redaction import redact, register_secret, register_url_secrets
from kumihimo.llm import functions, http_client, wait_notes
from kumihimo.llm.http_client import StatusError
from kumihimo.llm.protocols import FailedTry
from kumihimo.llm.rate_limit import RateLimiter
from kumihimo.llm.response_body import LateReply, error_reason

if TYPE_CHECKING:
    from httpx2 import Response

_MIN_PAUSE = 1.0  # seconds between two requests to a server that was given up
_SHORTER_PROMPT_HINT = "lower budget under [answer] or the method, size under [chunks], or use a model that takes more"
_TOO_LONG = re.compile(r"context[ _](?:length|size|window)|\bn_ctx\b|too large to process", re.I)
log = logging.getLogger("kumihimo")


class Unreachable(FailedTry):
    """A failed connection."""


class ParameterRefused(FailedTry):
    """A request with a parameter that the server does not take; the next one goes without it."""


@dataclass(slots=True)
class ModelServer:
    """A model server and one account on it.

    key: the name of the environment variable that holds the key. timeout: seconds before a silent connection is closed.
    retries: how often a request is repeated. patience: seconds of failures until no request is repeated. workers:
    maximum of requests in flight. api_version: for Azure deployments, else empty. refused_parameters: left out of
    requests. function: answers in place of the server. failing_since: the time of the first failure after the last
    answer. failures: requests in a row that failed after all tries; many of them open the circuit. While it is open,
    one request is sent after each pause, as long as `patience`; an answer closes it. refusals: requests that it has
    refused.
    """

    limiter: RateLimiter
    base_url: str
    key: str
    timeout: float
    retries: int
    patience: float
    workers: int
    api_version: str = ""
    refused_parameters: set[str] = field(default_factory=set)
    function: functions.ModelFunction | None = None
    has_answered: bool = False
    failing_since: float | None = None
    last_failure: float = 0.0  # times of `monotonic`, as are the others
    next_trial: float = 0.0  # of a request while the circuit is open
    is_on_trial: bool = False  # such a request is under way
    failures: int = 0
    refusals: int = 0
    lock: Lock = field(default_factory=Lock)
    notes: wait_notes.WaitNotes = field(default_factory=wait_notes.WaitNotes)

    @property
    def failure_limit(self) -> int:
        """Return how many failed requests in a row open the circuit."""
        return max(8, 2 * self.workers)

    @property
    def is_given_up(self) -> bool:
        """Return whether the circuit is open."""
        return self.failures >= self.failure_limit

    @property
    def url(self) -> str:
        return self.base_url or os.environ.get("OPENAI_BASE_URL", "") or "https://api.openai.com/v1"

    @property
    def display_url(self) -> str:
        """Return the address without secrets, or the name of the function."""
        return self.function.name if self.function else redact(self.url)

    def read_key(self) -> str:
        """Return the key; it is hidden in all text of this process."""
        key = os.environ.get(self.key, "").strip() if self.key else ""
        register_secret(key)
        register_url_secrets(self.url)
        return key

    @property
    def client(self) -> http_client.ModelClient:
        """Return the shared client for this address and key."""
        if self.function:
            raise SettingsError(f"{self.function.name} has no Batch API, which only servers offer: leave out `batch`")
        api_key, address = self.read_key(), check_connection(self.url, MODEL)
        if not api_key and address.hosts == ("api.openai.com",):
            raise SettingsError(
                f"no key for {self.display_url}: put it into the environment as {self.key}, "
                "or name a server that needs none with base_url"
            )
        if not (api_key.isascii() and api_key.isprintable()):
            raise SettingsError(f"{self.key} holds no valid key: it has characters that a key cannot have")
        return http_client.shared_client(self.url, address, api_key or "none", self.api_version, self.timeout)

    def start_patience(self, started: float) -> float:
        """Note a failure, and return the seconds until no request is repeated.

        They count from the first failure after the last answer. started: when the request began; if that was long
        after the last failure, they count from now.
        """
        with self.lock:
            now = monotonic()
            if self.failing_since is None or started - self.last_failure > self.patience:
                self.failing_since = now
            self.last_failure = now
            return self.patience - (now - self.failing_since)

    def count_failure(self, count: int = 1) -> None:
        """Count failed requests; many of them open the circuit."""
        with self.lock:
            self.failures += count
            if self.is_given_up:
                self.limiter.stopped.set()
                self.next_trial = monotonic() + max(self.patience, _MIN_PAUSE)

    @contextmanager
    def _admitted(self) -> Iterator[None]:
        """Admit a request; while the circuit is open, one after each pause."""
        with self.lock:
            on_trial = self.is_given_up
            if on_trial and (self.is_on_trial or monotonic() < self.next_trial):
                raise ItemFailed(f"not asked: {self.display_url} failed {self.failure_limit} times in a row")
            self.is_on_trial = self.is_on_trial or on_trial
        try:
            yield
        finally:
            if on_trial:
                with self.lock:
                    self.is_on_trial = False

    @contextmanager
    def post(self, route: str, body: Mapping[str, Any]) -> "Iterator[Response]":
        """Yield the response to one request.

        Parameters that the server has refused are left out.

        Raises ItemFailed while the circuit is open, FailedTry where another try may succeed, RequestRefused where the
        server rejects this request, ModelError where it rejects every request.
        """
        with self._admitted(), self.explained_errors():
            body = {name: value for name, value in body.items() if name not in self.refused_parameters}
            with self.notes.watch(self.display_url):
                response = self.function.respond(route, body) if self.function else self.send("POST", route, body)
            with closing(response):
                yield response

    def send(self, method: str, route: str, body: Mapping[str, Any] | None = None, **options: Any) -> "Response":
        """Return the response to a request; its body is not read yet.

        Raises StatusError, and our errors where there is no response.
        """
        import httpx2

        client = self.client
        try:
            return client.send(method, route, body, **options)
        except (httpx2.LocalProtocolError, httpx2.InvalidURL, UnicodeError):  # as for a host that no name can be
            raise SettingsError(f"no valid request to {self.display_url}: check base_url and the key") from None
        except (httpx2.ReadTimeout, httpx2.WriteTimeout):
            raise LateReply(f"{self.display_url} did not answer within {self.timeout:g} s", paid=True) from None
        except httpx2.RequestError as error:
            not_sent = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError)
            message = f"{self.display_url} cannot be reached ({redact(str(error))})"
            is_paid = not isinstance(error, (*not_sent, httpx2.UnsupportedProtocol))
            raise Unreachable(message, paid=is_paid) from None

    @contextmanager
    def explained_errors(self) -> Iterator[None]:
        """Raise the errors of requests as ours; note an answer."""
        import httpx2

        try:
            yield
        except StatusError as error:
            raise self._status_error(error) from None  # its response may hold the key
        except httpx2.TimeoutException:
            message = f"{self.display_url} did not finish its answer within {self.timeout:g} s"
            raise LateReply(message, paid=True) from None
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            message = f"{self.display_url} broke off its answer ({redact(str(error))})"
            raise FailedTry(message, paid=True) from None
        self.has_answered = True
        if self.failures or self.failing_since is not None:
            self.close_circuit()

    def close_circuit(self) -> None:
        """Send requests again."""
        with self.lock:
            self.failures, self.failing_since = 0, None
            self.limiter.stopped.clear()

    def _status_error(self, error: StatusError) -> Exception:
        code, message = error.status, f"{self.display_url} says: {_error_message(error)}"
        if code == 402 or (code == 429 and error.code == "insufficient_quota"):
            message = f"{message}: the account has no credit left"
            if not self.has_answered:
                return ModelError(message)
            self.count_failure(self.failure_limit)
            return ItemFailed(message)
        message = f"{message} ({code})"
        if code in (408, 409, 429) or (code >= 500 and not _is_refusal(message)):
            return FailedTry(message, wait=_retry_after(error), rate_limited=code in (429, 503))
        if code == 401 or (code == 403 and not self.has_answered):
            key_remedy = f"is the key in {self.key} the right one for it?"
            return ModelError(f"{message}: {key_remedy if self.key else 'name the variable of a key, `key`'}")
        if 300 <= code < 400:
            return _redirect_error(self.display_url, error)
        if code in (404, 405):
            return ModelError(f"{message}: {_address_remedy(error)}")
        return self._refusal_error(error, message)

    def _refusal_error(self, error: StatusError, message: str) -> Exception:
        """Return the error for a refused request.

        A parameter that the server does not support is left out from now on; otherwise only this request fails.
        """
        if name := _refused_parameter(error):
            self.refused_parameters.add(name)
            log.warning("%s does not take %s: it is left out from now on", self.display_url, name)
            return ParameterRefused(message)
        return refuse(message, error.code)


def _is_refusal(message: str) -> bool:
    """Return whether a server refuses the request, though it says 500.

    llama.cpp does so for a text that is too long, llama-cpp-python for a JSON schema.
    """
    return bool(_TOO_LONG.search(message)) or "response_format" in message


def refuse(message: str, code: str | None = None) -> RequestRefused:
    """Return the error for a refused request.

    It names the remedy for one that is too long.
    """
    is_too_long = _TOO_LONG.search(f"{code} {message}")
    return RequestRefused(f"{message}: {_SHORTER_PROMPT_HINT}" if is_too_long else message)


def reported_error(error: Any) -> FailedTry:
    """Return the error that a server reports in an answer."""
    message = f"the answer broke off: {redact(error_reason(error))[:300]}"
    return FailedTry(message, paid=True, final=refuse(message) if _TOO_LONG.search(message) else None)


def connect_server(settings: Mapping[str, Any]) -> ModelServer:
    """Return the server of a model with these settings."""
    limiter = RateLimiter(settings["requests_per_minute"], settings["tokens_per_minute"], settings["workers"])
    names = ("base_url", "key", "api_version", "timeout", "retries", "patience", "workers")
    server = ModelServer(limiter, **{name: settings[name] for name in names if name in settings})
    server.read_key()
    return server


def _address_remedy(error: StatusError) -> str:
    if "model" in f"{error.code} {_error_message(error)}".lower():
        return "set `model` to one that the server has"
    return f"base_url is the part of the address before {_route(error)}, usually with /v1 at its end"


def _redirect_error(url: str, error: StatusError) -> ModelError:
    target = redact(str(error.response.headers.get("location", "no address")))[:300]
    return ModelError(
        f"{url} sends requests on to {target} ({error.status}), which is not asked: if you trust that address, "
        f"set base_url to its part before {_route(error)}"
    )


def _route(error: StatusError) -> str:
    path = error.response.request.url.path
    return next((route for route in ("/rerank", "/embeddings") if path.endswith(route)), "/chat/completions")


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


def _refused_parameter(error: StatusError) -> str:
    """Return the optional parameter that the server complains about."""
    if "json" not in error.response.request.headers.get("content-type", ""):
        return ""
    request, message = json.loads(error.response.request.content), _error_message(error)
    names = [error.param, *(name for name in OPTIONAL_PARAMETERS if name in message)]
    response_format = request.get("response_format") or {}
    is_unknown = error.code in _UNKNOWN_CODES or any(phrase in message.lower() for phrase in _UNKNOWN_PHRASES)
    is_about_format = is_unknown and any(word in message for word in ("schema", "grammar", "guided"))
    if response_format and ("response_format" in names or is_about_format):
        return "json_schema" if response_format["type"] == "json_schema" else "response_format"
    return next((name for name in names if is_unknown and name in OPTIONAL_PARAMETERS and name in request), "")


def _error_message(error: StatusError) -> str:
    reason = error_reason(error.body) or error.response.reason_phrase or "no reason given"
    return redact(reason)[:300].rstrip(".")  # in this order: half a key is not recognized


def _retry_after(error: StatusError) -> float | None:
    """Return the seconds of the Retry-After header, which may be a date."""
    headers = error.response.headers
    with suppress(KeyError, ValueError):
        return max(0.0, float(headers["retry-after-ms"]) / 1000)
    with suppress(KeyError, ValueError):
        return max(0.0, float(headers["retry-after"]))
    with suppress(KeyError, ValueError, TypeError, OverflowError):
        return max(0.0, (parsedate_to_datetime(headers["retry-after"]) - datetime.now(UTC)).total_seconds())
    return None
