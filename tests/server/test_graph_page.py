"""Pages of the graph over rows in Markdown: names, counts and texts as a person reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from kumihimo import Kumihimo
from kumihimo.core.records import Community, Member, Relation, RelationMention
from kumihimo.server.app import create_app
from kumihimo.server.pages.markdown import inline_pieces, marked_pieces, plain_text, write_cite
from kumihimo.server.workspace import open_workspace
from tests.factories_graph_text import document, entity, id, mention, put, relation
from tests.fixtures_index import fill
from tests.server.running import HARBOUR
from tests.server.test_page import ADDRESS, Site, Tags

SIGNED = '## The boat\n\n**Joss Kerrow** and _Joss Kerrow\'s_ `boat`: [the plan](plan(1).md "Plan").'
PLAIN = "Joss Kerrow and Joss Kerrow's boat: the plan."


def tie(id: str, made: Relation) -> RelationMention:
    """The mention of a relation, with its text."""
    values = {name: getattr(made, name) for name in ("source", "target", "names", "keywords", "strength", "text")}
    return RelationMention(id=id, relation=made.id, **values)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """An index of one note that mentions an entity three times in two passages."""
    folder = tmp_path_factory.mktemp("notes") / ".kumi"
    note, chunks = document("notes/a.md", SIGNED, "Joss Kerrow sang.")
    places = [(chunks[0].id, 0), (chunks[0].id, 1), (chunks[1].id, 0)]
    forms = ("JOSS KERROW", "the Joss Kerrow", "Joss-Kerrow", "the skipper", "The Skipper")
    put(
        folder,
        {
            "documents": [note],
            "chunks": chunks,
            "mentions": [mention(chunk, n, "Joss Kerrow") for chunk, n in places],
            "entities": [
                entity("Joss Kerrow", text=SIGNED, mentions=3, forms=forms),
                entity("Ada Holm", text=SIGNED, mentions=1),
            ],
            "relations": [relation("Joss Kerrow", "Ada Holm", text=SIGNED)],
            "ties": [tie(f"{chunks[0].id}.00000", relation("Joss Kerrow", "Ada Holm"))],
            "communities": [Community(id="crew", level=0, parent="", children=(), members=(id("Joss Kerrow"),))],
            "members": [Member(id=f"crew.{id('Joss Kerrow')}", entity=id("Joss Kerrow"))],
        },
    )
    with TestClient(create_app(open_workspace([folder])), base_url=ADDRESS) as client:
        yield Site(client, None)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def skipper(site: Site) -> Tags:
    """The page of the entity."""
    return site.get(f"/graph?entity={id('Joss Kerrow')}")


def test_other_spellings_of_a_name_are_no_other_names(skipper: Tags) -> None:
    assert [names.strip() for names in re.findall("Also: (.*)", skipper.text)] == ["the skipper"]


def test_a_community_without_a_report_has_no_link(site: Site, skipper: Tags) -> None:
    assert site.client.get("/api/v1/entities/Joss Kerrow").json()["communities"][0]["id"] == "crew"
    assert not [a for a in skipper.all("a") if a["href"].startswith("/reports/")]


def test_mentions_and_passages_are_counted_apart(site: Site, skipper: Tags) -> None:
    assert "3 mentions in 2 passages" in skipper.text
    assert len([a for a in skipper.all("a") if a["href"].endswith("#passage")]) == 2
    ada = site.get("/graph?entity=Ada Holm").text
    assert "1 mention" in ada
    assert "passages" not in ada
    assert "言及 3 回（2 箇所）" in site.get("/graph?entity=Joss Kerrow", languages="ja").text


# -- signs of Markdown


def test_texts_of_the_graph_have_no_signs(site: Site, skipper: Tags) -> None:
    path = site.get(f"/graph?entity={id('Joss Kerrow')}&to=Ada Holm")
    trace = site.get(next(a["href"] for a in skipper.all("a") if "/trace/relations/" in a["href"]))
    for page, times in ((skipper, 3), (path, 4), (trace, 2)):
        assert page.text.count(PLAIN) == times
        assert not re.search(r"\*\*|##|`|_Joss|\]\(", page.text)


def test_the_reader_shows_a_text_as_it_is_indexed(site: Site, skipper: Tags) -> None:
    passage = next(a["href"] for a in skipper.all("a") if a["href"].endswith("#passage"))
    assert "**Joss Kerrow** and _Joss Kerrow's_ `boat`" in site.get(passage).text


SIGNS = [
    ("one ## Two three. # Four", "one Two three. Four"),
    ("…# A cut heading", "…A cut heading"),
    ("a #1 and C# code", "a #1 and C# code"),
    ("| a | b |\n|---|:-:|\n| 1 | 2 |", "| a | b |\n| 1 | 2 |"),
    ("```python\nx = y[0]\n```\n> > cited\n* * *\n- item", "x = y[0]\ncited\n- item"),
    ("![map](a.png) [[Long Arm|the arm]] [[Quay]] a[b[0]]", "map the arm Quay a[b[0]]"),
    ("of the plan](a.md) and [the tide](https://example.org/a_(b", "of the plan and the tide"),
    ("[a **b** _c_](d.md) *e _f_ g* *h", "a b c e f g *h"),
    ("snake_case_name 2 * 3 * 4 2**", "snake_case_name 2 * 3 * 4 2"),
    ("見出し。 ## 門 **門**は*古い*", "見出し。 門 門は*古い*"),
]


@pytest.mark.parametrize(("text", "plain"), SIGNS)
def test_signs_are_left_out(text: str, plain: str) -> None:
    assert plain_text(text) == plain


def test_marks_stay_where_signs_are_left_out() -> None:
    text = "The [**Long Arm**](arm.md) of _stone_."
    marks = [(text.index("Long"), text.index("Arm")), (text.index("Arm"), text.index("](")), (text.index("_st"), 37)]
    assert [piece for piece, marked in marked_pieces(text, marks) if marked] == ["Long ", "Arm", "stone"]
    assert "".join(piece for piece, _ in marked_pieces(text, marks)) == plain_text(text)


def test_a_link_in_a_report_becomes_its_words() -> None:
    pieces = list(inline_pieces(f"See [the **plan**](a.md) {write_cite('[1]', [1])} and [2](b.md), not [3]."))
    assert [(piece.kind, piece.text) for piece in pieces if piece.kind != "text"] == [("strong", "plan"), ("cite", "1")]
    assert pieces[1].text == "the "
    assert "".join(piece.text for piece in pieces) == "See the plan 1 and 2, not [3]."


@pytest.mark.parametrize("address", ["/graph", "/api/v1/entities", "/api/v1/entities/Maren%20Oldacre"])
def test_the_first_look_at_the_graph_builds_it(tmp_path: Path, address: str, caplog: pytest.LogCaptureFixture) -> None:
    with Kumihimo(tmp_path / ".kumi") as kumi:
        kumi.index(fill(tmp_path / "files", HARBOUR))
    with TestClient(create_app(open_workspace([tmp_path / ".kumi"])), base_url=ADDRESS) as client:
        assert client.get("/").status_code == 200
        assert client.post("/api/v1/ask", json={"question": "Who drew the tide gates?"}).status_code == 200
        assert "entities" not in client.get("/api/v1/status").json()["rows"]
        first, second = client.get(address), client.get(address)
        assert (first.status_code, first.text) == (200, second.text)
        assert "Oldacre" in first.text
        assert client.get("/api/v1/status").json()["rows"]["entities"] > 0
    built = [record.message for record in caplog.records if "building them" in record.message]
    assert built == ["global needs communities, reports: building them"]


def test_a_page_does_not_wait_for_the_build_of_another_process(tmp_path: Path) -> None:
    with Kumihimo(tmp_path / ".kumi") as kumi:
        kumi.index(fill(tmp_path / "files", HARBOUR))
        with TestClient(create_app(open_workspace([tmp_path / ".kumi"])), base_url=ADDRESS) as client:
            with kumi.store.write_transaction():
                assert client.get("/api/v1/entities").json()["entities"] == []
                assert "The graph is empty" in client.get("/graph").text
            assert client.get("/api/v1/entities").json()["entities"] != []
