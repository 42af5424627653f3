"""points and measures of questions -> who is better: all pairs sum to 100, families, ties, few or unequal questions."""

from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
import pytest

from kumihimo.evaluate.comparison import (
    average_criteria,
    compare_by_criterion,
    compare_by_measure,
    compare_by_measures,
    compare_pair_by_measure,
    compare_pair_by_points,
    comparison_matrix,
    neighbouring_pairs,
    rank_systems,
    zero_method_for,
)
from kumihimo.evaluate.statistics import (
    bootstrap_interval,
    bradley_terry,
    bradley_terry_batch,
    holm_correct,
    signed_rank,
)

# Figure 2 of GraphRAG, podcast transcripts, comprehensiveness: the row over the column
FIGURE_2 = {
    ("SS", "TS"): 17, ("SS", "C0"): 28, ("SS", "C1"): 25, ("SS", "C2"): 22, ("SS", "C3"): 21, ("TS", "C0"): 50,
    ("TS", "C1"): 48, ("TS", "C2"): 43, ("TS", "C3"): 44, ("C0", "C1"): 53, ("C0", "C2"): 48, ("C0", "C3"): 49,
    ("C1", "C2"): 48, ("C1", "C3"): 50, ("C2", "C3"): 47,
}  # fmt: skip
TASKS = {f"q{i:03}": f"task {i // 5}" for i in range(125)}


def points(mean: float, seed: int) -> dict[str, float]:
    """Of 125 questions the means of five replicates each, which have that mean, but for a rounding."""
    rng = np.random.default_rng(seed)
    drawn = rng.binomial(5, mean / 100, size=125) * 20.0
    off = (mean * 125 - drawn.sum()) / 20
    drawn[: int(abs(off)) + 1] += 20 * np.sign(off)
    return dict(zip(TASKS, np.clip(drawn, 0, 100).tolist(), strict=True))


GRID = {sides: points(mean, i) for i, (sides, mean) in enumerate(FIGURE_2.items())}


def test_the_grid_of_the_paper() -> None:
    found = compare_by_criterion("comprehensiveness", GRID, TASKS, zeros=zero_method_for("graphrag"))
    assert {(one.a, one.b): round(one.mean) for one in found} == pytest.approx(FIGURE_2, abs=1)
    assert [one.family for one in found] == [15] * 15
    assert [one.corrected for one in found] == holm_correct([one.p for one in found])
    assert {(one.a, one.b) for one in found if one.is_significant} >= {
        ("SS", other) for other in ("TS", "C0", "C1", "C2", "C3")
    }
    for one in found:
        assert one.low <= one.mean <= one.high
        assert one.detectable
        assert one.corrected_detectable
        assert 50 < one.detectable < one.corrected_detectable < 80
        assert (one.z, one.p) == (lambda t: (t.z, t.p))(
            signed_rank([v - 50 for v in GRID[one.a, one.b].values()], "wilcox")
        )


def test_all_pairs_sum_to_100_exactly() -> None:
    cells = comparison_matrix(compare_by_criterion("m", GRID, TASKS))
    systems = {side for sides in GRID for side in sides}
    assert cells.keys() == set(permutations(systems, 2))
    for a, b in combinations(systems, 2):
        one, other = cells[a, b], cells[b, a]
        assert one.mean + other.mean == 100
        assert round(one.mean) + round(other.mean) == 100
        assert (one.z, one.effect, one.p) == (-other.z, -other.effect, other.p)
        assert (one.low, one.high) == pytest.approx((100 - other.high, 100 - other.low))


def test_ties_only_and_one_question_and_a_constant() -> None:
    ties = compare_pair_by_points("m", ("a", "b"), dict.fromkeys(TASKS, 50.0), TASKS)
    assert ties
    assert (ties.mean, ties.z, ties.p, ties.effect, ties.flipped, ties.shape.why) == (50, 0, 1, 0, 1, "constant")
    one = compare_pair_by_points("m", ("a", "b"), {"q000": 100.0}, TASKS)
    assert one
    assert (one.mean, one.n, one.low, one.high, one.detectable) == (100, 1, 100, 100, None)
    assert one.p > 0.05
    constant = compare_pair_by_points("m", ("a", "b"), dict.fromkeys(TASKS, 100.0), TASKS)
    assert constant
    assert 0 < constant.p < 1e-9
    assert constant.effect == 1
    assert compare_pair_by_points("m", ("a", "b"), {}, TASKS) is None


