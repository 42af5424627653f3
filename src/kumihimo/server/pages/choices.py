"""a form with preferences -> a cookie of this browser."""

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from kumihimo.server.pages.errors import PageRoute
from kumihimo.server.pages.preferences import COOKIE, parse_preferences

router = APIRouter(route_class=PageRoute, include_in_schema=False)
_YEAR = 365 * 24 * 3600  # seconds


@router.post("/preferences")
async def keep_preferences(request: Request) -> Response:
    """Keep the preferences of a form in a cookie, and return to its page."""
    async with request.form() as form:
        values = {name: value for name, value in form.items() if isinstance(value, str)}
    preferences = parse_preferences(request.cookies.get(COOKIE, "")).update(values)
    response = RedirectResponse(local_address(values.get("back", "/")), 303)
    response.set_cookie(COOKIE, preferences.encode(), max_age=_YEAR, samesite="lax", httponly=True)
    return response


def local_address(address: str) -> str:
    r"""Return an address of this server, or that of its first page.

    >>> [local_address(address) for address in ("/graph?id=1", "//evil.example", "/\\evil.example", "https://a.example")]
    ['/graph?id=1', '/', '/', '/']
    """
    is_local = address.startswith("/") and not address.startswith(("//", "/\\")) and address.isprintable()
    return address if is_local else "/"
