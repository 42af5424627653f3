"""reports of a level -> points: by batch with a model, sentences of documents without one."""

from __future__ import annotations

from typing import Any

import pytest

from kumihimo.core.context import Context, KeyPoint
from kumihimo.core.records import Chunk, Community, Report
from kumihimo.core.table import Table
from kumihimo.methods.global_ import _level_ids, global_, select_communities
from kumihimo.text.question import ParsedQuestion
from tests.methods.factories_search import (
    ScriptedLLM,
    chunk,
    community,
    keyword_search,
    report,
    rerank,
    table,
    tokenizer,
    vector_search,
)

# Two roots: a with children b (children d, e) and c; z without children
COMMUNITIES = {
    "a": community(0, children=["b", "c"]),
    "b": community(1, "a", ["d", "e"]),
    "c": community(1, "a", members=["1"]),
    "d": community(2, "b", members=["2"]),
    "e": community(2, "b", members=["3"]),
    "z": community(0, members=["4"]),
}
REPORTS = {id: report(f"of {id} all", level=c.level) for id, c in COMMUNITIES.items()}


LONG_CHUNKS = {"doc.00000": chunk("A long text. " * 500)}


def tables(reports: dict[str, Report] = REPORTS) -> tuple[Table[Any], Table[Any]]:
    return table("communities", Community, COMMUNITIES), table("reports", Report, reports)


def search(
    llm: ScriptedLLM | None,
    reports: dict[str, Report] = REPORTS,
    question: str = "What?",
    chunks: dict[str, Chunk] = LONG_CHUNKS,
    **settings: Any,
) -> Context:
    chunk_table = table("chunks", Chunk, chunks)
    return global_(
        ParsedQuestion(question),
        chunk_table,
        *tables(reports),
        keyword_search,
        vector_search,
        tokenizer,
        llm,
        rerank,
        **settings,
    )


def points(context: Context) -> list[KeyPoint]:
    return [item.record for item in context if isinstance(item.record, KeyPoint)]


def test_level_covers_every_entity_once() -> None:
    levels = [_level_ids(tables()[0], level) for level in range(4)]
    assert levels == [["a", "z"], ["z", "b", "c"], ["z", "c", "d", "e"], ["z", "c", "d", "e"]]


def test_only_levels_that_exist_are_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up = list[object]()
    where = Table.where

    def count(self: Table[Any], **conditions: object) -> list[Any]:
        looked_up.append(conditions["level"])
        return where(self, **conditions)

    monkeypatch.setattr(Table, "where", count)
    assert _level_ids(tables()[0], 10**19) == ["z", "c", "d", "e"]
    assert looked_up == [0, 1, 2, 3]
    llm = ScriptedLLM(lambda _: {"rating": 0})
    looked_up.clear()
    assert select_communities("What?", *tables(), llm, depth=10**19) == []
    assert looked_up == [0, 1, 2, 3]


def test_reports_of_the_level_are_read_and_cited() -> None:
    llm = ScriptedLLM(lambda text: [{"description": "So.", "score": 7, "sources": [1, 3, 4]}])
    (item,) = search(llm)
    text = llm.prompts[0]
    assert [f"of {id} all" in text for id in "abcdez"] == [False, True, True, False, False, True]
    assert isinstance(item.record, KeyPoint)
    assert len(item.record.sources) == 2
    assert {table for table, _ in item.record.sources} == {"reports"}


def test_missing_report_is_skipped() -> None:
    llm = ScriptedLLM(lambda text: [])
    assert len(search(llm, {id: one for id, one in REPORTS.items() if id != "b"})) == 0
    assert "of c all" in llm.prompts[0]


def test_without_reports_the_chunks_are_read() -> None:
    llm = ScriptedLLM(lambda text: [])
    assert len(search(llm, {}, "What are the main themes?")) == 0
    assert "A long text." in llm.prompts[0]


SUBJECTS = {"a": "ferry", "b": "ferry timetable", "c": "oats", "d": "wages", "e": "schools", "z": "gate"}
ON_SUBJECTS = {id: report(f"of {id} all. The {subject}.") for id, subject in SUBJECTS.items()}
FERRY = "When does the ferry timetable change?"


def read_ids(reports: dict[str, Report], question: str, **settings: Any) -> list[str]:
    """Return the reports in the prompts."""
    llm = ScriptedLLM(lambda text: [])
    search(llm, reports, question, **settings)
    return [id for id in sorted(reports) for prompt in llm.prompts if f"of {id} all" in prompt]


def test_a_question_reads_reports_near_it() -> None:
    assert read_ids(ON_SUBJECTS, FERRY, window=8) == ["b"]
    assert read_ids(ON_SUBJECTS, "What do they say of the gate and of oats?", window=8) == ["c", "z"]
    assert len(read_ids(ON_SUBJECTS, FERRY)) == 3  # they fit into one window


