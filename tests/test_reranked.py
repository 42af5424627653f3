"""index + `rerank` -> a new order, estimated, paid once; missing settings reported first."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kumihimo.app.facade import Kumihimo
from kumihimo.app.opened.results import Plan
from kumihimo.core.errors import BudgetExceeded, SettingsError
from kumihimo.llm.budget import Caps
from tests.factories_paid_steps import opened
from tests.fake_server import FakeServer
from tests.fixtures_index import fill

NOTES = {
    "a.txt": "The harbour office keeps the log of the ferry.",
    "b.txt": "When the ferry leaves the harbour at nine a bell is rung.",
    "c.txt": "A ferry is tarred in spring.",
    "d.txt": "The mill burnt.",
}
QUESTION = "When does the ferry leave the harbour"


@pytest.fixture
def kumi(tmp_path: Path, server: FakeServer) -> Iterator[Kumihimo]:
    server.configure(replies=[("<passage 4>\n", json.dumps([{"number": 3, "score": 90}]))])
    reranking = {"model": "r", "base_url": server.url, "search_price": 2.0, "retries": 0}
    with opened(tmp_path, server, reranking=reranking, chat={"prompt_price": 1.0, "completion_price": 1.0}) as kumi:
        kumi.index(fill(tmp_path / "notes", NOTES), methods=["naive", "bm25", "hyde"])
        yield kumi


def search(kumi: Kumihimo, name: str = "naive", **settings: Any) -> list[str]:
    return [item.text for item in kumi.retrieve(QUESTION, name, **settings)]


def test_model_reranks_and_is_paid_once(kumi: Kumihimo, server: FakeServer) -> None:
    unranked = search(kumi)
    assert server.counts()["requests"] == 0
    assert (
        search(kumi, reranker="model") == search(kumi, reranker="model") == [unranked[2], *unranked[:2], *unranked[3:]]
    )
    assert search(kumi, reranker="model", k=1) == [unranked[2]]
    assert (server.counts()["requests"], server.counts()["chats"]) == (1, 1)
    assert {(s.kind, s.scope) for s in kumi.spent()} == {("spent", "naive"), ("saved", "naive")}


def test_server_reranks_by_score(kumi: Kumihimo, server: FakeServer) -> None:
    assert search(kumi, reranker="endpoint")[0] == search(kumi, "bm25", reranker="endpoint", k=1)[0] == NOTES["b.txt"]
    assert server.counts()["rerankings"] == server.counts()["requests"]
    assert {(s.kind, s.scope, s.model) for s in kumi.spent()} == {("spent", "reranking", "r")}


def calls_by_step(plan: Plan) -> dict[str, tuple[float, float]]:
    return {estimate.step: estimate.calls for estimate in plan.estimates}


def test_cost_is_estimated(kumi: Kumihimo, server: FakeServer) -> None:
    assert calls_by_step(kumi.estimate_query_cost("naive", QUESTION)) == {"answer": (1, 3)}
    assert calls_by_step(kumi.estimate_query_cost("naive", QUESTION, reranker="model")) == {
        "naive": (0, 1),  # a single hit is not reranked
        "answer": (1, 3),
    }
    plan = kumi.estimate_query_cost("naive", QUESTION, reranker="endpoint")
    assert calls_by_step(plan) == {"reranking": (0, 1), "answer": (1, 3)}
    requests_before = next(estimate for estimate in plan.estimates if estimate.step == "reranking")
    assert (requests_before.completion_tokens, requests_before.cost) == ((0, 0), (0.0, 0.002))
    assert server.counts()["requests"] == 0
    usage = kumi.ask(QUESTION, "naive", reranker="endpoint").usage
    assert plan.calls[0] <= usage.calls == 2 <= plan.calls[1]
    assert plan.cost
    assert plan.cost[0] <= usage.cost <= plan.cost[1]


def test_method_may_have_its_own_reranking_model(tmp_path: Path, server: FakeServer) -> None:
    settings = {"bm25": {"model": "m", "base_url": server.url, "reranker": "model"}}
    with Kumihimo(tmp_path / ".kumi", settings) as kumi:
        kumi.index(fill(tmp_path / "notes", NOTES), methods=["bm25", "naive"])
        assert len(search(kumi, "bm25")) == 3
        assert [s.scope for s in kumi.spent()] == ["bm25"]
        with pytest.raises(SettingsError, match=r'naive\.reranker = "model" needs a chat model'):
            search(kumi, reranker="model")


@pytest.mark.parametrize("by", ["model", "endpoint"])
def test_missing_model_is_reported_before_any_payment(tmp_path: Path, server: FakeServer, by: str) -> None:
    embedding = {"model": "e", "base_url": server.url}
    with Kumihimo(tmp_path / ".kumi", {"embedding": embedding}) as kumi:
        kumi.index(fill(tmp_path / "notes", NOTES), methods=["naive"])
        requests_before = server.counts()["requests"]
        for ask in (kumi.retrieve, kumi.ask):
            with pytest.raises(SettingsError, match=r"needs a (chat model|reranking server): set `model"):
                ask(QUESTION, "naive", reranker=by)
        with pytest.raises(SettingsError, match=r"needs a (chat model|reranking server)"):
            kumi.estimate_query_cost("naive", QUESTION, reranker=by)
        assert server.counts()["requests"] == requests_before
        assert len(search(kumi)) == 4  # without a reranker no model is needed


def test_cap_applies_to_reranking(kumi: Kumihimo) -> None:
    for caps in (Caps(calls=0), Caps(cost=0.001)):
        with pytest.raises(BudgetExceeded):
            kumi.retrieve(QUESTION, "naive", caps=caps, reranker="endpoint")


def test_unknown_reranker_is_rejected(kumi: Kumihimo) -> None:
    with pytest.raises(SettingsError, match=r"naive\.reranker is"):
        search(kumi, reranker="llm")
