"""answers + a judge -> six scores each: rotated places, hidden names, evidence of equal length."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from kumihimo.core.errors import MalformedReply, UnparsableReply
from kumihimo.evaluate.judging.protocols import MK_RAG, build_rating_form
from kumihimo.evaluate.judging.verdicts import (
    mean_ratings,
    plan_rating_calls,
    rate_answers,
    render_systems,
    truncate_tokens,
)
from kumihimo.evaluate.records import SystemAnswer
from kumihimo.llm.local_embedder import LocalTokenizer
from kumihimo.llm.prompts import reply_form
from kumihimo.llm.protocols import Reply
from tests.evaluate.fake_judges import make_answers, make_questions

QUESTIONS = make_questions(4)
ANSWERS = {name: make_answers(name, [f"{name} says {i}." for i in range(4)]) for name in "wxyz"}


class Rater:
    """An LLM that rates w 90 and others 40, in any place."""

    fingerprint, workers = "rater", 1

    def __init__(self) -> None:
        self.prompts: list[str] = []

    def __call__(self, prompt: Any, *, schema: Any = None, **_: Any) -> Any:
        text = prompt[-1]["content"]
        self.prompts.append(text)
        if "w says 3" in text:
            raise UnparsableReply("no")
        answers = text.split(" (answered)>\n")[1:]
        scores = [{"justification": "so", "score": 90 if answer.startswith("w") else 40} for answer in answers]
        names = MK_RAG.criteria
        reply = {f"system_{i}": dict.fromkeys(names, score) for i, score in enumerate(scores, 1)}
        return reply_form(schema).parse(Reply(json.dumps(reply)))

    def samples(self, *_: Any, **__: Any) -> list[str]:
        raise NotImplementedError


def test_places_follow_a_latin_square() -> None:
    places = Counter(
        (a.system, i) for call in plan_rating_calls(QUESTIONS, ANSWERS) for i, a in enumerate(call.answers)
    )
    assert set(places.values()) == {1}
    twice = Counter(
        (a.system, i) for c in plan_rating_calls(QUESTIONS[:2], ANSWERS, replicates=2) for i, a in enumerate(c.answers)
    )
    assert max(twice.values()) == 2
    single = plan_rating_calls(QUESTIONS, ANSWERS, one_system=True)
    assert {len(call.answers) for call in single} == {1}
    assert len(single) == 16


def test_scores_belong_to_their_systems() -> None:
    judge = Rater()
    rows = list(rate_answers(MK_RAG, plan_rating_calls(QUESTIONS, ANSWERS), judge, tokenizer=LocalTokenizer()))
    assert len(rows) == 4 * 4 * 6
    assert {row.value for row in rows if row.system == "w" and row.status == "ok"} == {90.0}
    assert {row.status for row in rows if row.question == "q3"} == {"invalid"}
    means = mean_ratings(rows)
    assert means["recall"]["w"] == {"q0": 90.0, "q1": 90.0, "q2": 90.0}
    assert set(means["depth"]["z"].values()) == {40.0}
    assert "z found this." in judge.prompts[0]
    single = list(
        rate_answers(
            MK_RAG, plan_rating_calls(QUESTIONS[:1], ANSWERS, one_system=True), judge, tokenizer=LocalTokenizer()
        )
    )
    assert {row.place for row in single} == {1}


def test_failed_answers_are_left_out_and_missing_evidence_is_marked() -> None:
    empty = SystemAnswer("v", "q0", "")
    failed = SystemAnswer("u", "q0", "", failed="down")
    (call,) = plan_rating_calls(QUESTIONS[:1], {"v": {"q0": empty}, "u": {"q0": failed}})
    assert [answer.system for answer in call.answers] == ["v"]
    text = str(render_systems(call, LocalTokenizer(), 10))
    assert "(nothing was found)" in text
    assert "(no answer was given)" in text
    assert plan_rating_calls(QUESTIONS[:1], {"u": {"q0": failed}}) == []


def test_evidence_is_truncated_to_the_same_length() -> None:
    tokenizer = LocalTokenizer()
    assert truncate_tokens("one two three four", tokenizer, 2) == "one two"
    assert truncate_tokens("one two", tokenizer, 2) == "one two"
    assert len(tokenizer(truncate_tokens("組紐は十月に届きます。" * 9, tokenizer, 12))) <= 12


def test_a_score_out_of_range_is_rejected() -> None:
    reply = '{"system_1": {"recall": {"justification": "", "score": 101}}}'
    kind: Any = build_rating_form(("recall",), 1)
    with pytest.raises(MalformedReply, match="from 0 to 100"):
        reply_form(kind).parse(Reply(reply))