def test_a_corpus_level_question_reads_all_reports() -> None:
    assert read_ids(ON_SUBJECTS, "What are the main themes?", window=8) == ["b", "c", "z"]


def test_in_the_form_of_the_paper_all_reports_are_read() -> None:
    assert read_ids(ON_SUBJECTS, FERRY, window=8, paper=True) == ["b", "c", "z"]
    short = {"doc.00000": chunk("Short.")}
    assert read_ids(ON_SUBJECTS, FERRY, window=8, paper=True, chunks=short) == ["b", "c", "z"]


@pytest.mark.parametrize("level", range(4))
@pytest.mark.parametrize("question", [FERRY, "What are the main themes?"])
def test_no_report_is_read_with_one_on_its_part(level: int, question: str) -> None:
    ids = read_ids(ON_SUBJECTS, question, level=level)
    assert ids
    assert not any(COMMUNITIES[id].parent in ids for id in ids)


def test_chunks_shorter_than_the_reports_are_read_instead() -> None:
    chunks = {"doc.00000": chunk("The ferry leaves."), "doc.00001": chunk("Oats grow.")}
    for question, expected in (("What are the main themes?", 2), (FERRY, 2)):
        llm = ScriptedLLM(lambda text: [{"description": "So.", "score": 7, "sources": [1]}])
        (point,) = points(search(llm, ON_SUBJECTS, question, chunks))
        assert point.sources[0][0] == "chunks"
        assert "of z all" not in llm.prompts[0]
        assert llm.prompts[0].count("<source ") == expected


def rating(**ratings: int) -> ScriptedLLM:
    def answer(text: str) -> object:
        return {"rating": next((n for id, n in ratings.items() if f"of {id} all" in text), 0)}

    return ScriptedLLM(answer)


def rated_ids(llm: ScriptedLLM) -> list[str]:
    return sorted(id for id in COMMUNITIES for text in llm.prompts if f"of {id} all" in text)


def test_dynamic_expands_useful_reports() -> None:
    llm = rating(a=3, b=2, d=1)
    assert select_communities("?", *tables(), llm, 2) == ["d"]  # b replaces a, d replaces b
    assert rated_ids(llm) == ["a", "b", "c", "d", "e", "z"]
    llm = rating(z=1)
    assert select_communities("?", *tables(), llm, 2) == ["z"]
    assert rated_ids(llm) == ["a", "z"]
    assert select_communities("?", *tables(), rating(a=3, b=2, d=1), 1) == ["b"]
    assert select_communities("?", *tables(), rating(a=3, z=4), 2) == ["a", "z"]  # no useful child: a stays


def test_dynamic_tries_the_next_level_once() -> None:
    llm = rating(c=2)
    assert select_communities("?", *tables(), llm, 2) == ["c"]
    assert rated_ids(llm) == ["a", "b", "c", "z"]
    assert select_communities("?", *tables(), rating(), 2) == []
    assert len(search(rating(), dynamic=True)) == 0


def test_dynamic_expands_communities_without_report() -> None:
    reports = table("reports", Report, {id: one for id, one in REPORTS.items() if id != "a"})
    assert select_communities("?", tables()[0], reports, rating(b=1), 2) == ["b"]


def test_dynamic_reads_selected_reports() -> None:
    def answer(text: str) -> object:
        if "Rate how much" in text:
            return {"rating": int("of z all" in text)}
        return [{"description": "So.", "score": 7, "sources": [1]}]

    (point,) = points(search(ScriptedLLM(answer), dynamic=True))
    assert point.sources == (("reports", "z"),)


def test_without_a_model_a_question_about_the_whole_corpus_gets_a_sample_of_passages() -> None:
    chunks = {f"doc{n}.00000": chunk(f"Mill {n} grinds oats.") for n in range(9)}
    found = search(None, {}, "What are the main themes?", chunks)
    assert {item.record.id for item in found} == set(chunks)
    assert len(search(None, {}, "What are the main themes?", chunks, window=9)) == 2


def test_without_a_model_documents_speak_on_a_topic() -> None:
    texts = ("The ferry crossed to the mill at nine.", "A blue ferry carried the mail.", "Oats grow in the north.")
    chunks = {f"doc{n}.00000": chunk(text) for n, text in enumerate(texts)}
    found = points(search(None, {}, "What do they say about the ferry?", chunks))
    assert {point.text for point in found} == set(texts[:2])
    assert all(point.verbatim for point in found)
    assert len(search(None, {}, "At what temperature does tungsten boil?", chunks)) == 0
