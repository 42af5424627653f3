"""a question + a method -> its cost, minimum and maximum, without calling a model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from kumihimo import Kumihimo
from kumihimo.app import settings_registry
from kumihimo.app.estimate_query_cost import _stub_json, _stub_texts
from kumihimo.app.results import Estimate, Plan
from kumihimo.core.context import Context, Evidence, Tokenizer
from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import MalformedReply, SettingsError
from kumihimo.core.records import Chunk, KeyPoint
from kumihimo.core.signature import collect_signatures
from kumihimo.core.table import Table
from kumihimo.llm.concurrency import map_concurrent
from kumihimo.llm.protocols import LLM
from kumihimo.llm.structured import Reply, reply_form
from kumihimo.methods import METHODS
from kumihimo.search.protocols import VectorSearch
from kumihimo.testing.fake_server import FakeServer
from tests.factories_paid_steps import notes, opened

COUNT = 12


@dataclass(frozen=True, slots=True)
class PointReply:
    point: str
    score: int
    sources: list[int]


@dataclass(frozen=True, slots=True)
class NextReply:
    sure: float
    done: bool
    kind: Literal["search", "read"]
    nearest: int | None
    questions: list[str]


def mapped(question: str, chunks: Table[Chunk], llm: LLM, tokenizer: Tokenizer, *, batch: int = 4) -> Context:
    """Return points of all chunks, a batch a call."""
    all_chunks = list(chunks)
    batches = [all_chunks[i : i + batch] for i in range(0, len(all_chunks), batch)]

    def read_batch(batch: list[Chunk]) -> list[Evidence]:
        numbered = "\n".join(f"[{n}] {chunk.text}" for n, chunk in enumerate(batch, 1))
        points = llm(f"{numbered}\n\nQuestion: {question}", schema=list[PointReply])
        return [Evidence("points", point(s, batch, tokenizer), s.score) for s in points if s.score > 0 and s.sources]

    return Context(tuple(item for points in map_concurrent(read_batch, batches, 4) for item in points))


def point(reply: PointReply, batch: list[Chunk], tokenizer: Tokenizer) -> KeyPoint:
    sources = tuple(("chunks", batch[n - 1].id) for n in reply.sources if n <= len(batch))
    return KeyPoint(id=hash_parts(reply.point), text=reply.point, sources=sources, tokens=len(tokenizer(reply.point)))


def onward(
    question: str, chunks: Table[Chunk], llm: LLM, vector_search: VectorSearch, *, depth: int = 2, width: int = 3
) -> Context:
    """Return chunks near the question and its follow-up questions."""
    context, pending = vector_search(chunks, question, k=2), [question]
    for _ in range(depth):
        texts = "\n".join(item.text for item in context)
        replies = [llm(f"{texts}\n\nWhat to ask next after: {query}", schema=NextReply) for query in pending]
        pending = [question for reply in replies for question in reply.questions][:width]
        for query in pending:
            context += vector_search(chunks, query, k=2)
    return context


def sought(question: str, chunks: Table[Chunk], llm: LLM, vector_search: VectorSearch) -> Context:
    """Return chunks near the question, if the model agrees."""

    def verdict(reply: Reply) -> bool:
        if reply.text.casefold() not in ("yes", "no"):
            raise MalformedReply("Say yes or no.")
        return reply.text.casefold() == "yes"

    return vector_search(chunks, question, k=2) if llm(f"Is this worth it? {question}", parse=verdict) else Context()


def stubborn(question: str, chunks: Table[Chunk], llm: LLM) -> Context:
    """Return nothing, unless the model replies with an impossible word."""

    def read(reply: Reply) -> str:
        raise MalformedReply("Say the word.")

    llm(question, parse=read)
    return Context()


@pytest.fixture(autouse=True)
def toy_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, method in collect_signatures(mapped, onward, sought, stubborn).items():
        monkeypatch.setitem(METHODS, name, method)
        monkeypatch.setitem(settings_registry.SETTINGS, name, method.settings)
        monkeypatch.setitem(settings_registry.ALL_SETTINGS, name, method.settings)


@pytest.fixture
def kumi(tmp_path: Path, server: FakeServer) -> Iterator[Kumihimo]:
    prices = {"prompt_price": 2.0, "completion_price": 6.0}
    with opened(tmp_path, server, chat=prices) as kumi:
        kumi.index(notes(tmp_path / "notes", COUNT), methods=["naive"])
        yield kumi


def step_estimate(plan: Plan, step: str) -> Estimate:
    return next(estimate for estimate in plan.estimates if estimate.step == step)


def test_every_call_of_a_map_is_counted_and_nobody_is_asked(kumi: Kumihimo, server: FakeServer) -> None:
    plan = kumi.estimate_query_cost("mapped")
    assert (step_estimate(plan, "mapped").exact, step_estimate(plan, "mapped").calls) == (True, (3, 3))
    assert (step_estimate(plan, "answer").exact, step_estimate(plan, "answer").calls) == (
        False,
        (0, 1),
    )  # without helpful points, no answer is written
    assert plan.calls == (3, 4)
    assert step_estimate(kumi.estimate_query_cost("mapped", batch=2), "mapped").calls == (6, 6)
    assert server.counts()["requests"] == 0
    assert kumi.cache_stats()["replies"] == 0
    assert kumi.spent() == []


def test_what_was_foretold_comes_to_pass(kumi: Kumihimo, server: FakeServer) -> None:
    question = "Which harbour has a ferry?"
    for name in ("mapped", "onward", "hyde", "rq", "naive"):
        plan = kumi.estimate_query_cost(name, question)
        usage = kumi.ask(question, name).usage
        assert plan.calls[0] <= usage.calls <= plan.calls[1]
        prompts = [sum(e.prompt_tokens[end] for e in plan.estimates) for end in (0, 1)]
        assert prompts[0] <= usage.prompt_tokens <= prompts[1]
        assert plan.cost[0] <= usage.cost <= plan.cost[1]
        assert kumi.estimate_query_cost(name, question) == Plan(())  # it is cached


def test_each_round_of_refining_is_a_call(kumi: Kumihimo) -> None:
    assert kumi.estimate_query_cost("rq").calls == (2, 2)
    plan = kumi.estimate_query_cost("rq", depth=3)  # a round without new questions is the last
    assert (step_estimate(plan, "rq").calls, step_estimate(plan, "answer").calls) == ((2, 3), (1, 1))


def test_depth_and_width_bound_what_follows(kumi: Kumihimo) -> None:
    for depth, width, most in ((1, 3, 1), (2, 3, 4), (3, 2, 5), (2, 100, 9)):  # at most 8 follow-up questions each
        plan = kumi.estimate_query_cost("onward", depth=depth, width=width)
        assert step_estimate(plan, "onward").calls == (1, most)
        assert step_estimate(plan, "answer").exact
    assert [step.step for step in kumi.estimate_query_cost("bm25", "ferry").estimates] == ["answer"]


def test_a_form_of_its_own_is_found_out(kumi: Kumihimo) -> None:
    plan = kumi.estimate_query_cost("sought")
    assert (step_estimate(plan, "sought").calls, step_estimate(plan, "answer").calls) == ((1, 1), (0, 1))


def test_where_no_reply_will_do_the_rest_is_not_known(kumi: Kumihimo) -> None:
    plan = kumi.estimate_query_cost("stubborn")
    assert plan.unknown == ("stubborn",)
    assert step_estimate(plan, "stubborn").calls[1] >= 1


def test_the_same_is_foretold_twice(kumi: Kumihimo) -> None:
    assert kumi.estimate_query_cost("onward") == kumi.estimate_query_cost("onward")
    assert kumi.estimate_query_cost("onward", "Which ferry?") == kumi.estimate_query_cost("onward", "Which ferry?")


def test_texts_to_embed_are_counted(tmp_path: Path, server: FakeServer) -> None:
    embedding = {"model": "e", "base_url": server.url, "price": 1.0}
    with opened(tmp_path, server, embedding=embedding) as kumi:
        kumi.index(notes(tmp_path / "notes", COUNT), methods=["naive"])
        requests = server.counts()["requests"]
        plan = kumi.estimate_query_cost("naive", "Which ferry?")
        assert {e.step: e.calls for e in plan.estimates} == {"embedding": (1, 1), "answer": (1, 1)}
        assert step_estimate(kumi.estimate_query_cost("onward"), "embedding").calls == (1, 7)
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


@pytest.mark.parametrize(
    "kind", [PointReply, NextReply, list[PointReply], list[str], Literal["yes", "no"], list[list[NextReply]]]
)
@pytest.mark.parametrize("full", [False, True])
def test_what_is_made_up_fits_its_form(kind: Any, full: bool) -> None:
    wanted_form = reply_form(kind)
    texts = _stub_texts("The harbour, 港, and the ferry. " * 50, 7, maximal=full)
    reply_json = json.dumps(_stub_json(wanted_form.json_schema, wanted_form.json_schema, texts, maximal=full))
    parsed = wanted_form.parse(Reply(reply_json))
    if kind == list[PointReply]:
        assert len(parsed) == (8 if full else 0)
        assert all((item.score, item.sources) == (100, [*range(1, 9)]) for item in parsed)
        assert len({item.point for item in parsed}) == len(parsed)
    if kind == Literal["yes", "no"]:
        assert parsed == ("yes" if full else "no")


def test_texts_are_of_about_one_length_in_any_script() -> None:
    for prompt in ("Where does the ferry leave from, and when? " * 20, "渡し船はどこから出ますか。" * 40, "x", ""):
        texts = _stub_texts(prompt, 12345, maximal=True)
        sample = [next(texts) for _ in range(20)]
        assert len(set(sample)) == 20
        assert all(len(text.encode()) <= 210 for text in sample)
