"""forms of any page -> the session of a key, or a cookie with preferences."""

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from kumihimo.server import problems, sessions
from kumihimo.server.pages.context import COOKIE, find_page
from kumihimo.server.pages.errors import PageRoute, sentence
from kumihimo.server.pages.rendering import render

router = APIRouter(route_class=PageRoute, include_in_schema=False)
_YEAR = 365 * 24 * 3600  # seconds


@router.post("/preferences")
async def keep_preferences(request: Request) -> Response:
    """Keep the preferences of a form in a cookie."""
    values = await sessions.read_form(request)
    page = find_page(request)
    preferences = page.preferences.update(values)
    response = RedirectResponse(local_address(values.get("back", ""), page.base), 303)
    response.set_cookie(
        COOKIE, preferences.encode(), max_age=_YEAR, samesite="lax", httponly=True, path=sessions.cookie_path(request)
    )
    return response


@router.get("/login")
async def show_login(request: Request) -> Response:
    """Send the form for a key."""
    return await render(find_page(request), "login.html", failed="")


@router.post("/login")
async def start_session(request: Request) -> Response:
    """Start a session for the key of the form."""
    form = await sessions.read_form(request)
    response = RedirectResponse(f"{find_page(request).base}/", 303)
    try:
        sessions.sign_in(request, response, form.get("key", ""))
    except (problems.Unauthorized, problems.TooManyRequests) as error:
        page = find_page(request)
        return await render(page, "login.html", problems.status_of(error), failed=sentence(page.translate(str(error))))
    return response


@router.post("/logout")
async def end_session(request: Request) -> Response:
    """End the session."""
    response = RedirectResponse(f"{find_page(request).base}/login", 303)
    sessions.sign_out(request, response)
    return response


def local_address(address: str, base: str = "") -> str:
    r"""Return an address of this server, or that of its first page.

    base: the path of the server.

    >>> [local_address(address) for address in ("/graph?id=1", "//evil.example", "/\\evil.example", "https://a.example")]
    ['/graph?id=1', '/', '/', '/']
    """
    is_local = address.startswith(f"{base}/") and not address.startswith(("//", "/\\")) and address.isprintable()
    return address if is_local else f"{base}/"
