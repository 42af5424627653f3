"""a visit and values -> an HTML page in its language, colours and index."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast
from urllib.parse import quote, urlencode

from fastapi import Depends, Request
from fastapi.responses import HTMLResponse

from kumihimo.app.upkeep.keys import Role
from kumihimo.core.digests import hash_parts
from kumihimo.server.access import Access, require
from kumihimo.server.languages import accepted_language
from kumihimo.server.pages.access_state import is_signed_in, usable_indexes
from kumihimo.server.pages.assets import asset_address
from kumihimo.server.pages.markdown import markdown_blocks
from kumihimo.server.pages.plain_text import plain_text
from kumihimo.server.pages.preferences import COOKIE, Preferences, parse_preferences
from kumihimo.server.sessions import csrf_token
from kumihimo.server.workspace import Workspace
from kumihimo.text.translation import LANGUAGES, script_language, translate

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

INDEX_PREFIXES = ("", "/indexes/{index_name}")  # of the first index, and of each
_TEMPLATES = Path(__file__).parents[1] / "templates"
_LANGUAGE_NAMES = {"en": "English", "ja": "日本語", "zh": "中文"}


@dataclass(frozen=True, slots=True)
class Look:
    """The language and preferences of a page."""

    request: Request
    language: str
    preferences: Preferences

    @property
    def workspace(self) -> Workspace:
        return cast(Workspace, self.request.app.state.workspace)

    @property
    def csrf(self) -> str:
        """Return the token that forms of this page send back."""
        return csrf_token(self.request)

    @property
    def signed_in(self) -> bool:
        """Return whether the browser has the session of a key."""
        return is_signed_in(self.request)

    @property
    def here(self) -> str:
        """Return the address of this page."""
        query = self.request.url.query
        return f"{self.request.url.path}{'?' if query else ''}{query}"

    def translate(self, text: str) -> str:
        """Return a message in the language of the page."""
        return translate(text, self.language)

    def count_of(self, count: int, one: str, many: str = "") -> str:
        """Return a number with its noun."""
        return self.translate(f"{count:,} {one if count == 1 else many or f'{one}s'}")


@dataclass(frozen=True, slots=True)
class Visit:
    """A request for a page of an index: how it looks, and what its sender may do."""

    look: Look
    access: Access

    @property
    def request(self) -> Request:
        return self.look.request

    @property
    def language(self) -> str:
        return self.look.language

    def translate(self, text: str) -> str:
        """Return a message in the language of the page."""
        return self.look.translate(text)

    @property
    def prefix(self) -> str:
        """Return the beginning of the addresses of this index."""
        name = self.look.request.path_params.get("index_name", "")
        return f"/indexes/{quote(name)}" if name else ""

    @property
    def api(self) -> str:
        """Return the beginning of the addresses of the API for this index."""
        return f"/api/v1/indexes/{quote(self.access.served.name)}"

    @property
    def indexes(self) -> list[str]:
        """Return the names of all indexes that the sender may use."""
        return usable_indexes(self.look.request)

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


def find_look(request: Request) -> Look:
    """Return how pages look to the sender of a request."""
    preferences = parse_preferences(request.cookies.get(COOKIE, ""))
    language = preferences.language or accepted_language(request.headers.get("accept-language", ""))
    return Look(request, language, preferences)


def visit_as(role: Role) -> Callable[[Request], Visit]:
    """Return a dependency: the visit of a request, for a role."""
    find_access = require(role)

    def find_visit(request: Request) -> Visit:
        return Visit(find_look(request), find_access(request))

    return find_visit


ReaderVisit = Annotated[Visit, Depends(visit_as("reader"))]
EditorVisit = Annotated[Visit, Depends(visit_as("editor"))]


def render(page: Look | Visit, template: str, status: int = 200, /, **values: object) -> HTMLResponse:
    """Return a page; that of a Visit also shows the index.

    values: of the template.
    """
    look = page.look if isinstance(page, Visit) else page
    text = (
        environment()
        .get_template(template)
        .render(
            look=look,
            visit=page if isinstance(page, Visit) else None,
            language_names=_LANGUAGE_NAMES,
            asset=lambda name: asset_address(name, look.language),
            translate=look.translate,
            count_of=look.count_of,
            **values,
        )
    )
    return HTMLResponse(text, status, headers={"Cache-Control": "no-store", "Vary": "Accept-Language, Cookie"})


@cache
def environment() -> "Environment":
    """Return the templates of the page, which escape all texts."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    templates = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {
        "number": "{:,}".format,
        "blocks": markdown_blocks,
        "language": text_language,
        "plain": plain_text,
        "quoted": quote_value,
        "code": mark_code,
    }
    templates.globals |= {"languages": LANGUAGES}
    return templates


def text_language(text: str) -> str:
    """Return the language of a text, for its glyphs; empty: not known.

    >>> [text_language(text) for text in ("潮返しの紐", "东门钥匙", "Salt")]
    ['ja', 'zh', '']
    """
    language = script_language(text[:2000], text[:2000])
    return "" if language == "en" else language


def mark_code(text: str) -> "Markup":
    """Return a message whose parts in backquotes are code.

    >>> print(mark_code("run `kumi index <b>`"))
    run <code>kumi index &lt;b&gt;</code>
    """
    from markupsafe import Markup, escape

    parts = text.split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    return Markup("").join(Markup("<code>{}</code>").format(part) if n % 2 else part for n, part in enumerate(parts))


def quote_value(text: str) -> str:
    r"""Return a text as a value in a filter.

    >>> print(quote_value('the "Long Arm"'))
    "the \"Long Arm\""
    """
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
