"""The page in Chromium: asking, passages, files, the graph, keyboard, colours, widths, labels and contrast, HTML."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kumihimo.page import write_graph_page
from kumihimo.server.app import create_app
from kumihimo.server.workspace import open_workspace
from tests.server.api.town import BuildHere
from tests.server.browsing import Site, ask, expect, needs_chromium, opened
from tests.server.page_site import HOSTILE, HOSTILE_NAME, SlowChat, build_site, poison
from tests.server.running import running
from tests.server.test_graph_page import SIGNS

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = needs_chromium
ANSWER = "The tide gates were drawn by **Maren Oldacre** in 1983 [1].\n\n- They are of greenheart [1]"
SERIOUS = ("serious", "critical")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    index = build_site(tmp_path_factory.mktemp("browser") / "site")
    workspace = open_workspace([index])
    with pytest.MonkeyPatch.context() as patch, running(create_app(workspace)) as address:
        patch.setattr("kumihimo.server.builds.Worker", BuildHere)
        yield Site(address, workspace.indexes["site"])


@pytest.fixture
def page(browser: Browser, site: Site) -> Iterator[Page]:
    with opened(browser, site) as page:
        yield page


def in_view(page: Page, selector: str) -> bool:
    inside: bool = page.locator(selector).evaluate(
        """(element) => {
          const box = element.getBoundingClientRect();
          const region = element.closest(".reader-text")?.getBoundingClientRect();
          return box.height > 0 && box.top >= (region?.top ?? 0) && box.bottom <= (region?.bottom ?? innerHeight);
        }"""
    )
    return inside


# -- asking


def test_an_answer_is_kept_and_a_citation_opens_its_passage(page: Page) -> None:
    page.goto("/")
    ask(page, "Who drew the tide gates?")
    expect(page.locator(".excerpt").first).to_contain_text("Maren Oldacre drew the tide gates in 1983.")
    page.locator("a[data-passage]").first.click()
    expect(page.locator(".reader-text[data-ready] mark")).to_contain_text("Maren Oldacre")
    assert in_view(page, ".reader mark")
    page.locator("#question").focus()  # beside the passage
    page.keyboard.press("Escape")
    expect(page.locator("#reader")).to_be_hidden()
    expect(page.locator("a[data-passage]").first).to_be_focused()
    page.reload()
    expect(page.locator(".turn .question")).to_have_text("Who drew the tide gates?")
    ask(page, "Who built the frame?")
    page.locator("a[data-passage]").first.click(modifiers=["Alt"])  # as the browser opens it
    page.goto(page.locator("a[data-passage]").first.get_attribute("href") or "")
    assert in_view(page, "mark")


def test_escape_closes_one_thing_at_a_time(page: Page, site: Site) -> None:
    page.goto("/")
    model = SlowChat("escaped", ANSWER)
    with site.answered_by(model):
        page.locator("#question").fill("Who drew the tide gates?")
        page.keyboard.press("Enter")
        expect(page.locator(".answer")).to_contain_text("The tide gates")
        page.locator(".evidence summary").click()
        link = page.locator(".evidence a[data-passage]").first
        link.click()
        expect(page.locator(".reader-text[data-ready]")).to_be_visible()
        page.locator("summary[aria-label=Settings]").click()
        page.keyboard.press("Escape")
        expect(page.locator(".menu[open]")).to_have_count(0)
        expect(page.locator("#reader")).to_be_visible()
        page.evaluate(
            "document.getElementById('question').dispatchEvent("
            "new KeyboardEvent('keydown', {key: 'Escape', isComposing: true, bubbles: true, cancelable: true}))"
        )
        expect(page.locator("#reader")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.locator("#reader")).to_be_hidden()
        expect(link).to_be_focused()
        page.locator("summary[aria-label=Settings]").click()
        page.keyboard.press("Escape")
        expect(page.locator(".menu[open]")).to_have_count(0)
        model.may_end.set()
        expect(page.locator(".answer")).to_contain_text("1983")  # it was not stopped


def test_the_keyboard_alone_leads_from_a_question_to_its_passage(browser: Browser, site: Site) -> None:
    with opened(browser, site, 900, 700) as page:
        page.goto("/")
        assert page.evaluate("document.activeElement.id") == "question"
        page.keyboard.type("Who keeps the seed library?")
        page.keyboard.press("Shift+Enter")
        assert page.locator("#question").input_value().endswith("\n")
        page.keyboard.press("Enter")
        expect(page.locator(".turn-tools")).to_be_visible()
        for _ in range(20):
            page.keyboard.press("Shift+Tab")
            if page.evaluate("document.activeElement.matches('a[data-passage]')"):
                break
        page.keyboard.press("Enter")
        expect(page.locator(".reader-text[data-ready] mark")).to_contain_text("seed library")
        assert page.evaluate("document.activeElement.id") == "reader-title"  # read out first
        page.keyboard.press("Escape")
        assert page.evaluate("document.activeElement.matches('a[data-passage]')")
        page.goto("/documents")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "main"  # past the menu
        assert page.locator("[tabindex]:not([tabindex='0'], [tabindex='-1'])").count() == 0


def test_enter_that_ends_a_choice_of_kanji_asks_nothing(page: Page) -> None:
    page.goto("/")
    page.locator("#question").fill("組紐")
    page.evaluate(
        "document.activeElement.dispatchEvent("
        "new KeyboardEvent('keydown', {key: 'Enter', isComposing: true, bubbles: true, cancelable: true}))"
    )
    assert page.locator(".turn").count() == 0
    page.keyboard.press("Enter")
    expect(page.locator(".turn .question")).to_have_text("組紐")
    expect(page.locator(".turn-tools")).to_be_visible()


def test_tokens_are_shown_as_they_arrive_and_can_be_stopped(page: Page, site: Site) -> None:
    model = SlowChat("slow", ANSWER)
    with site.answered_by(model):
        page.goto("/")
        page.locator("#question").fill("Who drew the tide gates?")
        page.keyboard.press("Enter")
        expect(page.locator(".answer")).to_contain_text("The tide gates")
        expect(page.locator(".state")).to_have_text("Writing the answer")
        expect(page.locator(".evidence summary")).to_contain_text("Evidence:")
        assert "1983" not in page.locator(".answer").inner_text()
        model.may_end.set()
        expect(page.locator(".answer strong")).to_have_text("Maren Oldacre")
        expect(page.locator(".answer li a.cite")).to_have_text("1")
        expect(page.locator(".source")).to_contain_text("The tide gates")
    stopped = SlowChat("stopped", ANSWER)
    with site.answered_by(stopped):
        page.locator("#new-conversation").click()
        page.locator("#question").fill("When does the ferry leave?")
        page.keyboard.press("Enter")
        expect(page.locator(".answer")).to_contain_text("The tide gates")
        page.locator("#stop").click()
        expect(page.locator(".note")).to_contain_text("Stopped.")
        stopped.may_end.set()
        expect(page.locator("#send")).to_be_visible()


def test_an_error_says_what_to_do(page: Page) -> None:
    page.goto("/")
    page.locator(".filter summary").click()
    page.locator("#filter").fill("colour = 'red'")
    page.locator("#question").fill("Who?")
    page.keyboard.press("Enter")
    expect(page.locator(".turn .note")).to_contain_text("colour")
    page.locator("#filter").fill("")
    page.locator(".turn .note button").click()
    expect(page.locator(".turn").last.locator(".turn-tools")).to_be_visible()


def test_conversations_are_renamed_exported_and_deleted(page: Page, tmp_path: Path) -> None:
    page.goto("/")
    ask(page, "Who is the skipper of the ferry?")
    page.locator("#rail .menu summary").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Export as Markdown").click()
    text = Path(download.value.path()).read_text(encoding="utf-8")
    assert text.startswith("# Who is the skipper of the ferry?")
    assert "> " in text
    page.locator("#rail .menu summary").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Export as JSON").click()
    assert json.loads(Path(download.value.path()).read_text(encoding="utf-8"))["turns"][0]["answer"]["citations"]
    page.locator("#rail .menu summary").click()
    page.get_by_role("button", name="Rename").click()
    page.locator("#conversation-dialog input").fill("The skipper")
    page.keyboard.press("Enter")
    expect(page.locator("#rail li a")).to_have_text("The skipper")
    page.locator("#new-conversation").click()
    expect(page.locator("#welcome")).to_be_visible()
    page.locator("#rail li a").click()
    expect(page.locator(".turn .question")).to_have_text("Who is the skipper of the ferry?")
    page.locator("#rail .menu summary").click()
    page.get_by_role("button", name="Delete").click()
    page.locator("#conversation-dialog .danger").click()
    expect(page.locator("#welcome")).to_be_visible()
    expect(page.locator("#rail")).to_be_hidden()


def test_questions_and_documents_work_without_scripts(browser: Browser, site: Site) -> None:
    with opened(browser, site, java_script_enabled=False) as page:
        page.goto("/")
        page.locator("#question").fill("When does the ferry leave the harbour?")
        page.locator("#send").click()
        expect(page.locator(".excerpt").first).to_contain_text("at nine")
        page.locator(".excerpt a").first.click()
        expect(page.locator("mark")).to_contain_text("ferry")
        assert page.locator("#passage").bounding_box()
        page.goto("/documents")
        expect(page.get_by_role("button", name="Upload")).to_be_visible()


# -- documents


def test_files_are_dropped_read_and_deleted(page: Page) -> None:
    page.goto("/documents")
    before = page.locator(".document").count()
    files = [{"name": name, "mimeType": "text/markdown", "buffer": text} for name, text in (
        ("quay.md", b"# The quay\n\nThe quay is old."),
        ("broken.pdf", b"%PDF-1.4 nothing"),
        ("tug.exe", b"MZ"),
    )]  # fmt: skip
    page.locator("#files").set_input_files(files)  # type: ignore[arg-type]
    expect(page.locator(".build[data-state=done]")).to_contain_text("The index now holds")
    expect(page.locator(".document")).to_have_count(before + 1)
    expect(page.locator(".failures")).to_contain_text("broken.pdf")
    expect(page.locator("[role=alert]")).to_contain_text("tug.exe: no reader for '.exe'")
    row = page.locator(".document", has_text="The quay")
    row.locator(".delete").click()
    expect(page.locator("#confirm-what")).to_contain_text("quay.md")
    page.get_by_role("button", name="Keep it").click()
    expect(row).to_be_visible()
    row.locator(".delete").click()
    page.locator("#confirm .danger").click()
    expect(page.locator(".document")).to_have_count(before)


# -- the graph and reports


def test_the_graph_is_searched_walked_and_crossed(page: Page) -> None:
    page.goto("/graph")
    page.locator("#entity-q").fill("oldacre")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="Maren Oldacre").click()
    expect(page.locator(".node.is-here")).to_contain_text("Maren Oldacre")
    expect(page.locator("#entity-name")).to_have_text("Maren Oldacre")
    page.locator(".node", has_text="Nell Attery").click()
    expect(page.locator("#entity-name")).to_have_text("Nell Attery")
    page.locator("#canvas").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("document.activeElement.classList.contains('node')")
    name = page.evaluate("document.activeElement.querySelector('title').textContent.split(' · ')[0]")
    page.keyboard.press("Enter")
    expect(page.locator("#entity-name")).to_have_text(name)
    page.goto("/graph?entity=Nell Attery")
    page.locator("#to").fill("Joss Kerrow")
    page.keyboard.press("Enter")
    expect(page.locator(".path")).to_contain_text("From Nell Attery to Joss Kerrow")
    expect(page.locator("#path")).to_be_focused()
    assert in_view(page, "#path")
    expect(page.locator(".node.on-path")).to_have_count(page.locator(".path li").count())
    page.locator("#to").fill("Nobody At All")
    page.keyboard.press("Enter")
    expect(page.locator("#path")).to_contain_text("No entity is called Nobody At All")
    expect(page.locator("#path")).to_be_focused()
    expect(page.locator(".node.on-path")).to_have_count(0)
    page.route("**/*", lambda route: route.abort())
    page.locator("#to").fill("Joss Kerrow")
    page.keyboard.press("Enter")
    expect(page.locator("#path")).to_contain_text("The server does not answer")
    assert in_view(page, "#path")
    assert in_view(page, "#to")


DRAWN = "new Promise(resolve => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(resolve)), 50))"


def drag_and_zoom(page: Page, view: str) -> None:
    """Drag and zoom the drawing; each moves the view, an expression, and opens nothing."""
    box = page.locator("#canvas").bounding_box()
    assert box
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    address, before = page.url, page.evaluate(view)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 60, y + 40, steps=4)
    expect(page.locator("#canvas")).to_have_class(re.compile("is-moving"))
    page.mouse.up()
    page.evaluate(DRAWN)
    dragged = page.evaluate(view)
    page.mouse.wheel(0, -600)
    page.evaluate(DRAWN)
    assert len({before, dragged, page.evaluate(view)}) == 3
    assert page.url == address


@pytest.mark.parametrize("width", [400, 1400])
def test_a_graph_is_dragged_and_zoomed(width: int, browser: Browser, site: Site, tmp_path: Path) -> None:
    with opened(browser, site, width) as page:
        page.goto("/graph?entity=Nell Attery")
        expect(page.locator(".node.is-here")).to_be_visible()
        drag_and_zoom(page, "document.getElementById('scene').getAttribute('transform')")
    with site.served.kumi.snapshot() as snapshot:
        write_graph_page(snapshot, tmp_path / "page.html")
    exported = browser.new_page(viewport={"width": width, "height": 700})
    exported.goto((tmp_path / "page.html").as_uri())
    exported.evaluate(DRAWN)
    drag_and_zoom(exported, "document.getElementById('canvas').toDataURL()")
    exported.close()


def test_an_entity_that_a_link_opens_is_in_sight(browser: Browser, site: Site) -> None:
    for width in (400, 1400):
        with opened(browser, site, width, 300) as page:
            page.goto("/graph")
            expect(page.locator(".node.is-here")).to_be_visible()
            link = page.locator("#panel a[data-entity]").last
            name = link.inner_text()
            link.scroll_into_view_if_needed()
            assert page.evaluate("scrollY") > 0
            link.click()
            expect(page.locator("#entity-name")).to_have_text(name)
            expect(page.locator("#entity-name")).to_be_focused()
            assert in_view(page, "#entity-name")


def test_without_scripts_a_path_is_below_its_form(browser: Browser, site: Site) -> None:
    with opened(browser, site, 400, 500, java_script_enabled=False) as page:
        for name in ("Joss Kerrow", "Nobody At All"):
            page.goto("/graph?entity=Nell Attery")
            page.locator("#to").fill(name)
            page.keyboard.press("Enter")
            expect(page.locator("#path")).to_contain_text(name)
            expect(page.locator("#path")).to_be_in_viewport()
            expect(page.locator("#to")).to_be_in_viewport(ratio=1)


def test_reports_lead_to_passages(page: Page) -> None:
    page.goto("/reports")
    page.locator(".report-card a").first.click()
    expect(page.locator(".report h1")).to_be_visible()
    page.set_viewport_size({"width": 400, "height": 700})
    page.reload()
    expect(page.locator(".report h1")).to_be_in_viewport()
    assert page.evaluate("scrollY") == 0
    page.locator(".rests a").first.click()
    expect(page.locator("mark").first).to_be_visible()  # in the passages that mention the entity


def test_scripts_leave_out_the_same_signs_of_markdown(page: Page) -> None:
    page.goto("/")
    address = page.locator("script[src*='page.js']").get_attribute("src") or ""
    read = "([address, texts]) => import(address).then(({ plainText }) => texts.map(plainText))"
    texts = page.evaluate(read, [address.replace("page.js", "plain_text.js"), [text for text, _ in SIGNS]])
    assert texts == [plain for _, plain in SIGNS]


# -- colours, languages


def test_language_and_colours_are_chosen_and_kept(browser: Browser, site: Site) -> None:
    with opened(browser, site, color_scheme="light") as page:
        page.goto("/documents")
        light = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.locator(".menu summary").last.click()
        with page.expect_response("**/preferences"):
            page.get_by_label("Dark").check(force=True)
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light
        page.get_by_label("日本語").check(force=True)
        expect(page.locator("h1")).to_have_text("文書")
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    with opened(browser, site, locale="zh-CN", color_scheme="dark") as page:
        page.goto("/")
        expect(page.locator("#send")).to_have_text("提问")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light


# -- labels, contrast, landmarks, widths


def run_axe(page: Page, options: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """What axe-core finds wrong with a page."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    found: list[dict[str, Any]] = axe.run(page, options=options or {"resultTypes": ["violations"]}).response[
        "violations"
    ]
    return found


