"""pages -> a web site on this machine that counts what it is asked, for tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


@dataclass
class Page:
    """What the site answers for a path."""

    body: str | bytes = ""
    media_type: str = "text/html; charset=utf-8"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class WebSite:
    """A web site. requests: the paths asked so far, each with the status of the answer."""

    url: str = ""
    pages: dict[str, Page] = field(default_factory=dict)
    requests: list[tuple[str, int]] = field(default_factory=list)
    agents: set[str] = field(default_factory=set)
    cookies: set[str | None] = field(default_factory=set)

    def asked(self) -> list[tuple[str, int]]:
        """Return the requests since the last call, without robots.txt."""
        requests, self.requests = self.requests, []
        return [request for request in requests if request[0] != "/robots.txt"]


def page(text: str, *links: str, title: str = "A page") -> Page:
    """Return a page with links, and an ETag that follows its text."""
    anchors = "".join(f'<p>See <a href="{link}">this page of our site</a>.</p>' for link in links)
    body = f"<html><head><title>{title}</title></head><body><p>{text}</p>{anchors}</body></html>"
    return Page(body, headers={"ETag": f'"{hash(body)}"'})


@contextmanager
def run_web_site(pages: Mapping[str, Page]) -> Iterator[WebSite]:
    """Serve these pages on a port of this machine."""
    site = WebSite(pages=dict(pages))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = site.pages.get(self.path, Page("nothing", "text/plain", 404))
            etag = found.headers.get("ETag")
            is_same = bool(etag) and self.headers.get("If-None-Match") == etag
            status = 304 if is_same else found.status
            body = b"" if is_same else found.body.encode() if isinstance(found.body, str) else found.body
            site.requests.append((self.path, status))
            site.agents.add(self.headers["User-Agent"])
            site.cookies.add(self.headers["Cookie"])
            self.send_response(status)
            for name, value in {**found.headers, "Content-Type": found.media_type}.items():
                self.send_header(name, value)
            if status != 304:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        site.url = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield site
        finally:
            server.shutdown()
            thread.join()
