"""address, key -> HTTP client of a model server: it follows no redirect, and uses no proxy for this machine."""

from atexit import register
from collections.abc import Iterable
from functools import cache
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any

from kumihimo.core.errors import ModelError, SettingsError
from kumihimo.core.network import is_local, is_offline
from kumihimo.core.redaction import redact

if TYPE_CHECKING:
    from httpx2 import Response
    from openai import OpenAI

OPENAI_URL = "https://api.openai.com/v1"
_MAX_ERROR_BYTES = 64 * 1024  # read of the body of an error
_client_lock = Lock()


@cache
def parse_host(url: str) -> str:
    """Return the host of an address. Raise SettingsError for anything else."""
    import httpx2  # its parser, since it connects

    try:
        parsed = httpx2.URL(url)
        is_address = parsed.scheme in ("http", "https") and parsed.host and 0 < (parsed.port or 80) < 2**16
    except httpx2.InvalidURL:
        is_address = False
    if not is_address:
        raise SettingsError(f"base_url {redact(url)!r} is no address: write it like http://localhost:11434/v1")
    return parsed.host


def check_offline(url: str) -> None:
    """Raise ModelError for another machine while KUMI_OFFLINE is set."""
    if is_offline() and not is_local(parse_host(url)):
        remedy = "unset it, or use a server on this machine"
        raise ModelError(f"KUMI_OFFLINE is set, so {redact(url)} is not asked: {remedy}")


def shared_client(url: str, api_key: str, api_version: str, timeout: float) -> "OpenAI":
    """Return the client for this address and key."""
    with _client_lock:
        return _create_client(url, api_key, api_version, timeout)


@cache
def _create_client(url: str, api_key: str, api_version: str, timeout: float) -> "OpenAI":
    import httpx2
    import openai

    timeouts = httpx2.Timeout(timeout, connect=min(timeout, 10.0))

    def shorten_error(response: "Response") -> None:
        """Replace the body of an error by its beginning.

        The SDK reads it whole, however long that takes.
        """
        if not response.is_success:
            assert isinstance(response.stream, httpx2.SyncByteStream)
            start = _read_start(response.stream, timeout)
            response.stream.close()
            response.stream = httpx2.ByteStream(start)

    try:
        http_client = openai.DefaultHttpxClient(
            timeout=timeouts,
            follow_redirects=False,
            trust_env=not is_local(parse_host(url)),  # it stands for the proxies of the environment
            verify=httpx2.create_ssl_context(),  # with the certificates of the environment in any case
            event_hooks={"response": [shorten_error]},
        )
    except (ImportError, OSError, ValueError, httpx2.InvalidURL) as error:
        remedy = "correct or unset HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, SSL_CERT_FILE and SSL_CERT_DIR"
        reason = redact(str(error))
        raise SettingsError(
            f"the environment sets a proxy or certificate that cannot be used ({reason}): {remedy}"
        ) from None
    options: dict[str, Any] = {
        "api_key": api_key,
        "max_retries": 0,
        "timeout": timeouts,
        "http_client": http_client,
    }
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
