"""a name -> a file of the page: the stylesheet, a script, or the labels of scripts in a language."""

import json
from functools import cache
from pathlib import Path

from fastapi import APIRouter, Response

from kumihimo.core.digests import hash_parts
from kumihimo.page import script_labels
from kumihimo.server.problems import NotFound
from kumihimo.text.translation import LANGUAGES, translate

_FOLDER = Path(__file__).parents[1] / "static"
_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_LABELS = "labels.js"
_FOREVER = "public, max-age=31536000, immutable"  # the address changes with the content

router = APIRouter(include_in_schema=False)


@cache
def asset_version() -> str:
    """Return a digest of all files."""
    catalogues = [_write_labels(language) for language in LANGUAGES]
    return hash_parts(*(_read(path.name) for path in sorted(_FOLDER.iterdir())), *catalogues)[:12]


def asset_address(name: str, language: str) -> str:
    """Return the address of a file, with labels in a language."""
    return f"/static/{asset_version()}/{language}/{name}"


@router.get("/static/{version}/{language}/{name}")
def send_asset(version: str, language: str, name: str) -> Response:
    """Send a file of the page."""
    path = _FOLDER / name
    if language not in LANGUAGES or (name != _LABELS and path not in _FOLDER.iterdir()):
        raise NotFound(f"the page has no file {name!r}: reload the page")
    text = _write_labels(language) if name == _LABELS else _read(name)
    caching = _FOREVER if version == asset_version() else "no-cache"
    return Response(text, media_type=_TYPES[path.suffix], headers={"Cache-Control": caching})


@cache
def _read(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


@cache
def _write_labels(language: str) -> str:
    """Return a module with the texts of all scripts in a language."""
    scripts = sorted(path.name for path in _FOLDER.glob("*.js"))
    texts = dict.fromkeys(text for name in scripts for text in script_labels(_read(name)))
    labels = {text: translate(text, language) for text in texts} if language != "en" else {}
    return f"export default {json.dumps(labels, ensure_ascii=False)};\n"
