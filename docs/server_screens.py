"""the page over examples/ in Chromium -> its pictures. As a program: writes docs/pictures/server-*.png.

The index and the answers are those of the recorded model.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from tests.server.running import running

from kumihimo import Kumihimo
from kumihimo.server.app import create_app
from kumihimo.server.workspace import open_workspace

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

HERE = Path(__file__).parents[1]
FOLDER = Path(__file__).with_name("pictures")
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
MAX_BYTES = 120_000
GAP = "How did the gap in the Long Arm come to cost the tide station electricity?"
CORD = "資料館にある最初の「潮返し」の紐は、長さが何センチで、端から何センチのところで模様が返りますか。"
WIDE, NARROW = (1280, 800), (400, 800)

Shot = tuple[str, tuple[int, int], dict[str, Any], Callable[["Page"], None]]


def main() -> None:
    from playwright.sync_api import sync_playwright

    FOLDER.mkdir(exist_ok=True)
    with TemporaryDirectory() as folder, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        with running(create_app(open_workspace([build_index(Path(folder))]))) as address:
            for name, size, options, visit in SHOTS:
                data = take(browser, address, size, options, visit)
                (FOLDER / f"server-{name}.png").write_bytes(data)
                print(f"server-{name}.png: {len(data) / 1000:.0f} kB")
        browser.close()


def build_index(folder: Path) -> Path:
    """Return the folder of an index of examples/, made with the recorded replies."""
    shutil.copytree(HERE / "examples", folder / "examples", ignore=shutil.ignore_patterns("plugin"))
    shutil.copytree(HERE / "examples-recorded", folder / "island", ignore=shutil.ignore_patterns(".kumi"))
    with Kumihimo.open(folder / "island" / ".kumi") as kumi:
        kumi.index(folder / "examples", methods=["braid", "global", "local"], consent=True)
    return folder / "island" / ".kumi"


def take(
    browser: Browser, address: str, size: tuple[int, int], options: dict[str, Any], visit: Callable[[Page], None]
) -> bytes:
    """Return the picture of a page, as a small PNG."""
    with opened(browser, address, size, options) as page:
        visit(page)
        picture = page.screenshot()
    return shrink(picture)


@contextmanager
def opened(browser: Browser, address: str, size: tuple[int, int], options: dict[str, Any]) -> Iterator[Page]:
    """Open a page of its own."""
    viewport: Any = {"width": size[0], "height": size[1]}
    context = browser.new_context(viewport=viewport, base_url=address, reduced_motion="reduce", **options)
    yield context.new_page()
    context.close()


def shrink(picture: bytes) -> bytes:
    """Return a picture with 128 colours. Raise ValueError if it is still too large."""
    from PIL import Image

    buffer = BytesIO()
    colours = Image.open(BytesIO(picture)).convert("RGB").quantize(128, dither=Image.Dither.NONE)
    colours.save(buffer, "PNG", optimize=True)
    if len(buffer.getvalue()) > MAX_BYTES:
        raise ValueError(f"a picture has {len(buffer.getvalue()):,} bytes: make it smaller")
    return buffer.getvalue()


# -- what is shown


def ask(page: Page, question: str) -> None:
    page.goto("/")
    page.locator("#question").fill(question)
    page.keyboard.press("Enter")
    page.locator(".turn-tools").wait_for()


def show_passage(page: Page) -> None:
    ask(page, GAP)
    page.locator(".answer .cite").first.click()
    page.locator(".reader-text[data-ready]").wait_for()


def show_evidence(page: Page) -> None:
    ask(page, GAP)
    page.locator(".evidence summary").click()
    page.locator(".evidence").evaluate("(part) => scrollTo(0, part.getBoundingClientRect().top + scrollY - 120)")


def show_path(page: Page) -> None:
    page.goto("/graph?entity=Long%20Arm&to=Toko%20Tose")
    page.locator(".node.on-path").first.wait_for()


def show_report(page: Page) -> None:
    page.goto("/reports")
    page.locator(".report-card a", has_text="Long Arm").first.click()
    page.locator(".report h1").wait_for()


def show(path: str) -> Callable[[Page], None]:
    def visit(page: Page) -> None:
        page.goto(path)

    return visit


SHOTS: tuple[Shot, ...] = (
    ("ask", WIDE, {"color_scheme": "light"}, show_passage),
    ("ask-dark", WIDE, {"color_scheme": "dark"}, show_evidence),
    ("narrow", NARROW, {"color_scheme": "light"}, lambda page: ask(page, GAP)),
    ("japanese", NARROW, {"color_scheme": "dark", "locale": "ja-JP"}, lambda page: ask(page, CORD)),
    ("documents", WIDE, {"color_scheme": "light"}, show("/documents")),
    ("graph", WIDE, {"color_scheme": "light"}, show_path),
    ("graph-dark", NARROW, {"color_scheme": "dark"}, show_path),
    ("report", WIDE, {"color_scheme": "dark"}, show_report),
    ("status", WIDE, {"color_scheme": "light"}, show("/status")),
)


if __name__ == "__main__":
    main()
