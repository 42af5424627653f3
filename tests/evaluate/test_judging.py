"""answers + a judge -> verdicts: published protocols, balanced orders, counted failures."""

from __future__ import annotations

from collections import Counter

import pytest

from kumihimo.core.errors import BudgetExceeded, ItemFailed, ModelError, SettingsError, UnparsableReply
from kumihimo.evaluate.judging.protocols import DEBIASED, DIFFERENTIAL, GRAPHRAG, LIGHTRAG, PROTOCOLS, JudgeProtocol
from kumihimo.evaluate.judging.verdicts import count_unanswered, judge_pairs, plan_judge_calls, sample_calls
from kumihimo.evaluate.points import CriterionPair, points_by_pair, with_swapped_pairs
from kumihimo.evaluate.records import SystemAnswer, Verdict
from tests.evaluate.fake_judges import FakeJudge, make_answers, make_questions, split_pair_prompt

QUESTIONS = make_questions(4)
ANSWERS = {name: make_answers(name, [f"{name} says {i}." for i in range(4)]) for name in ("x", "y", "z")}


def prefer_first(one: str, other: str, criterion: str, sample: int) -> int:
    return 1


def prefer_x(one: str, other: str, criterion: str, sample: int) -> int:
    """Prefer x; otherwise choose a tie."""
    return 1 if one.startswith("x") else 2 if other.startswith("x") else 0


@pytest.mark.parametrize(
    ("protocol", "count"), [(GRAPHRAG, 3 * 4 * 4 * 5), (LIGHTRAG, 3 * 4 * 2), (DEBIASED, 3 * 4 * 4 * 2 * 3)]
)
def test_protocols_make_the_documented_number_of_calls(protocol: JudgeProtocol, count: int) -> None:
    calls = plan_judge_calls(protocol, QUESTIONS, ANSWERS)
    judge = FakeJudge(prefer_x)
    rows = list(judge_pairs(protocol, calls, judge))
    assert len(calls) == len(judge.prompts) == len(set(judge.prompts)) == count
    assert len(rows) == count * (4 if protocol.one_call else 1)
    assert {row.criterion for row in rows} == set(protocol.criteria)
    orders = Counter(row.first for row in rows)
    assert orders["b"] == (0 if protocol is GRAPHRAG else orders["a"])
    for pair, scores in points_by_pair(rows).items():
        assert set(scores.values()) == {100.0} if pair.a == "x" else len(set(scores.values())) == 1


def test_workers_do_not_change_the_order_of_verdicts() -> None:
    calls = plan_judge_calls(DEBIASED, QUESTIONS, ANSWERS)
    assert [*judge_pairs(DEBIASED, calls, FakeJudge(prefer_x))] == [
        *judge_pairs(DEBIASED, calls, FakeJudge(prefer_x, workers=4))
    ]


def test_fixed_orders_favour_the_first_answer() -> None:
    fixed, even = (
        points_by_pair(judge_pairs(protocol, plan_judge_calls(protocol, QUESTIONS, ANSWERS), FakeJudge(prefer_first)))
        for protocol in (GRAPHRAG, DEBIASED)
    )
    assert {v for scores in fixed.values() for v in scores.values()} == {100.0}
    assert {v for scores in even.values() for v in scores.values()} == {50.0}
    calls = plan_judge_calls(GRAPHRAG, QUESTIONS, ANSWERS, order="alternate")
    alternated = points_by_pair(judge_pairs(GRAPHRAG, calls, FakeJudge(prefer_first)))
    assert {v for scores in alternated.values() for v in scores.values()} == {60.0}


def test_prompts_show_answers_without_names() -> None:
    judge = FakeJudge(prefer_first)
    calls = plan_judge_calls(DEBIASED, QUESTIONS[:1], {"left:C0": ANSWERS["x"], "right": ANSWERS["y"]}, replicates=1)
    list(judge_pairs(DEBIASED, calls, judge))
    prompts = [prompt for prompt, _ in judge.prompts]
    assert not any("left:C0" in prompt or "right" in prompt for prompt in prompts)
    assert prompts[0].index("x says 0.") < prompts[0].index("y says 0.")
    assert any(prompt.index("y says 0.") < prompt.index("x says 0.") for prompt in prompts)


def test_markup_is_removed_by_protocol() -> None:
    marked = {
        "x": make_answers("x", ["# Cause\n\n**Since** `it` is so [1].\n\n# Effect\n\nIt is so."]),
        "y": make_answers("y", [""]),
    }
    for protocol, expected in (
        (DEBIASED, "Cause\n\nSince it is so.\n\nEffect\n\nIt is so."),
        (GRAPHRAG, marked["x"]["q0"].text),
    ):
        judge = FakeJudge(prefer_first)
        list(judge_pairs(protocol, plan_judge_calls(protocol, QUESTIONS[:1], marked, replicates=1), judge))
        one, other, _ = split_pair_prompt([{"content": judge.prompts[0][0]}])
        assert (one, other) == (expected, "(no answer was given)")
    judge = FakeJudge(prefer_first)
    calls = plan_judge_calls(DEBIASED, QUESTIONS[:1], marked, replicates=1)
    list(judge_pairs(DEBIASED, calls, judge, strip="citations"))
    assert "**Since** `it` is so." in judge.prompts[0][0]


def test_failed_answers_are_not_judged() -> None:
    broken = {**ANSWERS["y"], "q1": SystemAnswer("y", "q1", "", failed="it broke off")}
    missing = {question: answer for question, answer in ANSWERS["z"].items() if question != "q0"}
    answers = {"x": ANSWERS["x"], "y": broken, "z": missing}
    calls = plan_judge_calls(GRAPHRAG, QUESTIONS, answers, criteria=["diversity"], replicates=1)
    calls_by_pair = Counter((call.a.system, call.b.system) for call in calls)
    assert calls_by_pair == {("x", "y"): 3, ("x", "z"): 3, ("y", "z"): 2}
    assert count_unanswered(QUESTIONS, answers) == {"y": 1, "z": 1}


