"""every method -> its results as reranked; unchanged without a reranker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from kumihimo.core.context import Context
from kumihimo.core.digests import hash_parts
from kumihimo.llm.protocols import RerankerName
from kumihimo.llm.rerank import CandidateReranker
from kumihimo.methods import METHODS
from kumihimo.text.question import ParsedQuestion
from tests import factories_discourse
from tests.methods.factories_search import GraphBuilder, ScriptedLLM, keyword_search, tokenizer, vector_search

QUESTION = "What did Ada Holm buy of Bo Lind?"


@dataclass
class ReverseReranker:
    """Reranker that prefers the last candidate."""

    candidates: list[Sequence[str]] = field(default_factory=list)

    def __call__(self, question: str, texts: Sequence[str]) -> list[float]:
        assert question.startswith(QUESTION)  # braid appends the first hop
        self.candidates.append(texts)
        return [(n + 1) / len(texts) for n in range(len(texts))]


def small_graph() -> GraphBuilder:
    builder = GraphBuilder()
    for thing in ("rope", "sail", "lamp", "tar", "oars", "nails"):
        builder.add_chunk(f"Ada Holm bought a {thing} of Bo Lind", "Ada Holm", "Bo Lind", thing.title())
        builder.add_question(f"On {thing}", f"What {thing} did Ada Holm buy?", f"A {thing} of Bo Lind.")
    for n, thing in enumerate(("ropes", "sails", "lamps")):
        builder.add_community(hash_parts(f"a group {n}"), f"Who buys {thing} of Bo Lind?", ["Ada Holm", thing.title()])
    return builder


def scripted_reply(prompt: str) -> object:
    """Return points, and steps that their text identifies."""
    label = f"Point {hash_parts(prompt)[:6]}."
    point = {"description": label, "score": 60, "sources": [1]}
    if "You help experts" in prompt:
        return "1. What did Ada Holm buy?\n2. What does Bo Lind sell?"
    if "Penn Discourse" in prompt:
        return "cause"
    if "predicate: the verbs" in prompt:
        return {"who": "none"}
    if "`high`" in prompt:
        return {"high": ["buying"], "low": ["Ada Holm"]}
    if "`known`" in prompt:
        return {"known": "", "queries": ["What does Bo Lind sell?"]}
    if "JSON" in prompt or "`questions`" in prompt:
        leads = [{"question": f"And of {hash_parts(prompt)[:6]}?", "confidence": 50}]
        return {"answer": label, "score": 60, "sources": [1], "questions": leads}
    return [point, {**point, "description": f"{label} More.", "score": 40}] if "`sources`" in prompt else label


def search(name: str, judge: ReverseReranker, reranker: RerankerName, **settings: Any) -> Context:
    method, tables = METHODS[name], {**factories_discourse.tables(), **small_graph().tables(every=True)}
    rank = CandidateReranker({"model": lambda: judge}, 20)
    ports = {
        "keyword_search": keyword_search,
        "vector_search": vector_search,
        "tokenizer": tokenizer,
        "llm": ScriptedLLM(scripted_reply),
        "rerank": rank,
    }
    arguments = (
        dict.fromkeys(method.optional_tables)
        | {table: tables[table] for table in method.tables}
        | {port: ports[port] for port in method.ports}
    )
    if name == "global":
        settings["level"] = 0
    question = QUESTION if method.takes_text else ParsedQuestion(QUESTION)
    context: Context = method.function(question, **arguments, **settings, reranker=reranker)
    return context


@pytest.mark.parametrize("name", METHODS)
def test_without_reranker_nothing_changes(name: str) -> None:
    judge = ReverseReranker()
    plain = search(name, judge, "none")
    assert judge.candidates == []
    assert len(plain) >= 2
    assert METHODS[name].settings["reranker"].default == "none"


@pytest.mark.parametrize("name", METHODS)
def test_best_judged_item_comes_first(name: str) -> None:
    judge = ReverseReranker()
    plain, ranked = search(name, judge, "none"), search(name, judge, "model")
    (candidates,) = judge.candidates  # one call, whatever the number of searches
    assert len(candidates) >= 2
    assert ranked.evidence[0].prompt_text == candidates[-1]
    assert {item.reference for item in ranked} == {item.reference for item in plain}
    assert [item.score for item in ranked] == sorted((item.score for item in ranked), reverse=True)


@pytest.mark.parametrize("name", ["bm25", "naive", "hyde"])
@pytest.mark.parametrize("words", [{}, {"words": False}])
def test_best_item_may_come_from_beyond_k(name: str, words: dict[str, bool]) -> None:
    judge, settings = ReverseReranker(), words if name == "naive" else {}
    (plain,), (ranked,) = (search(name, judge, reranker, k=1, **settings) for reranker in ("none", "model"))
    assert plain.text == judge.candidates[0][0]
    assert ranked.text == judge.candidates[0][-1]


def test_best_item_stays_within_the_budget() -> None:
    judge = ReverseReranker()
    (only,) = search("naive", judge, "model", budget=8)
    assert only.text == judge.candidates[0][-1]


def test_local_search_scales_each_table_to_one() -> None:
    best_scores: dict[str, float] = {}
    for item in search("local", ReverseReranker(), "model"):
        best_scores.setdefault(item.table, item.score)
    assert set(best_scores.values()) == {1.0}
