"""Files of others -> questions and answers of a study; what is wrong is said with its place, nothing is lost unsaid."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kumihimo.core.errors import SettingsError
from kumihimo.core.usage import Usage
from kumihimo.evaluate import benchmarkqed, importers
from kumihimo.evaluate.importers import match_answers, merge_questions
from kumihimo.evaluate.records import AnswerSource, EvalQuestion, Gold, SystemAnswer
from kumihimo.evaluate.study import row_to_json

FULL = EvalQuestion(
    "q7",
    "What links the pier and the cord?",
    "linked",
    "data",
    "A clerk who keeps the books.",
    "Compare years",
    "Roake.",
    ("It names Roake.",),
    (Gold("a.md", 0, 9), Gold("b.md"), Gold(text="Roake mended it.")),
    {"entity": "Roake", "references": ["Roake mended it."]},
)


def written(folder: Path, name: str, *rows: object) -> Path:
    path = folder / name
    lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def as_json(folder: Path, name: str, rows: object) -> Path:
    return written(folder, name, json.dumps(rows))


def test_a_row_may_call_its_parts_by_many_names(tmp_path: Path) -> None:
    rows = [
        {"id": 3, "question": " Who? ", "answers": ["Ada", "Ada L."], "gold_passage_ids": ["p1"], "level": "easy"},
        {"question_text": "誰ですか。", "gold": [{"uri": "a.md", "start": 0, "end": 9}, {"text": "Roake."}]},
        {"question": "What recurs?", "text": "a passage", "source": "wiki", "reference_answer": "Tides", "answer": "x"},
        "Plain?",
    ]
    one, two, three, four = importers.read_question_file(written(tmp_path, "q.jsonl", *map(json.dumps, rows)))[0]
    assert (one.id, one.text, one.reference, one.gold) == ("3", "Who?", "Ada", (Gold("p1"),))
    assert one.more == {"level": "easy", "answers": ["Ada", "Ada L."]}
    assert (two.scope, two.gold) == ("linked", (Gold("a.md", 0, 9), Gold(text="Roake.")))
    assert (three.scope, three.source, three.reference) == ("global", "user", "Tides")
    assert three.more == {"text": "a passage", "source": "wiki", "answer": "x"}
    assert four.text == "Plain?"


def test_rows_of_a_study_come_back_as_they_were(tmp_path: Path) -> None:
    assert importers.read_question_file(written(tmp_path, "q.jsonl", row_to_json(FULL))) == ([FULL], [])


def test_tables_and_lists_of_questions_are_read(tmp_path: Path) -> None:
    table = written(tmp_path, "q.csv", "\ufeffquestion_text,question_id,year", '"Who, then?",a,1998', "What?,b,")
    found, _ = importers.read_question_file(table)
    assert [(q.id, q.text, q.more) for q in found] == [("a", "Who, then?", {"year": "1998"}), ("b", "What?", {})]
    plain, _ = importers.read_question_file(written(tmp_path, "q.txt", "Who?", "", "What?", "Who?"))
    assert [q.text for q in plain] == ["Who?", "What?", "Who?"]
    assert merge_questions([], plain).repeated == 1


@pytest.mark.parametrize(
    ("name", "rows", "told"),
    [
        ("q.jsonl", ['{"question": "a"}', "{"], r"q\.jsonl, line 2: this is no JSON"),
        ("q.jsonl", ['{"q": 1}'], "line 1: it asks nothing"),
        ("q.jsonl", ['{"user_input": "a"}'], "--format ragas"),
        ("q.jsonl", ["[1]"], "line 1: write"),
        ("q.jsonl", ['{"question": "a", "scope": "wide"}'], "'wide' is none of global, local, linked"),
        ("q.jsonl", ['{"question": "a", "gold": [{"uri": "a", "start": 9, "end": 3}]}'], "line 1: gold is an id"),
        ("q.jsonl", ['{"question": "a", "gold": [[]]}'], "line 1: gold is an id"),
        ("q.jsonl", ["", " "], "holds no questions"),
        ("q.csv", ["name,id", "a,1"], "its first line has to name a column question"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_line(tmp_path: Path, name: str, rows: list[str], told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        importers.read_question_file(written(tmp_path, name, *rows))


def test_questions_that_are_there_are_not_lost() -> None:
    a, b, c = (EvalQuestion(id, f"Is it {id}?") for id in "abc")
    edited = EvalQuestion("a", "Is it a?", reference="Yes.")
    assert merge_questions([a], [a, b]).questions == [a, b]
    assert merge_questions([edited], [b, a]).questions == [b, edited]
    with pytest.raises(SettingsError, match="1 other questions are there: --merge"):
        merge_questions([a, c], [a, b])
    found = merge_questions([edited, c], [b, a, EvalQuestion("z", "is it C")], "merge")
    assert (found.questions, found.added, found.repeated) == ([edited, c, b], 1, 2)
    assert merge_questions([a, c], [b], "replace").questions == [b]
    for put in ("", "merge"):
        with pytest.raises(SettingsError, match="another question has the id 'a' already"):
            merge_questions([a], [EvalQuestion("a", "Quite another?")], put)
    with pytest.raises(SettingsError, match="two questions have the id 'a'"):
        merge_questions([], [a, EvalQuestion("a", "Quite another?")])


def test_answers_find_their_questions_by_text_or_by_id() -> None:
    held = [EvalQuestion("a", "Is it a?"), EvalQuestion("b", "Is it b?"), EvalQuestion("c", "Is it c?")]
    asked = [
        EvalQuestion("1", "is it B"),
        EvalQuestion("a", "Is it a?"),
        EvalQuestion("c", "Another?"),
        EvalQuestion("x", ""),
    ]
    answers, strange = match_answers(held, asked, [SystemAnswer("", q.id, q.id) for q in asked], "light")
    assert [(a.system, a.question, a.text) for a in answers] == [("light", "a", "a"), ("light", "b", "1")]
    assert strange == 2
    with pytest.raises(SettingsError, match="two answers to 'b'"):
        match_answers(
            held,
            [*asked, EvalQuestion("2", "Is it b?")],
            [SystemAnswer("", "1", ""), SystemAnswer("", "2", "")],
            "light",
        )
    with pytest.raises(SettingsError, match="none of these answers"):
        match_answers(held, [EvalQuestion("c", "Another?")], [SystemAnswer("", "c", "")], "light")


def test_answers_may_come_in_lines(tmp_path: Path) -> None:
    path = written(tmp_path, "a.jsonl", {"question": "Who?", "answer": "Ada", "reference": "Bo"}, {"question": "When?"})
    asked, said = importers.read_question_file(path, answers=True)
    assert [q.reference for q in asked] == ["Bo", ""]
    assert [(a.text, a.failed) for a in said] == [("Ada", ""), ("", "the file holds no answer")]


# -- BenchmarkQED: made by hand in the form of what its repository holds (autoq/io/question.py, docs/notebooks)

AUTOQ = {
    "id": "5bdc2158",
    "text": "Across the dataset, which themes recur?",
    "question_type": "activity_global",
    "references": ["Dataset description: notes of a harbour."],
    "attributes": {"persona": "A clerk", "task": "Compare years", "reasoning": "It is about all.",
                   "assertions": [{"statement": "It names tides.", "sources": [], "score": 9}]},
}  # fmt: skip
AUTOE: dict[str, Any] = {
    "question_id": "5bdc2158",
    "question_text": "Across the dataset, which themes recur?",
    "answer": "Tides [Data: Sources (9)].",
    "context": [{"chunk_id": "9", "text": "The tide."}],
    "metrics": {"time_seconds": 9.5, "input_tokens": 469, "output_tokens": 68, "llm_calls": 1, "cost": 0.08,
                "retrieval_time": 3.5},
}  # fmt: skip


def test_questions_of_benchmarkqed_are_read(tmp_path: Path) -> None:
    ((one,), said) = benchmarkqed.read_benchmarkqed(as_json(tmp_path, "q.json", [AUTOQ]))
    assert (one.id, one.scope, one.source, one.persona, one.task) == (
        "5bdc2158", "global", "activity", "A clerk", "Compare years")  # fmt: skip
    assert (one.assertions, said) == (("It names tides.",), [])
    assert one.more == {"reasoning": "It is about all.", "references": AUTOQ["references"]}
    ((two,), _) = benchmarkqed.read_benchmarkqed(as_json(tmp_path, "t.json", ["Which?"]))
    assert (two.text, two.scope, two.source) == ("Which?", "global", "user")
    stated = {"question_id": "7", "question_text": "Who?", "assertions": [{"statement": "Ada.", "rank": 1}]}
    ((three,), _) = benchmarkqed.read_benchmarkqed(as_json(tmp_path, "s.json", [stated]))
    assert (three.id, three.assertions) == ("7", ("Ada.",))


def test_answers_of_benchmarkqed_are_read(tmp_path: Path) -> None:
    rows = [AUTOE, {"question_id": "8", "question": "Who?", "answer": ""}, {"question_id": "9", "answer": None}]
    asked, said = benchmarkqed.read_benchmarkqed(as_json(tmp_path, "a.json", rows))
    assert [q.text for q in asked] == [AUTOE["question_text"], "Who?", ""]
    assert said[0].contexts == (AnswerSource(1, "The tide.", "9"),)
    assert (said[0].usage, said[0].seconds) == (Usage(1, 469, 0, 68, 0.08, 9.5), 9.5)
    assert [(a.text, bool(a.failed)) for a in said[1:]] == [("", False), ("", True)]


@pytest.mark.parametrize("held", ["{", "{}", "[]", "[3]", '[{"id": "a"}]', '[{"question": "a", "answer": 3}]'])
def test_what_is_not_of_benchmarkqed_is_said(tmp_path: Path, held: str) -> None:
    with pytest.raises(SettingsError, match=r"q\.json"):
        benchmarkqed.read_benchmarkqed(written(tmp_path, "q.json", held))


def test_what_is_written_is_as_autoq_and_autoe_read_it_and_comes_back(tmp_path: Path) -> None:
    mine = EvalQuestion("u1", "Who?")
    said = [
        SystemAnswer(
            "light", "q7", "Roake.", (AnswerSource(1, "Roake mended it.", "c1"),), usage=Usage(2, 9, 0, 3, 0.5, 1.5)
        ),
        SystemAnswer("light", "u1", "", failed="capped"),
    ]
    files = dict(benchmarkqed.benchmarkqed_files([FULL, mine], {"light": said}))
    assert list(files) == ["questions.json", "data_linked_assertions.json", "light/data_linked.json"]
    first = json.loads(files["questions.json"])[0]
    assert set(first) == {"id", "text", "question_type", "references", "attributes"}  # Question(**row) takes no other
    assert (first["question_type"], first["references"]) == ("data_linked", ["Roake mended it."])
    assert benchmarkqed.read_benchmarkqed(written(tmp_path, "q.json", files["questions.json"])) == ([FULL, mine], [])
    (answer,) = json.loads(files["light/data_linked.json"])
    assert set(answer) == {"question_id", "question_text", "answer", "context", "metrics"}
    assert answer["context"] == [{"source_id": "c1", "source_text": "Roake mended it."}]  # of RetrievalResult
    ((_,), (back,)) = benchmarkqed.read_benchmarkqed(written(tmp_path, "a.json", files["light/data_linked.json"]))
    assert (back.question, back.text, back.usage) == ("q7", "Roake.", Usage(2, 9, 0, 3, 0.5, 1.5))
    (stated,) = json.loads(files["data_linked_assertions.json"])
    assert stated["assertions"] == [{"statement": "It names Roake.", "rank": 1}]
