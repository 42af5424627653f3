"""A key with a filter: no text, name or number of another document is in any response."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest

from kumihimo.core.digests import hash_parts
from tests.server.api.town import FILES, OPEN, SECRET_WORDS, Api

QUESTIONS = (
    "Who keeps the gold of the ferry Kestrel?",
    "What does Zebulon Quarry plan with Ysolde Marchbank?",
    "Who is called the Heron?",
    "Who is Ada Holm?",
    "What are the main themes?",
)
METHODS = ("braid", "bm25", "naive", "global", "local")
HIDDEN = [hash_parts(f"town/{name}") for name in ("vault.md", "deep/plan.md")]


def check(text: str, asked: str = "") -> None:
    """No word of a hidden document is in a response, beside those of the question."""
    found = [word for word in SECRET_WORDS if word in text.lower() and word not in asked.lower()]
    assert found == [], text
    assert [id for id in HIDDEN if id in text and id not in asked] == []


def crawl(api: Api, path: str, **parameters: Any) -> Any:
    response = api.client.get(f"/api/v1{path}", params=parameters)
    assert response.status_code == 200, response.text
    check(response.text)
    return response.json()


def test_no_address_shows_a_hidden_document(api: Api) -> None:
    with api.acting("reader", rights=OPEN):
        documents = crawl(api, "/documents")
        assert documents["counts"] == {"documents": 2, "partial": 0, "failed": 0, "waiting": 0}
        assert [document["uri"] for document in documents["documents"]] == ["town/harbour.md", "town/tides.md"]
        for document in documents["documents"]:
            crawl(api, f"/documents/{document['id']}")
            crawl(api, f"/documents/{document['id']}/text")
        listed = crawl(api, "/entities")
        entities = listed["entities"]
        for entity in entities:
            for part in ("", "/relations", "/passages", "/neighbours"):
                crawl(api, f"/entities/{entity['id']}{part}")
            crawl(api, f"/trace/entities/{entity['id']}")
        for community in crawl(api, "/communities")["communities"]:
            crawl(api, f"/communities/{community['id']}")
        reports = crawl(api, "/reports")["reports"]
        for report in reports:
            crawl(api, f"/reports/{report['id']}")
        rows = crawl(api, "/status")["rows"]
        assert (rows["documents"], rows["chunks"]) == (2, 2)
        counts = (len(entities), listed["total"] + listed["other"], len(reports))
        assert counts == (listed["total"], rows["entities"], rows["reports"])  # nothing visible is left out
        assert crawl(api, "/overview")["documents"] == 2
        assert api.client.get("/api/v1/overview?part=deep").status_code == 404  # a folder of a hidden document
        assert {entity["name"]: entity["mentions"] for entity in entities}["Ada Holm"] == 3
        crawl(api, "/methods")
        crawl(api, "/usage")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("question", QUESTIONS)
def test_no_answer_shows_a_hidden_document(api: Api, question: str, method: str) -> None:
    body = {"question": question, "method": method}
    with api.acting("reader", rights=OPEN):
        for path, more in (("/ask", {}), ("/ask", {"stream": True}), ("/retrieve", {}), ("/plan", {})):
            response = api.client.post(f"/api/v1{path}", json={**body, **more})
            assert response.status_code == 200, response.text
            check(response.text, question)


def test_what_is_hidden_is_as_if_it_did_not_exist(api: Api) -> None:
    every_chunk = [f"{id}.00000" for id in HIDDEN]
    entities = [entity["id"] for entity in api.get("/entities", q="Zebulon")["entities"]]
    assert entities
    missing = hash_parts("no such document")
    with api.acting("reader", rights=OPEN):
        gone = api.problem(f"/documents/{missing}", 404)
        for id in HIDDEN:
            assert api.problem(f"/documents/{id}", 404) == gone.replace(missing, id)
            assert "no document" in api.problem(f"/documents/{id}/text", 404)
        for path in [f"/trace/chunks/{id}" for id in every_chunk] + [f"/trace/documents/{id}" for id in HIDDEN]:
            assert "no row" in api.problem(path, 404)
        for name in ("Zebulon Quarry", *entities):
            assert "no entity" in api.problem(f"/entities/{quote(name)}", 404)
        assert crawl(api, "/entities", q="Zebulon")["entities"] == []
        assert crawl(api, "/entities", q="gold of the vault")["entities"] == []
        assert "no entity" in api.problem("/path?from=Ada Holm&to=Ysolde Marchbank", 404)
        assert crawl(api, "/documents", q="vault")["documents"] == []
        assert crawl(api, "/documents", filter='access = "secret"')["documents"] == []
        retrieved = api.post("/retrieve", {"question": "vault", "filter": 'access = "secret"'})
        assert retrieved["evidence"] == []


def test_rights_that_no_document_has_show_nothing(api: Api) -> None:
    with api.acting("reader", rights='clearance = "top"'):
        assert crawl(api, "/documents")["counts"]["documents"] == 0
        assert crawl(api, "/entities")["entities"] == []
        assert crawl(api, "/reports")["reports"] == []
        answer = api.post("/ask", {"question": "Who is Ada Holm?"})
        assert (answer["citations"], answer["evidence"]) == ([], [])
        check(json.dumps(answer))


def test_a_page_tells_nothing_of_the_rows_between(api: Api) -> None:
    """Its cursor is a row that is shown."""
    with api.acting("reader", rights=OPEN):
        page = crawl(api, "/documents", limit=1)
        assert page["next"] == hash_parts("town/harbour.md")
        assert crawl(api, "/documents", limit=1, after=page["next"])["next"] == ""
        shown = {entity["id"] for entity in crawl(api, "/entities")["entities"]}
        page = crawl(api, "/entities", limit=1)
        assert page["next"] in {*shown, ""}
    assert len(FILES) == 4
