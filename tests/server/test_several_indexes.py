"""one question to several served indexes: names, rights of each, one budget for both keys, links to the right page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from kumihimo.app.upkeep.keys import create_key
from kumihimo.server.app import create_app
from kumihimo.server.settings import ServerSettings
from kumihimo.server.workspace import open_workspace
from kumihimo.testing.fake_models import FakeChat
from tests.server.clients import ADDRESS, bearer
from tests.server.running import AnswersBy, build_index

ARCHIVE = {
    "plan.md": "---\naccess: open\n---\nMaren Oldacre drew the tide gates of Orsay in 1983.",
    "vault.md": "---\naccess: secret\n---\nZebulon Quarry keeps the gold of Orsay in the vault.",
}
TOWN = {
    "ferry.md": "---\naccess: open\n---\nThe ferry of Orsay leaves at nine. Joss Kerrow sails it.",
    "debts.md": "---\naccess: secret\n---\nZebulon Quarry owes gold to Joss Kerrow of Orsay.",
}
QUESTION = "Who drew the tide gates of Orsay?"


class Site:
    """A server of two indexes, and keys for both and for one."""

    def __init__(self, folders: list[Path], audit: Path) -> None:
        self.audit, self.workspace = audit, open_workspace(folders)
        self.archive, self.town = self.workspace.indexes  # names
        settings = ServerSettings(require_keys=True, audit=audit)
        self.client = TestClient(create_app(self.workspace, settings), base_url=ADDRESS)
        self.both = create_key(folders, "reader")[1]
        self.one = create_key(folders[1:], "reader")[1]
        self.limited = create_key(folders, "reader", rights='access = "open"', daily_tokens=800)[1]

    def post(self, path: str, token: str = "", **body: Any) -> Any:
        return self.client.post(path, json=body, headers=bearer(token or self.both))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    home = tmp_path_factory.mktemp("site")
    folders = [build_index(home / name, texts) for name, texts in (("archive", ARCHIVE), ("town", TOWN))]
    site = Site(folders, home / "audit.jsonl")
    with site.client:  # closes the workspace
        yield site


def test_an_answer_names_the_index_and_the_audit_log_names_both(site: Site) -> None:
    for path in (f"/api/v1/indexes/{site.town}/ask", f"/api/v1/indexes/{site.town}/retrieve"):
        reply = site.post(path, question=QUESTION, method="bm25", more_indexes=[site.archive]).json()
        assert (reply["evidence"][0]["index"], reply["evidence"][0]["spans"][0]["uri"]) == (
            site.archive,
            "files/plan.md",
        )
        assert json.loads(site.audit.read_text().splitlines()[-1])["index"] == f"{site.town},{site.archive}"
    answer = site.post("/api/v1/ask", question=QUESTION, more_indexes=[site.town]).json()
    assert answer["citations"][0]["location"] == f"{site.archive}: files/plan.md, line 4"
    alone = site.post("/api/v1/ask", question=QUESTION).json()
    assert "index" not in {*alone["citations"][0], *alone["evidence"][0]}


def test_a_stream_has_the_same_events(site: Site) -> None:
    response = site.post("/api/v1/ask", question=QUESTION, more_indexes=[site.town], stream=True)
    events = [line.removeprefix("event: ") for line in response.text.splitlines() if line.startswith("event: ")]
    assert events == ["progress", "evidence", "token", "citations", "answer"]
    assert f'"location": "{site.archive}: files/plan.md, line 4"' in response.text


def test_a_key_must_open_each_index(site: Site) -> None:
    for path, more in ((site.town, site.archive), (site.archive, site.town)):
        response = site.post(f"/api/v1/indexes/{path}/ask", site.one, question=QUESTION, more_indexes=[more])
        assert (response.status_code, "Maren" in response.text) == (404, False)
        assert f"no index '{site.archive}'" in response.json()["detail"]
    again = site.post(f"/api/v1/indexes/{site.town}/ask", question=QUESTION, more_indexes=[site.archive, site.town])
    assert (again.status_code, again.json()["detail"]) == (
        400,
        f"the index {site.town} is named twice: name each index once",
    )


def test_the_rights_of_a_key_hold_in_each_index(site: Site) -> None:
    question = "Where is the gold of Zebulon Quarry?"
    seen, hidden = (
        site.post("/api/v1/ask", token, question=question, more_indexes=[site.town]).text
        for token in (site.both, site.limited)
    )
    assert "owes gold" in seen
    assert "keeps the gold" in seen
    assert "gold" not in hidden.replace(question, "")
    wrong = site.post("/api/v1/ask", site.limited, question=question, more_indexes=[site.town], settings={"rights": ""})
    assert wrong.status_code == 400


def test_what_is_spent_counts_for_the_key_in_each_index(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    first = site.workspace.indexes[site.archive].kumi
    models = AnswersBy(first.models.settings, first.models.cache)
    models.model = FakeChat(lambda prompt: "Maren Oldacre did [1].")
    monkeypatch.setattr(first, "models", models)
    body = {"question": QUESTION, "method": "bm25", "more_indexes": [site.town]}
    answer = site.post("/api/v1/ask", site.limited, **body).json()
    assert (answer["text"], answer["usage"]["calls"]) == ("Maren Oldacre did [1].", 1)
    spent = [
        site.client.get(f"/api/v1/indexes/{name}/usage", headers=bearer(site.limited)).json()["key"]["spent"]["calls"]
        for name in (site.archive, site.town)
    ]
    assert spent == [1, 1]
    more = (
        site.post("/api/v1/ask", site.limited, **{**body, "question": f"Who drew gate {n} of Orsay?"}) for n in range(6)
    )
    refused = [reply.json()["detail"] for reply in more if reply.status_code == 429]
    assert 0 < len(refused) < 6
    assert "tokens 800" in refused[0]


def test_a_model_of_several_indexes_links_to_each(site: Site) -> None:
    def chat(model: str) -> Any:
        messages = [{"role": "user", "content": QUESTION}]
        return site.post("/v1/chat/completions", model=model, messages=messages)

    for model, page in ((f"{site.town}+{site.archive}/bm25", "/documents/"), (f"kumi+{site.town}", "/documents/")):
        message = chat(model).json()["choices"][0]["message"]
        assert f"{site.archive}: files/plan.md" in message["content"]
        assert f"{ADDRESS}{page}" in message["content"]
    ferry = site.post(
        "/v1/chat/completions", model=f"kumi+{site.town}", messages=[{"role": "user", "content": "Who sails?"}]
    )
    assert f"{ADDRESS}/indexes/{site.town}/documents/" in ferry.json()["choices"][0]["message"]["content"]
    assert chat(f"{site.town}+nowhere").status_code == 404
    response = site.post("/v1/embeddings", model=f"{site.town}+{site.archive}", input="gates")
    assert (response.status_code, "name one model" in response.text) == (400, True)
