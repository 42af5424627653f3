"""a web address -> its page, or the pages that it links to, in the mirror of its host."""

import html
import re
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from pathlib import PurePosixPath
from urllib.parse import urljoin, urlsplit

from kumihimo.core.errors import AddressRefused, KumiError, SourceError
from kumihimo.core.task import Progress, ProgressEvent
from kumihimo.core.wiring import FileType
from kumihimo.readers.remote.mirror import FETCHING, Mirror, MirroredFile
from kumihimo.readers.remote.origins import file_name, normalize_url
from kumihimo.readers.remote.web import WebClient, WebReply, check_offline

_ANY_TYPE = ("", "application/octet-stream", "text/plain", "binary/octet-stream")  # of servers that do not know it
_LOC = re.compile(r"<(?:\w+:)?loc>\s*(?:<!\[CDATA\[)?\s*([^<\]]+?)\s*(?:\]\]>)?\s*</", re.I)
_SITEMAP = re.compile(rb"<(?:\w+:)?(urlset|sitemapindex)[\s>]", re.I)
_MAX_SITEMAP_BYTES = 50 << 20  # as the protocol says
_MAX_SITEMAPS = 50  # of an index of sitemaps
_TRIES_PER_PAGE = 3  # links may lead nowhere, or to pictures
_MAX_FAILURES = 3  # one after the other: then the host is left alone


@dataclass(slots=True)
class OriginFetch:
    """The refresh of one web address.

    readers: by suffix. is_excluded: path in the mirror -> whether a person has removed it. is_required: fail if there
    is nothing. done: addresses that this build has fetched already.
    """

    mirror: Mirror
    client: WebClient
    readers: Mapping[str, FileType]
    origin: str
    pages: int
    is_excluded: Callable[[str], bool]
    is_required: bool = False
    progress: Progress | None = None
    done: set[str] = field(default_factory=set)
    _prefix: str = ""
    _failures: int = 0
    _kept: int = 0
    _follows_links: bool = True

    def run(self) -> None:
        """Fetch the page of the address, and with `pages` its links.

        Pages that are gone are removed; those that fail keep their file, and are listed. Raise SourceError if there is
        nothing at the address.
        """
        check_offline(self.origin)
        first = self._fetch(self.origin, is_first=True)
        if not self.pages:
            return
        start = self.mirror.files.get(self.mirror.name_of(self.origin))
        self._prefix = self._prefix or _folder_of(start.url if start else self.origin)
        queue, seen, tries = deque(first), {self.origin}, self.pages * _TRIES_PER_PAGE
        known = deque(file.asked for file in self.mirror.of_origin(self.origin).values())
        while self._kept < self.pages and tries and (queue or known):
            url = (queue or known).popleft()
            if url in seen or not self._is_inside(url):
                continue
            seen.add(url)
            if self._failures >= _MAX_FAILURES:
                self._list_unasked(url)
                continue
            tries -= 1
            queue.extend(self._fetch(url))
        for name, file in self.mirror.of_origin(self.origin).items():
            if tries and file.asked not in seen:  # beyond the number of pages
                self.mirror.remove(name)

    def _fetch(self, url: str, *, is_first: bool = False) -> list[str]:
        """Fetch a page; return the addresses that it links to."""
        name = self.mirror.name_of(url)
        if self.is_excluded(name or file_name(url)):
            return []
        known = self.mirror.files.get(name)
        try:
            reply = self._get(url, known)
            self.done.add(url)
            links = self._take(url, name, reply, is_first=is_first)
        except SourceError as error:
            return self._keep(url, name, error, is_first=is_first)
        self._failures = 0
        return links

    def _get(self, url: str, known: MirroredFile | None) -> WebReply:
        if known and url in self.done:
            return WebReply(known.url, 304, "", known.version)
        has_copy = known is not None and (self.mirror.folder / self.mirror.name_of(url)).is_file()
        return self.client.get(url, known.version if known and has_copy else None, self._wants)

    def _take(self, url: str, name: str, reply: WebReply, *, is_first: bool) -> list[str]:
        """Store a reply; return the links of its page."""
        if reply.status in (404, 410):
            if is_first and self.is_required:
                raise SourceError(f"{url} is not there ({reply.status}): check the address")
            self.mirror.remove(name)
            return []
        if reply.status not in (200, 304):
            raise SourceError(f"{url}: the server answers {reply.status}; try again later")
        if is_first:
            self._prefix = _folder_of(reply.url)
            if _SITEMAP.search(_unpack(reply.body)[:2_000]):
                return self._read_sitemap(reply)
        elif not self._is_inside(reply.url):
            self.mirror.remove(name)  # it leads elsewhere now
            return []
        if reply.status == 200:
            name = self._store(url, reply, is_first=is_first)
        return self._count(name) if name else []

    def _store(self, url: str, reply: WebReply, *, is_first: bool) -> str:
        """Store a page; return its path, empty without a reader."""
        suffixes = find_suffixes(reply.media_type, reply.url, self.readers)
        if not suffixes and is_first:
            raise SourceError(f"{url}: no reader for {reply.media_type[:80]!r}: name a page, or a file of a known type")
        if not suffixes or self.is_excluded(file_name(url, suffixes)):
            return ""
        file = MirroredFile(reply.url, url, self.origin, reply.version)
        return self.mirror.store(file, reply.body, suffixes, _seconds(reply.version.get("last-modified", "")))

    def _count(self, name: str) -> list[str]:
        self._kept += 1
        if self.progress:
            self.progress(ProgressEvent(FETCHING, self._kept, max(self.pages, 1)))
        return list(read_links(self.mirror, name)) if self.pages and self._follows_links else []

    def _keep(self, url: str, name: str, error: SourceError, *, is_first: bool) -> list[str]:
        """Keep the copy of a failing page, and list it."""
        if is_first and self.is_required:
            raise error
        self._failures += not isinstance(error, AddressRefused)
        if isinstance(error, AddressRefused) and not name and not is_first:
            return []  # a link that robots.txt forbids is no failure
        self.mirror.failed[name or file_name(url)] = str(error)
        return self._count(name) if name else []

    def _list_unasked(self, url: str) -> None:
        if name := self.mirror.name_of(url):
            self._kept += 1
            self.mirror.failed[name] = str(SourceError(f"{url} was not fetched: its host failed {_MAX_FAILURES} times"))

    def _wants(self, media_type: str, url: str) -> bool:
        return bool(find_suffixes(media_type, url, self.readers)) or "xml" in media_type or "gzip" in media_type

    def _is_inside(self, url: str) -> bool:
        return url.startswith(self._prefix)

    def _read_sitemap(self, reply: WebReply) -> list[str]:
        """Return the addresses of a sitemap, or of an index of sitemaps."""
        if not self.pages:
            raise SourceError(f"{reply.url} is a sitemap: say how many of its pages, such as `--crawl 100`")
        self._follows_links = False
        data = _unpack(reply.body)
        urls = _locations(data, reply.url)
        if (_SITEMAP.search(data[:2_000]) or [b"", b""])[1].lower() == b"urlset":
            return urls
        nested: list[str] = []
        for url in [url for url in urls if self._is_inside(url)][:_MAX_SITEMAPS]:
            try:
                nested += _locations(_unpack(self.client.get(url).body), url)
            except SourceError as error:
                self.mirror.failed[file_name(url)] = str(error)
        return nested


