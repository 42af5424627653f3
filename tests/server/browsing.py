"""a running application -> its pages in Chromium, where nothing wrong may happen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from shutil import which
from typing import TYPE_CHECKING, Any

import pytest

from kumihimo.llm.cached_llm import Chat
from kumihimo.server.workspace import ServedIndex
from tests.server.running import answered_by

playwright = pytest.importorskip("playwright.sync_api", reason="`pip install playwright` drives the browser")
if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = which("chromium") or which("google-chrome")
needs_chromium = pytest.mark.skipif(not CHROMIUM, reason="there is no Chromium: `apt-get install chromium`")
expect = playwright.expect


class Site:
    """The running application, and the index behind it."""

    def __init__(self, address: str, served: ServedIndex) -> None:
        self.address, self.served = address, served

    @contextmanager
    def answered_by(self, model: Chat) -> Iterator[None]:
        with answered_by(self.served.kumi, model):
            yield


class Watch:
    """What must not happen on a page: other hosts, dialogs, scripts of documents, errors."""

    def __init__(self, page: Page, address: str) -> None:
        self.page, self.wrong = page, list[str]()
        page.on("request", lambda request: self._check_address(request.url, address))
        page.on("dialog", lambda dialog: self.wrong.append(f"dialog: {dialog.message}"))
        page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        page.on("console", lambda message: self._check_message(message.type, message.text))

    def _check_address(self, url: str, address: str) -> None:
        if not url.startswith((f"{address}/", "blob:")):
            self.wrong.append(f"request: {url}")

    def _check_message(self, kind: str, text: str) -> None:
        if kind == "error" and not text.startswith("Failed to load resource"):  # a status of 400 and above
            self.wrong.append(f"console: {text}")

    def check(self) -> None:
        assert self.wrong == []
        assert self.page.evaluate("window.pwned === undefined")


@contextmanager
def opened(browser: Browser, site: Site, width: int = 1400, height: int = 900, **options: Any) -> Iterator[Page]:
    """A page of its own; nothing wrong may happen in it."""
    context = browser.new_context(viewport={"width": width, "height": height}, base_url=site.address, **options)
    context.set_default_timeout(10_000)
    page = context.new_page()
    watch = Watch(page, site.address)
    yield page
    if options.get("java_script_enabled", True):
        watch.check()
    context.close()


@contextmanager
def launched() -> Iterator[Browser]:
    """Chromium, as long as the context lasts."""
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


def ask(page: Page, question: str) -> None:
    page.locator("#question").fill(question)
    page.keyboard.press("Enter")
    expect(page.locator(".turn").last.locator(".turn-tools")).to_be_visible()
