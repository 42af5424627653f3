"""rights over an import -> nothing of a hidden document, though descriptions and reports rest on several."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from kumihimo import Kumihimo, import_store
from kumihimo.core.digests import hash_parts
from tests.importers.factories_stores import write_graphrag
from tests.laws.factories_rights import METHODS, RIGHTS, SHARED, Page, ask_about, write_pages
from tests.laws.test_rights import check_graph, check_secrets, everything, references


def store_of(pages: list[Page]) -> dict[str, list[dict[str, Any]]]:
    """Return the tables of a store whose texts by a model each tell of all their documents."""
    names = {name: [p for p in pages if any(name in s for s in p.sentences)] for name in SHARED}
    names |= {page.person: [page] for page in pages}
    of_page = {page.name: f"{page.person} of {page.secrets[2]}." for page in pages}
    tell = {name: " ".join(of_page[page.name] for page in of) for name, of in names.items()}
    shared = [name for name, of in names.items() if len(of) > 1]
    pairs = [(shared[i], shared[i - 1]) for i in range(len(shared))] + [(p.person, shared[0]) for p in pages]
    together = {(a, b): [p.name for p in names[a] if p in names[b]] for a, b in pairs if a != b}
    groups = [shared[:3], [*shared[3:], *(page.person for page in pages[:5])]]
    return {
        "documents": [{"id": p.name, "title": p.name, "text": p.content, "metadata": dict(p.fields)} for p in pages],
        "text_units": [{"id": p.name, "document_id": p.name, "text": p.content} for p in pages],
        "entities": [
            {"id": name, "title": name, "type": "x", "description": tell[name], "text_unit_ids": [p.name for p in of]}
            for name, of in names.items()
        ],
        "relationships": [
            {"source": a, "target": b, "description": " ".join(of_page[name] for name in both), "text_unit_ids": both}
            for (a, b), both in together.items()
        ],
        "communities": [
            {"community": n, "level": 0, "parent": -1, "entity_ids": group} for n, group in enumerate(groups)
        ],
        "community_reports": [
            {
                "community": n,
                "title": f"On {tell[group[0]][:60]}",
                "summary": tell[group[0]],
                "rank": 5,
                "findings": [{"summary": tell[name], "explanation": tell[name]} for name in group],
            }
            for n, group in enumerate(groups)
        ],
        "covariates": [
            {"text_unit_id": p.name, "subject_id": p.person, "type": "x", "description": p.sentences[0], "status": ""}
            for p in pages
        ],
    }


@pytest.fixture(scope="module")
def pages() -> list[Page]:
    return write_pages(seed=3)


@pytest.fixture(scope="module")
def kumi(tmp_path_factory: pytest.TempPathFactory, pages: list[Page]) -> Iterator[Kumihimo]:
    home = tmp_path_factory.mktemp("imported")
    with Kumihimo(home / ".kumi") as kumi:
        import_store(kumi, "graphrag", write_graphrag(home / "pages", store_of(pages)), methods=METHODS)
        yield kumi


def test_everything_is_seen_without_rights(kumi: Kumihimo, pages: list[Page]) -> None:
    with kumi.snapshot() as whole:
        rows = everything(whole)
    texts = repr([rows["entities"], rows["reports"]]).casefold()
    assert all(page.secrets[2] in texts for page in pages)
    assert {row.written_with for row in rows["reports"]} == {"import"}


@pytest.mark.parametrize("rights", RIGHTS)
def test_no_row_and_no_answer_tells_of_hidden_documents(kumi: Kumihimo, pages: list[Page], rights: str) -> None:
    visible = [page for page in pages if RIGHTS[rights](page.fields)]
    hidden = [page for page in pages if page not in visible]
    with kumi.snapshot(rights=rights) as seen:
        rows = everything(seen)
        check_secrets(rows, hidden)
        ids = {hash_parts(f"pages/{page.name}.textunits") for page in hidden}
        assert not {id.partition(".")[0] for id in references(rows)} & ids
        assert len(rows["documents"]) == len(visible)
        check_graph(rows)
        for number, method in enumerate(METHODS * 3):
            question = ask_about(Random(number), pages, hidden)
            context, answer = seen.retrieve(question, method), seen.ask(question, method)
            check_secrets((context, answer, [list(seen.trace(item)) for item in context]), hidden, question)
