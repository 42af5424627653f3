"""Every method -> what it found, put in order by whoever is told to; by nobody as it was."""

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
from tests import factories_discourse
from tests.methods.factories_search import Graph, Scripted, match, near, ruler

QUESTION = "What did Ada Holm buy of Bo Lind?"


@dataclass
class LastBest:
    """Judges the last of the candidates best."""

    seen: list[Sequence[str]] = field(default_factory=list)

    def __call__(self, question: str, texts: Sequence[str]) -> list[float]:
        assert question.startswith(QUESTION)  # of braid what is known already follows
        self.seen.append(texts)
        return [(n + 1) / len(texts) for n in range(len(texts))]


def graph() -> Graph:
    made = Graph()
    for thing in ("rope", "sail", "lamp", "tar", "oars", "nails"):
        made.says(f"Ada Holm bought a {thing} of Bo Lind", "Ada Holm", "Bo Lind", thing.title())
        made.answers(f"On {thing}", f"What {thing} did Ada Holm buy?", f"A {thing} of Bo Lind.")
    for n, thing in enumerate(("ropes", "sails", "lamps")):
        made.group(hash_parts(f"a group {n}"), f"Who buys {thing} of Bo Lind?", ["Ada Holm", thing.title()])
    return made


def answer(told: str) -> object:
    """Points, and steps whose text tells them apart."""
    text = f"Point {hash_parts(told)[:6]}."
    point = {"description": text, "score": 60, "sources": [1]}
    if "[HumanQuery]" in told:
        return "1. What did Ada Holm buy?\n2. What does Bo Lind sell?"
    if "Penn Discourse" in told:
        return "cause"
    if '"how" and "predicate"' in told:
        return {"who": "none"}
    if "`high`" in told:
        return {"high": ["buying"], "low": ["Ada Holm"]}
    if "`rewrite`" in told:
        return {"rewrite": "", "decompose": ["What does Bo Lind sell?"], "disambiguate": []}
    if "JSON" in told or "`questions`" in told:
        leads = [{"question": f"And of {hash_parts(told)[:6]}?", "confidence": 50}]
        return {"answer": text, "score": 60, "sources": [1], "questions": leads}
    return [point, {**point, "description": f"{text} More.", "score": 40}] if "`sources`" in told else text


def found(name: str, judge: LastBest, by: RerankerName, **settings: Any) -> Context:
    method, tables = METHODS[name], {**factories_discourse.tables(), **graph().tables(every=True)}
    rank = CandidateReranker({"model": lambda: judge}, 20)
    ports = {
        "keyword_search": match,
        "vector_search": near,
        "tokenizer": ruler,
        "llm": Scripted(answer),
        "rerank": rank,
    }
    given = (
        dict.fromkeys(method.optional_tables)
        | {table: tables[table] for table in method.tables}
        | {port: ports[port] for port in method.ports}
    )
    if name == "global":
        settings["level"] = 0
    context: Context = method.function(QUESTION, **given, **settings, reranker=by)
    return context


@pytest.mark.parametrize("name", METHODS)
def test_by_nobody_all_stays_as_it_was(name: str) -> None:
    judge = LastBest()
    plain = found(name, judge, "none")
    assert judge.seen == []
    assert len(plain) >= 2
    assert METHODS[name].settings["reranker"].default == "none"


@pytest.mark.parametrize("name", METHODS)
def test_what_is_judged_best_comes_first(name: str) -> None:
    judge = LastBest()
    plain, ranked = found(name, judge, "none"), found(name, judge, "model")
    (candidates,) = judge.seen  # once, whatever was searched on the way
    assert len(candidates) >= 2
    hop = 1 if name == "braid" else 0  # the first hop is known already, and judged by nobody
    assert ranked.evidence[hop].prompt_text == candidates[-1]
    assert {item.reference for item in ranked} == {item.reference for item in plain}
    assert [item.score for item in ranked] == sorted((item.score for item in ranked), reverse=True)


@pytest.mark.parametrize("name", ["bm25", "naive", "hyde"])
@pytest.mark.parametrize("words", [{}, {"words": False}])
def test_the_best_may_come_from_beyond_what_is_given(name: str, words: dict[str, bool]) -> None:
    judge, settings = LastBest(), words if name == "naive" else {}
    (plain,), (ranked,) = (found(name, judge, by, k=1, **settings) for by in ("none", "model"))
    assert plain.text == judge.seen[0][0]
    assert ranked.text == judge.seen[0][-1]


def test_what_is_judged_best_stays_where_not_all_fit() -> None:
    judge = LastBest()
    (only,) = found("naive", judge, "model", budget=8)
    assert only.text == judge.seen[0][-1]


def test_of_a_local_search_each_tables_best_scores_1() -> None:
    best: dict[str, float] = {}
    for item in found("local", LastBest(), "model"):
        best.setdefault(item.table, item.score)
    assert set(best.values()) == {1.0}
