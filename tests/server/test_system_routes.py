"""/health and /ready answer anyone, without names; /metrics shows each administrator what is theirs."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest
from starlette.testclient import TestClient

from kumihimo import Kumihimo
from kumihimo.app.upkeep.keys import create_key
from kumihimo.server.app import create_app
from kumihimo.server.workspace import Workspace, open_workspace
from tests.counters import wait_until
from tests.server.clients import ADDRESS, GUARDED, LOCAL, Open, bearer

ASK = {"question": "When does the ferry leave?", "method": "bm25"}


@pytest.fixture(scope="module")
def second(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another index, with keys of its own."""
    copy = tmp_path_factory.mktemp("second") / "quay"
    shutil.copytree(folder.parent, copy, ignore=shutil.ignore_patterns("keys.db"))
    return copy / ".kumi"


@pytest.fixture(scope="module")
def both(folder: Path, second: Path) -> Iterator[TestClient]:
    """A server of both indexes."""
    with TestClient(create_app(open_workspace([folder, second]), GUARDED), base_url=ADDRESS) as client:
        yield client


def test_health_and_readiness_need_no_key(open_client: Open) -> None:
    client = open_client(GUARDED)
    assert client.get("/health").json()["status"] == "ok"
    assert client.get("/ready").json() == {"status": "ready", "indexes": 1}


def test_an_index_that_cannot_be_read_is_named_in_the_log_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "secret" / ".kumi"
    folder.mkdir(parents=True)
    (folder / "index.db").write_bytes(b"no database" * 1000)
    monkeypatch.setattr(logging.getLogger("kumihimo"), "propagate", True)
    with TestClient(create_app(open_workspace([folder]), GUARDED), base_url=ADDRESS) as client:
        responses = [client.get("/ready") for _ in range(3)]
    assert [response.status_code for response in responses] == [503] * 3
    assert responses[0].json()["detail"] == "1 of 1 indexes cannot be read"
    assert "secret" not in "".join(response.text for response in responses)
    assert [record.getMessage().startswith("the index secret cannot be read") for record in caplog.records] == [True]


def test_many_who_ask_are_answered_by_one_look(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    looks, may_end = [], Event()

    def look(kumi: Kumihimo) -> bool:
        looks.append(kumi)
        return may_end.wait(30)

    monkeypatch.setattr("kumihimo.server.monitoring._read_anything", look)
    app, waiting, shield = create_app(Workspace(workspace.indexes), LOCAL), [], asyncio.shield
    monkeypatch.setattr(asyncio, "shield", lambda task: waiting.append(task) or shield(task))  # type: ignore[func-returns-value]

    async def play() -> list[int]:
        statuses: list[int] = []

        async def ask() -> None:
            scope = {"type": "http", "method": "GET", "path": "/ready", "query_string": b"", "scheme": "http"}
            headers = {"headers": [(b"host", b"localhost")], "server": ("localhost", 80), "http_version": "1.1"}

            async def send(message: dict[str, int]) -> None:
                statuses.append(message.get("status", 0))

            await app({**scope, **headers}, asyncio.Event().wait, send)  # type: ignore[arg-type]

        tasks = [asyncio.create_task(ask()) for _ in range(20)]
        await asyncio.to_thread(wait_until, lambda: bool(looks) and len(waiting) == len(tasks))
        may_end.set()
        await asyncio.gather(*tasks)
        return statuses

    assert asyncio.run(play()).count(200) == 20
    assert len(looks) == 1


def test_an_administrator_sees_the_metrics_of_all_indexes(both: TestClient, folder: Path, second: Path) -> None:
    key = bearer(create_key([folder, second], "admin")[1])
    assert both.post("/api/v1/indexes/quay/ask", json=ASK, headers=key).status_code == 200
    assert both.post("/api/v1/indexes/quay/retrieve", json=ASK, headers=key).status_code == 200
    text = both.get("/metrics", headers=key).text
    assert 'kumihimo_question_seconds_count{index="quay",method="bm25"} 2.0' in text
    assert 'kumihimo_questions_waiting{index="harbour"} 0.0' in text
    assert 'kumihimo_questions_running{index="quay"} 0.0' in text
    assert 'kumihimo_index_bytes{file="index.db",index="harbour"}' in text
    assert 'kumihimo_requests_total{method="POST",route="/api/v1/indexes/{index_name}/ask",status="200"} 1.0' in text


def test_an_administrator_of_one_index_sees_nothing_of_another(both: TestClient, folder: Path, second: Path) -> None:
    everything = bearer(create_key([folder, second], "admin")[1])
    for name in ("quay", "harbour"):
        both.post(f"/api/v1/indexes/{name}/ask", json=ASK, headers=everything)
    text = both.get("/metrics", headers=bearer(create_key([second], "admin")[1])).text
    assert 'kumihimo_question_seconds_count{index="quay",method="bm25"}' in text
    assert "harbour" not in text
    assert "kumihimo_requests" not in text


@pytest.mark.parametrize(("role", "rights"), [("reader", ""), ("editor", ""), ("admin", 'author = "Joss Kerrow"')])
def test_others_see_no_metrics(both: TestClient, second: Path, role: str, rights: str) -> None:
    response = both.get("/metrics", headers=bearer(create_key([second], role, rights=rights)[1]))
    assert response.status_code == 403
    assert "kumihimo_" not in response.text


def test_invented_methods_and_paths_make_no_new_series(open_client: Open) -> None:
    client = open_client(LOCAL)
    for i in range(20):
        client.request(f"X{i}", "/api/v1/methods")
        client.get(f"/nothing/{i}")
    lines = [line for line in client.get("/metrics").text.splitlines() if line.startswith("kumihimo_requests_total")]
    assert lines == [
        'kumihimo_requests_total{method="other",route="/api/v1/methods",status="405"} 20.0',
        'kumihimo_requests_total{method="GET",route="none",status="404"} 20.0',
    ]
