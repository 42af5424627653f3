"""an address -> its content, asked politely: robots.txt, a pause, few redirects, limits, no private networks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit
from urllib.robotparser import RobotFileParser

from kumihimo.connections import PublicWeb, check_connection
from kumihimo.core.cancel import CancelToken, check_cancelled
from kumihimo.core.errors import AddressRefused, SourceError
from kumihimo.core.network import PAGE
from kumihimo.readers.limits import FetchSettings, ReadingLimits
from kumihimo.readers.remote.origins import join_address

if TYPE_CHECKING:
    from httpx2 import Response

_MAX_REDIRECTS = 5
_FORBIDDEN = b"User-agent: *\nDisallow: /"  # by a server that hides its robots.txt
_MAX_ROBOTS_BYTES = 500_000  # as RFC 9309 asks for
_MAX_CRAWL_DELAY = 60  # seconds, whatever a robots.txt wants
_CONDITIONS = {"etag": "If-None-Match", "last-modified": "If-Modified-Since"}  # of a reply -> of the next request
_REDIRECTS = (301, 302, 303, 307, 308)


@dataclass(frozen=True, slots=True)
class WebReply:
    """What a server has answered.

    url: after redirects. body: empty unless the status is 200 and the type is wanted.
    """

    url: str
    status: int
    media_type: str
    version: Mapping[str, str]
    body: bytes = b""


@dataclass(slots=True)
class WebClient:
    """A client for the pages of a few sites.

    sites: as of `PublicWeb`. wait: pauses for seconds.
    """

    settings: FetchSettings
    limits: ReadingLimits
    sites: frozenset[str] = frozenset()
    wait: Callable[[float], object] = field(default_factory=lambda: CancelToken().wait)
    cancel: CancelToken | None = None
    _web: PublicWeb = field(init=False)
    _robots: dict[str, RobotFileParser] = field(default_factory=dict)
    _next_at: dict[str, float] = field(default_factory=dict)  # host -> when it may be asked again

    def __post_init__(self) -> None:
        self._web = PublicWeb(self.sites, self.settings.timeout)

    def get(
        self, url: str, version: Mapping[str, str] | None = None, wants: Callable[[str, str], bool] = lambda _, __: True
    ) -> WebReply:
        """Return the page of an address.

        version: of an earlier reply; status 304 says that the page is as before. wants: media type, address -> whether
        to read the body. Raise SourceError.
        """
        check_connection(url, PAGE)  # and not the robots.txt, which comes first
        known = version or {}
        headers = {header: known[name] for name, header in _CONDITIONS.items() if known.get(name)}
        return self._follow_redirects(url, headers, wants, obeys_robots=True)

    def close(self) -> None:
        """Close the connections."""
        self._web.close()

    def _follow_redirects(
        self, url: str, headers: Mapping[str, str], wants: Callable[[str, str], bool], *, obeys_robots: bool
    ) -> WebReply:
        start = url
        for _ in range(_MAX_REDIRECTS + 1):
            if obeys_robots and not self._robots_of(url).can_fetch(self.settings.user_agent, url):
                raise AddressRefused(f"{url} is not fetched: the robots.txt of its host forbids it")
            with self._request(url, headers) as response:
                if response.status_code not in _REDIRECTS:
                    return self._reply(url, response, wants, cut_at=0 if obeys_robots else _MAX_ROBOTS_BYTES)
                target = response.headers.get("location", "")
            url = join_address(url, target)
            if not url:
                raise AddressRefused(f"{start} leads to {target[:200]!r}, which is no web address")
        raise SourceError(f"{start}: more than {_MAX_REDIRECTS} redirects")

    @contextmanager
    def _request(self, url: str, headers: Mapping[str, str]) -> Iterator[Response]:
        """Ask for an address; give up what takes too long."""
        import httpx2

        self._pause(url)
        seconds = 4 * self.limits.seconds
        deadline = CancelToken(seconds)
        forget = self.cancel.on_cancel(deadline.cancel) if self.cancel else lambda: None
        try:
            with self._web.request(url, {**headers, "User-Agent": self.settings.user_agent}, deadline) as response:
                yield response
        except (httpx2.HTTPError, httpx2.InvalidURL, UnicodeError, OSError) as error:
            reason, url = str(error) or type(error).__name__, url.removesuffix("robots.txt")  # which nobody has named
            if not deadline.is_cancelled:
                raise SourceError(
                    f"{url} cannot be fetched ({reason[:200]}): is the address right, and the server there?"
                ) from error
        finally:
            forget()
            self._next_at[_site(url)] = monotonic() + self._delay(url)
        check_cancelled(self.cancel)
        if deadline.is_cancelled:  # what has arrived may be a part
            raise SourceError(f"{url}: it did not arrive in {seconds:,} seconds (reading.seconds)")

    def _pause(self, url: str) -> None:
        """Wait until the host may be asked again."""
        seconds = self._next_at.get(_site(url), 0.0) - monotonic()
        if seconds > 0:
            self.wait(seconds)
        check_cancelled(self.cancel)

    def _delay(self, url: str) -> float:
        robots = self._robots.get(_site(url))
        wanted = float(robots.crawl_delay(self.settings.user_agent) or 0) if robots else 0.0
        return max(self.settings.delay, min(wanted, _MAX_CRAWL_DELAY))

    def _robots_of(self, url: str) -> RobotFileParser:
        """Return the rules of a host; a host in trouble forbids everything."""
        site = _site(url)
        if site not in self._robots:
            address = urljoin(site, "/robots.txt")
            reply = self._follow_redirects(address, {}, lambda _, __: True, obeys_robots=False)
            if reply.status >= 500 or reply.status == 429:
                raise SourceError(f"{address}: the server answers {reply.status}; try again later")
            robots, rules = RobotFileParser(), _FORBIDDEN if reply.status in (401, 403) else reply.body
            robots.parse(rules.decode("utf-8", "replace").splitlines())
            self._robots[site] = robots
        return self._robots[site]

    def _reply(self, url: str, response: Response, wants: Callable[[str, str], bool], *, cut_at: int) -> WebReply:
        media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        version = {name: value for name in ("etag", "last-modified") if (value := response.headers.get(name))}
        is_wanted = response.status_code == 200 and wants(media_type, url)
        body = self._read_body(url, response, cut_at) if is_wanted else b""
        return WebReply(url, response.status_code, media_type, version, body)

    def _read_body(self, url: str, response: Response, cut_at: int) -> bytes:
        """Read a body within the limit of bytes.

        cut_at: bytes after which the rest is left out; 0: it is read in full.
        """
        body = bytearray()
        for piece in response.iter_bytes():
            body += piece
            if 0 < cut_at <= len(body):
                break
            if len(body) > self.limits.size << 20:
                raise self.limits.error(url, "size")
        return bytes(body)


def _site(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