def test_invalid_and_failed_replies_are_rows() -> None:
    def decide(one: str, other: str, criterion: str, sample: int) -> int:
        if "says 0" in one:
            raise UnparsableReply("3 replies that cannot be read")
        if "says 1" in one:
            raise BudgetExceeded("not asked")
        return 1

    calls = plan_judge_calls(DEBIASED, QUESTIONS, {"x": ANSWERS["x"], "y": ANSWERS["y"]}, criteria=["directness"])
    rows = list(judge_pairs(DEBIASED, calls, FakeJudge(decide)))
    assert Counter(row.status for row in rows) == {"invalid": 6, "failed": 6, "ok": 12}
    assert {row.why for row in rows if row.status != "ok"} == {"3 replies that cannot be read", "not asked"}
    (scores,) = points_by_pair(rows).values()
    assert set(scores) == {"q2", "q3"}

    def down(*_: object) -> int:
        raise ModelError("the key is wrong")

    with pytest.raises(ModelError):
        list(judge_pairs(DEBIASED, calls, FakeJudge(down)))


def test_the_differential_protocol_asks_what_only_one_answer_says() -> None:
    answers = {"x": ANSWERS["x"], "y": ANSWERS["y"]}
    judge = FakeJudge(lambda one, other, criterion, sample: 1 if one.startswith("x") else 2)
    calls = plan_judge_calls(DIFFERENTIAL, QUESTIONS, answers, criteria=["diversity"])
    assert Counter(call.first for call in calls) == {"a": 12, "b": 12}
    rows = list(judge_pairs(DIFFERENTIAL, calls, judge))
    assert {(row.protocol, row.winner) for row in rows} == {("differential", "a")}
    assert all("the second alone says" in prompt for prompt, _ in judge.prompts)


def test_too_many_invalid_replies_stop_the_run() -> None:
    def decide(one: str, other: str, criterion: str, sample: int) -> int:
        if sample == 3:
            raise UnparsableReply("no")
        return 0

    answers = {name: make_answers(name, [f"{name} {i}" for i in range(40)]) for name in "xy"}
    calls = plan_judge_calls(DEBIASED, make_questions(40), answers)
    judge = FakeJudge(decide)
    with pytest.raises(ItemFailed, match=r"stopped: \d+ of 1\d\d replies of judge .*--max-invalid"):
        list(judge_pairs(DEBIASED, calls, judge, max_invalid=2))
    assert 100 <= len(judge.prompts) < 200 < len(calls)
    assert len(list(judge_pairs(DEBIASED, calls, FakeJudge(decide)))) == len(calls)


def test_both_orders_count_equally_often() -> None:
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


def test_reversed_pairs_are_merged() -> None:
    rows = [
        Verdict("p", "c", "q", "x", "y", "a", 0, "a"),
        Verdict("p", "c", "r", "y", "x", "a", 0, "b"),
        Verdict("p", "c", "s", "y", "x", "a", 0, "tie"),
    ]
    assert points_by_pair(rows) == {CriterionPair("p", "c", "x", "y"): {"q": 100.0, "r": 100.0, "s": 50.0}}


def test_another_generation_is_compared_with_the_first() -> None:
    again = {"x": make_answers("x", [f"x says {i}." for i in range(4)], 1)}
    calls = plan_judge_calls(DEBIASED, QUESTIONS, {"x": ANSWERS["x"]}, other_answers=again, criteria=["directness"])
    judge = FakeJudge(prefer_first)
    rows = list(judge_pairs(DEBIASED, calls, judge))
    # the answers are identical, but each order is a call of its own
    assert len(set(judge.prompts)) == len(rows) == 4 * 6
    assert points_by_pair(rows) == {}
    (scores,) = points_by_pair(rows, self_pairs=True).values()
    assert set(scores.values()) == {50.0}


def test_the_sample_for_the_second_judge_is_fixed() -> None:
    questions = make_questions(60)
    answers = {name: make_answers(name, [f"{name} {i}" for i in range(60)]) for name in "xyz"}
    calls = plan_judge_calls(DEBIASED, questions, answers)
    sample = sample_calls(calls, 10)
    assert 0.08 < len(sample) / len(calls) < 0.12
    fewer = plan_judge_calls(DEBIASED, questions[:30], answers, criteria=["diversity"])
    assert sample_calls(fewer, 10) == [call for call in fewer if call in sample]
    assert (sample_calls(calls, 0), sample_calls(calls, 100)) == ([], calls)


def test_unsuitable_options_are_rejected() -> None:
    with pytest.raises(SettingsError, match="did you mean 'diversity'"):
        plan_judge_calls(DEBIASED, QUESTIONS, ANSWERS, criteria=["diverse"])
    with pytest.raises(SettingsError, match="all criteria in one call"):
        plan_judge_calls(LIGHTRAG, QUESTIONS, ANSWERS, criteria=["diversity"])
    with pytest.raises(SettingsError, match="leave out --order"):
        plan_judge_calls(DEBIASED, QUESTIONS, ANSWERS, order="fixed")
    against_y = plan_judge_calls(DEBIASED, QUESTIONS, ANSWERS, against="y", criteria=["diversity"], replicates=1)
    assert len(against_y) == 2 * 4 * 2
    assert list(PROTOCOLS) == ["debiased", "differential", "graphrag", "lightrag", "mk"]
