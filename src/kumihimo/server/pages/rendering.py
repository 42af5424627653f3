"""a context and values -> an HTML page by its template; a name -> a stylesheet, a script or the labels of scripts."""

import json
from functools import cache
from pathlib import Path

from fastapi import APIRouter, Response
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.concurrency import run_in_threadpool

from kumihimo.core.digests import hash_parts
from kumihimo.page import GESTURES, script_labels
from kumihimo.server.pages.context import IndexPage, PageContext
from kumihimo.server.pages.markdown import markdown_blocks, plain_text
from kumihimo.server.problems import NotFound
from kumihimo.text.translation import LANGUAGES, script_language, translate

router = APIRouter(include_in_schema=False)
_TEMPLATES = Path(__file__).parents[1] / "templates"
_ASSETS = {path.name: path for path in (*sorted(Path(__file__).parents[1].joinpath("static").iterdir()), GESTURES)}
_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_LABELS = "labels.js"
_FOREVER = "public, max-age=31536000, immutable"  # the address changes with the content
_LANGUAGE_NAMES = {"en": "English", "ja": "日本語", "zh": "简体中文", "zh-Hant": "繁體中文"}


async def render(page: PageContext, template: str, status: int = 200, /, **values: object) -> HTMLResponse:
    """Return a page; that of an IndexPage also shows the index.

    It is made in a thread. values: of the template.
    """
    values |= {
        "page": page,
        "has_index": isinstance(page, IndexPage),
        "translate": page.translate,
        "count_of": page.count_of,
        "asset": lambda name: f"{page.base}/static/{asset_version()}/{page.language}/{name}",
    }
    text = await run_in_threadpool(lambda: environment().get_template(template).render(values))
    return HTMLResponse(text, status, headers={"Cache-Control": "no-store", "Vary": "Accept-Language, Cookie"})


@cache
def environment() -> Environment:
    """Return the templates of the page, which escape all texts."""
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
    templates.globals |= {"languages": LANGUAGES, "language_names": _LANGUAGE_NAMES}
    return templates


def text_language(text: str) -> str:
    """Return the language of a text, for its glyphs; empty: not known.

    >>> [text_language(text) for text in ("潮返しの紐", "东门钥匙", "Salt")]
    ['ja', 'zh', '']
    """
    language = script_language(text[:2000], text[:2000])
    return "" if language == "en" else language


def mark_code(text: str) -> Markup:
    """Return a message whose parts in backquotes are code.

    >>> print(mark_code("run `kumi index <b>`"))
    run <code>kumi index &lt;b&gt;</code>
    """
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


@cache
def asset_version() -> str:
    """Return a digest of all files."""
    catalogues = [_write_labels(language) for language in LANGUAGES]
    return hash_parts(*map(_read_asset, _ASSETS), *catalogues)[:12]


@router.get("/static/{version}/{language}/{name}")
def send_asset(version: str, language: str, name: str) -> Response:
    """Send a file of the page."""
    if language not in LANGUAGES or (name != _LABELS and name not in _ASSETS):
        raise NotFound(f"the page has no file {name!r}: reload the page")
    text = _write_labels(language) if name == _LABELS else _read_asset(name)
    caching = _FOREVER if version == asset_version() else "no-cache"
    return Response(text, media_type=_TYPES[Path(name).suffix], headers={"Cache-Control": caching})


@cache
def _read_asset(name: str) -> str:
    return _ASSETS[name].read_text(encoding="utf-8")


@cache
def _write_labels(language: str) -> str:
    """Return a module with the texts of all scripts in a language."""
    texts = dict.fromkeys(
        text for name in sorted(_ASSETS) if name.endswith(".js") for text in script_labels(_read_asset(name))
    )
    labels = {text: translate(text, language) for text in texts} if language != "en" else {}
    return f"export default {json.dumps(labels, ensure_ascii=False)};\n"
