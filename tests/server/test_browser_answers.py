"""An answer in Chromium: its citations as links, what its status says, and answers that an older version has kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kumihimo.core.answer import TRUNCATION_NOTE
from kumihimo.core.digests import hash_parts
from kumihimo.llm.cached_llm import Chat
from kumihimo.llm.protocols import ChatRequest, Reply
from kumihimo.server.app import create_app
from kumihimo.server.workspace import open_workspace
from kumihimo.testing.fake_models import FakeChat
from tests.server.browsing import Site, ask, expect, needs_chromium, opened
from tests.server.running import running

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [needs_chromium, pytest.mark.slow]
QUESTION = "Who drew the tide gates?"
UNCERTAIN = "Where does Joss Kerrow sleep in winter?"
REMARK = "The nearest passages:"
CITED = """They 🪵 are **by Maren Oldacre [1, 2]** of 1983【1】.

- `gates[7]` is no source, and `[1]` is none

| made of | since |
|---|---|
| 🪵 greenheart [2] | 1983 |

```
frame[7] = [1]
```"""


@pytest.fixture(scope="module")
def site(harbour_folder: Path) -> Iterator[Site]:
    workspace = open_workspace([harbour_folder])
    with running(create_app(workspace)) as address:
        yield Site(address, next(iter(workspace.indexes.values())))


@pytest.fixture
def page(browser: Browser, site: Site) -> Iterator[Page]:
    with opened(browser, site) as page:
        yield page


def ask_model(page: Page, site: Site, model: Chat) -> None:
    with site.answered_by(model):
        page.goto("/")
        ask(page, QUESTION)


def export(page: Page, kind: str) -> str:
    page.locator("#rail .menu summary").click()
    with page.expect_download() as download:
        page.get_by_role("button", name=f"Export as {kind}").click()
    return Path(download.value.path()).read_text(encoding="utf-8")


def test_each_number_of_a_citation_is_a_link_and_code_has_none(page: Page, site: Site) -> None:
    ask_model(page, site, FakeChat(lambda _: CITED, fingerprint="cites in a browser"))
    for _ in range(2):  # as it arrives, and as it is kept
        expect(page.locator(".answer a.cite")).to_have_text(["1", "2", "1", "2"])
        expect(page.locator(".answer strong a.cite")).to_have_text(["1", "2"])
        expect(page.locator(".answer td a.cite")).to_have_text(["2"])
        expect(page.locator(".answer code")).to_have_text(["gates[7]", "[1]"])
        expect(page.locator(".answer pre")).to_have_text("frame[7] = [1]\n")
        expect(page.locator(".source .n")).to_have_text(["1", "2"])
        page.reload()
    page.locator(".answer a.cite").first.click()
    expect(page.locator(".reader-text[data-ready] mark")).to_contain_text("Maren Oldacre")
    assert "**by Maren Oldacre [1, 2]** of 1983[1]." in export(page, "Markdown").replace("【1】", "[1]")


def test_what_looks_like_a_marker_of_the_page_stays_text(page: Page, site: Site) -> None:
    ask_model(page, site, FakeChat(lambda _: "It leaks [1]. \ue0007\ue001, \ue000,,\ue001", fingerprint="private use"))
    expect(page.locator(".answer a.cite")).to_have_text(["1"])


def test_a_reply_that_was_cut_says_so_below_its_text(page: Page, site: Site) -> None:
    class Cuts(FakeChat):
        """A model whose replies reach their limit."""

        def __call__(self, request: ChatRequest) -> Reply:
            return Reply("Maren Oldacre [1]", finish_reason="length")

    ask_model(page, site, Cuts(str, fingerprint="cuts in a browser"))
    for _ in range(2):
        expect(page.locator(".answer p")).to_have_text(["Maren Oldacre 1", TRUNCATION_NOTE])
        page.reload()
    assert TRUNCATION_NOTE in export(page, "Markdown")


def test_an_answer_says_what_its_status_is(page: Page) -> None:
    page.goto("/")
    ask(page, UNCERTAIN)
    expect(page.locator(".answer > p").first).to_have_text(REMARK)
    expect(page.locator(".excerpt .from").first).to_contain_text("[1]")
    ask(page, "Which bananas grow on Jupiter?")
    expect(page.locator(".answer").last).to_contain_text("No passage that answers this was found.")
    exported = export(page, "Markdown")
    assert f"## {UNCERTAIN}\n\n{REMARK}\n\nThe ferry leaves" in exported
    assert "ferry. [1]\n\n" in exported
    assert "\n\n[1] The ferry" in exported


# -- answers that version 0.2 has kept


def kept(question: str, status: str, text: str, model: str = "") -> dict[str, Any]:
    """A turn as version 0.2 kept it, with one citation and one piece of evidence."""
    quote = "The ferry leaves the harbour at nine."
    document = hash_parts("files/ferry.md")
    usage = dict.fromkeys(("calls", "prompt_tokens", "cached_tokens", "completion_tokens", "cost", "seconds"), 0)
    span = {
        "document": document,
        "chunk": f"{document}.00000",
        "title": "The ferry",
        "uri": "files/ferry.md",
        "place": "line 7",
        "location": "files/ferry.md, line 7",
        "start": 58,
        "end": 58 + len(quote),
    }
    item = {
        "rank": 1,
        "score": 1.0,
        "table": "chunks",
        "id": f"{document}.00000",
        "title": "The ferry",
        "snippet": quote,
        "marks": [[4, 9]],
        "spans": [span],
        "reason": "says “ferry”",
        "words": ["ferry"],
        "via": None,
    }
    answer = {
        "question": question,
        "method": "braid",
        "model": model,
        "status": status,
        "text": text,
        "citations": [{"n": 1, **span, "text": quote}],
        "sources": [],
        "dangling": 0,
        "queries": [],
        "query_type": "",
        "replaced": [],
        "evidence": [item],
        "followups": [],
        "usage": usage,
        "saved": usage,
    }
    return {"answer": answer}


TURNS = (
    kept("When does the ferry leave?", "answered", "The ferry leaves the harbour at nine. [1]"),
    kept("And who says so?", "answered", "The **harbour** does [1].", "m/1"),
    kept(UNCERTAIN, "closest", f"{REMARK}\n\nThe ferry leaves the harbour at nine. [1]"),
)


@pytest.fixture
def old(page: Page) -> Page:
    """A page that shows a conversation of version 0.2."""
    conversation = {"id": "old", "title": "The ferry", "changed": 1, "turns": TURNS}
    page.goto("/documents")
    owner, index = (page.locator("body").get_attribute(f"data-{name}") for name in ("owner", "index"))
    page.evaluate(
        "([key, kept]) => localStorage.setItem(key, kept)", [f"kumihimo:{owner}:{index}", json.dumps([conversation])]
    )
    page.goto("/#old")
    expect(page.locator(".turn .question")).to_have_text([turn["answer"]["question"] for turn in TURNS])
    return page


def test_answers_of_an_older_version_are_shown(old: Page) -> None:
    answers = old.locator(".turn .answer")
    expect(answers.nth(0)).to_contain_text("The ferry leaves the harbour at nine. [1]")
    expect(answers.nth(1).locator("strong")).to_have_text("harbour")
    expect(old.locator(".source .n")).to_have_text(["1"] * len(TURNS))
    old.locator(".source a[data-passage]").first.click()
    expect(old.locator(".reader-text[data-ready] mark")).to_have_text("The ferry leaves the harbour at nine.")


def test_an_older_answer_that_is_uncertain_says_so_once(old: Page) -> None:
    last = old.locator(".turn .answer").last
    expect(last).to_contain_text(REMARK)
    assert last.inner_text().count(REMARK) == 1


def test_a_conversation_of_an_older_version_goes_on(old: Page) -> None:
    ask(old, QUESTION)
    expect(old.locator(".turn")).to_have_count(len(TURNS) + 1)
    old.reload()
    expect(old.locator(".turn .answer").last).to_contain_text("Maren Oldacre drew the tide gates in 1983.")
    expect(old.locator(".turn .answer").first).to_contain_text("The ferry leaves the harbour at nine. [1]")
    exported = export(old, "Markdown")
    assert all(turn["answer"]["text"] in exported for turn in TURNS)