def test_only_questions_count_that_both_have() -> None:
    values = {"a": {"q1": 3.0, "q2": 5.0, "q3": 9.0}, "b": {"q2": 4.0, "q3": 7.0, "q4": 0.0}, "c": {"q9": 1.0}}
    found = compare_by_measure("claims", values, {})
    assert [(one.a, one.b, one.n, one.left_out, one.mean, one.family) for one in found] == [("a", "b", 2, 2, 1.5, 1)]
    assert found[0].swap_sides().mean == -1.5
    assert compare_pair_by_measure("claims", ("a", "c"), values, {}) is None
    uneven = compare_by_criterion(
        "m", {("a", "b"): {"q1": 100.0}, ("a", "c"): {"q1": 50.0, "q2": 0.0}, ("a", "a"): {"q1": 0.0}}, {}
    )
    assert [(one.b, one.n, one.left_out, one.family) for one in uneven] == [("b", 1, 1, 2), ("c", 2, 0, 2)]


def test_the_difference_that_can_be_detected_is_in_the_unit_of_the_measure() -> None:
    values = {
        "a": {q: 1000.0 * (i % 7) for i, q in enumerate(TASKS)},
        "b": {q: 900.0 * (i % 5) for i, q in enumerate(TASKS)},
    }
    small = {side: {q: v / 1000 for q, v in held.items()} for side, held in values.items()}
    [large], [little] = compare_by_measure("tokens", values, {}), compare_by_measure("tokens", small, {})
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
    found = compare_by_measures(values, TASKS, neighbouring_pairs(arms))
    assert [one.family for one in found] == [18] * 18
    assert [one.corrected for one in found] == holm_correct([one.p for one in found])


def test_an_order_with_its_ranks() -> None:
    found = rank_systems(GRID, TASKS)
    assert [one.rank for one in found] == [1, 2, 3, 4, 5, 6]
    assert found[-1].system == "SS"
    assert (found[-1].best, found[-1].worst) == (6, 6)
    assert all(one.best <= one.rank <= one.worst for one in found)
    assert rank_systems(GRID, TASKS) == found
    assert sum(one.strength for one in found) == pytest.approx(1)
    assert rank_systems({}, {}) == []


def test_those_that_are_alike_share_their_rank() -> None:
    alike = rank_systems({sides: dict.fromkeys(TASKS, 50.0) for sides in combinations("abc", 2)}, TASKS)
    assert [(one.system, one.rank, one.best, one.worst) for one in alike] == [
        ("a", 1, 1, 1),
        ("b", 1, 1, 1),
        ("c", 1, 1, 1),
    ]


def test_strengths_of_many_are_those_of_each() -> None:
    wins = np.random.default_rng(3).integers(1, 40, size=(5, 4, 4)).astype(float)
    for table, found in zip(wins * (1 - np.eye(4)), bradley_terry_batch(wins * (1 - np.eye(4))), strict=True):
        assert found.tolist() == pytest.approx(bradley_terry(table.tolist()), abs=1e-5)


def test_several_criteria_together() -> None:
    parts = [{("a", "b"): {"q1": 100.0, "q2": 0.0}}, {("a", "b"): {"q1": 50.0}, ("a", "c"): {"q1": 0.0}}]
    assert average_criteria(parts) == {("a", "b"): {"q1": 75.0}}
    assert average_criteria([]) == {}


def test_intervals_are_of_the_points() -> None:
    one = compare_pair_by_points("m", ("C2", "C3"), GRID["C2", "C3"], TASKS)
    assert one
    ordered = sorted(GRID["C2", "C3"])
    direct = bootstrap_interval([GRID["C2", "C3"][q] for q in ordered], [TASKS[q] for q in ordered])
    assert (one.low, one.high) == pytest.approx(direct)
