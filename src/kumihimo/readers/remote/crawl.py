"""a web address -> its page, or the pages that it links to, in the mirror of its host."""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from kumihimo.connections import check_connection
from kumihimo.core import network, task, wiring
from kumihimo.core.errors import AddressRefused, LimitExceeded, SourceError
from kumihimo.readers.reading_worker import ReadingWorker
from kumihimo.readers.remote.links import ADDRESS_BYTES, PAGE_SUFFIXES, Link, is_sitemap
from kumihimo.readers.remote.mirror import FETCHING, Mirror, MirroredFile
from kumihimo.readers.remote.origins import mirror_name
from kumihimo.readers.remote.web import WebClient, WebReply

_ANY_TYPE = ("", "application/octet-stream", "text/plain", "binary/octet-stream")  # of servers that do not know it
_MAX_SITEMAPS = 50  # of an index of sitemaps
_TRIES_PER_PAGE = 3  # links may lead nowhere, or to pictures
_MAX_QUEUE_BYTES = 100 << 20  # of memory for the addresses of one crawl
_MAX_FAILURES = 3  # one after the other: then the host is left alone


@dataclass(slots=True)
class OriginFetch:
    """The refresh of one web address.

    links: takes them from pages and sitemaps. readers: by suffix. is_excluded: path in the mirror -> whether a person
    has removed it. is_required: fail if there is nothing. done: addresses that this build has fetched already.
    """

    mirror: Mirror
    client: WebClient
    links: ReadingWorker
    readers: Mapping[str, wiring.FileType]
    origin: str
    pages: int
    is_excluded: Callable[[str], bool]
    is_required: bool = False
    progress: task.Progress | None = None
    done: set[str] = field(default_factory=set)
    _prefix: str = ""
    _failures: int = 0
    _kept: int = 0
    _follows_links: bool = True
    _queue: deque[str] = field(default_factory=deque)
    _seen: set[str] = field(default_factory=set)  # addresses that were or are in the queue
    _room: int = _MAX_QUEUE_BYTES

    def run(self) -> None:
        """Fetch the page of the address, and with `pages` its links.

        Pages that are gone are removed; those that fail keep their file, and are listed. Raise SourceError if there is
        nothing at the address.
        """
        check_connection(self.origin, network.PAGE)
        start = self.mirror.files.get(self.mirror.name_of(self.origin))
        self._prefix = _folder_of(start.url if start else self.origin)
        self._seen.add(self.origin)
        self._fetch(self.origin, is_first=True)
        if not self.pages:
            return
        tries = self.pages * _TRIES_PER_PAGE
        known = deque(file.asked for file in self.mirror.of_origin(self.origin).values())
        while self._kept < self.pages and tries and (self._queue or known):
            if self._queue:
                url = self._queue.popleft()
            elif (url := known.popleft()) in self._seen or not self._is_inside(url):
                continue
            self._seen.add(url)
            if self._failures >= _MAX_FAILURES:
                self._list_unasked(url)
                continue
            tries -= 1
            self._fetch(url)
        asked = self._seen.difference(self._queue)
        for name, file in self.mirror.of_origin(self.origin).items():
            if tries and file.asked not in asked:  # beyond the number of pages
                self.mirror.remove(name)

    def _fetch(self, url: str, *, is_first: bool = False) -> None:
        """Fetch a page, and queue the addresses that it links to."""
        name = self.mirror.name_of(url)
        if self.is_excluded(name or mirror_name(url)):
            return
        known = self.mirror.files.get(name)
        try:
            reply = self._get(url, known)
            self.done.add(url)
            self._take(url, name, reply, is_first=is_first)
        except SourceError as error:
            self._keep(url, name, error, is_first=is_first)
        else:
            self._failures = 0

    def _get(self, url: str, known: MirroredFile | None) -> WebReply:
        if known and url in self.done:
            return WebReply(known.url, 304, "", known.version)
        has_copy = known is not None and (self.mirror.folder / self.mirror.name_of(url)).is_file()
        return self.client.get(url, known.version if known and has_copy else None, self._wants)

    def _take(self, url: str, name: str, reply: WebReply, *, is_first: bool) -> None:
        """Store a reply, and queue the links of its page."""
        if reply.status in (404, 410):
            if is_first and self.is_required:
                raise SourceError(f"{url} is not there ({reply.status}): check the address")
            self.mirror.remove(name)
            return
        _check_status(url, reply.status)
        if is_first:
            self._prefix = _folder_of(reply.url)
            if is_sitemap(reply.body):
                self._read_sitemap(reply)
                return
        elif not self._is_inside(reply.url):
            self.mirror.remove(name)  # it leads elsewhere now
            return
        if reply.status == 200:
            name = self._store(url, reply, is_first=is_first)
        if name:
            self._count(name)

    def _store(self, url: str, reply: WebReply, *, is_first: bool) -> str:
        """Store a page; return its path, empty without a reader."""
        suffixes = find_suffixes(reply.media_type, reply.url, self.readers)
        if not suffixes and is_first:
            raise SourceError(f"{url}: no reader for {reply.media_type[:80]!r}: name a page, or a file of a known type")
        if not suffixes or self.is_excluded(mirror_name(url, suffixes)):
            return ""
        file = MirroredFile(reply.url, url, self.origin, reply.version)
        return self.mirror.store(file, reply.body, suffixes, _seconds(reply.version.get("last-modified", "")))

    def _count(self, name: str) -> None:
        """Count a page, and queue its links."""
        self._kept += 1
        if self.progress:
            self.progress(task.ProgressEvent(FETCHING, self._kept, max(self.pages, 1)))
        if not self.pages or not self._follows_links or not name.lower().endswith(PAGE_SUFFIXES):
            return
        try:
            self._queue_links(self.mirror.folder / name, self.mirror.files[name].url)
        except SourceError as error:
            self.mirror.failed[name] = str(error)

    def _keep(self, url: str, name: str, error: SourceError, *, is_first: bool) -> None:
        """Keep the copy of a failing page, and list it."""
        if is_first and self.is_required:
            raise error
        self._failures += not isinstance(error, AddressRefused | LimitExceeded)
        if isinstance(error, AddressRefused) and not name and not is_first:
            return  # a link that robots.txt forbids is no failure
        self.mirror.failed[name or mirror_name(url)] = str(error)
        if name:
            self._count(name)

    def _list_unasked(self, url: str) -> None:
        if name := self.mirror.name_of(url):
            self._kept += 1
            self.mirror.failed[name] = str(SourceError(f"{url} was not fetched: its host failed {_MAX_FAILURES} times"))

    def _wants(self, media_type: str, url: str) -> bool:
        return bool(find_suffixes(media_type, url, self.readers)) or "xml" in media_type or "gzip" in media_type

    def _is_inside(self, url: str) -> bool:
        return url.startswith(self._prefix)

    def _read_sitemap(self, reply: WebReply) -> None:
        """Queue the pages of a sitemap, and of those in it."""
        if not self.pages:
            raise SourceError(f"{reply.url} is a sitemap: say how many of its pages, such as `--crawl 100`")
        self._follows_links = False
        asked, queue = {reply.url}, deque(self._queue_sitemap(reply))
        while queue and len(asked) <= _MAX_SITEMAPS:
            if (url := queue.popleft()) in asked:
                continue
            asked.add(url)
            try:
                queue += self._queue_sitemap(self.client.get(url))
            except SourceError as error:
                self.mirror.failed[mirror_name(url)] = str(error)

    def _queue_sitemap(self, reply: WebReply) -> list[str]:
        """Queue the pages of a sitemap; return the sitemaps in it."""
        _check_status(reply.url, reply.status)
        with TemporaryDirectory() as folder:  # the other process reads a file
            path = Path(folder, "sitemap.xml")
            path.write_bytes(reply.body)
            return self._queue_links(path, reply.url)

    def _queue_links(self, path: Path, url: str) -> list[str]:
        """Queue the links of a page or a sitemap.

        More addresses than there may be requests are of no use, so the queue has an end. Return the sitemaps among
        them.
        """
        most = self.pages * _TRIES_PER_PAGE + 1
        request = {"path": str(path.absolute()), "url": url, "prefix": self._prefix, "room": self._room}
        links = self.links.read({**request, "most": max(most, _MAX_SITEMAPS)}, url, Link._make)
        for link in links:
            if not link.is_sitemap and link.url not in self._seen and len(self._seen) < most:
                self._seen.add(link.url)
                self._queue.append(link.url)
                self._room -= len(link.url) + ADDRESS_BYTES
        return [link.url for link in links if link.is_sitemap][:_MAX_SITEMAPS]


def _check_status(url: str, status: int) -> None:
    if status not in (200, 304):
        raise SourceError(f"{url}: the server answers {status}; try again later")


def find_suffixes(media_type: str, url: str, readers: Mapping[str, wiring.FileType]) -> list[str]:
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


def _folder_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{parts.path.rpartition('/')[0]}/"


def _seconds(date: str) -> float | None:
    """Return the time of a header in seconds, if it is one."""
    try:
        return parsedate_to_datetime(date).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None
