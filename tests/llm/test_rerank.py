"""Candidates -> the same in another order: by a model in one call, by a server in one request, each paid once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from kumihimo.core.context import Context, Evidence
from kumihimo.core.errors import BudgetExceeded, ItemFailed, ModelError, SettingsError
from kumihimo.core.records import Record
from kumihimo.llm import rerank_client
from kumihimo.llm.budget import Caps
from kumihimo.llm.cached_llm import RERANKING, CachedLLM
from kumihimo.llm.protocols import RerankerName
from kumihimo.llm.registry import MODEL_SETTINGS, ModelRegistry
from kumihimo.llm.rerank import CandidateReranker, RelevanceScorer, listwise_scorer
from kumihimo.llm.rerank_client import CachedScorer, RerankClient, parse_scores
from kumihimo.llm.transport import RetryableError
from kumihimo.storage.sqlite.response_cache import ResponseCache
from kumihimo.testing.fake_models import FakeChat
from kumihimo.testing.fake_server import FakeServer

TEXTS = ["the mill", "a ferry", "the ferry leaves at nine"]
QUESTION = "when leaves the ferry"


@pytest.fixture
def memo(tmp_path: Path) -> Iterator[ResponseCache]:
    memo = ResponseCache(tmp_path / "cache.db")
    yield memo
    memo.close()


def found(*texts: str) -> Context:
    return Context(tuple(Evidence("notes", Record(id=text, text=text), 9.0 - n) for n, text in enumerate(texts)))


def ranked(context: Context) -> list[tuple[str, float]]:
    return [(item.text, item.score) for item in context]


class By:
    """A judge that gives these scores, and writes down what it was asked."""

    def __init__(self, *given: float) -> None:
        self.given, self.asked = given, [["none yet"]][:0]

    def __call__(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        self.asked.append([question, *texts])
        return self.given[: len(texts)]

    def rank(self, context: Context, candidates: int = 20, by: RerankerName = "model") -> Context:
        return CandidateReranker({"model": lambda: self}, candidates)("?", context, by)


# -- the order


def test_the_best_come_first_and_equals_stay_as_they_were() -> None:
    by = By(0.25, 1.0, 0.25, 0.5)
    assert ranked(by.rank(found("a", "b", "c", "d"))) == [("b", 2.0), ("d", 1.5), ("a", 1.25), ("c", 1.25)]
    assert by.asked == [["?", "a", "b", "c", "d"]]
    assert [text for text, _ in ranked(By(0, 0, 0).rank(found("c", "b", "a")))] == ["c", "b", "a"]


def test_only_the_first_are_judged_and_the_others_follow_below() -> None:
    by = By(0.0, 0.5)
    assert ranked(by.rank(found("a", "b", "c", "d", "e"), 2)) == [
        ("b", 1.5),
        ("a", 1.0),
        ("c", 0.75),
        ("d", 0.5),
        ("e", 0.25),
    ]
    assert by.asked == [["?", "a", "b"]]


@pytest.mark.parametrize(("context", "by"), [(found("a", "b"), "none"), (found("a"), "model"), (found(), "model")])
def test_where_there_is_no_choice_nobody_is_asked(context: Context, by: RerankerName) -> None:
    judge = By()
    assert judge.rank(context, by=by) is context
    assert judge.asked == []


# -- by a model


def saying(memo: ResponseCache, *judged: tuple[int, int]) -> tuple[RelevanceScorer, FakeChat]:
    said = json.dumps([{"number": number, "score": score} for number, score in judged])
    chat = FakeChat(lambda _: said)
    return listwise_scorer(CachedLLM(chat, memo)), chat


def test_a_model_is_shown_all_and_asked_once(memo: ResponseCache) -> None:
    judge, chat = saying(memo, (3, 90), (1, 10))
    assert judge(QUESTION, TEXTS) == judge(QUESTION, TEXTS) == [0.1, 0.0, 0.9]
    (told,) = chat.prompt_counts
    assert chat.prompt_counts[told] == 1
    assert "[1]\nthe mill\n\n[2]\na ferry\n\n[3]\nthe ferry leaves at nine\n\nQuestion: when leaves the ferry" in told


def test_numbers_that_there_are_not_and_second_judgements_are_passed_over(memo: ResponseCache) -> None:
    judge, _ = saying(memo, (0, 90), (4, 90), (-1, 90), (2, 300), (2, 10), (3, -5))
    assert judge(QUESTION, TEXTS) == [0.0, 1.0, 0.0]


def test_a_judgement_that_cannot_be_read_has_failed(memo: ResponseCache) -> None:
    chat = FakeChat(lambda _: "The third is best.")
    with pytest.raises(ItemFailed, match="3 replies that cannot be read"):
        listwise_scorer(CachedLLM(chat, memo))(QUESTION, TEXTS)
    assert sum(chat.prompt_counts.values()) == 3


# -- by a server: what it says


@pytest.mark.parametrize("name", ["results", "data"])
@pytest.mark.parametrize("score", ["relevance_score", "score"])
def test_the_protocols_say_the_same(name: str, score: str) -> None:
    said = {
        name: [{"index": 2, score: 0.75, "document": {"text": "x"}}, {"index": 0, score: 0.5}, {"index": 1, score: 0}]
    }
    assert parse_scores(said, 3) == [0.5, 0.0, 0.75]


def test_what_is_left_out_scores_nothing() -> None:
    assert parse_scores({"results": [{"index": 1, "relevance_score": 1}]}, 3) == [0.0, 1.0, 0.0]


def rows(*given: object) -> dict[str, Any]:
    return {"results": [{"index": n, "relevance_score": score} for n, score in enumerate(given)]}


def test_other_numbers_are_spread_from_0_to_1() -> None:
    assert parse_scores(rows(-8.0, 4.0, -2.0), 3) == [0.0, 1.0, 0.5]
    assert parse_scores(rows(0.5, 3.0, 0.5), 3) == [0.0, 1.0, 0.0]
    assert parse_scores(rows(7.0, 7.0), 2) == [0.0, 0.0]
    assert parse_scores(rows(0.0, 1.0, 0.3), 3) == [0.0, 1.0, 0.3]


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"ok": True},
        {"results": []},
        {"results": None},
        {"results": "x"},
        {"results": [None]},
        {"results": {"index": 0}},
        {"results": [{"relevance_score": 0.5}]},
        {"results": [{"index": 0}]},
        {"results": [{"index": 2, "score": 0.5}]},
        {"results": [{"index": -1, "score": 0.5}]},
        {"results": [{"index": "0", "score": 0.5}]},
        {"results": [{"index": 0, "score": 0.5}, {"index": 0, "score": 0.6}]},
        rows(float("nan"), 1.0),
        rows(float("inf"), 1.0),
        rows("best", 1.0),
        rows(10**400, 1.0),
        rows(None, 1.0),
    ],
)
def test_what_is_no_judgement_is_asked_for_again(said: dict[str, Any]) -> None:
    with pytest.raises(RetryableError, match="not what a model server answers"):
        parse_scores(said, 2)


# -- by a server: asked over HTTP


def at(server: FakeServer, **settings: Any) -> RerankClient:
    return rerank_client.create_rerank_client(
        **{"model": "r", "base_url": server.url, "timeout": 0.4, "retries": 1, **settings}
    )


@pytest.mark.parametrize("route", ["", "/v1", "/v2"])
def test_a_server_is_asked_in_one_request(server: FakeServer, route: str) -> None:
    judge = at(server, base_url=server.url.removesuffix("/v1") + route)
    assert judge(QUESTION, TEXTS) == [0.25, 0.25, 0.75]
    assert judge("sea", ["", "sea"]) == [0.0, 1.0]
    counts = server.counts()
    assert (counts["requests"], counts["rerankings"]) == (2, 2)


def test_the_same_is_paid_once(server: FakeServer, memo: ResponseCache) -> None:
    judge = CachedScorer(at(server), memo)
    assert judge(QUESTION, TEXTS) == judge(QUESTION, TEXTS) == [0.25, 0.25, 0.75]
    assert server.counts()["requests"] == 1
    judge(QUESTION, TEXTS[::-1])
    judge("another", TEXTS)
    CachedScorer(at(server, model="other"), memo)(QUESTION, TEXTS)
    assert server.counts()["requests"] == 4


def test_a_server_that_takes_no_top_n_is_asked_without(server: FakeServer) -> None:
    server.configure(refuses=["top_n"])
    judge = at(server)
    assert judge(QUESTION, TEXTS) == judge(QUESTION, TEXTS) == [0.25, 0.25, 0.75]
    assert server.counts()["requests"] == 3


@pytest.mark.parametrize(
    "fault", ["408", "429", "500", "503", "empty", "garbage", "half", "malformed", "never", "slow", "wrong"]
)
def test_what_goes_wrong_is_tried_again_and_then_has_failed(
    server: FakeServer, memo: ResponseCache, fault: str
) -> None:
    server.configure(faults={fault: 1.0}, retry_after=0.01, drip=2.0)
    with pytest.raises(ItemFailed, match="times"):
        CachedScorer(at(server, timeout=0.2), memo)(QUESTION, TEXTS)
    server.configure(faults={})
    assert CachedScorer(at(server), memo)(QUESTION, TEXTS)[2] == 0.75  # nothing of it is remembered


def test_errors_name_the_remedy(server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.configure(key="secret", models=["r"])
    with pytest.raises(ModelError, match=r"\(401\): is the key in RERANKING_API_KEY the right one for it\?"):
        at(server)(QUESTION, TEXTS)
    monkeypatch.setenv("RERANKING_API_KEY", "secret")
    assert at(server)(QUESTION, TEXTS)
    with pytest.raises(ModelError, match=r"\(404\): set `model` to one that the server has"):
        at(server, model="other")(QUESTION, TEXTS)
    with pytest.raises(ModelError, match=r"\(404\): base_url is the part of the address before /rerank"):
        at(server, base_url=server.url + "/rerank")(QUESTION, TEXTS)


def test_no_other_machine_is_asked_offline() -> None:
    judge = rerank_client.create_rerank_client(model="rerank-v3.5", base_url="https://api.cohere.com/v2")
    with pytest.raises(ModelError, match=r"KUMI_OFFLINE is set, so https://api\.cohere\.com/v2 is not asked"):
        judge(QUESTION, TEXTS)


@pytest.mark.parametrize("setting", [{"candidates": 1}, {"workers": 0}, {"timeout": 0}, {"search_price": -1}])
def test_settings_out_of_bounds(setting: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=r"is (at least|more than)|a price is"):
        rerank_client.create_rerank_client(**setting)


# -- what it costs


def connections(memo: ResponseCache, **given: object) -> ModelRegistry:
    held = {scope: {s.name: s.default for s in settings.values()} for scope, settings in MODEL_SETTINGS.items()}
    return ModelRegistry({**held, RERANKING: {**held[RERANKING], **given}}, lambda: memo)


def test_tokens_and_searches_are_paid_and_capped(server: FakeServer, memo: ResponseCache) -> None:
    models = connections(memo, model="r", base_url=server.url, price=1e6, search_price=500.0)
    purse = models.budget(Caps(calls=1, cost=100.0))
    rank = models.candidate_reranker("naive", purse)
    assert [item.text for item in rank(QUESTION, found(*TEXTS), "endpoint")] == [TEXTS[2], TEXTS[0], TEXTS[1]]
    assert rank.candidates == 20
    spent = purse.spent[RERANKING]
    assert (spent.calls, spent.prompt_tokens, spent.completion_tokens) == (1, 13, 0)
    assert spent.cost == 13 + 0.5
    assert [(s.kind, s.scope, s.model) for s in memo.usage()] == [("spent", RERANKING, "r")]
    with pytest.raises(BudgetExceeded, match="--max-calls 1 was reached"):
        rank("another", found(*TEXTS), "endpoint")


def test_searches_are_those_that_the_server_counted() -> None:
    judge = rerank_client.create_rerank_client(model="r", base_url="http://localhost:1", search_price=2.0)
    assert judge._usage({"meta": {"billed_units": {"search_units": 3}}}, 400, 0.0).cost == 0.006
    assert judge._usage({"meta": None, "usage": {"total_tokens": 7}}, 400, 0.0).prompt_tokens == 7


@pytest.mark.parametrize("price", ["price", "search_price"])
def test_a_cap_on_cost_needs_a_price(memo: ResponseCache, price: str) -> None:
    given = {"model": "r", "base_url": "http://localhost:1"}
    with pytest.raises(SettingsError, match=r"a cap on cost needs prices: set reranking\.price, 0 for what is free"):
        connections(memo, **given).budget(Caps(cost=1.0))
    connections(memo, **given, **{price: 0.0}).budget(Caps(cost=1.0))
    connections(memo).budget(Caps(cost=1.0))


@pytest.mark.parametrize("given", [{}, {"model": "r"}, {"base_url": "http://localhost:1"}])
def test_without_a_server_it_is_said_what_to_set(memo: ResponseCache, given: dict[str, str]) -> None:
    models = connections(memo, **given)
    judges: dict[RerankerName, Callable[[], RelevanceScorer]] = dict(
        models.candidate_reranker("naive", models.budget()).scorers
    )
    with pytest.raises(SettingsError, match=r"set `model` and `base_url` under \[reranking\] in kumi\.toml"):
        judges["endpoint"]()
    with pytest.raises(SettingsError, match=r'naive\.reranker = "model" needs a chat model: set `model = "..."`'):
        judges["model"]()
