"""Pages of the graph over rows in Markdown: names, counts and texts as a person reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from kumihimo.server.app import create_app
from kumihimo.server.workspace import open_workspace
from tests.factories_graph_text import document, entity, id, mention, put, relation
from tests.server.test_page import ADDRESS, Site, Tags


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """An index of one note that mentions an entity three times in two passages."""
    folder = tmp_path_factory.mktemp("notes") / ".kumi"
    note, chunks = document("notes/a.md", "**Joss Kerrow** and Joss Kerrow's boat.", "Joss Kerrow sang.")
    places = [(chunks[0].id, 0), (chunks[0].id, 1), (chunks[1].id, 0)]
    forms = ("JOSS KERROW", "the Joss Kerrow", "Joss-Kerrow", "the skipper", "The Skipper")
    put(
        folder,
        {
            "documents": [note],
            "chunks": chunks,
            "mentions": [mention(chunk, n, "Joss Kerrow") for chunk, n in places],
            "entities": [
                entity("Joss Kerrow", mentions=3, forms=forms),
                entity("Ada Holm", mentions=1),
            ],
            "relations": [relation("Joss Kerrow", "Ada Holm")],
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


def test_mentions_and_passages_are_counted_apart(site: Site, skipper: Tags) -> None:
    assert "3 mentions in 2 passages" in skipper.text
    assert len([a for a in skipper.all("a") if a["href"].endswith("#passage")]) == 2
    ada = site.get("/graph?entity=Ada Holm").text
    assert "1 mention" in ada
    assert "passages" not in ada
    assert "言及 3 回（2 箇所）" in site.get("/graph?entity=Joss Kerrow", languages="ja").text
