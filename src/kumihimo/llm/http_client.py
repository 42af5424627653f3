"""address, key -> the requests to a model server and their responses, over an HTTP client of `connections`."""

import json
import zlib
from atexit import register
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from os import environ
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from kumihimo.connections import open_http
from kumihimo.core.network import Address

if TYPE_CHECKING:
    from httpx2 import URL, Client, Response

_MAX_ERROR_BYTES = 64 * 1024  # read of the body of an error
_DEPLOYED = ("/chat/completions", "/embeddings")  # routes of a deployment of Azure
_ACCOUNT = {"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"}
_client_lock = Lock()


class StatusError(Exception):
    """A response with the status of a failure.

    body: what it says, without the `error` around it; None where it is no JSON. code, param: of the error.
    """

    def __init__(self, response: "Response", text: str) -> None:
        super().__init__(response.status_code)
        self.response, self.status = response, response.status_code
        self.body: Any = None
        with suppress(ValueError, RecursionError):
            self.body = json.loads(text)
        if isinstance(self.body, Mapping):
            self.body = self.body.get("error", self.body)
        parts = self.body if isinstance(self.body, Mapping) else {}
        self.code, self.param = str(parts.get("code") or ""), parts.get("param")


@dataclass(frozen=True, slots=True)
class ModelClient:
    """A client for one address and key. api_version: for Azure deployments, else empty."""

    http: "Client"
    url: str
    headers: Mapping[str, str]
    api_version: str

    def send(self, method: str, route: str, body: Mapping[str, Any] | None = None, **options: Any) -> "Response":
        """Return the response to a request; its body is not read yet.

        body: sent as JSON. Raises StatusError, and the errors of httpx2.
        """
        import httpx2

        headers = self.headers
        if body is not None:
            text = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
            options["content"] = text.encode("utf-8", "backslashreplace")  # half a surrogate pair, as JSON escapes it
            headers = {**headers, "Content-Type": "application/json"}
            if self.api_version and route in _DEPLOYED:
                route = f"/openai/deployments/{quote(body['model'], safe='')}{route}"
        response = self.http.send(
            httpx2.Request(method, _join_url(self.url, route, self.api_version), headers=headers, **options),
            stream=True,
        )
        if response.is_success:
            return response
        try:
            start = _read_start(response.iter_raw(), self.http.timeout.read or 0.0)
        finally:
            response.close()
        text = _unpack_start(start, response.headers.get("content-encoding", "")).decode(errors="replace")
        raise StatusError(response, text)


@lru_cache(100)
def _join_url(url: str, route: str, api_version: str) -> "URL":
    import httpx2

    base = httpx2.URL(url)
    path, mark, query = base.raw_path.partition(b"?")
    joined = base.copy_with(raw_path=path.rstrip(b"/") + route.encode() + mark + query)
    return joined.copy_add_param("api-version", api_version) if api_version else joined


def shared_client(url: str, address: Address, api_key: str, api_version: str, timeout: float) -> ModelClient:
    """Return the client for this address and key."""
    with _client_lock:
        return _create_client(url, address, api_key, api_version, timeout)


@cache
def _create_client(url: str, address: Address, api_key: str, api_version: str, timeout: float) -> ModelClient:
    http_client = open_http(address, timeout)
    register(http_client.close)  # at the end of the process: all threads share its connections
    names = ("Accept-Encoding", "User-Agent", "Connection")
    headers = {name: http_client.headers[name] for name in names} | {"Accept": "application/json"}
    headers |= {"api-key": api_key} if api_version else {"Authorization": f"Bearer {api_key}"}
    if address.hosts == ("api.openai.com",):
        headers |= {name: environ[variable] for name, variable in _ACCOUNT.items() if environ.get(variable)}
    return ModelClient(http_client, url, headers, api_version)


def _read_start(pieces: Iterable[bytes], timeout: float) -> bytes:
    """Return the bytes of a body that arrive in time, limited."""
    deadline, start = monotonic() + timeout, bytearray()
    for piece in pieces:
        start += piece
        if len(start) >= _MAX_ERROR_BYTES or monotonic() > deadline:
            break
    return bytes(start[:_MAX_ERROR_BYTES])


def _unpack_start(start: bytes, encoding: str) -> bytes:
    """Return the beginning of a body, unpacked.

    It is empty if its compression is unknown or broken.
    """
    if encoding.strip().lower() in ("", "identity"):
        return start
    with suppress(zlib.error):
        return zlib.decompressobj(wbits=47).decompress(start, _MAX_ERROR_BYTES)  # gzip, or zlib
    return b""
