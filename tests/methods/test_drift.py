"""A first answer from reports, then the leads that promise most, at most so many calls."""

from __future__ import annotations

from typing import Any

from kumihimo.core.context import Context
from kumihimo.core.records import KeyPoint
from kumihimo.methods.drift import drift
from tests.methods.factories_search import Graph, Nearby, Scripted, match, rank, ruler

QUESTION = "Why did the mill burn?"


def island(reports: int = 3) -> Graph:
    graph = Graph()
    graph.says("The mill burnt when a lamp fell.", "the mill", "lamp")
    graph.says("Bo Lind left the lamp lit.", "Bo Lind", "lamp")
    graph.says("Ruta Haverlock sold eels.", "Ruta Haverlock", "eels")
    for n in range(reports):
        graph.group(f"c{n}", f"Report {n} of the mill.", ["the mill"])
    return graph


def said(answer: str, score: int, *questions: tuple[str, int], sources: tuple[int, ...] = (1,)) -> dict[str, Any]:
    leads = [{"question": question, "confidence": confidence} for question, confidence in questions]
    return {"answer": answer, "score": score, "sources": list(sources), "questions": leads}


def asked(told: str) -> str:
    return told.rpartition("The one question: ")[2]


def script(told: str) -> object:
    if "report on the matter" in told:
        return "A report of a mill that burnt."
    if asked(told) == QUESTION:
        return said(
            "A mill burnt.", 50, ("Who left the lamp lit?", 90), ("Who sold eels?", 20), ("who left the lamp lit", 80)
        )
    if "lamp" in asked(told):
        return said("Bo Lind did.", 80, ("Where was Bo Lind?", 50), ("Who left the lamp lit?", 99))
    return said("", 0, ("Who sold eels?", 100))


def found(ask: Scripted, graph: Graph | None = None, **settings: Any) -> Context:
    graph = graph or island()
    return drift(
        QUESTION,
        **graph.tables(),
        keyword_search=match,
        vector_search=Nearby(),
        tokenizer=ruler,
        rerank=rank,
        llm=ask,
        **settings,
    )


def test_leads_are_followed_and_answers_are_points() -> None:
    ask = Scripted(script)
    context = found(ask, folds=1, width=1)
    assert [asked(told) for told in ask.asked[1:]] == [QUESTION, "Who left the lamp lit?", "Where was Bo Lind?"]
    assert [(item.table, item.text, item.score) for item in context] == [
        ("points", "Bo Lind did.", 80.0),
        ("points", "A mill burnt.", 50.0),
    ]
    records = [item.record for item in context]
    assert all(isinstance(record, KeyPoint) and record.sources and not record.verbatim for record in records)


def test_the_reports_are_dealt_out_and_each_is_read_once() -> None:
    ask = Scripted(script)
    found(ask, island(7), folds=3, depth=0)
    first = [told for told in ask.asked if asked(told) == QUESTION]
    assert len(first) == 3
    assert all(sum(f"Report {n} " in told for told in first) == 1 for n in range(7))


def test_no_question_is_asked_twice_and_the_best_come_first() -> None:
    ask = Scripted(script)
    ask.workers = 1
    found(ask, width=2)
    later = [asked(told) for told in ask.asked if "The one question" in told and asked(told) != QUESTION]
    assert later == ["Who left the lamp lit?", "Who sold eels?", "Where was Bo Lind?"]


def test_a_model_is_asked_no_oftener_than_allowed() -> None:
    def endless(told: str) -> object:
        if "report on the matter" in told:
            return "A report."
        more = [(f"Who sold {asked(told)} {n}?", 50) for n in range(9)]
        return said("So.", 10, *more)

    for calls in (1, 2, 4, 9):
        ask = Scripted(endless)
        found(ask, calls=calls, depth=9, width=5)
        assert len(ask.asked) == calls
    ask = Scripted(endless)
    found(ask)
    assert len(ask.asked) == 1 + 3 + 2 * 5


def test_without_reports_the_question_itself_is_searched() -> None:
    ask = Scripted(script)
    context = found(ask, island(0))
    assert asked(ask.asked[1]) == QUESTION
    assert "The mill burnt when a lamp fell." in ask.asked[1]
    assert context
    ask = Scripted(script)
    assert len(found(ask, Graph())) == 0
    assert len(ask.asked) == 1


def test_it_is_the_same_every_time() -> None:
    one, other = Scripted(script), Scripted(script)
    assert found(one) == found(other)
    assert sorted(one.asked) == sorted(other.asked)


def test_a_window_bounds_the_points() -> None:
    assert [item.text for item in found(Scripted(script), window=3)] == ["Bo Lind did."]
