"""each request -> its checks before any route: host, origin, key, rates, sizes; and the headers of its response."""

import asyncio
import logging
import re
from contextlib import suppress
from hmac import compare_digest
from time import monotonic
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import URL, Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kumihimo.app.upkeep.keys import token_digest
from kumihimo.core import errors, installation, network
from kumihimo.server import access, limits, problems
from kumihimo.server.sessions import Sessions, cookie_name
from kumihimo.server.settings import ServerSettings, is_loopback
from kumihimo.server.workspace import Workspace
from kumihimo.text import translation

log = logging.getLogger("kumihimo")
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
# How the headers begin that proxies, tunnels and login gateways add, and clients do not send.
_FORWARDED = re.compile(
    r"[\w-]*(forward|client-?ip|connecting-ip|real-|via$)|cdn-loop|front-end-https|proxy-|remote-|surrogate-capability|"
    "x-(orig|cluster-|remote-|proxy|scheme|url-scheme|host|rewrite-url|request-start|envoy-|varnish|nginx|amz|azure-|arr-|"
    "appgw-|fd-|appengine-|goog-|cloud-|auth-request-|authentik-|pomerium-|akamai-|ssl-|vercel-|nf-|ms-client-|webauth-|"
    "tunnel-)|(akamai|cf|cloudfront|fastly|fly|ngrok|ssl-client|tailscale|wl-proxy)-"
)
_HOST = re.compile(r"(?:\[([0-9a-fA-F:.]+)\]|([\w.-]+))(?::\d{1,5})?", re.ASCII)
_MAX_URL = 8_000  # characters
_SECONDS_BETWEEN_LOOKS = 1.0  # at the keys of requests in progress


