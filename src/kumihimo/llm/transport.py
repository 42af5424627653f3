"""requests -> responses of one model server: rate limits, retries, and errors with a remedy."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from threading import Lock, Semaphore
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from kumihimo.core.errors import ItemFailed, ModelError, RequestRefused, SettingsError
from kumihimo.core.usage import Usage
from kumihimo.llm.protocols import Charge, Reserve
from kumihimo.llm.rate_limit import RateLimiter

if TYPE_CHECKING:
    from openai import APIStatusError, OpenAI

T = TypeVar("T")

OPENAI_URL = "https://api.openai.com/v1"
_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1", "0.0.0.0")
_MAX_WAIT = 120.0  # seconds; a request fails if the server asks for more
_RATE_LIMIT_FACTOR = 4  # more retries where the server only limits the rate
log = logging.getLogger("kumihimo")


class RetryableError(Exception):
    """A failure that may pass on a retry.

    paid: the server may have charged for it. wait: the pause that the server asks for, in seconds.
    rate_limited: the server had too many requests.
    """

    def __init__(
        self, message: str, *, paid: bool = False, wait: float | None = None, rate_limited: bool = False
    ) -> None:
        super().__init__(message)
        self.paid, self.wait, self.rate_limited = paid, wait, rate_limited


@dataclass(slots=True)
class ModelServer:
    """A model server and one account on it.

    key: the name of the environment variable that holds the key. api_version: for Azure deployments, else empty.
    timeout: seconds before a silent connection is closed. retries: how often a request is repeated.
    """

    base_url: str
    key: str
    api_version: str
    timeout: float
    retries: int
    rate_limiter: RateLimiter
    workers: int
    refused_parameters: set[str] = field(default_factory=set)  # left out of later requests
    _has_answered: bool = False
    _refusal_count: int = 0
    _failures: int = 0  # in a row
    _lock: Lock = field(default_factory=Lock)
    _slots: Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._slots = Semaphore(self.workers)

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
    def is_openai(self) -> bool:
        """Return whether it is OpenAI's own server."""
        return _host(self.url) == _host(OPENAI_URL)

    @property
    def client(self) -> OpenAI:
        """Return the shared client for this address and key."""
        host = _host(self.url)
        if os.environ.get("KUMI_OFFLINE", "0") not in ("", "0") and host not in _LOCAL_HOSTS:
            raise ModelError(
                f"KUMI_OFFLINE is set, so {self.display_url} is not asked: unset it, or use a server on this machine"
            )
        api_key = os.environ.get(self.key, "").strip() if self.key else ""
        if not api_key and self.is_openai:
            raise SettingsError(
                f"no key for {self.display_url}: put it into the environment as {self.key}, "
                "or name a server that needs none with base_url"
            )
        if not (api_key.isascii() and api_key.isprintable()):
            raise SettingsError(f"{self.key} holds no valid key: it has characters that a key cannot have")
        return _client(self.url, api_key or "none", self.api_version, self.timeout)

    def send(self, request: Callable[[OpenAI, Charge], T], *, reserve: Reserve, size: int, lost_usage: Usage) -> T:
        """Return the result of the request, after retries if needed.

        The pauses between retries grow.
        size: bytes of the prompt. lost_usage: the estimated usage of an answer that breaks off.

        Raises ItemFailed when retries do not help, RequestRefused where the server rejects this request, ModelError
        where it rejects every request.
        """
        client, tries, dropped = self.client, 0, 0
        while True:
            self.rate_limiter.wait(size // 4)
            self._check_circuit()
            try:
                with self._slots:
                    return self._send_once(client, request, reserve, size, lost_usage)
            except _ResendWithout as refusal:
                dropped += 1
                if dropped > len(_OPTIONAL_PARAMETERS):
                    raise RequestRefused(str(refusal)) from refusal
            except RequestRefused as refusal:
                raise self._all_refused_error(refusal) or refusal from refusal
            except RetryableError as failure:
                tries += 1
                if tries > self._max_tries(failure) or (failure.wait or 0) > _MAX_WAIT:
                    raise self._failure_error(failure, tries) from failure
                self._back_off(failure, tries)

    def _max_tries(self, failure: RetryableError) -> int:
        """Return how often a retry is worthwhile."""
        if isinstance(failure, _Unreachable) and not self._has_answered:
            return min(self.retries, 2)
        return self.retries * (_RATE_LIMIT_FACTOR if failure.rate_limited else 1)

    def reset_circuit(self) -> None:
        """Close the circuit: send requests again."""
        with self._lock:
            self._failures = 0
            self.rate_limiter.resume()

    def _send_once(
        self, client: OpenAI, request: Callable[[OpenAI, Charge], T], reserve: Reserve, size: int, lost_usage: Usage
    ) -> T:
        started = monotonic()
        with reserve(size) as charge:
            try:
                with self._translate_errors():
                    result = request(client, charge)
            except RetryableError as failure:
                if failure.paid:
                    charge(replace(lost_usage, seconds=monotonic() - started))
                raise
            self._has_answered = True
            if self._failures:
                self.reset_circuit()
            return result

    def _back_off(self, failure: RetryableError, tries: int) -> None:
        from random import random

        backoff = min(20.0, 0.5 * 2 ** (tries - 1)) * (0.5 + random() / 2)
        if failure.rate_limited and failure.wait is not None:
            self.rate_limiter.pause(failure.wait)  # for all requests to this server
        wait = backoff if failure.wait is None else failure.wait + backoff / 10
        log.info("%s: %s; trying again in %.1f s", self.display_url, failure, wait)
        self.rate_limiter.sleep(wait)

    def _check_circuit(self) -> None:
        if self._failures >= self.failure_limit:
            raise ItemFailed(f"not asked: {self.display_url} failed {self.failure_limit} times in a row")

    def _failure_error(self, failure: RetryableError, tries: int) -> ItemFailed | ModelError:
        """Return the error for a request whose retries are used up."""
        with self._lock:
            self._failures += 1
            if self._failures >= self.failure_limit:
                self.rate_limiter.give_up()
        if isinstance(failure, _Unreachable) and not self._has_answered:
            self.rate_limiter.give_up()
            return ModelError(f"{failure}: is the server running, and base_url right?")
        message = str(failure) if self.display_url in str(failure) else f"{self.display_url}: {failure}"
        if (failure.wait or 0) > _MAX_WAIT:
            return ItemFailed(f"{message}; it asks to wait {failure.wait:,.0f} s: run it again after that")
        return ItemFailed(f"{message}, {tries} times" if tries > 1 else message)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Translate errors of the SDK and the network into ours."""
        import httpx2
        import openai

        try:
            yield
        except openai.APIStatusError as error:
            raise self._status_error(error) from error
        except openai.APIConnectionError as error:
            if isinstance(error.__cause__, httpx2.LocalProtocolError):
                raise SettingsError(f"no valid request to {self.display_url}: check base_url and the key") from None
            if isinstance(error.__cause__, httpx2.ReadTimeout):
                raise RetryableError(
                    f"{self.display_url} did not answer within {self.timeout:g} s", paid=True
                ) from error
            raise _Unreachable(f"{self.display_url} cannot be reached ({error.__cause__ or error})") from error
        except httpx2.TimeoutException as error:
            raise RetryableError(
                f"{self.display_url} did not finish its answer within {self.timeout:g} s", paid=True
            ) from error
        except (httpx2.HTTPError, httpx2.StreamError, openai.APIError) as error:
            raise RetryableError(f"{self.display_url} broke off its answer ({error})", paid=True) from error

    def _status_error(self, error: APIStatusError) -> Exception:
        code, message = error.status_code, f"{self.display_url} says: {_error_message(error)}"
        if code == 402 or (code == 429 and error.code == "insufficient_quota"):
            return self._no_credit_error(f"{message}: the account has no credit left")
        if code in (408, 409, 429) or code >= 500:
            return RetryableError(f"{message} ({code})", wait=_retry_after(error), rate_limited=code in (429, 503))
        if code == 401 or (code == 403 and not self._has_answered):
            remedy = (
                f"is the key in {self.key} the right one for it?" if self.key else "name the variable of a key, `key`"
            )
            return ModelError(f"{message} ({code}): {remedy}")
        if code in (404, 405) or 300 <= code < 400:
            return ModelError(f"{message} ({code}): {self._remedy(error)}")
        return self._refusal_error(error, f"{message} ({code})")

    def _remedy(self, error: APIStatusError) -> str:
        if "model" in f"{error.code} {_error_message(error)}".lower():
            return "set `model` to one that the server has"
        route = "/rerank" if error.request.url.path.endswith("/rerank") else "/chat/completions"
        return f"base_url is the part of the address before {route}, usually with /v1 at its end"

    def _all_refused_error(self, refusal: RequestRefused) -> ModelError | None:
        """Return a ModelError if the server has refused every request so far."""
        with self._lock:
            self._refusal_count += 1
        if self._refusal_count < self.failure_limit or self._has_answered:
            return None
        return ModelError(str(refusal))

    def _no_credit_error(self, message: str) -> Exception:
        """Return the error for an account without credit."""
        if not self._has_answered:
            return ModelError(message)
        with self._lock:
            self._failures = self.failure_limit
        return ItemFailed(message)

    def _refusal_error(self, error: APIStatusError, message: str) -> Exception:
        """Return the error for a refused request.

        A parameter that the server does not support is left out from now on; otherwise only this request fails.
        """
        if name := _refused_parameter(error):
            self.refused_parameters.add(name)
            log.warning("%s does not take %s: it is left out from now on", self.display_url, name)
            return _ResendWithout(message)
        if error.code == "context_length_exceeded" or "context" in message:
            message += (
                ": lower budget under [answer] or the method, size under [chunks], or use a model that takes more"
            )
        return RequestRefused(message)


_OPTIONAL_PARAMETERS = (  # left out where a server refuses them
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


def _refused_parameter(error: APIStatusError) -> str:
    """Return the optional parameter that the server complains about."""
    request, message = json.loads(error.request.content), _error_message(error)
    if error.code not in _UNKNOWN_CODES and not any(word in message.lower() for word in _UNKNOWN_PHRASES):
        return ""
    names = [error.param, *(name for name in _OPTIONAL_PARAMETERS if name in message)]
    response_format = request.get("response_format") or {}
    is_about_format = "response_format" in names or any(word in message for word in ("schema", "grammar", "guided"))
    if response_format and is_about_format:
        return "json_schema" if response_format["type"] == "json_schema" else "response_format"
    return next((name for name in names if name in _OPTIONAL_PARAMETERS and name in request), "")


class _Unreachable(RetryableError):
    """A failed connection."""


class _ResendWithout(RetryableError):
    """A retry without the refused parameter, at once."""


def read_json_body(pieces: Iterable[bytes], timeout: float) -> Any:
    """Return the JSON of a response body.

    A body that is no object, such as a bare list, becomes the `data` of one. Raises RetryableError where the body
    takes longer than `timeout`, or is no JSON.
    """
    deadline, body = monotonic() + timeout, b""
    for piece in pieces:
        body += piece
        if monotonic() > deadline:
            raise RetryableError(f"the answer did not come within {timeout:g} s", paid=True)
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise garbled_error() from error
    return value if isinstance(value, dict) else {"data": value}


def garbled_error(*, paid: bool = True) -> RetryableError:
    return RetryableError("the answer is not what a model server answers: is base_url right?", paid=paid)


@cache
def _host(url: str) -> str:
    """Return the host of an address. Raise SettingsError for anything else."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and parts.hostname and (parts.port or True)
    except ValueError:
        is_address = False
    if not is_address:
        raise SettingsError(f"base_url {url!r} is no address: write it like http://localhost:11434/v1")
    return str(parts.hostname)


_client_lock = Lock()


def _client(url: str, api_key: str, api_version: str, timeout: float) -> OpenAI:
    with _client_lock:
        return _new_client(url, api_key, api_version, timeout)


@cache
def _new_client(url: str, api_key: str, api_version: str, timeout: float) -> OpenAI:
    import httpx2
    import openai

    timeouts = httpx2.Timeout(timeout, connect=min(timeout, 10.0))
    if api_version:
        return openai.AzureOpenAI(
            azure_endpoint=url, api_version=api_version, api_key=api_key, max_retries=0, timeout=timeouts
        )
    return openai.OpenAI(base_url=url, api_key=api_key, max_retries=0, timeout=timeouts)


def _error_message(error: APIStatusError) -> str:
    body = error.body if isinstance(error.body, Mapping) else {}
    detail = body.get("message") or body.get("detail") or body.get("error")
    return " ".join(str(detail or error.response.reason_phrase or "no reason given").split())[:300].rstrip(".")


def _retry_after(error: APIStatusError) -> float | None:
    """Return the seconds of the Retry-After header."""
    headers = error.response.headers
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            return max(0.0, float(headers[name]) / unit)
        except (KeyError, ValueError):
            continue
    return _seconds_until(headers.get("retry-after", ""))


def _seconds_until(date: str) -> float | None:
    from datetime import UTC, datetime
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, (parsedate_to_datetime(date) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return None
