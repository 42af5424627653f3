"""question -> a first answer from reports, then the best follow-ups, within a number of calls."""

from __future__ import annotations

from typing import Any

from kumihimo.core.context import Context, KeyPoint
from kumihimo.methods.drift import drift
from tests.fenced_texts import fenced_text
from tests.methods.factories_search import (
    FakeVectorSearch,
    GraphBuilder,
    ScriptedLLM,
    keyword_search,
    rerank,
    tokenizer,
)

QUESTION = "Why did the mill burn?"


def island_graph(reports: int = 3) -> GraphBuilder:
    graph = GraphBuilder()
    graph.add_chunk("The mill burnt when a lamp fell.", "the mill", "lamp")
    graph.add_chunk("Bo Lind left the lamp lit.", "Bo Lind", "lamp")
    graph.add_chunk("Ruta Haverlock sold eels.", "Ruta Haverlock", "eels")
    for n in range(reports):
        graph.add_community(f"c{n}", f"Report {n} of the mill.", ["the mill"])
    return graph


def step_reply(answer: str, score: int, *questions: tuple[str, int], sources: tuple[int, ...] = (1,)) -> dict[str, Any]:
    leads = [{"question": question, "confidence": confidence} for question, confidence in questions]
    return {"answer": answer, "score": score, "sources": list(sources), "questions": leads}


def asked_question(text: str) -> str:
    return fenced_text(text, "step") or QUESTION


def script(text: str) -> object:
    if "report on the matter" in text:
        return "A report of a mill that burnt."
    if asked_question(text) == QUESTION:
        return step_reply(
            "A mill burnt.", 50, ("Who left the lamp lit?", 90), ("Who sold eels?", 20), ("who left the lamp lit", 80)
        )
    if "lamp" in asked_question(text):
        return step_reply("Bo Lind did.", 80, ("Where was Bo Lind?", 50), ("Who left the lamp lit?", 99))
    return step_reply("", 0, ("Who sold eels?", 100))


def search(llm: ScriptedLLM, graph: GraphBuilder | None = None, **settings: Any) -> Context:
    graph = graph or island_graph()
    return drift(
        QUESTION,
        **graph.tables(),
        descriptions=None,
        keyword_search=keyword_search,
        vector_search=FakeVectorSearch(),
        tokenizer=tokenizer,
        rerank=rerank,
        llm=llm,
        **settings,
    )


def test_follow_ups_are_searched_and_answers_become_points() -> None:
    llm = ScriptedLLM(script)
    context = search(llm, folds=1, width=1)
    assert [asked_question(text) for text in llm.prompts[1:]] == [
        QUESTION,
        "Who left the lamp lit?",
        "Where was Bo Lind?",
    ]
    assert [(item.table, item.text, item.score) for item in context] == [
        ("points", "Bo Lind did.", 80.0),
        ("points", "A mill burnt.", 50.0),
    ]
    records = [item.record for item in context]
    assert all(isinstance(record, KeyPoint) and record.sources and not record.verbatim for record in records)


def test_each_report_is_read_in_one_fold() -> None:
    llm = ScriptedLLM(script)
    search(llm, island_graph(7), folds=3, depth=0)
    first = [text for text in llm.prompts[1:] if asked_question(text) == QUESTION]
    assert len(first) == 3
    assert all(sum(f"Report {n} " in text for text in first) == 1 for n in range(7))


def test_follow_ups_are_ranked_and_distinct() -> None:
    llm = ScriptedLLM(script)
    llm.workers = 1
    search(llm, width=2)
    later = [fenced_text(text, "step") for text in llm.prompts if fenced_text(text, "step")]
    assert later == ["Who left the lamp lit?", "Who sold eels?", "Where was Bo Lind?"]


def test_number_of_calls_is_limited() -> None:
    def endless(text: str) -> object:
        if "report on the matter" in text:
            return "A report."
        questions = [(f"Who sold {asked_question(text)} {n}?", 50) for n in range(9)]
        return step_reply("So.", 10, *questions)

    for calls in (1, 2, 4, 9):
        llm = ScriptedLLM(endless)
        search(llm, calls=calls, depth=9, width=5)
        assert len(llm.prompts) == calls
    llm = ScriptedLLM(endless)
    search(llm)
    assert len(llm.prompts) == 1 + 2 + 2 * 3


def test_a_step_sees_what_earlier_ones_have_found() -> None:
    llm = ScriptedLLM(script)
    search(llm, folds=1, width=1)
    _, first, second, third = llm.prompts
    assert fenced_text(first, "known") == ""
    assert fenced_text(second, "known") == "- A mill burnt."
    assert fenced_text(third, "known") == "- A mill burnt.\n- Bo Lind did."


def test_a_step_that_nearly_repeats_an_earlier_one_is_not_taken() -> None:
    """One that asks for another number or name is."""
    leads = [
        ("Why did the old mill at Osk burn in 1911?", 90),
        ("Why did the old mill at Osk burn down in 1911?", 80),
        ("Why did the old mill at Osk burn in 1912?", 70),
        ("Why did the old mill at Roake burn in 1911?", 60),
    ]
    llm = ScriptedLLM(lambda text: "A report." if "report on the matter" in text else step_reply("So.", 50, *leads))
    search(llm, folds=1)
    assert [fenced_text(text, "step") for text in llm.prompts[2:]] == [leads[n][0] for n in (0, 2, 3)]


def test_prompts_of_a_question_have_at_most_30000_tokens() -> None:
    """Also with long reports and passages, many relations, and a full set of steps."""
    graph = GraphBuilder()
    long_text = " ".join(f"The mill burnt in the year {n}." for n in range(100))
    for n in range(60):
        graph.add_chunk(f"Mill {n}. {long_text}", "the mill", f"lamp {n}")
    for n in range(20):
        graph.add_community(f"c{n}", f"Report {n}. {long_text}", ["the mill"])

    def endless(text: str) -> object:
        if "report on the matter" in text:
            return "A report."
        asked = len(text) * 100 + sum(map(ord, text))
        return step_reply(long_text[:600], 50, *((f"Which lamp {asked + n} burnt the mill?", 50) for n in range(5)))

    llm = ScriptedLLM(endless)
    context = search(llm, graph)
    points = sum(item.tokens(tokenizer) for item in context)
    assert len(llm.prompts) == 9
    assert 12_000 < sum(len(tokenizer(text)) for text in llm.prompts) + points <= 30_000
    assert all(text.count("<source ") <= 15 for text in llm.prompts)


def test_without_reports_the_question_is_searched() -> None:
    llm = ScriptedLLM(script)
    context = search(llm, island_graph(0))
    assert asked_question(llm.prompts[1]) == QUESTION
    assert "The mill burnt when a lamp fell." in llm.prompts[1]
    assert context
    llm = ScriptedLLM(script)
    assert len(search(llm, GraphBuilder())) == 0
    assert len(llm.prompts) == 1


def test_results_are_deterministic() -> None:
    one, other = ScriptedLLM(script), ScriptedLLM(script)
    assert search(one) == search(other)
    assert sorted(one.prompts) == sorted(other.prompts)


def test_points_fit_the_window() -> None:
    assert [item.text for item in search(ScriptedLLM(script), window=3)] == ["Bo Lind did."]
