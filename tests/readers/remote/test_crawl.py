"""a hostile site -> a crawl with an end: its links are taken in a child process, and its other pages are read."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kumihimo.core.errors import LimitExceeded, SourceError
from kumihimo.readers import READERS
from kumihimo.readers.limits import FetchSettings, ReadingLimits
from kumihimo.readers.reading_worker import ReadingWorker
from kumihimo.readers.remote import crawl, links
from kumihimo.readers.remote.links import HANDLER, Link
from kumihimo.readers.remote.mirror import Mirror
from kumihimo.readers.remote.origins import MAX_ADDRESS_CHARS
from kumihimo.readers.remote.web import WebClient
from tests.counters import count_lines
from tests.web_site import Page, WebSite, page, run_web_site

GOOD = page("The ferry leaves at nine.")
XML = "application/xml"


@pytest.fixture(scope="module")
def running_site() -> Iterator[WebSite]:
    with run_web_site({}) as site:
        yield site


@pytest.fixture
def site(running_site: WebSite) -> WebSite:
    running_site.pages = {"/docs/good": GOOD}
    running_site.asked()
    return running_site


@pytest.fixture(scope="module")
def links_of() -> Iterator[ReadingWorker]:
    with closing(ReadingWorker(HANDLER, ReadingLimits(memory=600))) as reader:
        yield reader


class Crawl:
    """A crawl of a site: what it asked for, and what it kept."""

    def __init__(self, site: WebSite, folder: Path, reader: ReadingWorker, start: str, pages: int = 20) -> None:
        limits = ReadingLimits(size=60)
        self.mirror = Mirror(folder / "mirror" / "host")
        with closing(WebClient(FetchSettings(delay=0), limits, frozenset([site.url]))) as client:
            self.fetch = crawl.OriginFetch(
                self.mirror, client, reader, READERS, f"{site.url}{start}", pages, lambda _: False
            )
            self.fetch.run()
        self.asked = [path for path, _ in site.asked()]
        self.kept = sorted(self.mirror.files)
        self.failed = {name: error.removeprefix(site.url) for name, error in self.mirror.failed.items()}


@pytest.fixture
def run(site: WebSite, tmp_path: Path, links_of: ReadingWorker) -> Any:
    return lambda start="/docs/", pages=20: Crawl(site, tmp_path, links_of, start, pages)


def sitemap(*locations: str, kind: str = "url", head: str = "") -> Page:
    root = "urlset" if kind == "url" else "sitemapindex"
    entries = "".join(f"<{kind}><loc>{location}</loc></{kind}>" for location in locations)
    return Page(f"{head}<{root} xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>{entries}</{root}>", XML)


# -- links of pages


def test_this_process_parses_no_page(site: WebSite, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("links are taken in this process")

    for name in ("_page_links", "_sitemap_links"):
        monkeypatch.setattr(links, name, fail)
    site.pages["/docs/"] = page("Ferries.", "good", "map.xml")
    site.pages["/docs/map.xml"] = sitemap(f"{site.url}/docs/good")
    assert run().kept == ["docs/good.html", "docs/index.html", "docs/map.xml"]
    assert run("/docs/map.xml").asked == ["/docs/map.xml", "/docs/good"]


def test_a_page_over_the_limit_is_refused_before_its_links_are_read(site: WebSite, run: Any) -> None:
    anchor = '<a href="/docs/{:07}">x</a>'
    site.pages["/docs/"] = page("Ferries.", "big", "good")
    site.pages["/docs/big"] = Page("".join(map(anchor.format, range(34_000_000 // 28))))
    crawled = run()
    assert crawled.asked == ["/docs/", "/docs/big", "/docs/good"]
    assert crawled.failed == {"docs/big.html": "/docs/big: a page of more than 32 MB; cut it into several"}


def test_the_queue_is_as_long_as_the_requests_that_are_allowed(site: WebSite, run: Any) -> None:
    many = [f'<a href="/docs/{n}">x</a><a href="/docs/{n}#part">y</a>' for n in range(100_000)]
    site.pages["/docs/"] = Page("".join(many))
    site.pages |= {f"/docs/{n}": Page("".join(many[n : n + 1000])) for n in range(20)}
    crawled = run(pages=20)
    assert crawled.asked == ["/docs/", *(f"/docs/{n}" for n in range(19))]
    assert len(crawled.fetch._seen) == 61  # three for each page, and the first
    assert not crawled.failed


def test_pages_with_the_same_menu_still_lead_on(site: WebSite, run: Any) -> None:
    menu = [f"gone{n}" for n in range(8)]
    site.pages["/docs/"] = page("Ferries.", *menu, "one")
    site.pages |= {"/docs/one": page("One.", *menu, "two"), "/docs/two": page("Two.", *menu, "good")}
    assert run(pages=4).kept == ["docs/good.html", "docs/index.html", "docs/one.html", "docs/two.html"]


def test_addresses_have_a_limit_of_memory(
    site: WebSite, run: Any, links_of: ReadingWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = links_of.read

    def read_in_little_room(request: Any, url: str, decode: Any) -> list[Link]:
        rooms.append(crawl._MAX_QUEUE_BYTES - request["room"])
        return read({**request, "room": 3000 - rooms[-1]}, url, decode)

    rooms = list[int]()
    monkeypatch.setattr(links_of, "read", read_in_little_room)
    site.pages["/docs/"] = page("Ferries.", "one", "long", "good")
    site.pages["/docs/one"] = page("One.", *(f"{n}{'x' * 500}" for n in range(3)))
    site.pages["/docs/long"] = page("Long.", *(f"{n}{'y' * 500}" for n in range(3)))
    crawled = run()
    assert crawled.kept == ["docs/good.html", "docs/index.html", "docs/long.html", "docs/one.html"]
    message = "/docs/long: its links need too much memory: name a folder below it, or fewer pages"
    assert crawled.failed == {"docs/long.html": message}
    sizes = sum(len(url) + links.ADDRESS_BYTES for url in crawled.fetch._seen) - len(site.url + "/docs/")
    assert rooms[-1] == sizes - links.ADDRESS_BYTES


@pytest.mark.parametrize(
    "markup",
    [
        "<div>" * 300_000,
        "<div " + "a " * 100_000 + ">",
        "<a href=" * 100_000,
        "<!--" * 100_000,
        "<table><tr><td>" * 30_000,
        "<base href='http://[::1'>",
        "<base href='https://example.org/'>",
        "<base href='javascript:1'>",
        f"<base href='{'/x' * 2_000_000}'>",
        "<meta " * 1000 + "charset=utf-32>",
    ],
    ids=range(10),
)
def test_a_hostile_page_does_not_stop_the_others(site: WebSite, run: Any, markup: str) -> None:
    site.pages["/docs/"] = page("Ferries.", "hostile", "good")
    site.pages["/docs/hostile"] = Page(f"{markup}<a href='/docs/good'>x</a>")
    assert "docs/good.html" in run().kept


def test_links_that_are_no_addresses_cost_no_request(site: WebSite, run: Any) -> None:
    hostile = (
        "http://[::1",
        "http://h:99999/",
        "javascript:alert(1)",
        "file:///etc/passwd",
        "//example.org/docs/",
        "http://user:password@example.org/docs/",
        "../../etc/passwd",
        "\x1b]0;x\x07",
        "a&#27;[2J",
        "a\x7fb",
        "&#xD800;",
        "x" * 3_000_000,
        "./" * 1_500_000,
        "?" + "%25" * MAX_ADDRESS_CHARS,
    )
    site.pages["/docs/"] = page("Ferries.", *hostile, "good")
    crawled = run()
    assert [path for path in crawled.asked if path not in ("/docs/", "/docs/good")] == ["/docs/%EF%BF%BD"]
    assert "docs/good.html" in crawled.kept
    assert not crawled.failed


def test_a_base_leads_nowhere_else(site: WebSite, run: Any) -> None:
    site.pages["/docs/"] = Page("<base href='/docs/deep/'><a href='a'>x</a><a href='../good'>y</a>")
    site.pages["/docs/deep/a"] = GOOD
    assert run().kept == ["docs/deep/a.html", "docs/good.html", "docs/index.html"]


def test_pages_over_the_limit_are_no_failure_of_their_host(
    site: WebSite, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"big{n}" for n in range(4)]
    site.pages["/docs/"] = page("Ferries.", *names, "away", "long", "good")
    site.pages |= {f"/docs/{name}": Page(bytes(61 << 20)) for name in names}
    site.pages["/docs/away"] = Page(status=302, headers={"Location": "http://169.254.169.254/latest"})
    site.pages["/docs/long"] = Page(status=302, headers={"Location": f"{site.url}/docs/{'x' * 10_000}"})
    monkeypatch.delenv("KUMI_OFFLINE")
    crawled = run()
    assert crawled.kept == ["docs/good.html", "docs/index.html"]
    assert crawled.asked == [f"/docs/{name}" for name in ("", *names, "away", "long", "good")]
    assert crawled.failed == {
        f"docs/{name}": f"/docs/{name}: it holds more than 60 MB (reading.size): split the file, or raise this setting"
        for name in names
    }


def test_a_robots_txt_is_read_in_part(site: WebSite, run: Any) -> None:
    site.pages["/robots.txt"] = Page(b"User-agent: *\nDisallow: /docs/b\n" + b"#" * (61 << 20), "text/plain")
    site.pages["/docs/"] = page("Ferries.", "b", "good")
    assert run().asked == ["/docs/", "/docs/good"]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems may not limit memory and time")
def test_a_page_is_read_within_the_limits_of_reading(site: WebSite, tmp_path: Path) -> None:
    site.pages["/docs/"] = page("Ferries.", "big", "good")
    site.pages["/docs/big"] = Page("<p>" * 1_000_000)
    with closing(ReadingWorker(HANDLER, ReadingLimits(memory=150))) as reader:
        crawled = Crawl(site, tmp_path, reader, "/docs/")
    assert crawled.kept == ["docs/big.html", "docs/good.html", "docs/index.html"]
    message = "/docs/big: it needs more than 150 MB of memory (reading.memory): split the file, or raise this setting"
    assert crawled.failed == {"docs/big.html": message}


# -- sitemaps


def read(path: Path, data: bytes | str, most: int = 100) -> list[str]:
    """Return the addresses of a sitemap, read as the child process reads it."""
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    limits = {"size": 60}
    request = {"path": str(path), "url": "https://h/s.xml", "prefix": "https://h/", "most": most, "room": 10**9}
    found = list[str]()
    for reply in links.answer_link_request({**request, "limits": limits}):
        if isinstance(reply, dict):
            raise SourceError(reply["error"])
        found.append(Link._make(reply).url)
    return found


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("<urlset><url><loc>https://h/a</loc></url></urlset>", ["a"]),
        (f"<urlset><url><loc>{' ' * 1_000_000}https://h/a{' ' * 1_000_000}</loc></url></urlset>", ["a"]),
        (f"<urlset><url><loc>{' ' * 1_000_000}</url></loc></urlset>", "broken"),
        ("<x:urlset xmlns:x='s'><x:url><x:LOC><![CDATA[ https://h/a?b=1&c ]]></x:LOC></x:url></x:urlset>", ["a?b=1&c"]),
        ("<urlset><url><loc>/a&amp;b&#x41;</loc></url></urlset>", ["a&bA"]),
        ("<urlset><url><image><loc>https://h/picture</loc></image><loc>https://h/a</loc></url></urlset>", ["a"]),
        ("<urlset><url><loc>https://h/a</loc></url><url><loc>https://h/?a=1&b=2", "broken"),
        ('<!DOCTYPE x [<!ENTITY a "https://h/a">]><urlset><url><loc>&a;</loc></url></urlset>', "DOCTYPE"),
        ('<!DOCTYPE x SYSTEM "file:///etc/passwd"><urlset/>', "DOCTYPE"),
        ("<urlset>" + "<a>" * 300_000, "broken"),
        (
            f"<urlset><url><loc>https://h/{'x' * 10_000_000}</loc></url><url><loc>https://h/a</loc></url></urlset>",
            ["a"],
        ),
        (f"<urlset {'a' * 3_000_000}='1'><url><loc>https://h/a</loc></url></urlset>", ["a"]),
        ("\n <?xml version='1.0'?><urlset><url><loc>https://h/a</loc></url></urlset>", ["a"]),
        ("<urlset><url><loc>https://h/a&#10;b</loc></url></urlset>", ["ab"]),
        ("<urlset><url><loc>https://h/\x1b[2J</loc></url></urlset>", "broken"),
        (gzip.compress(b"<urlset><url><loc>https://h/a</loc></url></urlset>"), ["a"]),
        (gzip.compress(b"<urlset><url><loc>https://h/a</loc></url></urlset>")[:-9], "broken"),
        (gzip.compress(b"<urlset>" + bytes([32]) * (51 << 20)), "more than 50 MB"),
        (b"\x1f\x8bnot packed", "broken"),
        ("", "broken"),
    ],
    ids=range(20),
)
def test_sitemaps(tmp_path: Path, data: bytes | str, expected: list[str] | str) -> None:
    if isinstance(expected, list):
        assert read(tmp_path / "s.xml", data) == [f"https://h/{path}" for path in expected]
        return
    with pytest.raises(SourceError, match=rf"^https://h/s\.xml: .*{expected}.*: name a page to start from"):
        read(tmp_path / "s.xml", data)


def test_the_work_on_a_sitemap_ends_with_the_addresses_that_are_wanted(tmp_path: Path) -> None:
    def data(number: int) -> str:
        return f"<urlset>{''.join(f'<url><loc>https://h/{n}</loc></url>' for n in range(number))}</urlset>"

    few, many = (count_lines(partial(read, tmp_path / "s.xml", data(n), most=60)) for n in (5_000, 500_000))
    assert many < 2 * few
    assert read(tmp_path / "s.xml", data(500_000), most=60) == [f"https://h/{n}" for n in range(60)]


def test_a_sitemap_with_far_too_many_pages(site: WebSite, run: Any) -> None:
    site.pages["/docs/map.xml"] = sitemap(*(f"{site.url}/docs/{n}" for n in range(500_000)))
    crawled = run("/docs/map.xml")
    assert len(crawled.asked) == 61
    assert len(crawled.fetch._seen) == 61


def test_sitemaps_that_name_each_other(site: WebSite, run: Any) -> None:
    def index(*names: str) -> Page:
        return sitemap(*(f"{site.url}/docs/{name}" for name in names), kind="sitemap")

    site.pages["/docs/map.xml"] = index("map.xml", "a.xml", "b.xml", "broken.xml", "gone.xml", "c.xml")
    site.pages |= {"/docs/a.xml": index("b.xml", "map.xml"), "/docs/b.xml": index("a.xml")}
    site.pages["/docs/broken.xml"] = Page("<urlset><url>", XML)
    site.pages["/docs/c.xml"] = sitemap(f"{site.url}/docs/good", f"{site.url}/other")
    crawled = run("/docs/map.xml")
    assert crawled.asked == [
        f"/docs/{name}" for name in ("map.xml", "a.xml", "b.xml", "broken.xml", "gone.xml", "c.xml", "good")
    ]
    assert crawled.kept == ["docs/good.html"]
    assert crawled.failed["docs/gone.xml"] == "/docs/gone.xml: the server answers 404; try again later"
    assert crawled.failed["docs/broken.xml"].endswith("): name a page to start from")


def test_sitemaps_without_end(site: WebSite, run: Any) -> None:
    site.pages |= {f"/docs/{n}.xml": sitemap(f"{site.url}/docs/{n + 1}.xml", kind="sitemap") for n in range(100)}
    assert len(run("/docs/0.xml").asked) == 51


def test_a_sitemap_that_is_named_and_cannot_be_read_is_an_error(site: WebSite, run: Any) -> None:
    site.pages["/docs/map.xml"] = sitemap(head="<!DOCTYPE urlset>")
    crawled = run("/docs/map.xml")
    assert crawled.kept == []
    assert crawled.failed == {
        "docs/map.xml": "/docs/map.xml: a sitemap with a DOCTYPE is not read: name a page to start from"
    }


def test_a_crash_is_named(site: WebSite, run: Any, links_of: ReadingWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    original = links_of.read

    def crash(request: Any, url: str, decode: Any) -> Any:
        if url.endswith("hostile"):
            raise LimitExceeded(f"{url}: too much")
        return original(request, url, decode)

    monkeypatch.setattr(links_of, "read", crash)
    site.pages["/docs/"] = page("Ferries.", "hostile", "good")
    site.pages["/docs/hostile"] = GOOD
    crawled = run()
    assert crawled.kept == ["docs/good.html", "docs/hostile.html", "docs/index.html"]
    assert crawled.failed == {"docs/hostile.html": "/docs/hostile: too much"}
