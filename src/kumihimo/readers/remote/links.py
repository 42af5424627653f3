"""a fetched page or sitemap -> the addresses that it links to, taken in a child process with the limits of reading."""

import gzip
import re
import zlib
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple
from xml.parsers.expat import ExpatError, ParserCreate

from kumihimo.core.errors import SourceError
from kumihimo.readers import documents, html, reading_worker
from kumihimo.readers.limits import ReadingLimits
from kumihimo.readers.remote.origins import MAX_ADDRESS_CHARS, join_address

HANDLER = "kumihimo.readers.remote.links:answer_link_request"  # of a ReadingWorker
PAGE_SUFFIXES = (".html", ".htm", ".xhtml")
ADDRESS_BYTES = 100  # of memory for an address, beside its characters
_GZIP = b"\x1f\x8b"
_SITEMAP = re.compile(rb"<(?:\w+:)?(?:urlset|sitemapindex)[\s>]", re.I)
_HEAD_BYTES = 2000  # which show whether it is a sitemap
_MAX_SITEMAP_BYTES = 50 << 20  # unpacked, as the protocol says
_PIECE = 1 << 16


class Link(NamedTuple):
    """An address that a page or a sitemap names. is_sitemap: it leads to another sitemap."""

    url: str
    is_sitemap: bool


def is_sitemap(data: bytes) -> bool:
    """Return whether this is the beginning of a sitemap."""
    if data.startswith(_GZIP):
        try:
            data = zlib.decompressobj(wbits=31).decompress(data, _HEAD_BYTES)
        except zlib.error:
            return False
    return _SITEMAP.search(data[:_HEAD_BYTES]) is not None


def answer_link_request(request: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the links of a page or a sitemap, or an error.

    It runs in the child process.
    """
    yield from reading_worker.reply_errors(_read_links(**request))


def _read_links(path: str, url: str, prefix: str, most: int, room: int, limits: Mapping[str, int]) -> Iterator[Link]:
    """Yield the first `most` links below a prefix, each once.

    path: of a page, or of a sitemap if its suffix is none of a page. url: its address. room: bytes for all of them.
    Raise SourceError.
    """
    data, _ = documents.load_file(Path(path), url, ReadingLimits(**limits))
    links = _page_links if path.lower().endswith(PAGE_SUFFIXES) else _sitemap_links
    seen = set[str]()
    for link in links(data, url):
        if len(seen) == most:
            return
        if link.url in seen or not link.url.startswith(prefix):
            continue
        seen.add(link.url)
        room -= len(link.url) + ADDRESS_BYTES
        if room < 0:
            raise SourceError(f"{url}: its links need too much memory: name a folder below it, or fewer pages")
        yield link


def _page_links(data: bytes, url: str) -> Iterator[Link]:
    """Yield the links of a web page.

    Raise SourceError if it is too large.
    """
    tree, _ = html.parse_html(data, url)
    base = tree.css_first("base[href]")
    base_url = join_address(url, (base.attributes.get("href") or "") if base else "") or url
    for node in tree.css("a[href]"):
        if "nofollow" not in (node.attributes.get("rel") or ""):
            yield Link(join_address(base_url, node.attributes.get("href") or ""), is_sitemap=False)


def _sitemap_links(data: bytes, url: str) -> Iterator[Link]:
    """Yield the pages and sitemaps of a sitemap, while it is parsed.

    Raise SourceError if it is broken or too large, or declares entities, which could grow without end.
    """

    def refuse(*_: object) -> None:
        raise SourceError(f"{url}: a sitemap with a DOCTYPE is not read: name a page to start from")

    locations, parser = _Locations(), ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = locations.start, locations.end
    parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = locations.add, refuse
    try:
        for piece in _unpack(data, url):
            parser.Parse(piece, not piece)
            for parent, text in locations.found:
                if parent in ("url", "sitemap"):  # and no picture or video
                    yield Link(join_address(url, text), is_sitemap=parent == "sitemap")
            locations.found.clear()
    except (ExpatError, EOFError, OSError, zlib.error) as error:
        raise SourceError(f"{url}: a broken sitemap ({error}): name a page to start from") from error


class _Locations:
    """The texts of `loc` elements with the names of their parents, while a sitemap is parsed."""

    def __init__(self) -> None:
        self.found: list[tuple[str, str]] = []
        self.opened = [""]  # elements, without their prefixes
        self.text = ""

    def start(self, name: str, _: object) -> None:
        self.opened.append(name.rpartition(":")[2].lower())
        self.text = ""

    def add(self, part: str) -> None:
        if self.opened[-1] == "loc":
            self.text = (self.text + part).lstrip()[: 2 * MAX_ADDRESS_CHARS]

    def end(self, _: str) -> None:
        if self.opened.pop() == "loc":
            self.found.append((self.opened[-1], self.text))


def _unpack(data: bytes, url: str) -> Iterator[bytes]:
    """Yield a sitemap in pieces, unpacked; the last one is empty."""
    size, is_packed = 0, data.startswith(_GZIP)
    with gzip.open(BytesIO(data)) if is_packed else BytesIO(data.lstrip()) as file:
        while piece := file.read(_PIECE):
            size += len(piece)
            if size > _MAX_SITEMAP_BYTES:
                raise SourceError(
                    f"{url}: a sitemap of more than {_MAX_SITEMAP_BYTES >> 20} MB: name a page to start from"
                )
            yield piece
    yield b""