class Guard:
    """The outermost middleware: it checks each request, answers each exception, and records both."""

    def __init__(self, app: ASGIApp, workspace: Workspace, settings: ServerSettings, sessions: Sessions) -> None:
        self.app, self.workspace, self.settings, self.sessions = app, workspace, settings, sessions
        self.rates = limits.RateLimits()
        self.visits: set[limits.Visit] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        translation.use_system_language({})  # a request has the language of its sender
        if scope["type"] == "lifespan":
            watch = asyncio.create_task(self._watch_keys())
            try:
                await self.app(scope, receive, send)
            finally:
                watch.cancel()
        elif scope["type"] == "http":
            scope["root_path"], scope["path"] = self.settings.path, inner_path(scope["path"], self.settings.path)
            await self._respond(scope, receive, send)

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        started, scope["state"] = monotonic(), {**scope.get("state", {}), "caller": access.Caller({}), "csrf": ""}
        status = 499  # the client has left

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                _add_headers(message, scope["path"], self.settings.path)
            await send(message)

        try:
            self._check(scope)
            self.visits.add(visit := limits.Visit(scope, receive, send_with_headers, self.settings))
            try:
                await visit.serve(self.app)
            finally:
                self.visits.discard(visit)
        except Exception as error:  # the outermost door of a request
            if status != 499:  # the response has begun: only its end can show the failure
                raise
            await self._explain(error, scope)(scope, receive, send_with_headers)
        finally:
            scope["app"].state.log.write(scope, status, monotonic() - started)

    def _explain(self, error: Exception, scope: Scope) -> Response:
        """Return the response for an error.

        It is a problem, or for a browser without a key the way to sign in.
        """
        path, headers = scope["path"], Headers(scope=scope)
        if not isinstance(error, errors.KumiError):
            log.exception("%s %s failed", scope["method"], quote(path), exc_info=error)
            detail = "the server failed in a way that was not foreseen: its log has the reason"  # which is not shown
            return problems.problem_response(
                500, "Internal Server Error", detail, "Tell the administrator of this server."
            )
        is_page = scope["method"] in _SAFE_METHODS and problems.wants_page(path, headers)
        if isinstance(error, problems.Unauthorized) and is_page:
            return RedirectResponse(f"{self.settings.path}/login", 303)
        response = problems.error_response(error, path)
        if has_two_lengths(headers):  # the rest may be a request that nobody sent
            response.headers["Connection"] = "close"
        return response

    async def _watch_keys(self) -> None:
        """Look again and again which keys have been revoked."""
        while True:
            await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)
            with suppress(errors.KumiError):  # keys that cannot be read: each new request says so
                await self.end_revoked()

    async def end_revoked(self) -> None:
        """End the requests and the builds of revoked keys."""
        for name, served in self.workspace.indexes.items():
            visits = [visit for visit in self.visits if name in visit.caller.notes.indexes]
            used = {visit: visit.caller.grants[name].key for visit in visits}
            keys = {*served.builds.keys, *used.values()} - {""}
            if keys and (revoked := keys - await run_in_threadpool(served.keys.valid_ids)):
                served.builds.cancel_all(revoked)
                for visit, key in used.items():
                    if key in revoked:
                        visit.end(problems.Unauthorized(access.INVALID_KEY))

    def _check(self, scope: Scope) -> None:
        """Raise the error of a request that no route is to see."""
        request, method = HTTPConnection(scope), scope["method"]
        if len(scope.get("raw_path", b"")) + len(scope["query_string"]) > _MAX_URL:
            raise problems.TooLarge(f"the address has more than {_MAX_URL:,} characters: send long values in the body")
        if has_two_lengths(request.headers):
            raise problems.InvalidRequest("the request has both Content-Length and Transfer-Encoding: send one of them")
        check_host(request.headers, self.settings)
        check_origin(request, method)
        check_type(request.headers, method, scope["path"])
        self._authenticate(request, scope)
        caller = scope["state"]["caller"]
        installation.may_show_paths.set(bool(caller.grants) and not caller.key)

    def _authenticate(self, request: HTTPConnection, scope: Scope) -> None:
        """Set the caller and its token for forms."""
        state, path, is_asset = scope["state"], scope["path"], scope["path"].startswith("/static/")
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        session = request.cookies.get(cookie_name(request), "")
        session_caller = self._find_session_caller(session)
        state["csrf"] = self.sessions.csrf_token(session if session_caller else "")
        if token and scheme.lower() == "bearer":
            state["caller"] = self._find_caller(token_digest(token.strip()), request)
        elif session_caller:
            state["caller"] = session_caller
            self._check_session_request(request, scope)
        elif not self._needs_key(request):
            state["caller"] = access.local_caller(self.workspace)
        elif not access.needs_no_key(path):
            raise problems.Unauthorized(
                "this server needs a key"
                if self.settings.needs_keys
                else "a request that a proxy has passed on needs a key"
            )
        if state["caller"].requests_per_minute and not is_asset:
            self.rates.take(state["caller"].key, state["caller"].requests_per_minute)

    def _needs_key(self, request: HTTPConnection) -> bool:
        """Return whether a request needs a key.

        One that a proxy has passed on comes from elsewhere: it has such a header, or is of HTTP/1.0.
        """
        is_old = request.scope["http_version"] == "1.0"
        return self.settings.needs_keys or is_old or any(map(_FORWARDED.match, request.headers))

    def _find_caller(self, digest: bytes, request: HTTPConnection) -> access.Caller:
        """Return the caller with this key.

        Raises Unauthorized, and TooManyRequests for many wrong keys of one sender.
        """
        try:
            return access.find_caller(self.workspace, digest)
        except problems.Unauthorized:
            if not self._needs_key(request):  # programs that insist on a key send any
                return access.local_caller(self.workspace)
            limits.count_failed_key(request)
            raise

    def _find_session_caller(self, session: str) -> access.Caller | None:
        """Return the caller of a session; one whose key was revoked ends."""
        digest = self.sessions.find(session) if session else None
        try:
            return access.find_caller(self.workspace, digest) if digest else None
        except problems.Unauthorized:
            self.sessions.end(session)
            return None

    def _check_session_request(self, request: HTTPConnection, scope: Scope) -> None:
        """Raise Forbidden for a change without the token of its session.

        Forms carry it in a field.
        """
        if scope["method"] in _SAFE_METHODS or not scope["path"].startswith(problems.PROGRAM_PATHS):
            return
        sent = request.headers.get("x-csrf-token", "")
        if not compare_digest(sent.encode(), scope["state"]["csrf"].encode()):
            raise problems.Forbidden("the header X-CSRF-Token is missing or wrong: open the page again")


