"""Points and measures of questions -> comparisons: sums of 100, families, ties, few or unequal questions."""

from __future__ import annotations

from itertools import combinations, permutations
from pathlib import Path

import numpy as np
import pytest

from kumihimo.evaluate.comparison import (
    Comparison,
    average_criteria,
    compare_by_criterion,
    compare_by_measures,
    comparison_matrix,
    neighbouring_pairs,
    rank_systems,
    zero_method_for,
)
from kumihimo.evaluate.power import find_questions_needed
from kumihimo.evaluate.records import EvalQuestion, Rating, Score
from kumihimo.evaluate.report.summary_data import load_study_results
from kumihimo.evaluate.statistics import (
    bootstrap_interval,
    bradley_terry_batch,
    holm_correct,
    signed_rank,
)
from kumihimo.evaluate.study import Study

# Figure 2 of GraphRAG, podcast transcripts, comprehensiveness: the row over the column
FIGURE_2 = {
    ("SS", "TS"): 17, ("SS", "C0"): 28, ("SS", "C1"): 25, ("SS", "C2"): 22, ("SS", "C3"): 21, ("TS", "C0"): 50,
    ("TS", "C1"): 48, ("TS", "C2"): 43, ("TS", "C3"): 44, ("C0", "C1"): 53, ("C0", "C2"): 48, ("C0", "C3"): 49,
    ("C1", "C2"): 48, ("C1", "C3"): 50, ("C2", "C3"): 47,
}  # fmt: skip
TASKS = {f"q{i:03}": f"task {i // 5}" for i in range(125)}


def points(mean: float, seed: int) -> dict[str, float]:
    """Return means of five replicates for 125 questions with this overall mean, up to rounding."""
    rng = np.random.default_rng(seed)
    values = rng.binomial(5, mean / 100, size=125) * 20.0
    missing = (mean * 125 - values.sum()) / 20
    values[: int(abs(missing)) + 1] += 20 * np.sign(missing)
    return dict(zip(TASKS, np.clip(values, 0, 100).tolist(), strict=True))


def compare_ab(values: dict[str, float]) -> Comparison | None:
    """Compare a with b by these points of a."""
    return next(iter(compare_by_criterion("m", {("a", "b"): values}, TASKS)), None)


GRID = {sides: points(mean, i) for i, (sides, mean) in enumerate(FIGURE_2.items())}


def test_the_grid_of_the_paper() -> None:
    comparisons = compare_by_criterion("comprehensiveness", GRID, TASKS, zeros=zero_method_for("graphrag"))
    assert {(pair.a, pair.b): round(pair.mean) for pair in comparisons} == pytest.approx(FIGURE_2, abs=1)
    assert [pair.family for pair in comparisons] == [15] * 15
    assert [pair.corrected for pair in comparisons] == holm_correct([pair.p for pair in comparisons])
    assert {(pair.a, pair.b) for pair in comparisons if pair.is_significant} >= {
        ("SS", system) for system in ("TS", "C0", "C1", "C2", "C3")
    }
    for pair in comparisons:
        assert pair.corrected_low < pair.low <= pair.mean <= pair.high < pair.corrected_high
        assert (pair.higher == "tie") is not pair.is_significant
        assert pair.higher in ("tie", "TS", "C0", "C1", "C2", "C3")  # never SS
        assert pair.detectable
        assert pair.corrected_detectable
        more, fewer = pair.questions_needed(5), pair.questions_needed(pair.corrected_detectable - 50)
        assert more
        assert (fewer in (125, 126), more > 125) == (True, True)
        assert 50 < pair.detectable < pair.corrected_detectable < 80
        assert (pair.z, pair.p) == (lambda t: (t.z, t.p))(
            signed_rank([v - 50 for v in GRID[pair.a, pair.b].values()], "wilcox")
        )


def test_all_pairs_sum_to_100_exactly() -> None:
    cells = comparison_matrix(compare_by_criterion("m", GRID, TASKS))
    systems = {side for sides in GRID for side in sides}
    assert cells.keys() == set(permutations(systems, 2))
    for a, b in combinations(systems, 2):
        forward, backward = cells[a, b], cells[b, a]
        assert forward.mean + backward.mean == 100
        assert round(forward.mean) + round(backward.mean) == 100
        assert (forward.z, forward.effect, forward.p) == (-backward.z, -backward.effect, backward.p)
        assert (forward.low, forward.high) == pytest.approx((100 - backward.high, 100 - backward.low))
        assert forward.corrected_low == pytest.approx(100 - backward.corrected_high)
        assert forward.higher == backward.higher


def test_ties_only_and_one_question_and_a_constant() -> None:
    ties = compare_ab(dict.fromkeys(TASKS, 50.0))
    assert ties
    assert (ties.mean, ties.z, ties.p, ties.effect, ties.flipped, ties.shape.why) == (50, 0, 1, 0, 1, "constant")
    single = compare_ab({"q000": 100.0})
    assert single
    assert (single.mean, single.n, single.low, single.high, single.detectable) == (100, 1, 100, 100, None)
    assert single.p > 0.05
    constant = compare_ab(dict.fromkeys(TASKS, 100.0))
    assert constant
    assert 0 < constant.p < 1e-9
    assert constant.effect == 1
    assert compare_ab({}) is None


