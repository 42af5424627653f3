"""index folders + settings -> a server that runs until it is stopped."""

import asyncio
import gc
import logging
import os
import socket
import sys
import webbrowser
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from threading import Thread
from types import FrameType

import uvicorn

from kumihimo.app.ask.query import Query
from kumihimo.app.facade import Kumihimo
from kumihimo.app.opened.open_index import IndexPlace
from kumihimo.app.processes.question_pool import QuestionPool, needs_no_model
from kumihimo.core.errors import KumiError, SettingsError
from kumihimo.server import limits, uploads
from kumihimo.server.app import create_app
from kumihimo.server.settings import ServerSettings, is_loopback
from kumihimo.server.workspace import Workspace, open_workspace

try:
    import resource
except ImportError:  # not on this system
    resource = None  # type: ignore[assignment]

_MAX_HEADERS = 64 * 1024  # bytes
_KEEP_ALIVE = 15  # seconds that a connection stays open between two requests
_WAITING = 2048  # connections that the system may hold until they are accepted
_AT_ONCE = 100  # accepted before the first of them can be refused: each takes a file
_SHARES = 4  # one other machine has this part of the connections
_TURN = 0.001  # seconds of a thread that computes, while others wait
_NEW_OBJECTS = 50_000  # until those without use are looked for: a large body of JSON makes as many at once
_SHUTDOWN = 5  # seconds for requests in progress
_QUESTION = "Who wrote the first letter about the harbour?"  # any question with words does
log = logging.getLogger("kumihimo")


def run_server(
    places: Sequence[IndexPlace | Path],
    settings: ServerSettings,
    announce: Callable[[str], None],
    *,
    open_browser: bool,
) -> int:
    """Serve these indexes until a signal; return its number.

    announce: receives the address. Raises SettingsError if the port is taken, if keys are needed and there are none, or
    if the audit log cannot be written.
    """
    workspace = open_workspace(places, settings)
    check_keys(workspace, settings)
    forward_logs()
    with _listen(settings) as listener:
        address = format_address(settings.host, listener.getsockname()[1]) + settings.path

        def on_start() -> None:
            for served in workspace.indexes.values():
                uploads.remove_incoming(served.uploads)
            announce(address)
            Thread(target=warm_up, args=[workspace], daemon=True).start()
            if open_browser:  # some browsers of a terminal return at their end
                Thread(target=webbrowser.open, args=[address], daemon=True).start()

        limited = replace(settings, max_connections=limit_connections(settings.max_connections))
        server = _Server(server_config(create_app(workspace, limited), limited), workspace, on_start)
        sys.setswitchinterval(_TURN)
        gc.set_threshold(_NEW_OBJECTS)
        server.run([listener])
    return server.signal


class _Server(uvicorn.Server):
    """The server of uvicorn, which ends at once at the second signal.

    on_start: is called once it listens. signal: that ended it.
    """

    def __init__(self, config: uvicorn.Config, workspace: Workspace, on_start: Callable[[], None]) -> None:
        super().__init__(config)
        self._workspace, self._on_start, self.signal = workspace, on_start, 0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(_WAITING)  # which it set to what it accepts at once
        if self.started:
            self._on_start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Cancel builds, whose followers would wait for them, then end the rest."""
        for served in self._workspace.indexes.values():
            served.builds.cancel_all()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, _: FrameType | None) -> None:
        """Begin to end; at the second signal, end at once."""
        if self.should_exit:
            self._workspace.kill()
            os._exit(128 + sig)
        self.should_exit, self.signal = True, sig


def check_keys(workspace: Workspace, settings: ServerSettings) -> None:
    """Raise SettingsError if each request needs a key, and there is none."""
    if not settings.needs_keys or workspace.any_keys():
        return
    if settings.require_keys:
        raise SettingsError("no index has a key: make one with `kumi key new --role admin`, or omit --require-key")
    name = next((name for name in (settings.host, *settings.hosts) if not is_loopback(name)), settings.host)
    raise SettingsError(
        f"{name} can be reached from other machines, and no index has a key: "
        "make one with `kumi key new --role admin`, or listen on 127.0.0.1"
    )


def forward_logs() -> None:
    """Write the errors of other packages into our own log.

    Their warnings are about malformed requests, which anyone can send without end.
    """
    for name in ("uvicorn", "mcp", "asyncio", "python_multipart"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [*logging.getLogger("kumihimo").handlers], False
        logger.setLevel(logging.ERROR)
    logging.getLogger("uvicorn.error").addFilter(is_failure)


def is_failure(record: logging.LogRecord) -> bool:
    """Return whether a record is more than the end of the server."""
    is_cancelled = bool(record.exc_info and record.exc_info[0] is asyncio.CancelledError)
    return not is_cancelled and "timeout graceful shutdown exceeded" not in str(record.msg)


def server_config(app: Callable[..., object], settings: ServerSettings) -> uvicorn.Config:
    """Return the configuration of uvicorn, with limits for slow and many clients."""
    places = settings.max_connections
    share = 0 if settings.proxies else places // _SHARES  # a proxy has the connections of all
    return uvicorn.Config(
        app,
        http=limits.limited_protocol(places, settings.header_seconds, settings.body_seconds, share),
        ws="none",
        lifespan="on",
        backlog=_AT_ONCE,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(settings.proxies),
        forwarded_allow_ips=[*settings.proxies],
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=_SHUTDOWN,
        h11_max_incomplete_event_size=_MAX_HEADERS,
    )


def limit_connections(wanted: int) -> int:
    """Return how many connections there may be.

    They take at most half of the files that the system lets this process open: the indexes need some too.
    """
    if resource is None:
        return wanted
    limit, highest = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return wanted
    raised = max(limit, 2 * wanted if highest == resource.RLIM_INFINITY else min(2 * wanted, highest))
    with suppress(OSError, ValueError):  # some systems refuse it
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, highest))
    return min(wanted, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)


def format_address(host: str, port: int) -> str:
    """Return the address for a browser.

    >>> [format_address(host, 8460) for host in ("127.0.0.1", "::1", "0.0.0.0")]
    ['http://127.0.0.1:8460', 'http://[::1]:8460', 'http://localhost:8460']
    """
    name = "localhost" if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}"


def _listen(settings: ServerSettings) -> socket.socket:
    """Return a socket that listens.

    Raises SettingsError if the address cannot be used.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        listener = socket.create_server((settings.host, settings.port), family=family, backlog=_WAITING)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise SettingsError(
            f"cannot listen on {settings.host}, port {settings.port} ({reason}): choose another with --port or --host"
        ) from error
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else each part of a response waits 40 ms
    return listener


def warm_up(workspace: Workspace) -> None:
    """Load what the first questions need.

    Many who begin at the same time would wait for each other. What fails here fails for them too, with a message.
    """
    for served in workspace.indexes.values():
        try:
            _warm_up_index(served.kumi, served.questions.room)
        except (KumiError, OSError) as error:
            log.info("the index %s is not ready: %s", served.name, error)


def _warm_up_index(kumi: Kumihimo, room: QuestionPool | None) -> None:
    """Ask by the default method, if that needs no model."""
    if kumi.models.chat("answer"):
        import_module("httpx2")
    if not kumi.store.exists():
        return
    with kumi.snapshot() as snapshot:
        query = Query.of(_QUESTION, snapshot.default_method(), explain=True)
        if not needs_no_model(kumi.opened, query, is_answer=False):
            return
        if room:
            context = room.run("search", query)
        elif needs_no_model(kumi.opened, query, is_answer=True):
            context = snapshot.answer(query).context
        else:
            context = snapshot.search(query)
    context.to_dict()
