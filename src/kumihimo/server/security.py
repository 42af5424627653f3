"""each request -> its checks before any route: host, origin, key, rates, sizes; and the headers of its response."""

from collections.abc import MutableMapping
from ipaddress import ip_address
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from kumihimo.app.keys import token_digest
from kumihimo.core.errors import KumiError
from kumihimo.server.access import Caller, find_caller, local_caller
from kumihimo.server.audit import RequestLog
from kumihimo.server.body_limits import BodyLimits
from kumihimo.server.problems import Forbidden, TooLarge, Unauthorized, WrongHost, WrongType, problem
from kumihimo.server.rate_limits import RateLimits
from kumihimo.server.sessions import COOKIE, Sessions
from kumihimo.server.settings import ServerSettings
from kumihimo.server.workspace import Workspace

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
_OPEN_PATHS = ("/health", "/login", "/preferences")  # without a key; so is /static/
_PROGRAM_PATHS = ("/api/", "/v1/", "/mcp")  # for programs: they get problems, not pages
_MAX_URL = 8_000  # characters
_FAILED_KEYS_PER_MINUTE = 20  # of one address


class Guard:
    """The outermost middleware."""

    def __init__(self, app: ASGIApp, workspace: Workspace, settings: ServerSettings, sessions: Sessions) -> None:
        self.app, self.workspace, self.settings, self.sessions = app, workspace, settings, sessions
        self.needs_key = settings.require_keys or not is_loopback(settings.host)
        self.rates = RateLimits()
        self.log = RequestLog(settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            self.log.close()
        elif scope["type"] == "http":
            await self._respond(scope, receive, send)

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        started, scope["state"] = monotonic(), {**scope.get("state", {}), "caller": Caller({}), "csrf": ""}
        status = 499  # the client has left

        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                _add_headers(message, scope["path"])
            await send(message)

        try:
            self._check(scope)
        except KumiError as error:
            await self._refuse(error, scope)(scope, receive, send_with_headers)
        else:
            await self._call_app(scope, receive, send_with_headers)
        finally:
            self.log.write(scope, status, monotonic() - started)

    def _refuse(self, error: KumiError, scope: Scope) -> Response:
        """Return the response to a refused request: a problem, or for a page the way to sign in."""
        path = scope["path"]
        if isinstance(error, Unauthorized) and scope["method"] == "GET" and not path.startswith(_PROGRAM_PATHS):
            return RedirectResponse("/login", 303)
        return problem(error, path)

    async def _call_app(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application; answer a body that is too large or too slow."""
        limits = BodyLimits(receive, Headers(scope=scope), self._max_body(scope), self.settings.body_seconds)
        has_started = is_refused = False

        async def send_or_refuse(message: MutableMapping[str, Any]) -> None:
            nonlocal has_started, is_refused
            if limits.error and not has_started:  # a route may have taken the error for a malformed body
                has_started = is_refused = True
                await problem(limits.error, scope["path"])(scope, receive, send)
            has_started = True
            if not is_refused:
                await send(message)

        await self.app(scope, limits.receive, send_or_refuse)

    def _check(self, scope: Scope) -> None:
        """Raise the error of a request that no route is to see."""
        request, method = HTTPConnection(scope), scope["method"]
        if len(scope.get("raw_path", b"")) + len(scope["query_string"]) > _MAX_URL:
            raise TooLarge(f"the address has more than {_MAX_URL:,} characters: send long values in the body")
        check_host(request.headers, self.settings)
        check_origin(request.headers, method, scope["path"])
        self._check_type(request.headers, method, scope["path"])
        self._authenticate(request, scope)

    def _check_type(self, headers: Headers, method: str, path: str) -> None:
        """Raise WrongType for a body that a form of another site could send to a route for programs."""
        media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
        is_plain = media_type in ("", "text/plain", "application/x-www-form-urlencoded")
        if method not in _SAFE_METHODS and path.startswith(_PROGRAM_PATHS) and has_body and is_plain:
            raise WrongType(f"the body has the type {media_type or 'none'}: send application/json")

    def _authenticate(self, request: HTTPConnection, scope: Scope) -> None:
        """Set the caller and its token for forms."""
        address, state, path = request.client.host if request.client else "", scope["state"], scope["path"]
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        session = request.cookies.get(COOKIE, "")
        session_hash = self.sessions.find(session) if session else None
        state["csrf"] = self.sessions.csrf_token(session if session_hash else "")
        if token and scheme.lower() == "bearer":
            state["caller"] = self._find_caller(token_digest(token.strip()), address)
        elif session_hash:
            state["caller"] = self._find_caller(session_hash, address)
            self._check_session_request(request, scope)
        elif not self.needs_key:
            state["caller"] = local_caller(self.workspace)
        elif path not in _OPEN_PATHS and not path.startswith("/static/"):
            raise Unauthorized("this server needs a key")
        if state["caller"].requests_per_minute:
            self.rates.take(f"key {state['caller'].key}", state["caller"].requests_per_minute)

    def _find_caller(self, digest: bytes, address: str) -> Caller:
        """Return the caller with this key. Raise TooManyRequests after many wrong keys."""
        failures = f"address {address}"
        self.rates.check(failures, _FAILED_KEYS_PER_MINUTE)
        try:
            return find_caller(self.workspace, digest)
        except Unauthorized:
            if not self.needs_key:  # programs that insist on a key send any
                return local_caller(self.workspace)
            self.rates.take(failures, _FAILED_KEYS_PER_MINUTE)
            raise

    def _check_session_request(self, request: HTTPConnection, scope: Scope) -> None:
        """Raise Forbidden for a change by a session without its token; forms carry it in a field."""
        if scope["method"] in _SAFE_METHODS or not scope["path"].startswith(_PROGRAM_PATHS):
            return
        if request.headers.get("x-csrf-token", "") != scope["state"]["csrf"]:
            raise Forbidden("the header X-CSRF-Token is missing or wrong: open the page again")

    def _max_body(self, scope: Scope) -> int:
        """Return the most bytes of the body; files may be larger."""
        media_type = Headers(scope=scope).get("content-type", "")
        return self.settings.max_upload if media_type.startswith("multipart/form-data") else self.settings.max_body


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address.

    >>> [is_loopback(host) for host in ("127.0.0.1", "localhost", "::1", "0.0.0.0", "192.168.0.4")]
    [True, True, True, False, False]
    """
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_host(headers: Headers, settings: ServerSettings) -> None:
    """Raise WrongHost for a name that this server does not have.

    A page of another site may give its own name the address of this server (DNS rebinding): its requests carry that
    name. An address as a host cannot be such a name.
    """
    host = split_host(headers.get("host", ""))
    allowed = {settings.host, *settings.hosts, *(_LOOPBACK_NAMES if is_loopback(settings.host) else ())}
    if host in allowed or (not is_loopback(settings.host) and _is_address(host)):
        return
    raise WrongHost(f"this server is not called {host[:100] or 'so'}")


def check_origin(headers: Headers, method: str, path: str) -> None:
    """Raise Forbidden for a request that a page of another site sends."""
    origin, site = headers.get("origin"), headers.get("sec-fetch-site", "")
    is_change = method not in _SAFE_METHODS
    is_foreign = origin is not None and urlsplit(origin).netloc != headers.get("host", "")
    is_embedded = site in ("cross-site", "same-site") and headers.get("sec-fetch-mode") != "navigate"
    if (is_foreign and (is_change or path.startswith(_PROGRAM_PATHS))) or is_embedded:
        raise Forbidden("a page of another site sent this request")
    if is_change and site == "cross-site":
        raise Forbidden("a form of another site sent this request")


def split_host(host: str) -> str:
    """Return the name or address of a Host header, without its port.

    >>> [split_host(host) for host in ("localhost:8460", "[::1]:8460", "Example.ORG", "")]
    ['localhost', '::1', 'example.org', '']
    """
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _add_headers(message: MutableMapping[str, Any], path: str) -> None:
    headers = MutableHeaders(scope=message)
    for name, value in _HEADERS.items():
        headers.setdefault(name, value)
    if not path.startswith("/static/"):
        headers.setdefault("Cache-Control", "no-store")
