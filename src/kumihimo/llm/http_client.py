"""address, key -> the client of a model server, over an HTTP client of `connections`."""

import zlib
from atexit import register
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any

from kumihimo.connections import open_http
from kumihimo.core.network import Address

if TYPE_CHECKING:
    from httpx2 import Response
    from openai import OpenAI

_MAX_ERROR_BYTES = 64 * 1024  # read of the body of an error
_client_lock = Lock()


def shared_client(url: str, address: Address, api_key: str, api_version: str, timeout: float) -> "OpenAI":
    """Return the client for this address and key."""
    with _client_lock:
        return _create_client(url, address, api_key, api_version, timeout)


@cache
def _create_client(url: str, address: Address, api_key: str, api_version: str, timeout: float) -> "OpenAI":
    import httpx2
    import openai

    def shorten_error(response: "Response") -> None:
        """Replace the body of an error by its beginning, as plain text.

        The SDK reads it whole, however long that takes, and in any charset that Python knows.
        """
        if not response.is_success:
            assert isinstance(response.stream, httpx2.SyncByteStream)
            start = _read_start(response.stream, timeout)
            response.stream.close()
            response.stream = httpx2.ByteStream(_unpack_start(start, response.headers.pop("content-encoding", "")))
            response.headers["content-type"] = "text/plain; charset=utf-8"

    http_client = open_http(address, timeout, event_hooks={"response": [shorten_error]})
    options: Any = {"api_key": api_key, "max_retries": 0, "timeout": http_client.timeout, "http_client": http_client}
    register(http_client.close)  # at the end of the process: all threads share its connections
    if api_version:
        return openai.AzureOpenAI(azure_endpoint=url, api_version=api_version, **options)
    return openai.OpenAI(base_url=url, **options)


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
