"""EPUB -> one page of text, with the places where its chapters begin."""

from __future__ import annotations

from collections.abc import Iterator
from posixpath import dirname, join, normpath
from urllib.parse import unquote
from xml.etree import ElementTree
from zipfile import ZipFile

from kumihimo.core.errors import SourceError
from kumihimo.readers.archive import open_archive, read_part
from kumihimo.readers.html import read_full_html
from kumihimo.readers.page import Page, join_with_places, refuse_empty

CONTAINER = "META-INF/container.xml"
DC = "{http://purl.org/dc/elements/1.1/}"
OPF = "{http://www.idpf.org/2007/opf}"
CHAPTER_TYPES = ("application/xhtml+xml", "text/html")
PROPERTIES = {"creator": "author", "language": "lang", "publisher": "publisher", "date": "date"}
PROPERTIES |= {"subject": "subject", "description": "description", "rights": "rights"}


def read_epub(data: bytes, name: str) -> Iterator[Page]:
    """Read the chapters of a book in reading order."""
    with open_archive(data, name) as archive:
        home, package = _read_package(archive, name)
        parts = ((read_part(archive, path, name), f"{name}: {path}") for path in _chapter_paths(package, home))
        chapters = (page for chapter_part in parts for page in read_full_html(*chapter_part))
        pages = [page for page in chapters if page.text]  # a cover may be a picture
    text, places = join_with_places(
        (page.text, page.places or ((0, page.title and f"§ {page.title}"),)) for page in pages
    )
    refuse_empty(text, name)
    title, metadata = _read_metadata(package)
    yield Page(title=title, text=text, metadata=metadata, places=places)


def _read_package(archive: ZipFile, name: str) -> tuple[str, ElementTree.Element]:
    """Return the base folder of paths, and the package document."""
    root = _parse_part(archive, CONTAINER, name).find(".//{*}rootfile")
    path = "" if root is None else root.get("full-path", "")
    return dirname(path), _parse_part(archive, path, name)


def _parse_part(archive: ZipFile, path: str, name: str) -> ElementTree.Element:
    try:
        return ElementTree.fromstring(read_part(archive, path, name))
    except ElementTree.ParseError as error:
        raise SourceError(f"{name}: its part {path} is broken ({error}); export the book again") from error


def _chapter_paths(package: ElementTree.Element, home: str) -> Iterator[str]:
    items = {item.get("id"): item for item in package.iter(f"{OPF}item")}
    for reference in package.iter(f"{OPF}itemref"):
        item = items.get(reference.get("idref"))
        if (
            item is not None
            and item.get("media-type") in CHAPTER_TYPES
            and "nav" not in item.get("properties", "").split()
        ):
            yield normpath(join(home, unquote(item.get("href", ""))))


def _read_metadata(package: ElementTree.Element) -> tuple[str, dict[str, object]]:
    metadata: dict[str, object] = {}
    for term, key in PROPERTIES.items():
        values = [" ".join(element.text.split()) for element in package.iter(f"{DC}{term}") if element.text]
        if values := list(filter(None, values)):
            metadata[key] = values[0] if len(values) == 1 else values
    title = package.find(f".//{DC}title")
    return (title.text or "" if title is not None else ""), metadata