def visits(page: Page) -> Iterator[str]:
    """Each page with what it shows, ready to be looked at."""
    page.goto("/")
    yield "empty ask"
    ask(page, "Who drew the tide gates?")
    page.locator(".evidence summary").click()
    yield "answer"
    page.locator("a[data-passage]").first.click()
    expect(page.locator(".reader-text[data-ready]")).to_be_visible()
    yield "reader"
    passage = page.locator("#reader a").first.get_attribute("href") or ""
    for path in ("/documents", passage, "/reports", "/status", "/login", "/documents/nothing"):
        page.goto(path)
        yield path
    page.goto("/reports")
    page.locator(".report-card a").first.click()
    expect(page.locator(".report h1")).to_be_visible()
    yield "report"
    page.goto("/graph?entity=Joss Kerrow")
    expect(page.locator(".node.is-here")).to_be_visible()
    yield "graph"


def test_every_page_is_labelled_legible_and_fits(browser: Browser, site: Site) -> None:
    wrong = list[str]()
    colours = {"runOnly": ["color-contrast"], "resultTypes": ["violations"]}
    with opened(browser, site, reduced_motion="reduce") as page:
        for name in visits(page):
            violations = run_axe(page)
            page.emulate_media(color_scheme="dark")
            violations += run_axe(page, colours)
            for width in (400, 900, 1400):
                page.set_viewport_size({"width": width, "height": 900})
                if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                    wrong.append(f"{name}: scrolls sideways at {width}")
            page.emulate_media(color_scheme="light")
            for violation in violations:
                if violation["impact"] in SERIOUS:
                    nodes = "; ".join(node["html"][:120] for node in violation["nodes"][:3])
                    wrong.append(f"{name}: {violation['id']}: {nodes}")
    assert wrong == []


