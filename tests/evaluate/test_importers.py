"""Foreign files -> questions and answers of a study; errors name the place, and all losses are reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kumihimo.core.errors import SettingsError
from kumihimo.core.usage import Usage
from kumihimo.evaluate import exchange, importers
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
    (Gold("a.md", 0, 9, alternatives=(Gold("c.md"),)), Gold("b.md"), Gold(text="Roake mended it.")),
    {"entity": "Roake", "references": ["Roake mended it."]},
)


def write_lines(folder: Path, name: str, *rows: object) -> Path:
    path = folder / name
    lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def read_benchmarkqed(path: Path) -> importers.StudyRows:
    return importers.read_question_file(path, "benchmarkqed")


def write_json(folder: Path, name: str, rows: object) -> Path:
    return write_lines(folder, name, json.dumps(rows))


def test_rows_may_use_other_key_names(tmp_path: Path) -> None:
    rows = [
        {"id": 3, "question": " Who? ", "answers": ["Ada", "Ada L."], "gold_passage_ids": ["p1"], "level": "easy"},
        {"question_text": "誰ですか。", "gold": [{"uri": "a.md", "start": 0, "end": 9}, {"text": "Roake."}]},
        {"question": "What recurs?", "text": "a passage", "source": "wiki", "reference_answer": "Tides", "answer": "x"},
        "Plain?",
    ]
    first, second, third, fourth = importers.read_question_file(
        write_lines(tmp_path, "q.jsonl", *map(json.dumps, rows))
    )[0]
    assert (first.id, first.text, first.reference, first.gold) == ("3", "Who?", "Ada", (Gold("p1"),))
    assert first.more == {"level": "easy", "references": ["Ada L."]}
    assert (second.scope, second.gold) == ("linked", (Gold("a.md", 0, 9), Gold(text="Roake.")))
    assert (third.scope, third.source, third.reference) == ("global", "user", "Tides")
    assert third.more == {"text": "a passage", "source": "wiki", "answer": "x"}
    assert fourth.text == "Plain?"


def test_gold_has_three_forms(tmp_path: Path) -> None:
    rows = [
        {"question": "All?", "gold_passage_ids": ["p1", 2]},
        {"question": "Any?", "gold_sets": [["p1", "p2"], ["p3"], [["a.md", 0, 9], {"text": "Roake."}]]},
        {"question": "Parts?", "gold": [["a.md", 0, 9], ["a.md", 20, 29]]},
    ]
    path = write_lines(tmp_path, "q.jsonl", *map(json.dumps, rows))
    passages, sets, parts = (question.gold for question in importers.read_question_file(path)[0])
    assert passages == (Gold("p1"), Gold("2"))
    either = Gold("a.md", 0, 9, alternatives=(Gold(text="Roake."),))
    assert sets == (Gold("p1", alternatives=(Gold("p2"),)), Gold("p3"), either)
    assert parts == (Gold("a.md", 0, 9), Gold("a.md", 20, 29))


def test_rows_of_a_study_survive_a_round_trip(tmp_path: Path) -> None:
    assert importers.read_question_file(write_lines(tmp_path, "q.jsonl", row_to_json(FULL))) == ([FULL], [])


def test_tables_and_lists_of_questions_are_read(tmp_path: Path) -> None:
    table = write_lines(tmp_path, "q.csv", "\ufeffquestion_text,question_id,year", '"Who, then?",a,1998', "What?,b,")
    questions, _ = importers.read_question_file(table)
    assert [(q.id, q.text, q.more) for q in questions] == [("a", "Who, then?", {"year": "1998"}), ("b", "What?", {})]
    plain, _ = importers.read_question_file(write_lines(tmp_path, "q.txt", "Who?", "", "What?", "Who?"))
    assert [q.text for q in plain] == ["Who?", "What?", "Who?"]
    assert merge_questions([], plain).repeated == 1


@pytest.mark.parametrize(
    ("name", "rows", "message"),
    [
        ("q.jsonl", ['{"question": "a"}', "{"], r"q\.jsonl, line 2: this is no JSON"),
        ("q.jsonl", ['{"q": 1}'], "line 1: it asks nothing"),
        ("q.jsonl", ["[1]"], "line 1: write"),
        ("q.jsonl", ['{"question": "a", "scope": "wide"}'], "'wide' is none of global, local, linked"),
        ("q.jsonl", ['{"question": "a", "gold": [{"uri": "a", "start": 9, "end": 3}]}'], "line 1: gold is an id"),
        ("q.jsonl", ['{"question": "a", "gold": [[]]}'], "line 1: gold is an id"),
        ("q.jsonl", ['{"question": "a", "gold": [["a", 9, 3]]}'], r'gold is an id, .* not {"id": "a", "start": 9'),
        ("q.jsonl", ['{"question": "a", "gold": [["a", "b"]]}'], r'not \["a", "b"\]'),
        ("q.jsonl", ['{"question": "a", "gold_sets": ["a"]}'], "line 1: `gold_sets` is a list of lists"),
        ("q.jsonl", ['{"question": "a", "gold_sets": [[]]}'], "line 1: `gold_sets` is a list of lists"),
        ("q.jsonl", ["", " "], "holds no questions"),
        ("q.csv", ["name,id", "a,1"], "its first line has to name a column question"),
    ],
)
def test_errors_name_the_line(tmp_path: Path, name: str, rows: list[str], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        importers.read_question_file(write_lines(tmp_path, name, *rows))


def test_existing_questions_are_not_lost() -> None:
    a, b, c = (EvalQuestion(id, f"Is it {id}?") for id in "abc")
    edited = EvalQuestion("a", "Is it a?", reference="Yes.")
    assert merge_questions([a], [a, b]).questions == [a, b]
    assert merge_questions([edited], [b, a]).questions == [b, edited]
    with pytest.raises(SettingsError, match="1 other questions are there: --merge"):
        merge_questions([a, c], [a, b])
    merged = merge_questions([edited, c], [b, a, EvalQuestion("z", "is it C")], "merge")
    assert (merged.questions, merged.added, merged.repeated) == ([edited, c, b], 1, 2)
    assert merge_questions([a, c], [b], "replace").questions == [b]
    for mode in ("", "merge"):
        with pytest.raises(SettingsError, match="another question has the id 'a' already"):
            merge_questions([a], [EvalQuestion("a", "Quite another?")], mode)
    with pytest.raises(SettingsError, match="two questions have the id 'a'"):
        merge_questions([], [a, EvalQuestion("a", "Quite another?")])


def test_answers_are_matched_by_text_or_id() -> None:
    existing = [EvalQuestion("a", "Is it a?"), EvalQuestion("b", "Is it b?"), EvalQuestion("c", "Is it c?")]
    imported = [
        EvalQuestion("1", "is it B"),
        EvalQuestion("a", "Is it a?"),
        EvalQuestion("c", "Another?"),
        EvalQuestion("x", ""),
    ]
    answers, unmatched = match_answers(existing, imported, [SystemAnswer("", q.id, q.id) for q in imported], "light")
    assert [(a.system, a.question, a.text) for a in answers] == [("light", "a", "a"), ("light", "b", "1")]
    assert unmatched == 2
    with pytest.raises(SettingsError, match="two answers to 'b'"):
        match_answers(
            existing,
            [*imported, EvalQuestion("2", "Is it b?")],
            [SystemAnswer("", "1", ""), SystemAnswer("", "2", "")],
            "light",
        )
    with pytest.raises(SettingsError, match="none of these answers"):
        match_answers(existing, [EvalQuestion("c", "Another?")], [SystemAnswer("", "c", "")], "light")


def test_answers_are_read_from_lines(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path, "a.jsonl", {"question": "Who?", "answer": "Ada", "reference": "Bo"}, {"question": "When?"}
    )
    questions, answers = importers.read_question_file(path, answers=True)
    assert [q.reference for q in questions] == ["Bo", ""]
    assert [(a.text, a.failed) for a in answers] == [("Ada", ""), ("", "the file holds no answer")]


# -- BenchmarkQED: written by hand in the form of its repository (autoq/io/question.py, docs/notebooks)

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
    ((first,), answers) = read_benchmarkqed(write_json(tmp_path, "q.json", [AUTOQ]))
    assert (first.id, first.scope, first.source, first.persona, first.task) == (
        "5bdc2158", "global", "activity", "A clerk", "Compare years")  # fmt: skip
    assert (first.assertions, answers) == (("It names tides.",), [])
    assert first.more == {"reasoning": "It is about all.", "references": AUTOQ["references"]}
    ((second,), _) = read_benchmarkqed(write_json(tmp_path, "t.json", ["Which?"]))
    assert (second.text, second.scope, second.source) == ("Which?", "global", "user")
    with_assertions = {"question_id": "7", "question_text": "Who?", "assertions": [{"statement": "Ada.", "rank": 1}]}
    ((third,), _) = read_benchmarkqed(write_json(tmp_path, "s.json", [with_assertions]))
    assert (third.id, third.assertions) == ("7", ("Ada.",))


def test_numbers_without_a_value_are_left_out(tmp_path: Path) -> None:
    numbers = {"input_tokens": float("inf"), "llm_calls": float("nan"), "output_tokens": 3}
    _, (answer,) = read_benchmarkqed(write_json(tmp_path, "a.json", [{**AUTOE, "metrics": numbers}]))
    assert answer.usage == Usage(0, 0, 0, 3)


def test_answers_of_benchmarkqed_are_read(tmp_path: Path) -> None:
    rows = [AUTOE, {"question_id": "8", "question": "Who?", "answer": ""}, {"question_id": "9", "answer": None}]
    questions, answers = read_benchmarkqed(write_json(tmp_path, "a.json", rows))
    assert [q.text for q in questions] == [AUTOE["question_text"], "Who?", ""]
    assert answers[0].contexts == (AnswerSource(1, "The tide.", "9"),)
    assert (answers[0].usage, answers[0].seconds) == (Usage(1, 469, 0, 68, 0.08, 9.5), 9.5)
    assert [(a.text, bool(a.failed)) for a in answers[1:]] == [("", False), ("", True)]


@pytest.mark.parametrize("content", ["{", "{}", "[]", "[3]", '[{"id": "a"}]', '[{"question": "a", "answer": 3}]'])
def test_other_files_than_benchmarkqed_are_refused(tmp_path: Path, content: str) -> None:
    with pytest.raises(SettingsError, match=r"q\.json"):
        read_benchmarkqed(write_lines(tmp_path, "q.json", content))


def test_the_export_has_the_form_of_autoq_and_autoe(tmp_path: Path) -> None:
    own_question = EvalQuestion("u1", "Who?")
    answers = [
        SystemAnswer(
            "light", "q7", "Roake.", (AnswerSource(1, "Roake mended it.", "c1"),), usage=Usage(2, 9, 0, 3, 0.5, 1.5)
        ),
        SystemAnswer("light", "u1", "", failed="capped"),
    ]
    files = dict(exchange.benchmarkqed_files([FULL, own_question], {"light": answers}))
    assert list(files) == ["questions.json", "data_linked_assertions.json", "light/data_linked.json"]
    first = json.loads(files["questions.json"])[0]
    # BenchmarkQED's Question(**row) accepts no other keys
    assert set(first) == {"id", "text", "question_type", "references", "attributes"}
    assert (first["question_type"], first["references"]) == ("data_linked", ["Roake mended it."])
    assert read_benchmarkqed(write_lines(tmp_path, "q.json", files["questions.json"])) == (
        [FULL, own_question],
        [],
    )
    (answer,) = json.loads(files["light/data_linked.json"])
    assert set(answer) == {"question_id", "question_text", "answer", "context", "metrics"}
    # the fields of BenchmarkQED's RetrievalResult
    assert answer["context"] == [{"source_id": "c1", "source_text": "Roake mended it."}]
    ((_,), (reread,)) = read_benchmarkqed(write_lines(tmp_path, "a.json", files["light/data_linked.json"]))
    assert (reread.question, reread.text, reread.usage) == ("q7", "Roake.", Usage(2, 9, 0, 3, 0.5, 1.5))
    (assertion_set,) = json.loads(files["data_linked_assertions.json"])
    assert assertion_set["assertions"] == [{"statement": "It names Roake.", "rank": 1}]
