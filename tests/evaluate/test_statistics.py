"""Numbers -> tests and intervals: checked against published tables, scipy and hand-computed cases."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from kumihimo.evaluate.statistics import (
    ZeroMethod,
    bootstrap_interval,
    bradley_terry_batch,
    check_normality,
    detectable_errors,
    holm_correct,
    questions_for,
    sign_flip_p,
    signed_rank,
    standard_error,
    two_sided_p,
    widen_interval,
)

# GraphRAG (arXiv:2404.16130), table 6: Z and corrected p of 15 pairs for each metric and data set; < is below .001
TABLE_6 = """
-.06/1 -1.56/.633 -4.1/< -3.42/.006 -6.2/< -7.45/< -8.17/< -8.12/< -8.85/< -1.96/.389 -.23/1 -1.62/.633 -.56/1 -.66/1 -1.97/.389
-2.03/.17 -3.62/.002 -5.07/< -5.63/< -6.3/< -7.78/< -8.34/< -8.44/< -8.27/< -.45/.777 -1.54/.371 -4.01/< -.86/.777 -2.94/.016 -3.68/.002
-.11/1 -.12/1 -2.84/.036 -2.39/.1 -7.12/< -7.33/< -8.21/< -8.3/< -8.43/< -.13/1 -1.5/.669 -3.27/.011 -2.6/.065 -2.98/.026 -.96/1
-1.38/.676 -1.88/.298 -2.16/.184 -4.07/< -3.57/.003 -4.92/< -6.29/< -5.53/< -4.85/< -3.61/.003 -3.14/.012 -.22/1 -3.47/.004 -.01/1 -.39/1
-4.3/< -3.76/.002 -2.2/.281 -1.27/1 -3.71/.003 -1.5/.936 -.55/1 -.57/1 -4.1/< -1.23/1 -2.54/.12 -1.73/.682 -1.78/.682 0/1 -.86/1
-3.32/.012 -.12/1 -.22/1 -1.2/1 -3.12/.022 -.84/1 -.2/1 -.08/1 -1.1/1 -3.9/.001 -2.16/.336 -1.45/1 -3.45/.008 -1.02/1 -.22/1
-4.09/< -2.41/.126 -2.23/.179 -2.23/.179 -6.17/< -4.83/< -4.67/< -4.69/< -3.96/< -2.87/.037 -2.06/.197 -1/.952 -1.8/.29 0/1 0/1
-3.68/.003 -2.91/.04 -2.12/.179 -2.56/.074 -4.82/< -3.19/.017 -3.65/.003 -2.86/.043 -2.68/.066 -2.17/.179 -1.61/.321 -1.6/.321 -2.62/.071 -1.29/.321 -1.84/.262
"""  # noqa: E501


@pytest.mark.parametrize("block", TABLE_6.strip().splitlines())
def test_holm_gives_the_printed_values(block: str) -> None:
    pairs = [pair.split("/") for pair in block.split()]
    corrected = holm_correct([two_sided_p(float(z)) for z, _ in pairs])
    assert len(corrected) == 15
    for (_, printed), p in zip(pairs, corrected, strict=True):
        if printed == "<":
            assert p < 0.001
        else:
            assert p == pytest.approx(float(printed), rel=0.04, abs=0.004)


@pytest.mark.parametrize("zeros", ["wilcox", "pratt"])
@pytest.mark.parametrize("seed", range(5))
def test_signed_ranks_equal_scipys(zeros: ZeroMethod, seed: int) -> None:
    from scipy.stats import wilcoxon  # takes a second, so only here

    differences = np.random.default_rng(seed).integers(-3, 4, size=60) * 12.5 + seed
    theirs = wilcoxon(differences, zero_method=zeros, method="asymptotic", correction=False)
    ours = signed_rank(list(differences), zeros)
    assert ours.p == pytest.approx(theirs.pvalue)
    assert abs(ours.z) == pytest.approx(abs(theirs.zstatistic))
    assert np.sign(ours.z) == np.sign(ours.effect)


def test_few_signed_ranks_equal_scipys_exactly() -> None:
    from scipy.stats import wilcoxon

    differences = [3.0, 1.0, 4.0, -1.5, 5.0, 9.0, 2.0, 6.0]
    assert signed_rank([*differences, *[0.0] * 90], "wilcox").p == wilcoxon(differences, method="exact").pvalue
    assert signed_rank([1.0] * 4 + [0.0] * 296).p == 0.125


def test_equal_values_give_no_effect() -> None:
    for values in ([0.0] * 9, []):
        result = signed_rank(values)
        assert (result.z, result.p, result.effect) == (0.0, 1.0, 0.0)
    assert check_normality([1.0] * 9).why == "constant"
    assert check_normality([1.0, 2.0]).why == "fewer than 3 questions"
    assert sign_flip_p([0.0] * 9) == 1.0


@pytest.mark.parametrize("seed", range(50))
def test_sign_flips_equal_scipys_permutation_test(seed: int) -> None:
    from scipy.stats import permutation_test

    rng = np.random.default_rng(seed)
    differences = rng.integers(-3, 4, size=4 + seed % 9) * 12.5 + seed % 3
    theirs = permutation_test((differences,), np.sum, permutation_type="samples", n_resamples=10_000)
    assert sign_flip_p(list(differences)) == pytest.approx(theirs.pvalue)


def test_sign_flips_flip_whole_clusters() -> None:
    differences = [5.0, 1.0, 2.0, 4.0, 3.0, -1.0]
    assert sign_flip_p(differences, list("aabbcc")) == sign_flip_p([6.0, 6.0, 2.0])
    assert sign_flip_p(differences, ["a"] * 6) == 1.0
    many = list(np.random.default_rng(1).normal(0.3, 1, size=60))
    assert sign_flip_p(many) == sign_flip_p(many, [str(i) for i in range(60)])


def test_widened_intervals_hold_together() -> None:
    """Of 300 studies with 10 means each, about 95 % have all 10 within their intervals."""
    rng, missed, missed_alone = np.random.default_rng(3), 0, 0
    clusters = [str(i) for i in range(60)]
    for _ in range(300):
        values = rng.normal(0, 1, size=(10, 60))
        ends = [bootstrap_interval(list(row), clusters) for row in values]
        wide = [widen_interval(low, float(row.mean()), high, 10) for row, (low, high) in zip(values, ends, strict=True)]
        missed += any(not low <= 0 <= high for low, high in wide)
        missed_alone += any(not low <= 0 <= high for low, high in ends)
    assert missed / 300 < 0.1 < 0.3 < missed_alone / 300


def test_the_number_of_questions_needed_shows_the_difference() -> None:
    """About 80 % of studies of that size find it."""
    rng = np.random.default_rng(5)
    size = questions_for(10, 40)
    significant = sum(signed_rank(list(rng.normal(10, 40, size=size))).p < 0.05 for _ in range(400))
    assert 0.72 < significant / 400 < 0.88


def test_a_p_value_is_never_zero() -> None:
    assert two_sided_p(80) > 0
    assert signed_rank(list(range(1, 3000))).p > 0
    assert sign_flip_p([1.0] * 99) == 1 / 10_001


def test_an_interval_resamples_whole_clusters() -> None:
    values = [0.0, 0.0, 0.0, 100.0, 100.0, 100.0] * 5
    single = [str(i) for i in range(30)]
    grouped = [str(i // 3) for i in range(30)]
    (low, high), (lower, higher) = bootstrap_interval(values, single), bootstrap_interval(values, grouped)
    assert lower < low < 50 < high < higher
    assert bootstrap_interval([20.0, 60.0], ["one", "one"]) == (20.0, 60.0)
    assert standard_error(values, grouped) > standard_error(values, single) > 0


def test_the_detectable_shift_agrees_with_a_simulation() -> None:
    """About 80 % of studies with 125 questions find a shift of that size."""
    rng = np.random.default_rng(7)
    points = np.array([0.0, 50.0, 100.0])
    draw = rng.choice(points, p=[0.35, 0.3, 0.35], size=125)
    clusters = [str(i) for i in range(125)]
    shift = detectable_errors() * standard_error(list(draw), clusters)
    share = 0.35 + shift / 100  # of wins; the share of losses falls as much
    studies = rng.choice(points, p=[0.7 - share, 0.3, share], size=(400, 125))
    significant = sum(signed_rank(list(study - 50)).p < 0.05 for study in studies)
    assert 0.72 < significant / 400 < 0.9


def bradley_terry(wins: list[list[float]]) -> list[float]:
    return list(map(float, bradley_terry_batch(np.asarray([wins], dtype=float), steps=10_000, tolerance=1e-13)[0]))


def test_bradley_terry_of_two_and_of_a_known_case() -> None:
    two = bradley_terry([[0, 300], [100, 0]])
    assert two[0] / two[1] == pytest.approx(3, rel=1e-3)
    truth = [4.0, 2.0, 1.0]  # the expected wins under these strengths, which the closed form recovers
    wins = [[0 if i == j else 9000 * a / (a + b) for j, b in enumerate(truth)] for i, a in enumerate(truth)]
    assert bradley_terry(wins) == pytest.approx([4 / 7, 2 / 7, 1 / 7], rel=1e-4)


def test_bradley_terry_without_a_loss() -> None:
    result = bradley_terry([[0, 5, 5], [0, 0, 3], [0, 2, 0]])
    assert all(a > b for a, b in pairwise(result))
    assert sum(result) == pytest.approx(1)
    assert bradley_terry([[0, 0], [0, 0]]) == [0.5, 0.5]