def test_the_check_of_labels_and_contrast_finds_what_is_wrong(page: Page) -> None:
    page.goto("/login")
    page.evaluate("document.body.append(document.createElement('button')); document.body.style.color = '#999'")
    found = {violation["id"] for violation in run_axe(page)}
    assert {"button-name", "color-contrast"} <= found


# -- HTML in every field


def test_no_html_of_documents_or_people_runs(browser: Browser, tmp_path: Path) -> None:
    index = build_site(tmp_path / "hostile")
    poison(index)
    workspace = open_workspace([index])
    with running(create_app(workspace)) as address:
        site = Site(address, workspace.indexes["hostile"])
        with opened(browser, site) as page, site.answered_by(SlowChat("hostile", f"{HOSTILE} **{HOSTILE}** [1]")) as _:
            site.served.kumi.models.model.may_end.set()  # type: ignore[attr-defined]
            page.goto("/")
            ask(page, f"When did the lighthouse of Thornhead go out? {HOSTILE}")
            expect(page.locator(".answer")).to_contain_text("<script>window.pwned=1</script>")
            page.locator(".evidence summary").click()
            page.locator("a[data-passage]").first.click()
            expect(page.locator(".reader-text[data-ready]")).to_contain_text("<script>")
            expect(page).to_have_url(re.compile("#"))  # the answer has ended, and its conversation is kept
            page.reload()
            expect(page.locator(".turn .question")).to_contain_text(HOSTILE)
            expect(page.locator("#rail li a")).to_contain_text("lighthouse")
            page.goto("/documents")
            expect(page.locator(".documents")).to_contain_text(HOSTILE_NAME)
            page.locator(".document", has_text="pwned").locator(".what > a").click()
            expect(page.locator("aside.about")).to_contain_text("<img src=x")
            page.goto("/graph?entity=Maren Oldacre")
            expect(page.locator(".node.is-here title")).to_contain_text("<img src=x")
            expect(page.locator("#panel-content")).to_contain_text("<script>")
            page.goto("/reports")
            page.locator(".report-card a").first.click()
            expect(page.locator(".report h1")).to_contain_text("<img src=x")
            button = page.locator(".branch button")
            if button.count():
                button.first.click()
            assert page.locator("main img").count() == 0
            assert re.search("pwned", page.content())
