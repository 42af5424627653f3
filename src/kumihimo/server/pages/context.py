"""a request for a page -> its context: language, preferences, addresses, and what its sender may do and read."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qsl, quote, urlencode

from fastapi import Depends, Request

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.core.digests import hash_parts
from kumihimo.server import problems, sessions
from kumihimo.server.access import Access, find_access
from kumihimo.text.translation import LANGUAGES, translate

T = TypeVar("T")
INDEX_PREFIXES = ("", "/indexes/{index_name}")  # of the first index, and of each
COOKIE = "kumi_preferences"
THEMES = ("", "light", "dark")  # empty: as the system
_MAX_CHARS = 1000  # of a value


@dataclass(frozen=True, slots=True)
class Preferences:
    """The choices of a person in this browser.

    An empty one is not made. theme: light or dark; empty: as the system. method, length, filter: of a new question.
    """

    language: str = ""
    theme: str = ""
    method: str = ""
    length: str = ""
    filter: str = ""

    def encode(self) -> str:
        """Return the value of the cookie."""
        return urlencode({name: value for name, value in asdict(self).items() if value})

    def update(self, values: Mapping[str, str]) -> "Preferences":
        """Return the preferences with new values, without unknown ones.

        >>> Preferences().update({"theme": "dark", "language": "xx", "colour": "red"})
        Preferences(language='', theme='dark', method='', length='', filter='')
        """
        names = {field.name for field in fields(self)}
        known = {name: value.strip()[:_MAX_CHARS] for name, value in values.items() if name in names}
        choices = {"language": ("", *LANGUAGES), "theme": THEMES}
        return replace(self, **{name: v for name, v in known.items() if v in choices.get(name, (v,))})


def parse_preferences(cookie: str) -> Preferences:
    """Return the preferences that a cookie holds.

    >>> parse_preferences("language=ja&filter=year+%3E+2020").filter
    'year > 2020'
    """
    return Preferences().update(dict(parse_qsl(cookie)))


@dataclass(frozen=True, slots=True)
class PageContext:
    """A requested page: its language, preferences and forms."""

    request: Request
    language: str
    preferences: Preferences

    @property
    def csrf(self) -> str:
        """Return the token that forms of this page send back."""
        return sessions.csrf_token(self.request)

    @property
    def signed_in(self) -> bool:
        """Return whether the browser has the session of a key."""
        return bool(self.request.state.caller.key) and sessions.cookie_name(self.request) in self.request.cookies

    @property
    def base(self) -> str:
        """Return the path of the server, with which all addresses begin."""
        return str(self.request.scope["root_path"])

    @property
    def here(self) -> str:
        """Return the address of this page."""
        query = self.request.url.query
        return f"{self.base}{self.request.scope['path']}{'?' if query else ''}{query}"

    def translate(self, text: str) -> str:
        """Return a message in the language of the page."""
        return translate(text, self.language)

    def count_of(self, count: int, one: str, many: str = "") -> str:
        """Return a number with its noun."""
        return self.translate(f"{count:,} {one if count == 1 else many or f'{one}s'}")


@dataclass(frozen=True, slots=True)
class IndexPage(PageContext):
    """A requested page of an index: its addresses, and what its sender may do."""

    access: Access

    @property
    def prefix(self) -> str:
        """Return the beginning of the addresses of this index."""
        name = self.request.path_params.get("index_name", "")
        return f"{self.base}/indexes/{quote(name)}" if name else self.base

    @property
    def api(self) -> str:
        """Return the beginning of the addresses of the API for this index."""
        return f"{self.base}/api/v1/indexes/{quote(self.access.served.name)}"

    @property
    def indexes(self) -> list[str]:
        """Return the names of all indexes that the sender may use."""
        return [*self.request.state.caller.grants]

    def passage(self, span: Mapping[str, Any]) -> str:
        """Return the address of a span in its document.

        span: as `place_json` returns it.
        """
        document = hash_parts(span["uri"])
        return self.address(f"/documents/{document}", "passage", start=span["start"], end=span["end"])

    def document(self, uri: str) -> str:
        """Return the address of a document."""
        return self.address(f"/documents/{hash_parts(uri)}")

    def source(self, table: str, id: str) -> str:
        """Return the address of the page about a row."""
        if table == "entities":
            return self.address("/graph", entity=id)
        return self.address(f"/trace/{table}/{quote(id)}")

    def address(self, path: str, fragment: str = "", **parameters: object) -> str:
        """Return the address of a page of this index.

        parameters: of the query; empty ones are left out.
        """
        query = urlencode({name: value for name, value in parameters.items() if value not in ("", None)})
        return f"{self.prefix}{path}{'?' if query else ''}{query}{'#' if fragment else ''}{fragment}"


def find_page(request: Request) -> PageContext:
    """Return the page of a request, in the language of its sender."""
    preferences = parse_preferences(request.cookies.get(COOKIE, ""))
    language = preferences.language or problems.accepted_language(request.headers)
    return PageContext(request, language, preferences)


def find_index_page(request: Request, route: str = "") -> IndexPage:
    """Return the page of a request for an index.

    route: whose right is needed, by default that of the request. Raises NotFound and Forbidden as `find_access`.
    """
    page, index = find_page(request), request.path_params.get("index_name", "")
    return IndexPage(request, page.language, page.preferences, find_access(request, index, route))


async def find_allowed_page(request: Request) -> IndexPage:  # a plain function would wait for a thread
    """Return the page of a request, if its route is allowed."""
    return find_index_page(request)


AllowedPage = Annotated[IndexPage, Depends(find_allowed_page)]


async def read_or(page: IndexPage, empty: T, read: Callable[[Snapshot], T], table: str = "") -> T:
    """Return what a function reads; `empty` before the first build.

    table: as for `Access.read`.
    """
    if not page.access.served.kumi.store.exists():
        return empty
    return await page.access.read(read, table)
