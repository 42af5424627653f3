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

from kumihimo.core.errors import ItemFailed, ModelError, Refused, SettingsError
from kumihimo.core.usage import Usage
from kumihimo.llm.protocols import Allow, Bill
from kumihimo.llm.rate_limit import Pace

if TYPE_CHECKING:
    from openai import APIStatusError, OpenAI

T = TypeVar("T")

HOSTED = "https://api.openai.com/v1"
_LOCAL = ("localhost", "127.0.0.1", "::1", "0.0.0.0")
_LONGEST = 120.0  # seconds that a server may ask us to wait
_LIMITED = 4  # times as many tries where a server only says that it is too much at once
log = logging.getLogger("kumihimo")


class Again(Exception):
    """This went wrong in a way that may pass.

    paid: the server may have charged for it. wait: as long as it asks, in seconds. limited: it was too much at once.
    """

    def __init__(self, message: str, *, paid: bool = False, wait: float | None = None, limited: bool = False) -> None:
        super().__init__(message)
        self.paid, self.wait, self.limited = paid, wait, limited


@dataclass(slots=True)
class Server:
    """One server and one account on it.

    key: the name of the environment variable that holds the key. api_version: of Azure's deployments, else empty.
    timeout: seconds until a silent connection is given up. retries: how often a request is sent again.
    """

    base_url: str
    key: str
    api_version: str
    timeout: float
    retries: int
    pace: Pace
    workers: int
    without: set[str] = field(default_factory=set)  # parameters that it has refused, and is not sent any more
    _answered: bool = False
    _refusals: int = 0
    _given_up: int = 0  # requests, one after the other
    _lock: Lock = field(default_factory=Lock)
    _room: Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._room = Semaphore(self.workers)

    @property
    def patience(self) -> int:
        """How many requests are given up, one after the other, until nothing more is asked."""
        return max(8, 2 * self.workers)

    @property
    def url(self) -> str:
        return self.base_url or os.environ.get("OPENAI_BASE_URL", "") or HOSTED

    @property
    def shown(self) -> str:
        """Its address as it may be told, without a password."""
        return re.sub(r"//[^/@]*@", "//", self.url)

    @property
    def hosted(self) -> bool:
        """Whether it is OpenAI's own."""
        return _host(self.url) == _host(HOSTED)

    @property
    def client(self) -> OpenAI:
        """The one client for this address and key."""
        host = _host(self.url)
        if os.environ.get("KUMI_OFFLINE", "0") not in ("", "0") and host not in _LOCAL:
            raise ModelError(
                f"KUMI_OFFLINE is set, so {self.shown} is not asked: unset it, or use a server on this machine"
            )
        secret = os.environ.get(self.key, "").strip() if self.key else ""
        if not secret and self.hosted:
            raise SettingsError(
                f"no key for {self.shown}: put it into the environment as {self.key}, "
                "or name a server that needs none with base_url"
            )
        if not (secret.isascii() and secret.isprintable()):
            raise SettingsError(f"what {self.key} holds is no key: it has characters that no key has")
        return _client(self.url, secret or "none", self.api_version, self.timeout)

    def send(self, request: Callable[[OpenAI, Bill], T], *, allow: Allow, size: int, lost: Usage) -> T:
        """What the request gives; sent again, with longer and longer pauses, as long as that may help.

        size: bytes of the prompt. lost: what is paid for an answer that breaks off, as far as one can tell.
        Raises ItemFailed when it does not, Refused where the server will not take this one, ModelError where it
        will take none.
        """
        client, tries, fewer = self.client, 0, 0
        while True:
            self.pace.wait(size // 4)
            self._check()
            try:
                with self._room:
                    return self._once(client, request, allow, size, lost)
            except _Without as refusal:
                fewer += 1
                if fewer > len(_OPTIONAL):
                    raise Refused(str(refusal)) from refusal
            except Refused as refusal:
                raise self._refused_all(refusal) or refusal from refusal
            except Again as trouble:
                tries += 1
                if tries > self._tries(trouble) or (trouble.wait or 0) > _LONGEST:
                    raise self._lost(trouble, tries) from trouble
                self._pause(trouble, tries)

    def _tries(self, trouble: Again) -> int:
        """How often it is worth being sent again."""
        if isinstance(trouble, _Unreachable) and not self._answered:
            return min(self.retries, 2)
        return self.retries * (_LIMITED if trouble.limited else 1)

    def hope(self) -> None:
        """Ask it again, should it have been given up."""
        with self._lock:
            self._given_up = 0
            self.pace.take_up()

    def _once(self, client: OpenAI, request: Callable[[OpenAI, Bill], T], allow: Allow, size: int, lost: Usage) -> T:
        began = monotonic()
        with allow(size) as bill:
            try:
                with self._in_words():
                    found = request(client, bill)
            except Again as trouble:
                if trouble.paid:
                    bill(replace(lost, seconds=monotonic() - began))
                raise
            self._answered = True
            if self._given_up:
                self.hope()
            return found

    def _pause(self, trouble: Again, tries: int) -> None:
        from random import random

        backoff = min(20.0, 0.5 * 2 ** (tries - 1)) * (0.5 + random() / 2)
        if trouble.limited and trouble.wait is not None:
            self.pace.hold(trouble.wait)  # for all who ask it
        wait = backoff if trouble.wait is None else trouble.wait + backoff / 10
        log.info("%s: %s; trying again in %.1f s", self.shown, trouble, wait)
        self.pace.sleep(wait)

    def _check(self) -> None:
        if self._given_up >= self.patience:
            raise ItemFailed(f"not asked: {self.shown} failed {self.patience} times in a row")

    def _lost(self, trouble: Again, tries: int) -> ItemFailed | ModelError:
        """The error for a request that is given up."""
        with self._lock:
            self._given_up += 1
            if self._given_up >= self.patience:
                self.pace.give_up()
        if isinstance(trouble, _Unreachable) and not self._answered:
            self.pace.give_up()
            return ModelError(f"{trouble}: is the server running, and base_url right?")
        said = str(trouble) if self.shown in str(trouble) else f"{self.shown}: {trouble}"
        if (trouble.wait or 0) > _LONGEST:
            return ItemFailed(f"{said}; it asks to wait {trouble.wait:,.0f} s: run this again then")
        return ItemFailed(f"{said}, {tries} times" if tries > 1 else said)

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        """Turns what the SDK and the network raise into Again, Refused or ModelError."""
        import httpx2
        import openai

        try:
            yield
        except openai.APIStatusError as error:
            raise self._status(error) from error
        except openai.APIConnectionError as error:
            if isinstance(error.__cause__, httpx2.LocalProtocolError):
                raise SettingsError(f"{self.shown} cannot be asked like this: look at base_url and the key") from None
            if isinstance(error.__cause__, httpx2.ReadTimeout):
                raise Again(f"{self.shown} did not answer within {self.timeout:g} s", paid=True) from error
            raise _Unreachable(f"{self.shown} cannot be reached ({error.__cause__ or error})") from error
        except httpx2.TimeoutException as error:
            raise Again(f"{self.shown} did not finish its answer within {self.timeout:g} s", paid=True) from error
        except (httpx2.HTTPError, httpx2.StreamError, openai.APIError) as error:
            raise Again(f"{self.shown} broke off its answer ({error})", paid=True) from error

    def _status(self, error: APIStatusError) -> Exception:
        code, said = error.status_code, f"{self.shown} says: {_message(error)}"
        if code == 402 or (code == 429 and error.code == "insufficient_quota"):
            return self._at_an_end(f"{said}: the account has no credit left")
        if code in (408, 409, 429) or code >= 500:
            return Again(f"{said} ({code})", wait=_wait(error), limited=code in (429, 503))
        if code == 401 or (code == 403 and not self._answered):
            remedy = (
                f"is the key in {self.key} the right one for it?" if self.key else "name the variable of a key, `key`"
            )
            return ModelError(f"{said} ({code}): {remedy}")
        if code in (404, 405) or 300 <= code < 400:
            return ModelError(f"{said} ({code}): {self._remedy(error)}")
        return self._refusal(error, f"{said} ({code})")

    def _remedy(self, error: APIStatusError) -> str:
        if "model" in f"{error.code} {_message(error)}".lower():
            return "set `model` to one that the server has"
        route = "/rerank" if error.request.url.path.endswith("/rerank") else "/chat/completions"
        return f"base_url is the part of the address before {route}, mostly with /v1 at its end"

    def _refused_all(self, refusal: Refused) -> ModelError | None:
        """Where nothing but refusals came so far, it is not this request's fault."""
        with self._lock:
            self._refusals += 1
        return ModelError(str(refusal)) if self._refusals >= self.patience and not self._answered else None

    def _at_an_end(self, said: str) -> Exception:
        """Of a server that will not answer any more: what it has answered is kept."""
        if not self._answered:
            return ModelError(said)
        with self._lock:
            self._given_up = self.patience
        return ItemFailed(said)

    def _refusal(self, error: APIStatusError, said: str) -> Exception:
        """A parameter that the server does not know is left out from now on; else it is this request's own fault."""
        if name := _parameter(error):
            self.without.add(name)
            log.warning("%s does not take %s: it is left out from now on", self.shown, name)
            return _Without(said)
        if error.code == "context_length_exceeded" or "context" in said:
            said += ": lower budget under [answer] or the method, size under [chunks], or use a model that takes more"
        return Refused(said)


_OPTIONAL = (  # what may be left out
    "response_format",
    "temperature",
    "max_tokens",
    "max_completion_tokens",
    "reasoning_effort",
    "stream_options",
    "encoding_format",
    "top_n",
)


_UNKNOWN = ("unsupported_parameter", "unsupported_value", "unknown_parameter")
_SAYS_UNKNOWN = ("not support", "unsupported", "unknown", "unrecognized", "not permitted", "not available", "grammar")


def _parameter(error: APIStatusError) -> str:
    """The optional part of the request that a server names as the trouble."""
    sent, told = json.loads(error.request.content), _message(error)
    if error.code not in _UNKNOWN and not any(word in told.lower() for word in _SAYS_UNKNOWN):
        return ""
    names = [error.param, *(name for name in _OPTIONAL if name in told)]
    shape = sent.get("response_format") or {}
    if shape and ("response_format" in names or any(word in told for word in ("schema", "grammar", "guided"))):
        return "json_schema" if shape["type"] == "json_schema" else "response_format"
    return next((name for name in names if name in _OPTIONAL and name in sent), "")


class _Unreachable(Again):
    """Nobody took the connection."""


class _Without(Again):
    """To be sent again at once, without the parameter that was refused."""


def parsed(pieces: Iterable[bytes], timeout: float) -> Any:
    """The JSON of a response's body. Raises Again where it drips for longer than `timeout`, or is no JSON.

    Of an answer that is no object, such as a bare list: an object that has it as its `data`.
    """
    end, body = monotonic() + timeout, b""
    for piece in pieces:
        body += piece
        if monotonic() > end:
            raise Again(f"the answer did not come within {timeout:g} s", paid=True)
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise garbled() from error
    return found if isinstance(found, dict) else {"data": found}


def garbled(*, paid: bool = True) -> Again:
    return Again("the answer is not what a model server answers: is base_url right?", paid=paid)


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


_made = Lock()


def _client(url: str, secret: str, api_version: str, timeout: float) -> OpenAI:
    with _made:
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


def _message(error: APIStatusError) -> str:
    body = error.body if isinstance(error.body, Mapping) else {}
    said = body.get("message") or body.get("detail") or body.get("error")
    return " ".join(str(said or error.response.reason_phrase or "no reason given").split())[:300].rstrip(".")


def _wait(error: APIStatusError) -> float | None:
    """What Retry-After asks for, in seconds."""
    headers = error.response.headers
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            return max(0.0, float(headers[name]) / unit)
        except (KeyError, ValueError):
            continue
    return _until(headers.get("retry-after", ""))


def _until(date: str) -> float | None:
    from datetime import UTC, datetime
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, (parsedate_to_datetime(date) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return None
