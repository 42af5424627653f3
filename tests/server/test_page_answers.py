"""An answer on the page without a browser: its citations as links, what its status says, the end of a cut reply."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from kumihimo.core.answer import TRUNCATION_NOTE
from kumihimo.core.spans import Span
from kumihimo.generation.quoting.drafts import Draft
from kumihimo.llm.cached_llm import Chat
from kumihimo.llm.protocols import ChatRequest, Reply
from kumihimo.server.app import create_app
from kumihimo.server.pages.markdown import markdown_blocks, write_cite
from kumihimo.server.workspace import open_workspace
from kumihimo.testing.fake_models import FakeChat
from tests.server.running import answered_by
from tests.server.test_page import ADDRESS, Site, Tags

QUESTION = "Who drew the tide gates?"
CITED = """They are **by Maren Oldacre [1, 2]** of 1983【1】.

- `gates[7]` is no source, and `[1]` is none
- of greenheart [2][1]

```
frame[7] = [1]
```"""
TABLE = "| made of | since |\n|---|---|\n| greenheart [2] | 1983 [1] |"


@pytest.fixture(scope="module")
def site(harbour_folder: Path) -> Iterator[Site]:
    workspace = open_workspace([harbour_folder])
    with TestClient(create_app(workspace), base_url=ADDRESS) as client:
        yield Site(client, next(iter(workspace.indexes.values())))


def answered(site: Site, model: Chat) -> Tags:
    """The page with the answer of a model."""
    with answered_by(site.served.kumi, model):
        return Tags(site.post("/", question=QUESTION).text)


def links(page: Tags) -> list[str]:
    """The labels of all links of citations."""
    return [link["aria-label"] for link in page.all("a") if link.get("class") == "cite"]


def test_each_number_of_a_citation_is_a_link_to_its_passage(site: Site) -> None:
    page = answered(site, FakeChat(lambda _: CITED, fingerprint="cites"))
    assert [label.partition(":")[0] for label in links(page)] == [f"Source {n}" for n in (1, 2, 1, 2, 1)]
    assert links(page)[0] == "Source 1: The tide gates, line 7"
    addresses = [link["href"] for link in page.all("a") if link.get("class") == "cite"]
    assert all(address.endswith("#passage") for address in addresses)
    assert len(site.get(addresses[0]).all("mark")) == 1
    assert "【" not in page.text
    assert page.text.count("[1]") == 2  # both in code


def test_a_computed_table_is_one_table_with_a_header() -> None:
    span = Span("", "plots.csv", 0, 3, "Ebb")
    draft = Draft()
    draft.add("| 船 |\n| --- |", "table")
    draft.cite("| 引潮 |", span, "table")
    draft.cite("| 涨潮 |", span, "table")
    (block,) = markdown_blocks(draft.parts[0].marked(write_cite).text)
    assert (block.kind, block.has_head, len(block.rows)) == ("table", True, 3)
    assert block.rows[1] == [f"引潮 {write_cite('', [1])}"]


def test_a_table_has_its_citations_in_its_cells(site: Site) -> None:
    page = answered(site, FakeChat(lambda _: TABLE, fingerprint="tables"))
    assert [label.partition(":")[0] for label in links(page)] == ["Source 2", "Source 1"]
    assert (len(page.all("th")), len(page.all("td"))) == (2, 2)


def test_a_number_in_code_is_no_citation(site: Site) -> None:
    page = answered(site, FakeChat(lambda _: CITED, fingerprint="cites"))
    assert "gates[7] is no source, and [1] is none" in page.text
    assert "frame[7] = [1]" in page.text
    assert [tag for tag, _ in page.found].count("code") == 2


def test_the_further_searches_of_a_model_stand_with_the_evidence(site: Site) -> None:
    search = "SEARCH: What are the gates of Oldacre made of?"
    page = answered(site, FakeChat(lambda prompt: CITED if "<searched_for>" in prompt else search, fingerprint="again"))
    assert "Searched again: What are the gates of Oldacre made of?" in page.text
    assert "SEARCH" not in page.text


def test_what_looks_like_a_marker_of_the_page_stays_text(site: Site) -> None:
    page = answered(site, FakeChat(lambda _: "It leaks [1]. \ue0007\ue001, \ue000,,\ue001", fingerprint="private"))
    assert len(links(page)) == 1


def test_a_passage_stands_below_its_source(site: Site) -> None:
    page = Tags(site.post("/", question=QUESTION).text)
    figure = next(attributes for tag, attributes in page.found if tag == "figure")
    assert (figure["class"], figure["id"]) == ("excerpt", "source-1")
    passage = page.text.index("Maren Oldacre drew the tide gates in 1983.")
    assert page.text.index("[1]") < passage < page.text.index("Evidence:")
    assert links(page) == []


def test_a_list_has_a_link_on_each_line_and_its_sources_below(site: Site) -> None:
    page = Tags(site.post("/", question="List all documents").text)
    assert [label.partition(":")[0] for label in links(page)] == ["Source 1", "Source 2", "Source 3"]
    assert "Sources" in page.text
    assert not [tag for tag, _ in page.found if tag == "figure"]


@pytest.mark.parametrize(
    ("languages", "remark"),
    [("en", "No passage that answers this was found."), ("ja", "これに答える記述は見つかりませんでした。")],
)
def test_the_page_says_that_nothing_answers_in_its_language(site: Site, languages: str, remark: str) -> None:
    fields = {"csrf": site.token(), "question": "Which bananas grow on Jupiter?"}
    response = site.client.post("/", data=fields, headers={"Accept-Language": languages})
    assert remark in Tags(response.text).text


def test_a_reply_that_was_cut_says_so_below_its_text(site: Site) -> None:
    class Cuts(FakeChat):
        """A model whose replies reach their limit."""

        def __call__(self, request: ChatRequest) -> Reply:
            return Reply("Maren Oldacre [1]", finish_reason="length")

    page = answered(site, Cuts(str, fingerprint="cuts on a page"))
    assert page.text.index("Maren Oldacre") < page.text.index(TRUNCATION_NOTE) < page.text.index("Sources")
