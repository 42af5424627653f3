"""index folders + settings -> a server that runs until it is stopped."""

import logging
import socket
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path

import uvicorn

from kumihimo.core.errors import SettingsError
from kumihimo.server.app import create_app
from kumihimo.server.protocol import limited_protocol
from kumihimo.server.security import is_loopback
from kumihimo.server.settings import ServerSettings
from kumihimo.server.workspace import open_workspace

_MAX_HEADERS = 64 * 1024  # bytes
_KEEP_ALIVE = 15  # seconds that a connection stays open between two requests
_SHUTDOWN = 5  # seconds for requests in progress
log = logging.getLogger("kumihimo")


def run_server(
    folders: Sequence[Path], settings: ServerSettings, announce: Callable[[str], None], *, open_browser: bool
) -> None:
    """Serve these indexes until Ctrl-C or SIGTERM.

    announce: receives the address. Raises SettingsError if the port is taken, or if keys are needed and there are none.
    """
    workspace = open_workspace(folders, settings)
    if not is_loopback(settings.host) and not workspace.any_keys():
        raise SettingsError(
            f"{settings.host} can be reached from other machines, and no index has a key: "
            "make one with `kumi key new --role admin`, or listen on 127.0.0.1"
        )
    with _listen(settings) as listener:
        address = format_address(settings.host, listener.getsockname()[1])
        announce(address)
        if open_browser:
            webbrowser.open(address)
        uvicorn.Server(server_config(create_app(workspace, settings), settings)).run([listener])


def server_config(app: Callable[..., object], settings: ServerSettings) -> uvicorn.Config:
    """Return the configuration of uvicorn, with limits for slow and many clients."""
    return uvicorn.Config(
        app,
        http=limited_protocol(settings.max_connections, settings.header_seconds),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=_SHUTDOWN,
        h11_max_incomplete_event_size=_MAX_HEADERS,
    )


def format_address(host: str, port: int) -> str:
    """Return the address for a browser.

    >>> [format_address(host, 8460) for host in ("127.0.0.1", "::1", "0.0.0.0")]
    ['http://127.0.0.1:8460', 'http://[::1]:8460', 'http://localhost:8460']
    """
    name = "localhost" if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}"


def _listen(settings: ServerSettings) -> socket.socket:
    """Return a socket that listens. Raise SettingsError if the address cannot be used."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family, backlog=2048)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise SettingsError(
            f"cannot listen on {settings.host}, port {settings.port} ({reason}): choose another with --port or --host"
        ) from error
