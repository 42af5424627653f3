"""candidates -> the same in another order: by a model in one call, or a server in one request, each paid once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from kumihimo.core.context import Context, Evidence
from kumihimo.core.errors import BudgetExceeded, ItemFailed, ModelError, SettingsError
from kumihimo.core.records import Record
from kumihimo.core.usage import Usage
from kumihimo.llm import rerank
from kumihimo.llm.budget import Account, Budget, Caps
from kumihimo.llm.cached_llm import RERANKING, connect_model, create_llm
from kumihimo.llm.protocols import FailedTry, Prices, RerankerName, TextsReply, TextsRequest
from kumihimo.llm.registry import MODEL_SETTINGS, ModelRegistry
from kumihimo.llm.rerank import CandidateReranker, RelevanceScorer, cached_scorer, listwise_scorer, parse_scores
from kumihimo.storage.response_cache import ResponseCache, cache_key
from kumihimo.testing.fake_models import FakeChat
from tests.fake_server import FakeServer
from tests.fenced_texts import fenced_texts

TEXTS = ["the mill", "a ferry", "the ferry leaves at nine"]
QUESTION = "when leaves the ferry"


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[ResponseCache]:
    cache = ResponseCache(tmp_path / "cache.db")
    yield cache
    cache.close()


def context_of(*texts: str) -> Context:
    return Context(tuple(Evidence("notes", Record(id=text, text=text), 9.0 - n) for n, text in enumerate(texts)))


def texts_and_scores(context: Context) -> list[tuple[str, float]]:
    return [(item.text, item.score) for item in context]


class FakeScorer:
    """A scorer that gives these scores, and records its requests."""

    def __init__(self, *scores: float) -> None:
        self.scores = scores
        self.requests: list[list[str]] = []

    def __call__(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        self.requests.append([question, *texts])
        return self.scores[: len(texts)]

    def rerank(self, context: Context, candidates: int = 20, reranker: RerankerName = "model") -> Context:
        return CandidateReranker({"model": lambda: self}, candidates)("?", context, reranker)


# -- the order


def test_the_best_come_first_and_equals_keep_their_order() -> None:
    scorer = FakeScorer(0.25, 1.0, 0.25, 0.5)
    assert texts_and_scores(scorer.rerank(context_of("a", "b", "c", "d"))) == [
        ("b", 2.0),
        ("d", 1.5),
        ("a", 1.25),
        ("c", 1.25),
    ]
    assert scorer.requests == [["?", "a", "b", "c", "d"]]
    assert [text for text, _ in texts_and_scores(FakeScorer(0, 0, 0).rerank(context_of("c", "b", "a")))] == [
        "c",
        "b",
        "a",
    ]


def test_only_the_first_are_scored_and_the_rest_follow_below() -> None:
    scorer = FakeScorer(0.0, 0.5)
    assert texts_and_scores(scorer.rerank(context_of("a", "b", "c", "d", "e"), 2)) == [
        ("b", 1.5),
        ("a", 1.0),
        ("c", 0.75),
        ("d", 0.5),
        ("e", 0.25),
    ]
    assert scorer.requests == [["?", "a", "b"]]


@pytest.mark.parametrize(
    ("context", "reranker"), [(context_of("a", "b"), "none"), (context_of("a"), "model"), (context_of(), "model")]
)
def test_without_a_choice_the_scorer_is_not_called(context: Context, reranker: RerankerName) -> None:
    scorer = FakeScorer()
    assert scorer.rerank(context, reranker=reranker) is context
    assert scorer.requests == []


# -- by a model


def model_scorer(cache: ResponseCache, *scores: tuple[int, int]) -> tuple[RelevanceScorer, FakeChat]:
    reply = json.dumps([{"number": number, "score": score} for number, score in scores])
    chat = FakeChat(lambda _: reply)
    return listwise_scorer(create_llm(chat, cache)), chat


def test_a_model_sees_all_texts_in_one_call(cache: ResponseCache) -> None:
    scorer, chat = model_scorer(cache, (3, 90), (1, 10))
    assert scorer(QUESTION, TEXTS) == scorer(QUESTION, TEXTS) == [0.1, 0.0, 0.9]
    (prompt,) = chat.prompt_counts
    assert chat.prompt_counts[prompt] == 1
    assert fenced_texts(prompt, "passage") == TEXTS
    assert "</passage 3>\n\n<question>\nwhen leaves the ferry\n</question>\n\n" in prompt


def test_unknown_numbers_and_second_scores_are_ignored(cache: ResponseCache) -> None:
    scorer, _ = model_scorer(cache, (0, 90), (4, 90), (-1, 90), (2, 300), (2, 10), (3, -5))
    assert scorer(QUESTION, TEXTS) == [0.0, 1.0, 0.0]


def test_a_malformed_judgement_fails(cache: ResponseCache) -> None:
    chat = FakeChat(lambda _: "The third is best.")
    with pytest.raises(ItemFailed, match="3 replies that cannot be read"):
        listwise_scorer(create_llm(chat, cache))(QUESTION, TEXTS)
    assert sum(chat.prompt_counts.values()) == 3


# -- by a server: its response


@pytest.mark.parametrize("name", ["results", "data"])
@pytest.mark.parametrize("score", ["relevance_score", "score"])
def test_the_protocols_agree(name: str, score: str) -> None:
    response = {
        name: [{"index": 2, score: 0.75, "document": {"text": "x"}}, {"index": 0, score: 0.5}, {"index": 1, score: 0}]
    }
    assert parse_scores(response, 3) == [0.5, 0.0, 0.75]


def test_missing_texts_score_zero() -> None:
    assert parse_scores({"results": [{"index": 1, "relevance_score": 1}]}, 3) == [0.0, 1.0, 0.0]


def response_of(*scores: object) -> dict[str, Any]:
    return {"results": [{"index": n, "relevance_score": score} for n, score in enumerate(scores)]}


def test_other_scores_are_scaled_from_0_to_1() -> None:
    assert parse_scores(response_of(-8.0, 4.0, -2.0), 3) == [0.0, 1.0, 0.5]
    assert parse_scores(response_of(0.5, 3.0, 0.5), 3) == [0.0, 1.0, 0.0]
    assert parse_scores(response_of(7.0, 7.0), 2) == [0.0, 0.0]
    assert parse_scores(response_of(0.0, 1.0, 0.3), 3) == [0.0, 1.0, 0.3]


@pytest.mark.parametrize(
    "response",
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
        response_of(float("nan"), 1.0),
        response_of(float("inf"), 1.0),
        response_of(1e308, -1e308),
        response_of("best", 1.0),
        response_of(10**400, 1.0),
        response_of(None, 1.0),
    ],
)
def test_an_invalid_response_is_requested_again(response: dict[str, Any]) -> None:
    with pytest.raises(FailedTry, match="not have the form of a model server"):
        parse_scores(response, 2)


# -- by a server: over HTTP


def scorer_for(server: FakeServer, cache: ResponseCache, **settings: Any) -> RelevanceScorer:
    return connected({"model": "r", "base_url": server.url, "timeout": 60.0, "retries": 1, **settings}, cache)


def connected(settings: dict[str, Any], cache: ResponseCache) -> RelevanceScorer:
    client = rerank.RerankClient(**settings)
    account = Account(RERANKING, client.fingerprint, client.prices, reply=0)
    return cached_scorer(connect_model(client, client.server, Budget(), account), client.fingerprint, cache)


@pytest.mark.parametrize("route", ["", "/v1", "/v2"])
def test_all_texts_go_in_one_request(server: FakeServer, cache: ResponseCache, route: str) -> None:
    scorer = scorer_for(server, cache, base_url=server.url.removesuffix("/v1") + route)
    assert scorer(QUESTION, TEXTS) == [0.25, 0.25, 0.75]
    assert scorer("sea", ["", "sea"]) == [0.0, 1.0]
    counts = server.counts()
    assert (counts["requests"], counts["rerankings"]) == (2, 2)


def test_the_same_is_paid_once(server: FakeServer, cache: ResponseCache) -> None:
    scorer = scorer_for(server, cache)
    assert scorer(QUESTION, TEXTS) == scorer(QUESTION, TEXTS) == [0.25, 0.25, 0.75]
    assert server.counts()["requests"] == 1
    scorer(QUESTION, TEXTS[::-1])
    scorer("another", TEXTS)
    scorer_for(server, cache, model="other")(QUESTION, TEXTS)
    assert server.counts()["requests"] == 4


def test_top_n_is_left_out_where_a_server_refuses_it(server: FakeServer, cache: ResponseCache) -> None:
    server.configure(refuses=["top_n"])
    scorer = scorer_for(server, cache)
    assert scorer(QUESTION, TEXTS) == [0.25, 0.25, 0.75]
    assert scorer(QUESTION, TEXTS[1:]) == [0.25, 0.75]
    assert server.counts()["requests"] == 3


@pytest.mark.parametrize(
    "fault", ["408", "429", "500", "503", "empty", "garbage", "half", "malformed", "never", "slow", "wrong"]
)
def test_faults_are_retried_and_then_fail(server: FakeServer, cache: ResponseCache, fault: str) -> None:
    server.configure(faults={fault: 1.0}, retry_after=0.01, drip=600.0)
    timeout = 0.2 if fault in ("never", "slow") else 60.0
    with pytest.raises(ItemFailed, match="times"):
        scorer_for(server, cache, timeout=timeout)(QUESTION, TEXTS)
    server.configure(faults={})
    assert scorer_for(server, cache)(QUESTION, TEXTS)[2] == 0.75  # no fault is cached


def test_errors_name_the_remedy(server: FakeServer, cache: ResponseCache, monkeypatch: pytest.MonkeyPatch) -> None:
    server.configure(key="secret", models=["r"])
    with pytest.raises(ModelError, match=r"\(401\): is the key in RERANKING_API_KEY the right one for it\?"):
        scorer_for(server, cache)(QUESTION, TEXTS)
    monkeypatch.setenv("RERANKING_API_KEY", "secret")
    assert scorer_for(server, cache)(QUESTION, TEXTS)
    with pytest.raises(ModelError, match=r"\(404\): set `model` to one that the server has"):
        scorer_for(server, cache, model="other")(QUESTION, TEXTS)
    with pytest.raises(ModelError, match=r"\(404\): base_url is the part of the address before /rerank"):
        scorer_for(server, cache, base_url=server.url + "/rerank")("another", TEXTS)


def test_offline_no_other_machine_is_called(cache: ResponseCache) -> None:
    scorer = connected({"model": "rerank-v3.5", "base_url": "https://api.cohere.com/v2"}, cache)
    with pytest.raises(ModelError, match=r"KUMI_OFFLINE is set, so https://api\.cohere\.com/v2 is not asked"):
        scorer(QUESTION, TEXTS)


# -- cost


def create_registry(cache: ResponseCache, **settings: object) -> ModelRegistry:
    defaults = {scope: {s.name: s.default for s in known.values()} for scope, known in MODEL_SETTINGS.items()}
    return ModelRegistry({**defaults, RERANKING: {**defaults[RERANKING], **settings}}, lambda: cache)


def test_tokens_and_searches_are_paid_and_capped(server: FakeServer, cache: ResponseCache) -> None:
    models = create_registry(cache, model="r", base_url=server.url, price=1e6, search_price=500.0)
    budget = models.budget(Caps(calls=1, cost=100.0))
    reranker = models.candidate_reranker("naive", budget)
    assert [item.text for item in reranker(QUESTION, context_of(*TEXTS), "endpoint")] == [TEXTS[2], TEXTS[0], TEXTS[1]]
    assert reranker.candidates == 20
    spent = budget.spent[RERANKING]
    assert (spent.calls, spent.prompt_tokens, spent.completion_tokens) == (1, 13, 0)
    assert spent.cost == 13 + 0.5
    assert [(s.kind, s.scope, s.model) for s in cache.usage()] == [("spent", RERANKING, "r")]
    with pytest.raises(BudgetExceeded, match="--max-calls 1 was reached"):
        reranker("another", context_of(*TEXTS), "endpoint")


def test_searches_are_counted_by_the_server() -> None:
    prices = Prices(search=2.0)
    assert rerank._rerank_usage({"meta": {"billed_units": {"search_units": 3}}}, 400, prices, 0.0).cost == 0.006
    assert rerank._rerank_usage({"meta": None, "usage": {"total_tokens": 7}}, 400, prices, 0.0).prompt_tokens == 7


@pytest.mark.parametrize("price", ["price", "search_price"])
def test_a_cap_on_cost_needs_a_price(cache: ResponseCache, price: str) -> None:
    settings = {"model": "r", "base_url": "http://localhost:1"}
    with pytest.raises(SettingsError, match=r"a cap on cost needs prices: set reranking\.price, 0 for a free model"):
        create_registry(cache, **settings).budget(Caps(cost=1.0))
    create_registry(cache, **settings, **{price: 0.0}).budget(Caps(cost=1.0))
    create_registry(cache).budget(Caps(cost=1.0))


@pytest.mark.parametrize("settings", [{}, {"model": "r"}, {"base_url": "http://localhost:1"}])
def test_without_a_server_the_error_names_the_settings(cache: ResponseCache, settings: dict[str, str]) -> None:
    models = create_registry(cache, **settings)
    scorers: dict[RerankerName, Callable[[], RelevanceScorer]] = dict(
        models.candidate_reranker("naive", models.budget()).scorers
    )
    with pytest.raises(SettingsError, match=r"set `model` and `base_url` under \[reranking\] in kumi\.toml"):
        scorers["endpoint"]()
    with pytest.raises(SettingsError, match=r'naive\.reranker = "model" needs a chat model: set `model = "..."`'):
        scorers["model"]()


@pytest.mark.parametrize("damage", [b"", b"[0.5", b"[0.5]", b"[0.5, 2]", b'["a", "b"]', b"[0.5, null]", b"[0.5, NaN]"])
def test_damaged_scores_are_asked_for_again(cache: ResponseCache, damage: bytes) -> None:
    requests: list[TextsRequest] = []

    def send(request: TextsRequest) -> TextsReply:
        requests.append(request)
        return TextsReply([0.25, 1.0], Usage())

    key = cache_key(reranker="r", query=QUESTION, documents=TEXTS[:2])
    cache.put_many([(key, damage)])
    scorer = cached_scorer(send, "r", cache)
    assert [scorer(QUESTION, TEXTS[:2]) for _ in range(2)] == [[0.25, 1.0]] * 2
    assert (len(requests), cache.get_many([key])) == (1, {key: b"[0.25, 1.0]"})
