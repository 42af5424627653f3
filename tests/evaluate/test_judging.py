"""answers + a judge -> verdicts: each protocol as it is written, in even orders, nothing lost in silence."""

from __future__ import annotations

from collections import Counter

import pytest

from kumihimo.core.errors import BudgetExceeded, ItemFailed, ModelError, SettingsError, UnparsableReply
from kumihimo.evaluate.judging.calls import count_unanswered, plan_judge_calls, sample_calls
from kumihimo.evaluate.judging.plain_text import strip_markup
from kumihimo.evaluate.judging.protocols import DEBIASED, GRAPHRAG, LIGHTRAG, PROTOCOLS, JudgeProtocol
from kumihimo.evaluate.judging.verdicts import judge_pairs
from kumihimo.evaluate.points import CriterionPair, points_by_pair, with_swapped_pairs
from kumihimo.evaluate.records import SystemAnswer, Verdict
from tests.evaluate.fake_judges import Judge, answered, questions, shown

ASKED = questions(4)
ANSWERS = {name: answered(name, [f"{name} says {i}." for i in range(4)]) for name in ("x", "y", "z")}


def first(one: str, other: str, criterion: str, sample: int) -> int:
    return 1


def best_x(one: str, other: str, criterion: str, sample: int) -> int:
    """x wins, else it is a tie."""
    return 1 if one.startswith("x") else 2 if other.startswith("x") else 0


@pytest.mark.parametrize(
    ("protocol", "count"), [(GRAPHRAG, 3 * 4 * 4 * 5), (LIGHTRAG, 3 * 4 * 2), (DEBIASED, 3 * 4 * 4 * 2 * 3)]
)
def test_a_protocol_asks_as_often_as_it_says(protocol: JudgeProtocol, count: int) -> None:
    listed = plan_judge_calls(protocol, ASKED, ANSWERS)
    judge = Judge(best_x)
    rows = list(judge_pairs(protocol, listed, judge))
    assert len(listed) == len(judge.asked) == len(set(judge.asked)) == count
    assert len(rows) == count * (4 if protocol.one_call else 1)
    assert {row.criterion for row in rows} == set(protocol.criteria)
    orders = Counter(row.first for row in rows)
    assert orders["b"] == (0 if protocol is GRAPHRAG else orders["a"])
    for pair, scores in points_by_pair(rows).items():
        assert set(scores.values()) == {100.0} if pair.a == "x" else len(set(scores.values())) == 1


def test_verdicts_come_in_one_order_however_many_ask() -> None:
    listed = plan_judge_calls(DEBIASED, ASKED, ANSWERS)
    assert [*judge_pairs(DEBIASED, listed, Judge(best_x))] == [*judge_pairs(DEBIASED, listed, Judge(best_x, workers=4))]


def test_who_is_first_wins_in_one_order_and_is_even_in_both() -> None:
    fixed, even = (
        points_by_pair(judge_pairs(protocol, plan_judge_calls(protocol, ASKED, ANSWERS), Judge(first)))
        for protocol in (GRAPHRAG, DEBIASED)
    )
    assert {v for scores in fixed.values() for v in scores.values()} == {100.0}
    assert {v for scores in even.values() for v in scores.values()} == {50.0}
    turned = points_by_pair(
        judge_pairs(GRAPHRAG, plan_judge_calls(GRAPHRAG, ASKED, ANSWERS, order="alternate"), Judge(first))
    )
    assert {v for scores in turned.values() for v in scores.values()} == {60.0}


def test_a_call_shows_the_answers_and_no_names() -> None:
    judge = Judge(first)
    ask = plan_judge_calls(DEBIASED, ASKED[:1], {"left:C0": ANSWERS["x"], "right": ANSWERS["y"]}, replicates=1)
    list(judge_pairs(DEBIASED, ask, judge))
    told = [prompt for prompt, _ in judge.asked]
    assert not any("left:C0" in prompt or "right" in prompt for prompt in told)
    assert told[0].index("x says 0.") < told[0].index("y says 0.")
    assert any(prompt.index("y says 0.") < prompt.index("x says 0.") for prompt in told)


