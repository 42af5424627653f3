"""answers + a judge -> six scores each: all systems in all places, nameless, with as much of what each found."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from kumihimo.core.errors import Malformed, Unreadable
from kumihimo.evaluate.judging.forms import rated
from kumihimo.evaluate.judging.protocols import MK_RAG
from kumihimo.evaluate.judging.ratings import cut, means, ratings, shown, told
from kumihimo.evaluate.records import Answered
from kumihimo.llm.local_embedder import LocalRuler
from kumihimo.llm.structured import Reply, form
from tests.evaluate.fake_judges import answered, questions

ASKED = questions(4)
ANSWERS = {name: answered(name, [f"{name} says {i}." for i in range(4)]) for name in "wxyz"}


class Rater:
    """Gives 90 to w, else 40, wherever it stands."""

    mark, workers = "rater", 1

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, prompt: Any, *, into: Any = None, **_: Any) -> Any:
        text = prompt[-1]["content"]
        self.asked.append(text)
        if "w says 3" in text:
            raise Unreadable("no")
        said = text.split(" answered ===\n\n")[1:]
        scores = [{"justification": "so", "score": 90 if one.startswith("w") else 40} for one in said]
        names = MK_RAG.criteria
        reply = {f"system_{i}": dict.fromkeys(names, score) for i, score in enumerate(scores, 1)}
        return form(into).read(Reply(json.dumps(reply)))

    def samples(self, *_: Any, **__: Any) -> list[str]:
        raise NotImplementedError


def test_each_system_stands_in_each_place_as_often() -> None:
    places = Counter((a.system, i) for call in shown(ASKED, ANSWERS) for i, a in enumerate(call.answers))
    assert set(places.values()) == {1}
    twice = Counter((a.system, i) for c in shown(ASKED[:2], ANSWERS, replicates=2) for i, a in enumerate(c.answers))
    assert max(twice.values()) == 2
    alone = shown(ASKED, ANSWERS, alone=True)
    assert {len(call.answers) for call in alone} == {1}
    assert len(alone) == 16


def test_scores_go_to_whom_they_are_for() -> None:
    judge = Rater()
    rows = list(ratings(MK_RAG, shown(ASKED, ANSWERS), judge, ruler=LocalRuler()))
    assert len(rows) == 4 * 4 * 6
    assert {row.value for row in rows if row.system == "w" and row.status == "ok"} == {90.0}
    assert {row.status for row in rows if row.question == "q3"} == {"invalid"}
    found = means(rows)
    assert found["recall"]["w"] == {"q0": 90.0, "q1": 90.0, "q2": 90.0}
    assert set(found["depth"]["z"].values()) == {40.0}
    assert "z found this." in judge.asked[0]
    one = list(ratings(MK_RAG, shown(ASKED[:1], ANSWERS, alone=True), judge, ruler=LocalRuler()))
    assert {row.place for row in one} == {1}


def test_a_failed_answer_is_left_out_and_nothing_found_is_said() -> None:
    nothing = Answered("v", "q0", "")
    failed = Answered("u", "q0", "", failed="down")
    (call,) = shown(ASKED[:1], {"v": {"q0": nothing}, "u": {"q0": failed}})
    assert [answer.system for answer in call.answers] == ["v"]
    text = told(call.answers, LocalRuler(), 10)
    assert "(nothing was found)" in text
    assert "(no answer was given)" in text
    assert shown(ASKED[:1], {"u": {"q0": failed}}) == []


def test_what_was_found_is_cut_at_the_same_length() -> None:
    ruler = LocalRuler()
    assert cut("one two three four", ruler, 2) == "one two"
    assert cut("one two", ruler, 2) == "one two"
    assert len(ruler(cut("組紐は十月に届きます。" * 9, ruler, 12))) <= 12


def test_a_score_beyond_its_bounds_is_asked_for_again() -> None:
    reply = '{"system_1": {"recall": {"justification": "", "score": 101}}}'
    kind: Any = rated(("recall",), 1)
    with pytest.raises(Malformed, match="from 0 to 100"):
        form(kind).read(Reply(reply))
