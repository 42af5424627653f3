"""Verdicts and answers -> panels: present effects are found, absent ones are not."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from benchmarks.biases import CLUSTERS, DEBIASED_DESIGN, DESIGNS, Judge, alarm, false_positives, sized, study

from kumihimo.evaluate.bias import (
    BiasReport,
    Proportion,
    adjust_for_length,
    cohen_kappa,
    compare_with_self,
    measure_bias,
    measure_judge_agreement,
    measure_length_bias,
    measure_order_bias,
)
from kumihimo.evaluate.comparison import compare_by_criteria
from kumihimo.evaluate.judging.refusals import Refusals
from kumihimo.evaluate.points import CriterionPair, JudgedPoints, points_by_pair
from kumihimo.evaluate.records import EvalQuestion, SystemAnswer, Verdict, Winner
from kumihimo.evaluate.statistics import UndefinedEstimate, share_without_gap
from kumihimo.llm.local_embedder import LocalTokenizer
from tests.evaluate.fake_judges import make_answers, make_questions

TOKENIZER = LocalTokenizer()


def test_order_bias_makes_no_false_difference() -> None:
    """`python -m benchmarks.biases` prints the whole table, 1,000 studies a cell."""
    fixed, _, even = DESIGNS
    assert false_positives(Judge(20), even, 120) <= 7.5
    assert false_positives(Judge(20), fixed, 30) >= 60


def test_the_alarm_of_a_system_against_itself() -> None:
    fixed, _, even = DESIGNS
    assert alarm(Judge(20), fixed, 20) >= 60
    assert alarm(Judge(20), even, 40) <= 15


def test_length_bias_is_found() -> None:
    rng = random.Random(4)
    sizes, longer = sized(rng, 0.5)
    for length, rings in ((100.0, True), (0.0, False)):
        judged = JudgedPoints(
            points_by_pair(study(Judge(length=length), DEBIASED_DESIGN, rng, longer)), CLUSTERS, sizes
        )
        (panel,), (rate,) = measure_length_bias(judged), adjust_for_length(judged)
        assert (bool(panel.alarm), bool(rate.alarm)) == (rings, rings)
        assert rate.matched.value == pytest.approx(50, abs=6)
        assert rate.adjusted.value == pytest.approx(50, abs=6)
    assert panel.longer.n


def row(question: str, first: str, winner: Winner, replicate: int = 0, **more: str) -> Verdict:
    status = "ok" if winner else "invalid"
    verdict = Verdict("debiased", "c", question, "x", "y", first, replicate, winner, status=status)  # type: ignore[arg-type]
    return replace(verdict, **more)  # type: ignore[arg-type]


def test_the_order_effect_is_counted() -> None:
    rows = [row("q", "a", "a"), row("q", "b", "b"), row("r", "a", "a"), row("r", "b", "a")]
    rows += [row("s", "a", "tie"), row("s", "b", ""), row("t", "a", "b", b="x")]
    (order,) = measure_order_bias(rows)
    assert (order.flips, order.first) == (Proportion(1, 2), Proportion(3, 4))
    assert (order.ties, order.invalid, order.failed) == (Proportion(1, 5), Proportion(1, 6), Proportion(0, 6))
    assert Proportion(0, 0).percent is None


def test_a_second_judge_is_compared_with_the_first() -> None:
    first: list[Winner] = ["a", "b", "a", "b"]
    second: list[Winner] = ["a", "b", "b", "b"]
    rows = [row(q, "a", w) for q, w in zip("qrst", first, strict=True)]
    rows += [row(q, "a", w, role="second_judge") for q, w in zip("qrst", second, strict=True)]
    (result,) = measure_judge_agreement(rows)
    assert (result.alike, result.kappa) == (Proportion(3, 4), 0.5)
    same_verdicts = [row("q", "a", "a"), row("q", "a", "a", role="second_judge")]
    assert (measure_judge_agreement(same_verdicts)[0].kappa, bool(measure_judge_agreement(same_verdicts)[0].why)) == (
        None,
        True,
    )
    assert measure_judge_agreement(rows[:4]) == ()
    assert cohen_kappa([("a", "b"), ("b", "a")]) == -1.0


def bias_of(winner: Callable[[str, int], Winner], count: int = 30, criteria: tuple[str, ...] = ("c",)) -> BiasReport:
    """Return the panels of x against y for this judge."""
    question_rows = make_questions(count)
    rows = [
        replace(row(q.id, first, winner(first, i)), criterion=criterion, judge="m temperature=1.0")
        for i, q in enumerate(question_rows)
        for first in "ab"
        for criterion in criteria
    ]
    answers = {name: make_answers(name, [f"{name} says {i}" for i in range(count)]) for name in "xy"}
    return measure_bias(rows, question_rows, answers, TOKENIZER)


def test_ties_and_a_single_question_are_inconclusive() -> None:
    tied = bias_of(lambda _, __: "tie")
    assert (tied.adjusted[0].raw.value, tied.adjusted[0].raw.differs_from_even) == (50.0, False)
    assert tied.adjusted[0].adjusted.value is None
    assert tied.adjusted[0].adjusted.why == "the difference in length is always the same"
    single = bias_of(lambda _, __: "a", 1)
    assert (single.adjusted[0].raw.value, single.adjusted[0].raw.differs_from_even) == (100.0, False)
    assert single.adjusted[0].raw.why == "no interval: fewer than 5 tasks"
    empty = measure_bias([], [], {}, TOKENIZER)
    assert (empty.orders, empty.alarms) == ((), ())


def test_a_system_that_wins_every_criterion_raises_an_alarm() -> None:
    four = ("comprehensiveness", "diversity", "empowerment", "directness")
    report = bias_of(lambda _, __: "b", criteria=four)
    assert [(c.winner, c.loser) for c in report.controls] == [("y", "x")]
    assert any("directness too" in alarm for alarm in report.alarms)
    assert bias_of(lambda _, __: "b", criteria=four[:3]).controls == ()


def test_a_judge_of_its_own_answers_is_named() -> None:
    (judging,) = bias_of(lambda _, __: "tie").own
    assert (judging.judge, judging.systems) == ("m temperature=1.0", ("x", "y"))
    assert "set another [judge]" in judging.alarm


def test_an_empty_answer_has_no_length() -> None:
    question_rows = [EvalQuestion("q", "?")]
    answers = {"x": {"q": SystemAnswer("x", "q", "")}, "y": {"q": SystemAnswer("y", "q", "")}}
    report = measure_bias([row("q", "a", "tie"), row("q", "b", "tie")], question_rows, answers, TOKENIZER)
    assert (report.tokens, report.adjusted[0].matched.n) == ({"x": 0.0, "y": 0.0}, 1)


def test_lengths_are_those_of_the_text_without_references() -> None:
    texts = {
        "x": "It left at nine [1].\n\n### References\n\n- [1] a/very/long/name/of/a/file.md",
        "y": "It left at nine.",
    }
    answers = {name: {"q": SystemAnswer(name, "q", text)} for name, text in texts.items()}
    report = measure_bias(
        [row("q", "a", "tie"), row("q", "b", "tie")], [EvalQuestion("q", "When?")], answers, TOKENIZER
    )
    assert report.tokens["x"] == report.tokens["y"] > 3
    (rate,) = report.adjusted
    assert (rate.tokens_a, rate.tokens_b, rate.matched.n) == (report.tokens["x"], report.tokens["y"], 1)
    assert report.refusals == (Refusals("x", 0, 0, 0, 1), Refusals("y", 0, 0, 0, 1))


def test_intervals_of_a_system_against_itself_are_by_task() -> None:
    scores = {CriterionPair("p", "c", "x", "x"): {f"q{i}": 100.0 if i % 25 < 16 else 0.0 for i in range(125)}}
    (by_task,) = compare_with_self(scores, CLUSTERS | {f"q{i}": f"t{i % 25}" for i in range(125)})
    (by_question,) = compare_with_self(scores, {f"q{i}": str(i) for i in range(125)})
    assert (bool(by_task.alarm), bool(by_question.alarm)) == (False, True)


@pytest.mark.parametrize(
    ("shares", "gaps", "why"),
    [
        ([1.0] * 9, [1, 2, 3] * 3, "always wins"),
        ([1.0, 1, 1, 0, 0, 0], [3, 2, 1, -1, -2, -3], "length alone"),
        ([0.5] * 9, [4] * 9, "always the same"),
        ([0.5], [1], "fewer than 5"),
    ],
)
def test_an_undefined_adjusted_rate_has_a_reason(shares: list[float], gaps: list[float], why: str) -> None:
    with pytest.raises(UndefinedEstimate, match=why):
        share_without_gap(shares, gaps, [str(i) for i in range(len(shares))])


def test_logistic_regression_equals_scipys() -> None:
    from math import exp, log, tanh

    from scipy.optimize import minimize

    rng = random.Random(1)
    gaps = [rng.gauss(20, 60) for _ in range(80)]
    shares = [rng.choice((0.0, 0.5, 1.0)) if gap < 0 else rng.choice((0.5, 1.0)) for gap in gaps]
    spread = (sum(gap * gap for gap in gaps) / len(gaps)) ** 0.5

    def loss(b: list[float]) -> float:
        ps = [1 / (1 + exp(-b[0] - b[1] * tanh(gap / spread))) for gap in gaps]
        return -sum(y * log(p) + (1 - y) * log(1 - p) for y, p in zip(shares, ps, strict=True))

    theirs = 1 / (1 + exp(-minimize(loss, [0.0, 0.0]).x[0]))
    ours, (low, high) = share_without_gap(shares, gaps, [str(i) for i in range(80)])
    assert ours == pytest.approx(theirs, abs=1e-4)
    assert low < ours < high


def test_rates_are_corrected_within_a_criterion() -> None:
    rng = random.Random(0)
    mixed = {f"q{i}": rng.choice((0.0, 50.0, 100.0)) for i in range(60)}
    better = {question: 100.0 for question in mixed}
    pairs = {CriterionPair("debiased", c, "x", b): s for c in ("c", "d") for b, s in (("y", mixed), ("z", better))}
    comparisons = compare_by_criteria(pairs, {question: question for question in mixed})
    assert [comparison.family for comparison in comparisons] == [2, 2, 2, 2]
    assert all(comparison.corrected >= comparison.p for comparison in comparisons)
    assert (comparisons[1].mean, comparisons[1].corrected < 1e-9) == (100.0, True)


def test_points_at_equal_distance_from_50_are_tied() -> None:
    from kumihimo.evaluate.statistics import signed_rank

    high, low = 200 / 3, 100 / 3
    assert high - 50 != 50 - low
    assert signed_rank([value - 50 for value in [high, low] * 20]).z == 0
