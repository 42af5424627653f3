"""a question + a method -> bounds on its calls, tokens and cost, without calling a model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kumihimo import Kumihimo
from kumihimo.app.opened.results import Estimate, Plan
from kumihimo.core.context import Context
from kumihimo.core.errors import SettingsError
from kumihimo.core.records import Chunk
from kumihimo.core.signature import IndexSizes, MethodSettings, QueryCost, declare
from kumihimo.core.table import Table
from kumihimo.llm.protocols import LLM
from kumihimo.methods import METHODS
from tests.app.test_method_subsets import NOTES, OneModel
from tests.factories_paid_steps import install, notes, opened
from tests.fake_server import FakeServer

COUNT = 12


def mapped_calls(settings: MethodSettings, sizes: IndexSizes) -> QueryCost:
    """Return one call for each batch of chunks."""
    calls = -(-sizes.rows("chunks") // settings["batch"])
    return QueryCost.for_calls((calls, calls), (10, 200))


@declare(calls=mapped_calls)
def mapped(question: str, chunks: Table[Chunk], llm: LLM, *, batch: int = 4) -> Context:
    """Return nothing, after a call for each batch of chunks."""
    all_chunks = list(chunks)
    for i in range(0, len(all_chunks), batch):
        llm("\n".join([*(chunk.text for chunk in all_chunks[i : i + batch]), question]))
    return Context()


def stubborn(question: str, chunks: Table[Chunk], llm: LLM) -> Context:
    """Return nothing, after calls that it does not declare."""
    llm(question)
    return Context()


@pytest.fixture(autouse=True)
def toy_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, methods=[mapped, stubborn])


@pytest.fixture
def kumi(tmp_path: Path, server: FakeServer) -> Iterator[Kumihimo]:
    prices = {"prompt_price": 2.0, "completion_price": 6.0}
    with opened(tmp_path, server, chat=prices) as kumi:
        kumi.index(notes(tmp_path / "notes", COUNT), methods=["naive"])
        yield kumi


def step_estimate(plan: Plan, step: str) -> Estimate:
    return next(estimate for estimate in plan.estimates if estimate.step == step)


def test_a_bound_follows_settings_and_index_and_calls_no_model(kumi: Kumihimo, server: FakeServer) -> None:
    plan = kumi.estimate_query_cost("mapped")
    assert (step_estimate(plan, "mapped").exact, step_estimate(plan, "mapped").calls) == (True, (3, 3))
    assert step_estimate(plan, "answer").calls == (0, 3)  # nothing without evidence; two rounds of searches at most
    assert plan.calls == (3, 6)
    assert step_estimate(kumi.estimate_query_cost("mapped", batch=2), "mapped").calls == (6, 6)
    assert server.counts()["requests"] == 0
    assert kumi.cache_stats()["replies"] == 0
    assert kumi.spent() == []


def test_the_length_of_an_answer_has_a_bound(tmp_path: Path, server: FakeServer) -> None:
    with opened(tmp_path, server, chat={"completion_price": 1.0}, answer={"max_tokens": 300, "rounds": 0}) as kumi:
        kumi.index(notes(tmp_path / "notes", 3), methods=["naive"])
        assert step_estimate(kumi.estimate_query_cost("naive"), "answer").completion_tokens == (16, 300)
        kumi.ask("Which harbour has a ferry?", "naive")
        low, high = step_estimate(kumi.estimate_query_cost("naive"), "answer").completion_tokens
        assert low <= 16
        assert high == 300


def test_a_question_stays_within_its_bounds(kumi: Kumihimo) -> None:
    for name in ("mapped", "hyde", "rq", "naive", "mapreduce"):
        question = f"Which harbour has a ferry, by {name}?"  # a reply to the same prompt is cached
        plan = kumi.estimate_query_cost(name, question)
        usage = kumi.ask(question, name).usage
        assert plan.calls[0] <= usage.calls <= plan.calls[1]
        prompts = [sum(e.prompt_tokens[end] for e in plan.estimates) for end in (0, 1)]
        assert prompts[0] <= usage.prompt_tokens <= prompts[1]
        assert plan.cost
        assert plan.cost[0] <= usage.cost


SETTINGS: dict[str, list[dict[str, Any]]] = {
    "rq": [{"depth": 3}, {"queries": 1, "depth": 2}],
    "hyde": [{"passages": 3, "asked": False}],
    "mapreduce": [{"window": 60}],
    "global": [{"window": 60}, {"window": 60, "level": 9}, {"window": 60, "paper": True}, {"dynamic": True}],
    "drift": [{"calls": 3}, {"folds": 1, "depth": 0}],
}


@pytest.mark.parametrize(
    ("name", "settings"), [(name, settings) for name in METHODS for settings in [{}, *SETTINGS.get(name, [])]]
)
def test_every_method_stays_within_its_bounds(name: str, settings: dict[str, Any], tmp_path: Path) -> None:
    home = tmp_path / "notes"
    home.mkdir()
    for number in range(3):
        for note, text in NOTES.items():
            (home / f"{number}-{note}").write_text(f"{text} It was the year {1900 + number}.", encoding="utf-8")
    with Kumihimo(tmp_path / ".kumi", {"entities": {"model": "rules"}}) as kumi:
        kumi.models = models = OneModel(kumi.models.settings, kumi.models.cache)
        kumi.index(home, methods=[name])
        plan = kumi.estimate_query_cost(name, "Who built the pier of Fenwick?", **settings)
        usage = kumi.ask("Who built the pier of Fenwick?", name, **settings).usage
        counts = models.model.prompt_counts  # replies that cannot be read are asked for again
        repeats = sum(n for prompt, n in counts.items() if prompt.endswith("Reply again, in full."))
        assert plan.calls[0] <= usage.calls - repeats <= plan.calls[1]
        assert sum(e.prompt_tokens[0] for e in plan.estimates) <= usage.prompt_tokens
        assert usage.prompt_tokens <= sum(e.prompt_tokens[1] for e in plan.estimates) or repeats


def test_rights_leave_out_what_earlier_answers_took(kumi: Kumihimo) -> None:
    """They were about documents that others may see."""
    before = [kumi.estimate_query_cost("naive", rights=rights) for rights in ("", "uri")]
    kumi.ask("What does note 3 say?", "naive")
    after = [kumi.estimate_query_cost("naive", rights=rights) for rights in ("", "uri")]
    assert after[0] != before[0]
    assert after[1] == before[1]


def test_a_method_that_declares_no_bound_has_a_wide_range(kumi: Kumihimo) -> None:
    plan = kumi.estimate_query_cost("stubborn")
    assert {estimate.step: estimate.calls for estimate in plan.estimates} == {"stubborn": (0, 10), "answer": (0, 3)}
    assert plan.cost
    assert plan.cost[0] == 0 < plan.cost[1]


def test_a_reranking_model_is_one_more_call(kumi: Kumihimo) -> None:
    assert [step.step for step in kumi.estimate_query_cost("bm25", "ferry").estimates] == ["answer"]
    plan = kumi.estimate_query_cost("bm25", "ferry", reranker="model")
    assert {e.step: e.calls for e in plan.estimates} == {"bm25": (0, 1), "answer": (1, 3)}


def test_texts_to_embed_are_counted(tmp_path: Path, server: FakeServer) -> None:
    embedding = {"model": "e", "base_url": server.url, "price": 1.0}
    with opened(tmp_path, server, embedding=embedding) as kumi:
        kumi.index(notes(tmp_path / "notes", COUNT), methods=["naive"])
        requests = server.counts()["requests"]
        plan = kumi.estimate_query_cost("naive", "Which ferry?")
        assert {e.step: e.calls for e in plan.estimates} == {"embedding": (0, 5), "answer": (1, 3)}
        assert server.counts()["requests"] == requests


def test_without_a_model_nothing_is_asked(tmp_path: Path) -> None:
    with Kumihimo(tmp_path / ".kumi") as kumi:
        kumi.index(notes(tmp_path / "notes", 3))
        assert kumi.estimate_query_cost("naive", "Which ferry?") == kumi.estimate_query_cost() == Plan(())
        with pytest.raises(SettingsError, match="hyde needs a chat model"):
            kumi.estimate_query_cost("hyde")
        with pytest.raises(SettingsError, match="no method 'drfit'"):
            kumi.estimate_query_cost("drfit")
        assert not (tmp_path / ".kumi" / "cache.db").exists()
