"""Each address that reads, and what it says to requests that are wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kumihimo import Kumihimo
from kumihimo.core.digests import hash_parts
from tests.fixtures_index import fill
from tests.server.api.town import FILES, Api, serve

HARBOUR = hash_parts("town/harbour.md")


def all_pages(api: Api, path: str, rows: str, **parameters: Any) -> list[Any]:
    """All rows of a list that comes in pages."""
    listed, after = [], ""
    while True:
        page = api.get(path, after=after, **parameters)
        listed += page[rows]
        if not (after := page["next"]):
            return listed


def test_the_indexes(api: Api) -> None:
    assert api.get("/indexes") == {"indexes": [{"name": "town", "role": "admin", "address": "/api/v1/indexes/town"}]}
    assert api.get("/indexes/town/documents") == api.get("/documents")
    assert "no index 'city'. Known: town" in api.problem("/indexes/city/documents", 404)


# -- documents


def test_documents(api: Api) -> None:
    listed = api.get("/documents")
    assert [document["uri"] for document in listed["documents"]] == sorted(f"town/{name}" for name in FILES)
    assert listed["counts"] == {"documents": 4, "partial": 0, "failed": 0, "waiting": 0}
    assert (listed["failed"], listed["waiting"], listed["next"]) == ([], [], "")
    pages = all_pages(api, "/documents", "documents", limit=1)
    assert pages == listed["documents"]
    titles = [document["title"] for document in api.get("/documents", q="THE ")["documents"]]
    assert titles == ["The plan", "The harbour", "The vault"]
    secret = api.get("/documents", filter='access = "secret"')
    assert (len(secret["documents"]), secret["counts"]["documents"]) == (2, 2)
    assert "no field 'colour'" in api.problem("/documents", 400, filter='colour = "red"')


def test_one_document(api: Api) -> None:
    document = api.get(f"/documents/{HARBOUR}")
    with (Path(api.served.kumi.base) / "town" / "harbour.md").open(encoding="utf-8") as file:
        text = file.read()
    assert (document["uri"], document["characters"], document["chunks"]) == ("town/harbour.md", len(text), 1)
    assert document["metadata"] == {"language": "en", "kind": "text", "access": "open"}
    assert (document["status"], document["remarks"]) == ("indexed", [])
    whole = api.get(f"/documents/{HARBOUR}/text")
    assert (whole["text"], whole["start"], whole["end"], whole["line"]) == (text, 0, len(text), 1)
    start = text.index("Ada Holm mended")
    part = api.get(f"/documents/{HARBOUR}/text", start=start, end=start + 15)
    assert (part["text"], part["line"], part["characters"]) == ("Ada Holm mended", 7, len(text))
    assert api.get(f"/documents/{HARBOUR}/text", start=10**9)["text"] == ""
    assert "no document 'gone'" in api.problem("/documents/gone", 404)
    assert "no document 'gone'" in api.problem("/documents/gone/text", 404)


def test_documents_in_part_and_files_without_one(tmp_path: Path) -> None:
    letter = "Subject: Nets\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\nThe nets.\n--b\n" + (
        "Content-Disposition: attachment; filename=net.bin\n\nx\n--b--\n"
    )
    fill(tmp_path, {"town/broken.json": "{", "town/letter.eml": letter, "uploads/notes.md": "Nothing."})
    with Kumihimo.open(tmp_path / ".kumi") as kumi:
        kumi.index(tmp_path / "town", methods=["bm25"])
    with serve(tmp_path) as api:
        listed = api.get("/documents")
        (failed, empty) = listed["failed"]
        assert failed["uri"] == "town/broken.json"
        assert "broken.json" in failed["error"]
        assert (empty["uri"], listed["waiting"]) == ("notes.md", [])  # no build runs that could still read it
        assert listed["counts"] == {"documents": 1, "partial": 1, "failed": 2, "waiting": 0}
        (document,) = listed["documents"]
        assert document["status"] == "partial"
        assert "net.bin" in document["remarks"][0]


# -- rows and where they come from


def test_trace(api: Api) -> None:
    (item, *_) = api.post("/retrieve", {"question": "Who mended the breakwater?"})["evidence"]
    traced = api.get(f"/trace/{item['table']}/{item['id']}", around=30)
    (span,) = traced["spans"]
    assert (traced["text"], traced["more"], span["document"]) == (item["text"], False, HARBOUR)
    page = span["page"]
    assert page["text"][page["start"] : page["end"]] == span["text"] == item["text"]
    assert page["first"] + page["start"] == span["start"]
    entity = api.get("/entities/Ada Holm")
    traced = api.get(f"/trace/entities/{entity['id']}", limit=1)
    assert (len(traced["spans"]), traced["more"]) == (1, True)
    assert api.get(f"/trace/documents/{HARBOUR}")["spans"][0]["uri"] == "town/harbour.md"
    assert "no table 'boats' here" in api.problem("/trace/boats/x", 404)
    assert "no row 'x'" in api.problem("/trace/chunks/x", 404)


# -- the graph


def test_entities(api: Api) -> None:
    listed = all_pages(api, "/entities", "entities", limit=4)
    assert [entity["mentions"] for entity in listed] == sorted((e["mentions"] for e in listed), reverse=True)
    counts = api.get("/entities")
    assert len(listed) == counts["total"] == api.get("/status")["rows"]["entities"] - counts["other"]
    found = api.get("/entities", q="kerr")
    assert ([entity["name"] for entity in found["entities"]], found["found_by"]) == (["Joss Kerrow"], "names")
    described = api.get("/entities", q="breakwater mended")
    assert described["found_by"] == "descriptions"
    assert "breakwater" in described["entities"][0]["text"]
    assert api.get("/entities", type="boat")["entities"] == []


def test_one_entity(api: Api) -> None:
    ada = api.get("/entities/Ada Holm")
    assert api.get(f"/entities/{ada['id']}") == ada
    assert (ada["name"], ada["forms"], ada["claims"]) == ("Ada Holm", ["Ada Holm"], [])
    relations = all_pages(api, f"/entities/{ada['id']}/relations", "relations", limit=2)
    assert relations == ada["relations"]
    assert {row["name"] for row in relations} >= {"Joss Kerrow", "Port Sorrel"}
    passages = all_pages(api, f"/entities/{ada['id']}/passages", "passages", limit=1)
    assert {span["uri"] for span in passages} == {f"town/{name}.md" for name in ("harbour", "tides", "vault")}
    assert all("Ada Holm" in span["text"] for span in passages)
    near = api.get(f"/entities/{ada['id']}/neighbours", limit=2)
    assert (near["entities"][0]["name"], len(near["entities"]), near["more"]) == ("Ada Holm", 3, True)
    ids = {entity["id"] for entity in near["entities"]}
    assert all({relation["source"], relation["target"]} <= ids for relation in near["relations"])
    (community, *_) = ada["communities"]
    assert ada["id"] in [member["id"] for member in api.get(f"/communities/{community['id']}")["members"]]
    assert "no entity 'Nobody'" in api.problem("/entities/Nobody", 404)


def test_a_path(api: Api) -> None:
    found = api.get("/path", **{"from": "Ysolde Marchbank", "to": "Kestrel"})
    assert [found["entities"][i]["name"] for i in (0, -1)] == ["Ysolde Marchbank", "Kestrel"]
    assert (len(found["relations"]), found["complete"]) == (len(found["entities"]) - 1, True)
    assert "no entity 'Nobody'" in api.problem("/path?from=Nobody&to=Kestrel", 404)
    assert api.problem("/path", 400, to="Kestrel").startswith("from: Field required")


def test_communities_and_reports(api: Api) -> None:
    roots = all_pages(api, "/communities", "communities", limit=1)
    assert [row["entities"] for row in roots] == sorted((row["entities"] for row in roots), reverse=True)
    assert api.get("/communities", level=0)["communities"] == roots
    for row in roots:
        parts = api.get("/communities", parent=row["id"])["communities"]
        assert len(parts) == row["children"]
        assert all(part["parent"] == row["id"] for part in parts)
    reports = all_pages(api, "/reports", "reports", limit=1)
    assert [row["id"] for row in reports] == [row["id"] for row in roots if row["title"]]
    report = api.get(f"/reports/{reports[0]['id']}")
    assert (report["title"], report["maker"]) == (reports[0]["title"], reports[0]["maker"])
    assert set(report["sources"]) <= {f"town/{name}" for name in FILES}
    assert report["findings"][0]["sources"]
    for path in ("/communities/gone", "/reports/gone"):
        assert "'gone'" in api.problem(path, 404)
    assert "no community 'gone'" in api.problem("/reports", 404, parent="gone")


# -- the state


def test_the_overview(api: Api) -> None:
    found = api.get("/overview")
    assert (found["documents"], found["kinds"], found["languages"]) == (4, {"text": 4}, {"en": 4})
    assert {row["uri"] for row in found["largest"]} == {f"town/{name}" for name in FILES}
    assert (found["newest"], found["folders"]) == ([], {"deep": 1})
    for topic in found["topics"]:
        assert topic["quote"]["text"]
        assert {row["uri"] for row in topic["documents"]} <= {f"town/{name}" for name in FILES}
    part = api.get("/overview", part="deep")
    assert [row["uri"] for row in part["largest"]] == ["town/deep/plan.md"]
    assert "no folder or year 'attic'" in api.problem("/overview", 404, part="attic")


def test_methods(api: Api) -> None:
    methods = {method["name"]: method for method in api.get("/methods")["methods"]}
    assert [name for name, method in methods.items() if method["default"]] == ["braid"]
    assert (methods["hyde"]["needs_model"], methods["hyde"]["has_model"]) == (True, False)
    assert (methods["discourse"]["needs_model"], methods["discourse"]["built"]) == (False, False)
    assert methods["local"]["built"]
    k = methods["bm25"]["settings"]["k"]
    assert k == {
        "type": "a whole number from 1 to 10,000",
        "default": 20,
        "choices": [],
        "bounds": [1, 10_000],
        "network_bounds": [1, 1000],
        "help": "number of chunks",
    }
    assert methods["naive"]["settings"]["words"]["network_bounds"] is None
    assert methods["light"]["settings"]["mode"]["choices"] == ["hybrid", "low", "high", "mix"]


def test_plan_usage_and_status(api: Api) -> None:
    question = {"question": "Who mended the breakwater?", "method": "bm25"}
    assert api.post("/plan", question)["estimates"] == []
    assert "did you mean 'bm25'" in api.problem("/plan", 400, {**question, "method": "bm52"})
    assert "bm25 has no setting 'j'" in api.problem("/plan", 400, {**question, "settings": {"j": 1}})
    assert api.post("/plan", {"methods": ["bm25"]})["total"]["calls"] == [0, 0]
    assert api.get("/usage") == {"key": None, "entries": []}
    status = api.get("/status")
    assert status["rows"]["documents"] == 4
    assert status["sources"]
    with api.acting("reader"):
        assert not {"folder", "sources", "spent"} & api.get("/status").keys()
        assert api.get("/usage") == {"key": None}
        assert "needs a key" in api.problem("/plan", 403, {"methods": ["bm25"]})


# -- requests that are wrong


@pytest.mark.parametrize(
    ("path", "parameters", "message"),
    [
        ("/documents", {"limit": 0}, "limit: Input should be greater than or equal to 1"),
        ("/documents", {"limit": "all"}, "limit: Input should be a valid integer"),
        ("/documents", {"q": "x" * 300}, "q: String should have at most 200 characters"),
        ("/documents", {"filter": "x" * 3000}, "filter: String should have at most 2000 characters"),
        ("/entities", {"after": "x" * 3000}, "after: String should have at most 2000 characters"),
        (f"/documents/{HARBOUR}/text", {"start": -1}, "start: Input should be greater than or equal to 0"),
    ],
)
def test_a_wrong_parameter_is_named(api: Api, path: str, parameters: dict[str, Any], message: str) -> None:
    assert api.problem(path, 400, **parameters).startswith(message)


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("/ask", {}, "question: Field required"),
        ("/ask", {"question": "x", "methode": "bm25"}, "methode: Unexpected keyword argument"),
        ("/ask", {"question": "x" * 10_001}, "question: String should have at most 10000 characters"),
        ("/ask", {"question": "x", "settings": {str(i): 1 for i in range(60)}}, "settings: Dictionary should have"),
        ("/ask", {"question": "x", "settings": {"k": 10**9}}, "settings.k"),
        ("/ask", {"question": "x", "history": [{"question": "y", "answer": "z"}] * 60}, "history: List should have"),
        ("/retrieve", {"question": "x", "filter": "y" * 3000}, "filter: String should have at most 2000"),
        ("/builds", {"paths": ["x"] * 30}, "paths: List should have at most 20 items"),
        ("/builds", {"max_calls": -1}, "max_calls: Input should be greater than or equal to 0"),
    ],
)
def test_a_wrong_body_is_named(api: Api, path: str, body: dict[str, Any], message: str) -> None:
    assert message in api.problem(path, 400, body)


def test_a_body_that_is_no_json(api: Api) -> None:
    response = api.client.post("/api/v1/ask", content="{", headers={"content-type": "application/json"})
    assert (response.status_code, response.json()["title"]) == (400, "InvalidRequest")
    assert "JSON" in response.json()["detail"]


def test_every_address_is_described(api: Api) -> None:
    paths = api.app.openapi()["paths"]
    undescribed = [path for path, methods in paths.items() for method in methods.values() if not method["description"]]
    assert undescribed == []
    assert "/api/v1/indexes/{index_name}/ask" in paths
