"""requests -> responses of one model server: paced, sent again where that helps, its errors in words with a remedy."""

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
_MAX_WAIT = 120.0  # seconds that a server may ask us to wait
_RATE_LIMIT_FACTOR = 4  # times as many tries where a server only says that it is too much at once
log = logging.getLogger("kumihimo")


class RetryableError(Exception):
    """This went wrong in a way that may pass.

    paid: the server may have charged for it. wait: as long as it asks, in seconds. limited: it was too much at once.
    """

    def __init__(
        self, message: str, *, paid: bool = False, wait: float | None = None, rate_limited: bool = False
    ) -> None:
        super().__init__(message)
        self.paid, self.wait, self.rate_limited = paid, wait, rate_limited


@dataclass(slots=True)
class ModelServer:
    """One server and one account on it.

    key: the name of the environment variable that holds the key. api_version: of Azure's deployments, else empty.
    timeout: seconds until a silent connection is given up. retries: how often a request is sent again.
    """

    base_url: str
    key: str
    api_version: str
    timeout: float
    retries: int
    rate_limiter: RateLimiter
    workers: int
    refused_parameters: set[str] = field(
        default_factory=set
    )  # parameters that it has refused, and is not sent any more
    _has_answered: bool = False
    _refusal_count: int = 0
    _failures: int = 0  # requests, one after the other
    _lock: Lock = field(default_factory=Lock)
    _slots: Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._slots = Semaphore(self.workers)

    @property
    def failure_limit(self) -> int:
        """How many requests are given up, one after the other, until nothing more is asked."""
        return max(8, 2 * self.workers)

    @property
    def url(self) -> str:
        return self.base_url or os.environ.get("OPENAI_BASE_URL", "") or OPENAI_URL

    @property
    def display_url(self) -> str:
        """Its address as it may be told, without a password."""
        return re.sub(r"//[^/@]*@", "//", self.url)

    @property
    def is_openai(self) -> bool:
        """Whether it is OpenAI's own."""
        return _host(self.url) == _host(OPENAI_URL)

    @property
    def client(self) -> OpenAI:
        """The one client for this address and key."""
        host = _host(self.url)
        if os.environ.get("KUMI_OFFLINE", "0") not in ("", "0") and host not in _LOCAL_HOSTS:
            raise ModelError(
                f"KUMI_OFFLINE is set, so {self.display_url} is not asked: unset it, or use a server on this machine"
            )
        secret = os.environ.get(self.key, "").strip() if self.key else ""
        if not secret and self.is_openai:
            raise SettingsError(
                f"no key for {self.display_url}: put it into the environment as {self.key}, "
                "or name a server that needs none with base_url"
            )
        if not (secret.isascii() and secret.isprintable()):
            raise SettingsError(f"what {self.key} holds is no key: it has characters that no key has")
        return _client(self.url, secret or "none", self.api_version, self.timeout)

    def send(self, request: Callable[[OpenAI, Charge], T], *, reserve: Reserve, size: int, lost_usage: Usage) -> T:
        """What the request gives; sent again, with longer and longer pauses, as long as that may help.

        size: bytes of the prompt. lost: what is paid for an answer that breaks off, as far as one can tell.
        Raises ItemFailed when it does not, Refused where the server will not take this one, ModelError where it
        will take none.
        """
        client, tries, fewer = self.client, 0, 0
        while True:
            self.rate_limiter.wait(size // 4)
            self._check_circuit()
            try:
                with self._slots:
                    return self._send_once(client, request, reserve, size, lost_usage)
            except _ResendWithout as refusal:
                fewer += 1
                if fewer > len(_OPTIONAL_PARAMETERS):
                    raise RequestRefused(str(refusal)) from refusal
            except RequestRefused as refusal:
                raise self._all_refused_error(refusal) or refusal from refusal
            except RetryableError as trouble:
                tries += 1
                if tries > self._max_tries(trouble) or (trouble.wait or 0) > _MAX_WAIT:
                    raise self._failure_error(trouble, tries) from trouble
                self._back_off(trouble, tries)

    def _max_tries(self, trouble: RetryableError) -> int:
        """How often it is worth being sent again."""
        if isinstance(trouble, _Unreachable) and not self._has_answered:
            return min(self.retries, 2)
        return self.retries * (_RATE_LIMIT_FACTOR if trouble.rate_limited else 1)

    def reset_circuit(self) -> None:
        """Ask it again, should it have been given up."""
        with self._lock:
            self._failures = 0
            self.rate_limiter.resume()

    def _send_once(
        self, client: OpenAI, request: Callable[[OpenAI, Charge], T], allow: Reserve, size: int, lost: Usage
    ) -> T:
        began = monotonic()
        with allow(size) as bill:
            try:
                with self._translate_errors():
                    found = request(client, bill)
            except RetryableError as trouble:
                if trouble.paid:
                    bill(replace(lost, seconds=monotonic() - began))
                raise
            self._has_answered = True
            if self._failures:
                self.reset_circuit()
            return found

    def _back_off(self, trouble: RetryableError, tries: int) -> None:
        from random import random

        backoff = min(20.0, 0.5 * 2 ** (tries - 1)) * (0.5 + random() / 2)
        if trouble.rate_limited and trouble.wait is not None:
            self.rate_limiter.pause(trouble.wait)  # for all who ask it
        wait = backoff if trouble.wait is None else trouble.wait + backoff / 10
        log.info("%s: %s; trying again in %.1f s", self.display_url, trouble, wait)
        self.rate_limiter.sleep(wait)

    def _check_circuit(self) -> None:
        if self._failures >= self.failure_limit:
            raise ItemFailed(f"not asked: {self.display_url} failed {self.failure_limit} times in a row")

    def _failure_error(self, trouble: RetryableError, tries: int) -> ItemFailed | ModelError:
        """The error for a request that is given up."""
        with self._lock:
            self._failures += 1
            if self._failures >= self.failure_limit:
                self.rate_limiter.give_up()
        if isinstance(trouble, _Unreachable) and not self._has_answered:
            self.rate_limiter.give_up()
            return ModelError(f"{trouble}: is the server running, and base_url right?")
        said = str(trouble) if self.display_url in str(trouble) else f"{self.display_url}: {trouble}"
        if (trouble.wait or 0) > _MAX_WAIT:
            return ItemFailed(f"{said}; it asks to wait {trouble.wait:,.0f} s: run this again then")
        return ItemFailed(f"{said}, {tries} times" if tries > 1 else said)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Turns what the SDK and the network raise into Again, Refused or ModelError."""
        import httpx2
        import openai

        try:
            yield
        except openai.APIStatusError as error:
            raise self._status_error(error) from error
        except openai.APIConnectionError as error:
            if isinstance(error.__cause__, httpx2.LocalProtocolError):
                raise SettingsError(
                    f"{self.display_url} cannot be asked like this: look at base_url and the key"
                ) from None
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
        code, said = error.status_code, f"{self.display_url} says: {_error_message(error)}"
        if code == 402 or (code == 429 and error.code == "insufficient_quota"):
            return self._no_credit_error(f"{said}: the account has no credit left")
        if code in (408, 409, 429) or code >= 500:
            return RetryableError(f"{said} ({code})", wait=_retry_after(error), rate_limited=code in (429, 503))
        if code == 401 or (code == 403 and not self._has_answered):
            remedy = (
                f"is the key in {self.key} the right one for it?" if self.key else "name the variable of a key, `key`"
            )
            return ModelError(f"{said} ({code}): {remedy}")
        if code in (404, 405) or 300 <= code < 400:
            return ModelError(f"{said} ({code}): {self._remedy(error)}")
        return self._refusal_error(error, f"{said} ({code})")

    def _remedy(self, error: APIStatusError) -> str:
        if "model" in f"{error.code} {_error_message(error)}".lower():
            return "set `model` to one that the server has"
        route = "/rerank" if error.request.url.path.endswith("/rerank") else "/chat/completions"
        return f"base_url is the part of the address before {route}, mostly with /v1 at its end"

    def _all_refused_error(self, refusal: RequestRefused) -> ModelError | None:
        """Where nothing but refusals came so far, it is not this request's fault."""
        with self._lock:
            self._refusal_count += 1
        return (
            ModelError(str(refusal)) if self._refusal_count >= self.failure_limit and not self._has_answered else None
        )

    def _no_credit_error(self, said: str) -> Exception:
        """Of a server that will not answer any more: what it has answered is kept."""
        if not self._has_answered:
            return ModelError(said)
        with self._lock:
            self._failures = self.failure_limit
        return ItemFailed(said)

    def _refusal_error(self, error: APIStatusError, said: str) -> Exception:
        """A parameter that the server does not know is left out from now on; else it is this request's own fault."""
        if name := _refused_parameter(error):
            self.refused_parameters.add(name)
            log.warning("%s does not take %s: it is left out from now on", self.display_url, name)
            return _ResendWithout(said)
        if error.code == "context_length_exceeded" or "context" in said:
            said += ": lower budget under [answer] or the method, size under [chunks], or use a model that takes more"
        return RequestRefused(said)


_OPTIONAL_PARAMETERS = (  # what may be left out
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
    """The optional part of the request that a server names as the trouble."""
    sent, told = json.loads(error.request.content), _error_message(error)
    if error.code not in _UNKNOWN_CODES and not any(word in told.lower() for word in _UNKNOWN_PHRASES):
        return ""
    names = [error.param, *(name for name in _OPTIONAL_PARAMETERS if name in told)]
    shape = sent.get("response_format") or {}
    if shape and ("response_format" in names or any(word in told for word in ("schema", "grammar", "guided"))):
        return "json_schema" if shape["type"] == "json_schema" else "response_format"
    return next((name for name in names if name in _OPTIONAL_PARAMETERS and name in sent), "")


class _Unreachable(RetryableError):
    """Nobody took the connection."""


class _ResendWithout(RetryableError):
    """To be sent again at once, without the parameter that was refused."""


def read_json_body(pieces: Iterable[bytes], timeout: float) -> Any:
    """The JSON of a response's body. Raises Again where it drips for longer than `timeout`, or is no JSON.

    Of an answer that is no object, such as a bare list: an object that has it as its `data`.
    """
    end, body = monotonic() + timeout, b""
    for piece in pieces:
        body += piece
        if monotonic() > end:
            raise RetryableError(f"the answer did not come within {timeout:g} s", paid=True)
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise garbled_error() from error
    return found if isinstance(found, dict) else {"data": found}


def garbled_error(*, paid: bool = True) -> RetryableError:
    return RetryableError("the answer is not what a model server answers: is base_url right?", paid=paid)


@cache
def _host(url: str) -> str:
    """The name of the machine. Raises SettingsError where that is no address."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        named = parts.scheme in ("http", "https") and parts.hostname and (parts.port or True)
    except ValueError:
        named = False
    if not named:
        raise SettingsError(f"base_url {url!r} is no address: write it like http://localhost:11434/v1")
    return str(parts.hostname)


_client_lock = Lock()


def _client(url: str, secret: str, api_version: str, timeout: float) -> OpenAI:
    with _client_lock:
        return _new_client(url, secret, api_version, timeout)


@cache
def _new_client(url: str, secret: str, api_version: str, timeout: float) -> OpenAI:
    import httpx2
    import openai

    patience = httpx2.Timeout(timeout, connect=min(timeout, 10.0))
    if api_version:
        return openai.AzureOpenAI(
            azure_endpoint=url, api_version=api_version, api_key=secret, max_retries=0, timeout=patience
        )
    return openai.OpenAI(base_url=url, api_key=secret, max_retries=0, timeout=patience)


def _error_message(error: APIStatusError) -> str:
    body = error.body if isinstance(error.body, Mapping) else {}
    said = body.get("message") or body.get("detail") or body.get("error")
    return " ".join(str(said or error.response.reason_phrase or "no reason given").split())[:300].rstrip(".")


def _retry_after(error: APIStatusError) -> float | None:
    """What Retry-After asks for, in seconds."""
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