def find_suffixes(media_type: str, url: str, readers: Mapping[str, FileType]) -> list[str]:
    """Return the suffixes of files of this type; none without a reader.

    The suffix of the address decides where the server does not know the type.
    """
    suffix = PurePosixPath(urlsplit(url).path).suffix.lower()
    fitting = [known for known, file_type in readers.items() if file_type.media_type == media_type and known]
    if suffix in fitting:
        return [suffix]
    if media_type in _ANY_TYPE and suffix and suffix in readers:
        return [suffix]
    if media_type in ("text/xml", "application/x-gzip", "application/gzip"):
        return [".xml"] if "xml" in media_type else []
    return fitting


def read_links(mirror: Mirror, name: str) -> Iterator[str]:
    """Yield the addresses that a mirrored page links to, in order."""
    if PurePosixPath(name).suffix.lower() not in (".html", ".htm", ".xhtml"):
        return
    from selectolax import lexbor

    from kumihimo.readers.html import CHARSET, HEAD_BYTES, bound_markup
    from kumihimo.readers.text import decode

    data = (mirror.folder / name).read_bytes()
    declared = CHARSET.search(data[:HEAD_BYTES])
    try:
        source = decode(data, name, declared[1].decode("ascii", "ignore") if declared else "")
    except KumiError:  # the build lists it
        return
    tree = lexbor.LexborHTMLParser(bound_markup(source))
    base_node = tree.css_first("base[href]")
    base = urljoin(mirror.files[name].url, (base_node.attributes.get("href") or "") if base_node else "")
    links = (node.attributes for node in tree.css("a[href]"))
    yield from _absolute((a.get("href") or "" for a in links if "nofollow" not in (a.get("rel") or "")), base)


def _absolute(links: Iterable[str], base: str) -> Iterator[str]:
    for link in links:
        try:
            url = normalize_url(urljoin(base, link.strip()))
        except ValueError:
            continue
        if url.startswith(("http://", "https://")):
            yield url


def _locations(data: bytes, base: str) -> list[str]:
    return list(_absolute(map(html.unescape, _LOC.findall(data.decode("utf-8", "replace"))), base))


def _unpack(data: bytes) -> bytes:
    """Return a sitemap that may be packed, up to its maximum size."""
    if not data.startswith(b"\x1f\x8b"):
        return data
    try:
        return zlib.decompressobj(wbits=31).decompress(data, _MAX_SITEMAP_BYTES)
    except zlib.error:
        return data


def _folder_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{parts.path.rpartition('/')[0]}/"


def _seconds(date: str) -> float | None:
    """Return the time of a header in seconds, if it is one."""
    try:
        return parsedate_to_datetime(date).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None
