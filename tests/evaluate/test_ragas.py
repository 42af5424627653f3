"""ragas' JSONL -> questions and answers -> the same lines."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kumihimo.core.errors import SettingsError
from kumihimo.evaluate.exchange import ragas_lines
from kumihimo.evaluate.importers import StudyRows, read_question_file
from kumihimo.evaluate.records import AnswerSource, EvalQuestion, Gold, SystemAnswer

NEW = {  # as `EvaluationDataset.to_jsonl` of ragas 0.2 and later writes a SingleTurnSample, and what test sets add
    "user_input": "組紐はいつ届きますか。",
    "retrieved_contexts": ["組紐は十月に届きます。", "雨だった。"],
    "reference_contexts": ["組紐は十月に届きます。"],
    "retrieved_context_ids": ["c1", "c2"],
    "reference_context_ids": ["notes/a.md"],
    "response": "十月です。",
    "multi_responses": ["十月です。", "十月"],
    "reference": "十月",
    "rubrics": {"score1_description": "wrong", "score5_description": "right"},
    "persona_name": "Archivist",
    "query_style": "FORMAL",
    "query_length": "SHORT",
    "synthesizer_name": "single_hop",
}
OLD = {"question": "When?", "contexts": ["At nine."], "answer": "Nine.", "ground_truth": "At nine."}


def read_ragas(path: Path) -> StudyRows:
    return read_question_file(path, "ragas")


def write_lines(folder: Path, *rows: dict[str, Any]) -> Path:
    path = folder / "data.jsonl"
    path.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows), encoding="utf-8")
    return path


def test_lines_of_ragas_survive_a_round_trip(tmp_path: Path) -> None:
    questions, answers = read_ragas(write_lines(tmp_path, NEW))
    (line,) = ragas_lines(questions, answers)
    (question,), (answer,) = questions, answers
    assert json.loads(line) == NEW | {"id": question.id, "system": "ragas"}
    assert (question.reference, question.persona, question.gold) == (
        "十月",
        "Archivist",
        (Gold("notes/a.md", text="組紐は十月に届きます。"),),
    )
    assert [(source.n, source.id) for source in answer.contexts] == [(1, "c1"), (2, "c2")]


def test_our_rows_survive_a_round_trip(tmp_path: Path) -> None:
    questions = [
        EvalQuestion("q1", "Who?", reference="Roake", gold=(Gold(text="Roake did."), Gold(text="She did."))),
        EvalQuestion("q2", "When?", gold=(Gold("notes/a.md"), Gold("notes/b.md")), more={"references": ["nine"]}),
        EvalQuestion("q3", "Why?"),
        EvalQuestion("q4", "Where?", reference="Oban", more={"references": ["At Oban."]}),
    ]
    answers = [
        SystemAnswer("naive", "q1", "Roake.", (AnswerSource(1, "Roake did."),)),
        SystemAnswer("light:hybrid", "q1", "", ()),
        SystemAnswer("naive", "q2", "Nine.", (AnswerSource(1, "At nine.", "c1"),)),
    ]
    path = tmp_path / "data.jsonl"
    path.write_text("\n".join(ragas_lines(questions, answers)), encoding="utf-8")
    reread, reread_answers = read_ragas(path)
    assert reread_answers == answers
    assert reread[0] == replace(questions[0], scope="linked")  # which several passages of gold mean
    assert (reread[1].gold, reread[2:]) == (questions[1].gold, questions[2:])


def test_names_of_older_versions_are_read(tmp_path: Path) -> None:
    several = {"question": "Which?", "contexts": [], "answer": "This.", "ground_truths": ["This one", "That one"]}
    questions, answers = read_ragas(write_lines(tmp_path, OLD, several))
    assert [(q.text, q.reference) for q in questions] == [("When?", "At nine."), ("Which?", "This one")]
    assert questions[1].more == {"references": ["That one"]}
    assert [(a.text, [c.text for c in a.contexts]) for a in answers] == [("Nine.", ["At nine."]), ("This.", [])]
    assert json.loads(list(ragas_lines(questions, answers))[1])["ground_truths"] == ["This one", "That one"]


def test_lines_of_one_question_are_answers_of_several_systems(tmp_path: Path) -> None:
    second = OLD | {"answer": "At ten."}
    questions, answers = read_ragas(write_lines(tmp_path, OLD, second, OLD | {"ground_truth": "Never."}))
    first, other = (question.id for question in questions)
    assert [(a.system, a.question, a.text) for a in answers] == [
        ("ragas", first, "Nine."),
        ("ragas 2", first, "At ten."),
        ("ragas", other, "Nine."),
    ]


def test_failed_answers_have_no_response() -> None:
    (line,) = ragas_lines([EvalQuestion("q1", "Who?")], [SystemAnswer("naive", "q1", "", failed="timeout")])
    assert json.loads(line) == {"user_input": "Who?", "id": "q1", "retrieved_contexts": [], "system": "naive"}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"user_input": [{"content": "Hi", "type": "human"}]}, "line 1: a conversation of several turns"),
        ({"response": "x"}, "line 1: it asks nothing"),
        ({"user_input": "?", "response": "", "retrieved_contexts": "x"}, "line 1: the evidence of an answer is a list"),
    ],
)
def test_unreadable_lines_are_reported(tmp_path: Path, row: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        read_ragas(write_lines(tmp_path, row))


def test_duplicate_ids_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="two questions have the id 'q'"):
        read_ragas(write_lines(tmp_path, NEW | {"id": "q"}, OLD | {"id": "q"}))
