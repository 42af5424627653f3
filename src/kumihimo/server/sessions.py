"""a key in a browser -> a session: a cookie that stands for the key, and the token that its forms carry."""

from collections import OrderedDict
from hmac import compare_digest
from hmac import new as hmac
from secrets import token_bytes, token_urlsafe
from time import monotonic

from fastapi import Request
from starlette.datastructures import FormData
from starlette.responses import Response

from kumihimo.app.keys import token_digest
from kumihimo.server.access import find_caller
from kumihimo.server.problems import Forbidden

COOKIE = "kumi_session"
_MAX_SESSIONS = 10_000
_IDLE_SECONDS = 12 * 3600.0


class Sessions:
    """The sessions of one server, in memory: they end with it.

    A session holds the hash of its key, which is checked at each request: so it ends with the key.
    """

    def __init__(self) -> None:
        self._secret = token_bytes(32)
        self._hashes: OrderedDict[str, tuple[bytes, float]] = OrderedDict()  # id -> hash of the key, last use

    def start(self, digest: bytes) -> str:
        """Return the id of a new session; the oldest ends if there are too many."""
        id = token_urlsafe(32)
        self._hashes[id] = digest, monotonic()
        while len(self._hashes) > _MAX_SESSIONS:
            self._hashes.popitem(last=False)
        return id

    def find(self, id: str) -> bytes | None:
        """Return the hash of the key of a session that has not ended."""
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
        """Return the token that forms of a session carry; without one, those of this server.

        Pages of other sites cannot read it.
        """
        return hmac(self._secret, id.encode(), "sha256").hexdigest()


def sign_in(request: Request, response: Response, token: str) -> None:
    """Start a session for a key. Raise Unauthorized if it is not valid."""
    sessions: Sessions = request.app.state.sessions
    digest = token_digest(token.strip())
    find_caller(request.app.state.workspace, digest)
    is_secure = request.url.scheme == "https" or request.headers.get("x-forwarded-proto") == "https"
    response.set_cookie(COOKIE, sessions.start(digest), httponly=True, samesite="strict", secure=is_secure, path="/")


def sign_out(request: Request, response: Response) -> None:
    """End the session of a browser."""
    sessions: Sessions = request.app.state.sessions
    sessions.end(request.cookies.get(COOKIE, ""))
    response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")


def csrf_token(request: Request) -> str:
    """Return the token for the hidden field `csrf` of a form, and for the header X-CSRF-Token."""
    return str(request.state.csrf)


async def read_form(request: Request, *, max_files: int = 0, max_fields: int = 20) -> FormData:
    """Return the fields of a form of the page. Raise Forbidden if its token is not that of this page."""
    form = await request.form(max_files=max_files, max_fields=max_fields)
    check_csrf(request, str(form.get("csrf", "")))
    return form


def check_csrf(request: Request, token: str) -> None:
    """Raise Forbidden if a form did not come from a page of this server."""
    if not compare_digest(token.encode(), csrf_token(request).encode()):
        raise Forbidden("this form is too old, or came from another page: open the page again")