def test_only_common_questions_count() -> None:
    values = {"a": {"q1": 3.0, "q2": 5.0, "q3": 9.0}, "b": {"q2": 4.0, "q3": 7.0, "q4": 0.0}, "c": {"q9": 1.0}}
    comparisons = compare_by_measures({"claims": values}, {})
    assert [(pair.a, pair.b, pair.n, pair.left_out, pair.mean, pair.family) for pair in comparisons] == [
        ("a", "b", 2, 2, 1.5, 1)
    ]
    assert comparisons[0].swap_sides().mean == -1.5
    assert compare_by_measures({"claims": values}, {}, [("a", "c")]) == []
    uneven = compare_by_criterion(
        "m", {("a", "b"): {"q1": 100.0}, ("a", "c"): {"q1": 50.0, "q2": 0.0}, ("a", "a"): {"q1": 0.0}}, {}
    )
    assert [(pair.b, pair.n, pair.left_out, pair.family) for pair in uneven] == [("b", 1, 1, 2), ("c", 2, 0, 2)]


def test_the_detectable_difference_has_the_unit_of_the_measure() -> None:
    values = {
        "a": {q: 1000.0 * (i % 7) for i, q in enumerate(TASKS)},
        "b": {q: 900.0 * (i % 5) for i, q in enumerate(TASKS)},
    }
    small = {side: {q: v / 1000 for q, v in by_question.items()} for side, by_question in values.items()}
    [large], [little] = (compare_by_measures({"tokens": each}, {}) for each in (values, small))
    assert large.detectable
    assert little.detectable
    assert large.detectable == pytest.approx(1000 * little.detectable)
    assert 0.3 < little.detectable < 1.5
    assert (large.z, large.p) == pytest.approx((little.z, little.p))


def test_neighbours_of_mk_are_one_family_of_18() -> None:
    arms = ["plain", "tags", "questions", "summary"]
    rng = np.random.default_rng(5)
    values = {
        metric: {
            arm: dict(zip(TASKS, rng.normal(50 + 5 * i, 9, 125).tolist(), strict=True)) for i, arm in enumerate(arms)
        }
        for metric in ("recall", "precision", "specificity", "breadth", "depth", "relevancy")
    }
    comparisons = compare_by_measures(values, TASKS, neighbouring_pairs(arms))
    assert [pair.family for pair in comparisons] == [18] * 18
    assert [pair.corrected for pair in comparisons] == holm_correct([pair.p for pair in comparisons])


def test_scores_and_retrieval_are_decided_by_sign_flips(tmp_path: Path) -> None:
    """Four wins without a loss among 300 questions are no significant difference."""
    study = Study(tmp_path)
    study.write("questions", [EvalQuestion(f"q{i}", "What?") for i in range(300)])
    rows = [Score("recall@5", s, f"q{i}", float(s == "a" or i > 3)) for s in ("a", "b") for i in range(300)]
    study.write("retrieval", rows)
    study.write("ratings", [Rating("mk", "depth", row.question, row.system, 1, 0, row.value) for row in rows])
    by_group = {m.group: m.comparisons[0] for m in load_study_results(study, "harbour").measures}
    pair = by_group["retrieval"]
    assert (pair.test, pair.p, pair.corrected, pair.higher) == ("sign flips", 0.125, 0.125, "tie")
    assert by_group["ratings"].test == "signed ranks"


def test_questions_needed_name_pairs_without_a_spread_and_no_precision(tmp_path: Path) -> None:
    study = Study(tmp_path)
    study.write("questions", [EvalQuestion(f"q{i}", "What?") for i in range(10)])
    names = {"recall@5": 0, "recall@1": 4, "precision@5": 4}  # the questions that b loses
    study.write(
        "retrieval",
        [
            Score(name, s, f"q{i}", float(s == "a" or i >= n))
            for name, n in names.items()
            for s in "ab"
            for i in range(10)
        ],
    )
    needed = {row.metric: row.questions for row in find_questions_needed(study, 10)}
    assert needed.pop("recall@5") is None
    assert [(name, bool(questions)) for name, questions in needed.items()] == [("recall@1", True)]


def test_systems_are_ranked_with_intervals() -> None:
    ranking = rank_systems(GRID, TASKS)
    assert [row.rank for row in ranking] == [1, 2, 3, 4, 5, 6]
    assert ranking[-1].system == "SS"
    assert (ranking[-1].best, ranking[-1].worst) == (6, 6)
    assert all(row.best <= row.rank <= row.worst for row in ranking)
    assert rank_systems(GRID, TASKS) == ranking
    assert sum(row.strength for row in ranking) == pytest.approx(1)
    assert rank_systems({}, {}) == []


def test_equal_systems_share_a_rank() -> None:
    ranking = rank_systems({sides: dict.fromkeys(TASKS, 50.0) for sides in combinations("abc", 2)}, TASKS)
    assert [(row.system, row.rank, row.best, row.worst) for row in ranking] == [
        ("a", 1, 1, 1),
        ("b", 1, 1, 1),
        ("c", 1, 1, 1),
    ]


def test_batch_strengths_equal_single_strengths() -> None:
    wins = np.random.default_rng(3).integers(1, 40, size=(5, 4, 4)).astype(float)
    for table, row in zip(wins * (1 - np.eye(4)), bradley_terry_batch(wins * (1 - np.eye(4))), strict=True):
        alone = bradley_terry_batch(table[None], steps=10_000, tolerance=1e-13)[0]
        assert row.tolist() == pytest.approx(alone.tolist(), abs=1e-5)


def test_criteria_are_averaged() -> None:
    parts = [{("a", "b"): {"q1": 100.0, "q2": 0.0}}, {("a", "b"): {"q1": 50.0}, ("a", "c"): {"q1": 0.0}}]
    assert average_criteria(parts) == {("a", "b"): {"q1": 75.0}}
    assert average_criteria([]) == {}


def test_the_interval_is_that_of_the_points() -> None:
    pair = compare_ab(GRID["C2", "C3"])
    assert pair
    ordered = sorted(GRID["C2", "C3"])
    direct = bootstrap_interval([GRID["C2", "C3"][q] for q in ordered], [TASKS[q] for q in ordered])
    assert (pair.low, pair.high) == pytest.approx(direct)
