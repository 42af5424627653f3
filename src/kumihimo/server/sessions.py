"""a key in a browser -> a session: a cookie that stands for the key, and the token that its forms carry."""

from collections import OrderedDict
from hmac import compare_digest, new as hmac
from secrets import token_bytes, token_urlsafe
from time import monotonic
from urllib.parse import parse_qsl

from fastapi import Request, Response
from starlette.requests import HTTPConnection

from kumihimo.app.upkeep.keys import token_digest
from kumihimo.server import access, limits, problems

COOKIE = "kumi_session"
_MAX_SESSIONS = 10_000
_IDLE_SECONDS = 12 * 3600.0
_MAX_FIELDS = 20  # of a form


class Sessions:
    """The sessions of one server, in memory: they end with it.

    A session holds the hash of its key, which is checked at each request: so it ends with the key.
    """

    def __init__(self) -> None:
        self._secret = token_bytes(32)
        self._hashes: OrderedDict[str, tuple[bytes, float]] = OrderedDict()  # id -> hash of the key, last use

    def start(self, digest: bytes) -> str:
        """Return the id of a new session.

        The oldest ends if there are too many.
        """
        id = token_urlsafe(32)
        self._hashes[id] = digest, monotonic()
        while len(self._hashes) > _MAX_SESSIONS:
            self._hashes.popitem(last=False)
        return id

    def find(self, id: str) -> bytes | None:
        """Return the hash of a session's key; None if it has ended."""
        digest, last_use = self._hashes.get(id, (b"", 0.0))
        if not digest or monotonic() - last_use > _IDLE_SECONDS:
            self._hashes.pop(id, None)
            return None
        self._hashes[id] = digest, monotonic()
        self._hashes.move_to_end(id)
        return digest

    def end(self, id: str) -> None:
        """End a session."""
        self._hashes.pop(id, None)

    def csrf_token(self, id: str = "") -> str:
        """Return the token that forms of a session carry.

        Without a session, those of this server. Pages of other sites cannot read it.
        """
        return hmac(self._secret, id.encode(), "sha256").hexdigest()


def cookie_name(request: HTTPConnection) -> str:
    """Return the name of the cookie of a session."""
    if request.scope["scheme"] != "https":
        return COOKIE
    return f"__Secure-{COOKIE}" if request.scope["root_path"] else f"__Host-{COOKIE}"  # which no other host can set


def cookie_path(request: HTTPConnection) -> str:
    """Return the path of all cookies."""
    return request.scope["root_path"] or "/"


def sign_in(request: Request, response: Response, token: str) -> None:
    """Start a session for a key.

    Raises Unauthorized if it is not valid, and TooManyRequests after many of these.
    """
    sessions: Sessions = request.app.state.sessions
    digest, name = token_digest(token.strip()), cookie_name(request)
    try:
        access.find_caller(request.app.state.workspace, digest)
    except problems.Unauthorized:
        limits.count_failed_key(request)
        raise
    sessions.end(request.cookies.get(name, ""))
    is_secure = request.scope["scheme"] == "https"
    path = cookie_path(request)
    response.set_cookie(name, sessions.start(digest), httponly=True, samesite="strict", secure=is_secure, path=path)


def sign_out(request: Request, response: Response) -> None:
    """End the session of a browser."""
    sessions: Sessions = request.app.state.sessions
    name, is_secure = cookie_name(request), request.scope["scheme"] == "https"
    sessions.end(request.cookies.get(name, ""))
    response.delete_cookie(name, path=cookie_path(request), httponly=True, samesite="strict", secure=is_secure)


def csrf_token(request: Request) -> str:
    """Return the token for the field `csrf` of forms.

    Scripts send it in the header X-CSRF-Token.
    """
    return str(request.state.csrf)


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form of the page.

    Raises Forbidden if its token is not that of this page, and InvalidRequest for too many fields.
    """
    text = (await request.body()).decode(errors="replace")
    try:
        fields = dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_MAX_FIELDS))
    except ValueError:
        raise problems.InvalidRequest(f"the form has more than {_MAX_FIELDS} fields: open the page again") from None
    check_csrf(request, fields.get("csrf", ""))
    return fields


def check_csrf(request: Request, token: str) -> None:
    """Raise Forbidden for a form of another page."""
    if not compare_digest(token.encode(), csrf_token(request).encode()):
        raise problems.Forbidden("this form is too old, or came from another page: open the page again")