def test_formatting_is_taken_out_where_the_protocol_says_so() -> None:
    marked = {"x": answered("x", ["# Why\n\n**Since** `it` is so [1]."]), "y": answered("y", [""])}
    for protocol, told in ((DEBIASED, "Why\n\nSince it is so."), (GRAPHRAG, "# Why\n\n**Since** `it` is so [1].")):
        judge = Judge(first)
        list(judge_pairs(protocol, plan_judge_calls(protocol, ASKED[:1], marked, replicates=1), judge))
        one, other, _ = shown([{"content": judge.asked[0][0]}])
        assert (one, other) == (told, "(no answer was given)")
    judge = Judge(first)
    list(judge_pairs(DEBIASED, plan_judge_calls(DEBIASED, ASKED[:1], marked, replicates=1), judge, strip="citations"))
    assert "**Since** `it` is so." in judge.asked[0][0]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("| a | b |\n|---|---|\n| 1 | 2 |", "a | b \n 1 | 2"),
        ("snake_case_name and 2 * 3 * 4", "snake_case_name and 2 * 3 * 4"),
        ("組紐は**十月**に届きます。[1][2]\n1. 春\n2. 夏", "組紐は十月に届きます。\n春\n夏"),
        ("Cut [Data: Reports (1, 2, +more)].\n```py\nx\n```", "Cut.\nx"),
        ("1990. A year", "1990. A year"),
    ],
)
def test_words_stay_where_marks_go(text: str, told: str) -> None:
    assert strip_markup(text) == told
    assert strip_markup(text, "none") == text


def test_an_answer_that_failed_is_not_judged_and_is_counted() -> None:
    broken = {**ANSWERS["y"], "q1": SystemAnswer("y", "q1", "", failed="it broke off")}
    missing = {question: answer for question, answer in ANSWERS["z"].items() if question != "q0"}
    answers = {"x": ANSWERS["x"], "y": broken, "z": missing}
    listed = plan_judge_calls(GRAPHRAG, ASKED, answers, criteria=["diversity"], replicates=1)
    of = Counter((call.a.system, call.b.system) for call in listed)
    assert of == {("x", "y"): 3, ("x", "z"): 3, ("y", "z"): 2}
    assert count_unanswered(ASKED, answers) == {"y": 1, "z": 1}


def test_what_cannot_be_read_or_had_is_a_row_all_the_same() -> None:
    def decide(one: str, other: str, criterion: str, sample: int) -> int:
        if "says 0" in one:
            raise UnparsableReply("3 replies that cannot be read")
        if "says 1" in one:
            raise BudgetExceeded("not asked")
        return 1

    listed = plan_judge_calls(DEBIASED, ASKED, {"x": ANSWERS["x"], "y": ANSWERS["y"]}, criteria=["directness"])
    rows = list(judge_pairs(DEBIASED, listed, Judge(decide)))
    assert Counter(row.status for row in rows) == {"invalid": 6, "failed": 6, "ok": 12}
    assert {row.why for row in rows if row.status != "ok"} == {"3 replies that cannot be read", "not asked"}
    (scores,) = points_by_pair(rows).values()
    assert set(scores) == {"q2", "q3"}

    def down(*_: object) -> int:
        raise ModelError("the key is wrong")

    with pytest.raises(ModelError):
        list(judge_pairs(DEBIASED, listed, Judge(down)))


def test_too_many_that_cannot_be_read_stop_the_run() -> None:
    def decide(one: str, other: str, criterion: str, sample: int) -> int:
        if sample == 3:
            raise UnparsableReply("no")
        return 0

    listed = plan_judge_calls(DEBIASED, questions(40), {n: answered(n, [f"{n} {i}" for i in range(40)]) for n in "xy"})
    judge = Judge(decide)
    with pytest.raises(ItemFailed, match=r"stopped: \d+ of 1\d\d replies of judge .*--max-invalid"):
        list(judge_pairs(DEBIASED, listed, judge, max_invalid=2))
    assert 100 <= len(judge.asked) < 200 < len(listed)
    assert len(list(judge_pairs(DEBIASED, listed, Judge(decide)))) == len(listed)


