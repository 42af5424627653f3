"""answers + a judge -> six scores each: all systems in all places, nameless, with as much of what each found."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from kumihimo.core.errors import MalformedReply, UnparsableReply
from kumihimo.evaluate.judging.forms import build_rating_form
from kumihimo.evaluate.judging.protocols import MK_RAG
from kumihimo.evaluate.judging.ratings import (
    mean_ratings,
    plan_rating_calls,
    rate_answers,
    render_systems,
    truncate_tokens,
)
from kumihimo.evaluate.records import SystemAnswer
from kumihimo.llm.local_embedder import LocalTokenizer
from kumihimo.llm.structured import Reply, reply_form
from tests.evaluate.fake_judges import answered, questions

ASKED = questions(4)
ANSWERS = {name: answered(name, [f"{name} says {i}." for i in range(4)]) for name in "wxyz"}


class Rater:
    """Gives 90 to w, else 40, wherever it stands."""

    fingerprint, workers = "rater", 1

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, prompt: Any, *, schema: Any = None, **_: Any) -> Any:
        text = prompt[-1]["content"]
        self.asked.append(text)
        if "w says 3" in text:
            raise UnparsableReply("no")
        said = text.split(" answered ===\n\n")[1:]
        scores = [{"justification": "so", "score": 90 if one.startswith("w") else 40} for one in said]
        names = MK_RAG.criteria
        reply = {f"system_{i}": dict.fromkeys(names, score) for i, score in enumerate(scores, 1)}
        return reply_form(schema).parse(Reply(json.dumps(reply)))

    def samples(self, *_: Any, **__: Any) -> list[str]:
        raise NotImplementedError


def test_each_system_stands_in_each_place_as_often() -> None:
    places = Counter((a.system, i) for call in plan_rating_calls(ASKED, ANSWERS) for i, a in enumerate(call.answers))
    assert set(places.values()) == {1}
    twice = Counter(
        (a.system, i) for c in plan_rating_calls(ASKED[:2], ANSWERS, replicates=2) for i, a in enumerate(c.answers)
    )
    assert max(twice.values()) == 2
    alone = plan_rating_calls(ASKED, ANSWERS, one_system=True)
    assert {len(call.answers) for call in alone} == {1}
    assert len(alone) == 16


def test_scores_go_to_whom_they_are_for() -> None:
    judge = Rater()
    rows = list(rate_answers(MK_RAG, plan_rating_calls(ASKED, ANSWERS), judge, tokenizer=LocalTokenizer()))
    assert len(rows) == 4 * 4 * 6
    assert {row.value for row in rows if row.system == "w" and row.status == "ok"} == {90.0}
    assert {row.status for row in rows if row.question == "q3"} == {"invalid"}
    found = mean_ratings(rows)
    assert found["recall"]["w"] == {"q0": 90.0, "q1": 90.0, "q2": 90.0}
    assert set(found["depth"]["z"].values()) == {40.0}
    assert "z found this." in judge.asked[0]
    one = list(
        rate_answers(MK_RAG, plan_rating_calls(ASKED[:1], ANSWERS, one_system=True), judge, tokenizer=LocalTokenizer())
    )
    assert {row.place for row in one} == {1}


def test_a_failed_answer_is_left_out_and_nothing_found_is_said() -> None:
    nothing = SystemAnswer("v", "q0", "")
    failed = SystemAnswer("u", "q0", "", failed="down")
    (call,) = plan_rating_calls(ASKED[:1], {"v": {"q0": nothing}, "u": {"q0": failed}})
    assert [answer.system for answer in call.answers] == ["v"]
    text = render_systems(call.answers, LocalTokenizer(), 10)
    assert "(nothing was found)" in text
    assert "(no answer was given)" in text
    assert plan_rating_calls(ASKED[:1], {"u": {"q0": failed}}) == []


def test_what_was_found_is_cut_at_the_same_length() -> None:
    ruler = LocalTokenizer()
    assert truncate_tokens("one two three four", ruler, 2) == "one two"
    assert truncate_tokens("one two", ruler, 2) == "one two"
    assert len(ruler(truncate_tokens("組紐は十月に届きます。" * 9, ruler, 12))) <= 12


def test_a_score_beyond_its_bounds_is_asked_for_again() -> None:
    reply = '{"system_1": {"recall": {"justification": "", "score": 101}}}'
    kind: Any = build_rating_form(("recall",), 1)
    with pytest.raises(MalformedReply, match="from 0 to 100"):
        reply_form(kind).parse(Reply(reply))
