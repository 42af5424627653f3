"""addresses -> requests: a pause, few redirects, limits, and no private network that nobody has named."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from gzip import compress
from itertools import count
from time import sleep

import pytest

from kumihimo.core.cancel import CancelToken
from kumihimo.core.errors import AddressRefused, Cancelled, LimitExceeded, SourceError
from kumihimo.readers.limits import FetchSettings, ReadingLimits
from kumihimo.readers.remote.origins import parse_origin
from kumihimo.readers.remote.web import WebClient
from tests.raw_server import run_raw_server
from tests.web_site import Page, WebSite, page, run_web_site


@pytest.fixture(scope="module")
def running_site() -> Iterator[WebSite]:
    with run_web_site({}) as site:
        yield site


@pytest.fixture
def site(running_site: WebSite) -> WebSite:
    running_site.pages = {"/a": page("The tide turns.")}
    running_site.asked()
    return running_site


@pytest.fixture
def client(site: WebSite, monkeypatch: pytest.MonkeyPatch) -> Iterator[WebClient]:
    for name in ("KUMI_OFFLINE", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    client = WebClient(FetchSettings(delay=0), ReadingLimits(), frozenset([site.url]))
    yield client
    client.close()


def redirect(target: str, status: int = 302) -> Page:
    return Page("", status=status, headers={"Location": target})


def test_a_host_is_asked_after_a_pause(site: WebSite) -> None:
    waits: list[float] = []
    client = WebClient(FetchSettings(delay=500), ReadingLimits(), frozenset([site.url]), waits.append)
    client.get(f"{site.url}/a")
    client.get(f"{site.url}/a")
    client.close()
    assert len(waits) == 2  # after robots.txt, and after the page
    assert all(400 < wait <= 500 for wait in waits)


def test_a_robots_txt_may_want_a_longer_pause(site: WebSite) -> None:
    site.pages["/robots.txt"] = Page("User-agent: *\nCrawl-delay: 30\n", "text/plain")
    waits: list[float] = []
    client = WebClient(FetchSettings(delay=0), ReadingLimits(), frozenset([site.url]), waits.append)
    client.get(f"{site.url}/a")
    client.get(f"{site.url}/a")
    client.close()
    assert [20 < wait <= 30 for wait in waits] == [True]


def test_redirects_are_followed_and_counted(site: WebSite, client: WebClient) -> None:
    site.pages |= {"/old": redirect("/a#top", 301), "/loop": redirect("/loop")}
    reply = client.get(f"{site.url}/old")
    assert (reply.url, reply.status, b"tide" in reply.body) == (f"{site.url}/a", 200, True)
    with pytest.raises(SourceError, match="more than 5 redirects"):
        client.get(f"{site.url}/loop")
    assert site.asked() == [("/old", 301), ("/a", 200), *[("/loop", 302)] * 6]


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://127.0.0.1/a", "", "http://[::1"])
def test_a_redirect_leads_to_the_web(site: WebSite, client: WebClient, target: str) -> None:
    site.pages["/away"] = redirect(target)
    if target:
        with pytest.raises(AddressRefused, match="which is no web address"):
            client.get(f"{site.url}/away")
    else:
        with pytest.raises(SourceError, match="more than 5 redirects"):
            client.get(f"{site.url}/away")


@pytest.mark.parametrize(
    "host", ["localhost", "10.0.0.1", "169.254.169.254", "[::1]", "[::ffff:127.0.0.1]", "2130706433"]
)
def test_private_networks_are_refused(site: WebSite, client: WebClient, host: str) -> None:
    site.pages["/away"] = redirect(f"http://{host}/secret")
    with pytest.raises(SourceError, match="is in a private network"):
        client.get(f"{site.url}/away")
    assert site.asked() == [("/away", 302)]


def test_another_port_of_a_private_host_is_refused(site: WebSite, client: WebClient) -> None:
    with run_web_site({"/secret": page("The tide turns.")}) as other:
        site.pages["/away"] = redirect(f"{other.url}/secret")
        with pytest.raises(AddressRefused, match=f"{other.url}/.* is in a private network: name it yourself"):
            client.get(f"{site.url}/away")
        assert other.requests == []


def test_a_name_that_leads_to_this_machine_is_refused(
    site: WebSite, client: WebClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = int(site.url.rpartition(":")[2])
    answers = iter(["127.0.0.1", "93.184.215.14"])
    look_up = socket.getaddrinfo

    def answer(host: str | bytes | None, *args: object, **options: object) -> list[tuple[object, ...]]:
        if host == "rebound.example" and (address := next(answers, None)):
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]
        return look_up("127.0.0.1", port, type=socket.SOCK_STREAM)  # type: ignore[return-value]

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    for _ in range(2):  # the second name is public when it is looked up, and is not when it is asked
        with pytest.raises(AddressRefused, match="is in a private network"):
            client.get(f"http://rebound.example:{port}/a")


def test_a_proxy_of_the_environment_looks_names_up(
    site: WebSite, client: WebClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", site.url)
    monkeypatch.setenv("no_proxy", "")
    site.pages["http://tide.example/a"] = page("The tide turns.")
    assert client.get("http://tide.example/a").status == 200
    with pytest.raises(AddressRefused, match="is in a private network"):
        client.get("http://10.0.0.1/a")
    assert [path for path, _ in site.asked()] == ["http://tide.example/robots.txt", "http://tide.example/a"]


def test_no_cookies_are_kept(site: WebSite, client: WebClient) -> None:
    site.pages["/a"] = Page("x", headers={"Set-Cookie": "id=7"})
    client.get(f"{site.url}/a")
    client.get(f"{site.url}/a")
    assert site.cookies == {None}


def test_a_body_has_limits(site: WebSite, client: WebClient) -> None:
    site.pages["/big"] = Page(b"a" * (1 << 20) + b"b", "text/plain")
    small = replace(client, limits=ReadingLimits(size=1))
    with pytest.raises(LimitExceeded, match=r"/big: it holds more than 1 MB \(reading.size\)"):
        small.get(f"{site.url}/big")
    assert client.get(f"{site.url}/big", wants=lambda media_type, url: media_type == "text/html").body == b""


def test_it_stops_when_cancelled(site: WebSite, client: WebClient) -> None:
    token = CancelToken()
    token.cancel()
    with pytest.raises(Cancelled):
        replace(client, cancel=token).get(f"{site.url}/a")


@pytest.mark.parametrize(
    ("start", "piece"),
    [
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\n", b"a"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + compress(b"")[:10], b"\0\0\0\xff\xff"),
    ],
    ids=["informational", "headers", "empty blocks"],
)
def test_a_response_that_never_ends_is_given_up(client: WebClient, start: bytes, piece: bytes) -> None:
    token = CancelToken()
    with run_raw_server() as server:
        named = replace(client, sites=frozenset([server.url.removesuffix("/v1")]))

        def pieces(end: Callable[[], None]) -> Iterator[bytes]:
            yield start
            for n in count():
                if n == 3:
                    end()
                if n > 3 and start.endswith(b"OK\r\n"):  # a long header ends by itself
                    sleep(0.001)
                yield piece

        server.response = pieces(token.cancel)
        with pytest.raises(Cancelled):
            replace(named, cancel=token).get(f"{server.url}/a")
        server.response = pieces(lambda: None)
        limits = replace(named.limits, seconds=0.1)  # type: ignore[arg-type]
        with pytest.raises(SourceError, match=r"did not arrive in 0\.4 seconds \(reading\.seconds\)"):
            replace(named, limits=limits).get(f"{server.url}/a")


def test_a_host_in_trouble_is_not_asked_for_pages(site: WebSite, client: WebClient) -> None:
    site.pages["/robots.txt"] = Page("", status=503)
    with pytest.raises(SourceError, match=r"robots\.txt: the server answers 503"):
        client.get(f"{site.url}/a")
    assert site.asked() == []


@pytest.mark.parametrize("address", ["http://", "http://[::1/", "https://user:secret@example.org/", "http://h:99999/"])
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(SourceError, match=r"is no address|with a password") as raised:
        parse_origin(address)
    assert "secret" not in str(raised.value)
