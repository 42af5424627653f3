"""Reports of a level -> points; with a model batch by batch, without one sentence by sentence."""

from __future__ import annotations

from typing import Any

from kumihimo.core.context import Context
from kumihimo.core.records import Community, KeyPoint, Report
from kumihimo.core.table import Table
from kumihimo.methods.global_ import _level_ids, global_, select_communities
from tests.methods.factories_search import Scripted, community, match, near, rank, report, ruler, table

# two roots: a, which has parts b (with parts d, e) and c; and z, which has none
COMMUNITIES = {
    "a": community(0, children=["b", "c"]),
    "b": community(1, "a", ["d", "e"]),
    "c": community(1, "a", members=["1"]),
    "d": community(2, "b", members=["2"]),
    "e": community(2, "b", members=["3"]),
    "z": community(0, members=["4"]),
}
REPORTS = {id: report(f"of {id} all", level=c.level) for id, c in COMMUNITIES.items()}


def tables(reports: dict[str, Report] = REPORTS) -> tuple[Table[Any], Table[Any]]:
    return table("communities", Community, COMMUNITIES), table("reports", Report, reports)


def found(
    ask: Scripted | None, reports: dict[str, Report] = REPORTS, question: str = "What?", **settings: Any
) -> Context:
    return global_(question, *tables(reports), match, near, ruler, ask, rank, **settings)


def points(context: Context) -> list[KeyPoint]:
    return [item.record for item in context if isinstance(item.record, KeyPoint)]


def test_a_level_covers_everything_once() -> None:
    levels = [_level_ids(tables()[0], level) for level in range(4)]
    assert levels == [["a", "z"], ["z", "b", "c"], ["z", "c", "d", "e"], ["z", "c", "d", "e"]]


def test_the_reports_of_the_level_are_read_and_named() -> None:
    ask = Scripted(lambda told: [{"description": "So.", "score": 7, "sources": [1, 3, 4]}])
    (item,) = found(ask)
    told = ask.asked[0]
    assert [f"of {id} all" in told for id in "abcdez"] == [False, True, True, False, False, True]
    assert isinstance(item.record, KeyPoint)
    assert len(item.record.sources) == 2
    assert {table for table, _ in item.record.sources} == {"reports"}


def test_a_report_that_is_missing_is_passed_over() -> None:
    ask = Scripted(lambda told: [])
    assert len(found(ask, {id: one for id, one in REPORTS.items() if id != "b"})) == 0
    assert "of c all" in ask.asked[0]
    assert len(found(ask, {})) == 0
    assert len(ask.asked) == 1


def rating(**ratings: int) -> Scripted:
    def answer(told: str) -> object:
        return {"rating": next((n for id, n in ratings.items() if f"of {id} all" in told), 0)}

    return Scripted(answer)


def rated(ask: Scripted) -> list[str]:
    return sorted(id for id in COMMUNITIES for told in ask.asked if f"of {id} all" in told)


def test_dynamic_descends_where_a_report_helps() -> None:
    ask = rating(a=3, b=2, d=1)
    assert select_communities("?", *tables(), ask, 2) == ["d"]  # a gave way to b, b to d
    assert rated(ask) == ["a", "b", "c", "d", "e", "z"]
    ask = rating(z=1)
    assert select_communities("?", *tables(), ask, 2) == ["z"]
    assert rated(ask) == ["a", "z"]
    assert select_communities("?", *tables(), rating(a=3, b=2, d=1), 1) == ["b"]
    assert select_communities("?", *tables(), rating(a=3, z=4), 2) == ["a", "z"]  # no part helps: the whole stays


def test_dynamic_looks_one_level_down_where_nothing_helps_and_then_gives_up() -> None:
    ask = rating(c=2)
    assert select_communities("?", *tables(), ask, 2) == ["c"]
    assert rated(ask) == ["a", "b", "c", "z"]
    assert select_communities("?", *tables(), rating(), 2) == []
    assert len(found(rating(), dynamic=True)) == 0


def test_dynamic_passes_over_what_has_no_report_not_its_parts() -> None:
    reports = table("reports", Report, {id: one for id, one in REPORTS.items() if id != "a"})
    assert select_communities("?", tables()[0], reports, rating(b=1), 2) == ["b"]


def test_dynamic_reads_what_it_kept() -> None:
    def answer(told: str) -> object:
        if "Rate how much" in told:
            return {"rating": int("of z all" in told)}
        return [{"description": "So.", "score": 7, "sources": [1]}]

    (point,) = points(found(Scripted(answer), dynamic=True))
    assert point.sources == (("reports", "z"),)


def extractive(*sentences: str, chunk: str, **others: Any) -> Report:
    marked = [f"{sentence} [Data: Sources ({n})]" for n, sentence in enumerate(sentences, 1)]
    findings = tuple(("finding", text) for text in marked[2:])
    data = tuple(("chunks", n, f"{chunk}.{n:05}") for n in range(1, len(sentences) + 1))
    return report(
        " ".join(sentences), summary=" ".join(marked[:2]), findings=findings, data=data, extractive=True, **others
    )


SENTENCES = {
    "z": extractive(
        "year: 1902; oats: 6", "The mill ground oats.", "A miller ran it.", chunk="z", elements=90, rating=9.0
    ),
    "b": extractive("The ferry crossed at nine.", "It carried mail.", chunk="b", elements=50),
    "c": extractive("渡し船は九時に出る。", "The ferry was blue.", chunk="c", elements=10, rating=1.0),
}


def test_without_a_model_a_question_of_the_whole_gets_a_sentence_of_each_the_largest_first() -> None:
    said = points(found(None, SENTENCES, "What are the main themes?"))
    assert [point.text for point in said] == [
        "The mill ground oats.",
        "The ferry crossed at nine.",
        "渡し船は九時に出る。",
        "A miller ran it.",
        "It carried mail.",
        "The ferry was blue.",
        "year: 1902; oats: 6",
    ]
    assert all(point.verbatim for point in said)
    assert said[3].sources == (("chunks", "z.00003"),)
    scores = [item.score for item in found(None, SENTENCES, "What are the main themes?")]
    assert scores == sorted(scores, reverse=True)


def test_without_a_model_reports_that_speak_of_what_is_asked_come_alone() -> None:
    said = [point.text for point in points(found(None, SENTENCES, "Which colour was the ferry: blue?"))]
    assert said[0] == "The ferry was blue."
    assert not any("mill" in text for text in said)
    assert points(found(None, SENTENCES, "渡し船は何時に出るか"))[0].text == "渡し船は九時に出る。"


def test_without_a_model_a_report_that_a_model_wrote_speaks_by_its_summary() -> None:
    (point,) = points(found(None, {"z": REPORTS["z"]}))
    assert (point.text, point.sources, point.verbatim) == ("of z all", (("reports", "z"),), False)


def test_without_a_model_one_sentence_stands_once_and_the_window_holds() -> None:
    twice = {id: extractive("The mill ground oats.", chunk=id, elements=n) for n, id in enumerate("bcz", 1)}
    (point,) = points(found(None, twice))
    assert point.sources == (("chunks", "z.00001"),)
    assert [p.text for p in points(found(None, SENTENCES, window=6))] == [
        "The mill ground oats.",
        "渡し船は九時に出る。",
    ]
    assert len(found(None, {})) == 0


def test_without_a_model_what_no_report_speaks_of_is_not_answered() -> None:
    assert len(found(None, SENTENCES, "At what temperature does tungsten boil?")) == 0