def test_as_many_verdicts_of_one_order_enter_as_of_the_other() -> None:
    def row(shown_first: str, replicate: int, winner: str) -> Verdict:
        status = "ok" if winner else "invalid"
        return Verdict("debiased", "c", "q", "x", "y", shown_first, replicate, winner, status=status)  # type: ignore[arg-type]

    rows = [row("a", 0, "a"), row("a", 1, "a"), row("a", 2, "a"), row("b", 0, ""), row("b", 1, "b"), row("b", 2, "")]
    pair = CriterionPair("debiased", "c", "x", "y")
    assert points_by_pair(rows) == {pair: {"q": 50.0}}
    assert points_by_pair(rows[:5]) == points_by_pair(rows)
    assert points_by_pair([row("a", 0, "a"), row("b", 0, "")]) == {pair: {}}
    second = [Verdict("debiased", "c", "q", "x", "y", "a", 0, "b", role="second_judge")]
    assert points_by_pair([*rows, *second]) == points_by_pair(rows)
    third = with_swapped_pairs({pair: {"q": 100 / 3}})
    assert third[pair]["q"] + third[pair.swapped]["q"] == 100.0


def test_pairs_that_were_compared_both_ways_are_one() -> None:
    rows = [
        Verdict("p", "c", "q", "x", "y", "a", 0, "a"),
        Verdict("p", "c", "r", "y", "x", "a", 0, "b"),
        Verdict("p", "c", "s", "y", "x", "a", 0, "tie"),
    ]
    assert points_by_pair(rows) == {CriterionPair("p", "c", "x", "y"): {"q": 100.0, "r": 100.0, "s": 50.0}}


def test_a_system_is_compared_with_itself_where_it_answered_again() -> None:
    again = {"x": answered("x", [f"x says {i}." for i in range(4)], 1)}
    listed = plan_judge_calls(DEBIASED, ASKED, {"x": ANSWERS["x"]}, other_answers=again, criteria=["directness"])
    judge = Judge(first)
    rows = list(judge_pairs(DEBIASED, listed, judge))
    assert len(set(judge.asked)) == len(rows) == 4 * 6  # word for word the same, and asked for each place all the same
    assert points_by_pair(rows) == {}
    (scores,) = points_by_pair(rows, self_pairs=True).values()
    assert set(scores.values()) == {50.0}


def test_the_sample_of_the_second_judge_is_the_same_each_time() -> None:
    asked = questions(60)
    answers = {name: answered(name, [f"{name} {i}" for i in range(60)]) for name in "xyz"}
    listed = plan_judge_calls(DEBIASED, asked, answers)
    chosen = sample_calls(listed, 10)
    assert 0.08 < len(chosen) / len(listed) < 0.12
    fewer = plan_judge_calls(DEBIASED, asked[:30], answers, criteria=["diversity"])
    assert sample_calls(fewer, 10) == [call for call in fewer if call in chosen]
    assert (sample_calls(listed, 0), sample_calls(listed, 100)) == ([], listed)


def test_what_does_not_go_together_is_said() -> None:
    with pytest.raises(SettingsError, match="did you mean 'diversity'"):
        plan_judge_calls(DEBIASED, ASKED, ANSWERS, criteria=["diverse"])
    with pytest.raises(SettingsError, match="all criteria in one call"):
        plan_judge_calls(LIGHTRAG, ASKED, ANSWERS, criteria=["diversity"])
    with pytest.raises(SettingsError, match="leave out --order"):
        plan_judge_calls(DEBIASED, ASKED, ANSWERS, order="fixed")
    assert (
        len(plan_judge_calls(DEBIASED, ASKED, ANSWERS, against="y", criteria=["diversity"], replicates=1)) == 2 * 4 * 2
    )
    assert list(PROTOCOLS) == ["debiased", "graphrag", "lightrag", "mk"]