def inner_path(path: str, base: str) -> str:
    """Return a path inside the server.

    base: that of the server, with which it may begin.

    >>> [inner_path(path, "/kumi") for path in ("/kumi/graph", "/kumi", "/kumi/kumi/login", "/kumiko", "/")]
    ['/graph', '/', '/login', '/kumiko', '/']
    """
    while base and (path == base or path.startswith(f"{base}/")):
        path = path.removeprefix(base) or "/"
    return path


def has_two_lengths(headers: Headers) -> bool:
    """Return whether a body has two lengths.

    A proxy may have chosen the other one.
    """
    return "content-length" in headers and "transfer-encoding" in headers


def check_type(headers: Headers, method: str, path: str) -> None:
    """Raise WrongType for a body that is no JSON.

    Forms of other sites cannot send JSON.
    """
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    is_plain = media_type in ("", "text/plain", "application/x-www-form-urlencoded")
    if method not in _SAFE_METHODS and path.startswith(problems.PROGRAM_PATHS) and has_body and is_plain:
        raise problems.WrongType(f"the body has the type {media_type or 'none'}: send application/json")


def check_host(headers: Headers, settings: ServerSettings) -> None:
    """Raise WrongHost for a name that this server does not have.

    A page of another site may give its own name the address of this server (DNS rebinding): its requests carry that
    name. An address as a host cannot be such a name.
    """
    host = split_host(headers.get("host", ""))
    allowed = {settings.host, *settings.hosts, *_LOOPBACK_NAMES}
    if host in allowed or (not is_loopback(settings.host) and network.read_ip(host)):
        return
    raise problems.WrongHost(f"this server is not called {host[:100] or 'so'}")


def check_origin(request: HTTPConnection, method: str) -> None:
    """Raise Forbidden for a request that a page of another site sends."""
    headers, site = request.headers, request.headers.get("sec-fetch-site", "")
    is_change, is_for_programs = method not in _SAFE_METHODS, request.scope["path"].startswith(problems.PROGRAM_PATHS)
    is_embedded = site in ("cross-site", "same-site") and headers.get("sec-fetch-mode") != "navigate"
    if is_embedded or ((is_change or is_for_programs) and is_foreign(headers.get("origin"), request)):
        raise problems.Forbidden("a page of another site sent this request")
    if is_change and site == "cross-site":
        raise problems.Forbidden("a form of another site sent this request")


def is_foreign(origin: str | None, request: HTTPConnection) -> bool:
    """Return whether an Origin header names another server than the request does."""
    if origin is None:
        return False
    scheme, _, host = origin.lower().partition("://")
    return host != request.headers.get("host", "").lower() or (request.scope["scheme"] == "https" and scheme != "https")


def split_host(host: str) -> str:
    """Return the name or address of a Host header.

    It is empty for another text.

    >>> [split_host(host) for host in ("localhost:8460", "[::1]:8460", "Example.ORG", "me@localhost", "a/b")]
    ['localhost', '::1', 'example.org', '', '']
    """
    match = _HOST.fullmatch(host)
    return (match[1] or match[2]).lower() if match else ""


def _add_headers(message: Message, path: str, base: str) -> None:
    headers = MutableHeaders(scope=message)
    if message["status"] == 307:  # of the framework, for a slash at the end
        location = URL(headers["location"])
        headers["location"] = str(location.replace(path=base + location.path))
    for name, value in _HEADERS.items():
        headers.setdefault(name, value)
    if not path.startswith("/static/"):
        headers.setdefault("Cache-Control", "no-store")
