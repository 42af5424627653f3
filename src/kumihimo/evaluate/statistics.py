"""Paired numbers of questions -> tests, corrections, intervals, regression and detectable effects.

The unit is the question: the mean over its replicates and orders. All random draws use a fixed seed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import ceil, erfc, log2, sqrt
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
ZeroMethod = Literal["wilcox", "pratt"]  # zero differences: dropped; ranked, then dropped
SEED = 20240424
_SMALLEST = 1e-300  # a p-value is never 0
_Z = NormalDist().inv_cdf(0.975)  # of a 95 % interval
_POWER = 0.8
_FLIPS = 10_000  # at most: of the signs of differences
_MAX_COEFFICIENT = 12.0  # a larger intercept or slope counts as infinite


@dataclass(frozen=True, slots=True)
class SignedRankResult:
    """The result of a Wilcoxon signed-rank test.

    Z, two-sided p, and the matched-pairs rank-biserial r from -1 to 1.
    """

    z: float
    p: float
    effect: float
    n: int


def signed_rank(differences: Sequence[float], zeros: ZeroMethod = "pratt") -> SignedRankResult:
    """Run Wilcoxon's signed-rank test.

    Exact if at most 13 differences are not 0: all ways to flip their ranks are counted. Otherwise by the normal
    approximation, which corrects for ties, not for continuity. If all differences are 0, or there are none: Z = 0,
    p = 1. A positive Z means that the first of the pairs are larger.

    >>> result = signed_rank([1.0, 2.0, 3.0, -1.5])  # ranks 1, 3, 4 and -2: 6 of 10, over the root of 30
    >>> round(result.z, 4), round(result.p, 4), result.effect
    (1.0954, 0.375, 0.6)
    """
    d = np.asarray(differences, dtype=float).round(9)  # so that 58 1/3 - 50 and 50 - 41 2/3 are tied
    n = len(d)
    if zeros == "wilcox":
        d = d[d != 0]
    if not np.any(d):
        return SignedRankResult(0.0, 1.0, 0.0, n)
    _, places, counts = np.unique(np.abs(d), return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places] * np.sign(d)  # ties share the mean of their ranks
    z = float(ranks.sum()) / sqrt(float((ranks**2).sum()))  # ties lower the squares, which corrects the variance
    p = sign_flip_p(ranks) if 2 ** int(np.count_nonzero(d)) <= _FLIPS else two_sided_p(z)
    return SignedRankResult(z, p, float(ranks.sum() / np.abs(ranks).sum()), n)


def two_sided_p(z: float) -> float:
    """Return the two-sided p-value of a Z value; never 0.

    >>> round(two_sided_p(1.96), 4)
    0.05
    """
    return max(erfc(abs(z) / sqrt(2)), _SMALLEST)


def holm_correct(ps: Sequence[float]) -> list[float]:
    """Return the p-values of one family with Holm's correction (1979), in order.

    >>> [round(p, 3) for p in holm_correct([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(ps, kind="stable")
    corrected = np.ones(len(ps))
    corrected[order] = np.maximum.accumulate(np.minimum(1.0, np.arange(len(ps), 0, -1) * np.asarray(ps)[order]))
    return [float(p) for p in corrected]


@dataclass(frozen=True, slots=True)
class NormalityResult:
    """The result of a Shapiro–Wilk normality test; p None: undefined, and `why`."""

    w: float | None
    p: float | None
    why: str = ""


def check_normality(differences: Sequence[float]) -> NormalityResult:
    """Test for normality; the report shows it, no decision uses it."""
    if len(differences) < 3:
        return NormalityResult(None, None, "fewer than 3 questions")
    if len(set(differences)) == 1:
        return NormalityResult(None, None, "constant")
    from scipy.stats import shapiro  # takes half a second

    result = shapiro(differences)
    return NormalityResult(float(result.statistic), float(result.pvalue))


def _cluster_sums(values: Sequence[float] | Floats, clusters: Sequence[str]) -> Floats:
    """Return the sum of each cluster, in order of appearance."""
    order = {name: i for i, name in enumerate(dict.fromkeys(clusters))}
    return np.bincount([order[name] for name in clusters], weights=values).astype(np.float64)


def bootstrap_interval(
    values: Sequence[float], clusters: Sequence[str], *, level: float = 0.95, draws: int = 2000
) -> tuple[float, float]:
    """Return the interval of the mean by a percentile bootstrap over clusters.

    With a single cluster nothing can be resampled; the result is then (minimum, maximum) of the values.
    """
    sums, sizes = _cluster_sums(values, clusters), _cluster_sums(np.ones(len(clusters)), clusters)
    if len(sums) < 2:
        return (min(values), max(values))
    resamples = _bootstrap_indices(len(sums), draws)
    means = sums[resamples].sum(axis=1) / sizes[resamples].sum(axis=1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


@lru_cache(maxsize=8)
def _bootstrap_indices(clusters: int, draws: int) -> NDArray[np.int64]:
    return np.random.default_rng(SEED).integers(0, clusters, size=(draws, clusters))


def sign_flip_p(differences: Sequence[float] | Floats, clusters: Sequence[str] = (), *, draws: int = _FLIPS) -> float:
    """Return the p-value of the mean difference by sign flips.

    A paired permutation test. The differences of a cluster are flipped together; without clusters, each alone. Zeros do
    not count. If there are at most `draws` ways to flip, all are counted: k / N. Otherwise (k + 1) / (N + 1) for N
    random ones.

    >>> sign_flip_p([1.0, 2.0, 3.0, -1.5])  # 6 of the 16 sums are 4.5 or more apart from 0
    0.375
    """
    d = _cluster_sums(differences, clusters) if clusters else np.asarray(differences, dtype=float)
    d = d[np.abs(d) > 1e-9]
    is_exact = 2 ** len(d) <= draws
    signs = _all_signs(len(d)) if is_exact else _random_signs(len(d), draws)
    extreme = int((np.abs(signs @ d) >= abs(d.sum()) - 1e-9).sum())
    return extreme / len(signs) if is_exact else (extreme + 1) / (draws + 1)


@lru_cache(maxsize=2)
def _random_signs(n: int, draws: int) -> Floats:
    bits = np.random.default_rng(SEED).integers(0, 2, size=(draws, n), dtype=np.int8)
    return (bits * 2 - 1).astype(float)  # float, for a fast matrix product


@lru_cache(maxsize=2)
def _all_signs(n: int) -> Floats:
    return np.array(list(product((1.0, -1.0), repeat=n)))


def widen_interval(low: float, mean: float, high: float, family: int) -> tuple[float, float]:
    """Return a 95 % interval, widened for `family` means.

    All of them hold together in 95 % of studies. The factor is the ratio of the normal quantiles at .05 / family
    (Bonferroni) and at .05.

    >>> [round(end, 2) for end in widen_interval(40, 50, 60, 15)]
    [35.02, 64.98]
    """
    ratio = NormalDist().inv_cdf(1 - 0.05 / family / 2) / _Z
    return mean - (mean - low) * ratio, mean + (high - mean) * ratio


def detectable_errors(family: int = 1) -> float:
    """Return the detectable shift of a mean, in standard errors.

    The test is at .05 / family, with a power of 80 %.

    >>> round(detectable_errors(), 2)
    2.8
    """
    return NormalDist().inv_cdf(1 - 0.05 / family / 2) + NormalDist().inv_cdf(_POWER)


def questions_for(difference: float, deviation: float, family: int = 1) -> int:
    """Return the number of questions for a mean difference of this deviation.

    As significant at .05 / family in 80 % of studies, by the normal approximation of a paired test; and at least so
    many that a signed-rank test can be significant at all.

    >>> questions_for(10, 50), questions_for(10, 35), questions_for(10, 35, family=15), questions_for(10, 1, family=15)
    (197, 97, 175, 10)
    """
    return max(ceil((detectable_errors(family) * deviation / difference) ** 2), ceil(log2(2 * family / 0.05)))


def standard_error(values: Sequence[float], clusters: Sequence[str]) -> float:
    """Return the standard error of the mean.

    The larger one of the cluster sandwich estimate and the plain estimate.
    """
    n, deviations = len(values), np.asarray(values) - np.mean(values)
    sums = _cluster_sums(deviations, clusters)
    groups = len(sums)
    plain = sqrt(float((deviations**2).sum()) / (n - 1) / n)
    return max(plain, sqrt(float((sums**2).sum()) * groups / (groups - 1)) / n) if groups > 1 else plain


def bradley_terry_batch(wins: Floats, *, steps: int = 400, tolerance: float = 1e-9) -> Floats:
    """Return the Bradley–Terry strengths of many win tables; each sums to 1.

    wins[t, i, j]: the number of wins of i over j in table t; a tie is half a win for each. Computed by Hunter's MM
    algorithm (2004), which stops after `steps`, or as soon as no strength changes by more than `tolerance`. A system
    without a win or without a loss would get an extreme strength; so each pair that has met gets an extra tie of 1/100.
    Systems without comparisons share the rest.

    >>> bradley_terry_batch(np.array([[[0.0, 3.0], [1.0, 0.0]]])).round(3).tolist()  # 3 : 1, less the extra tie
    [[0.749, 0.251]]
    """
    wins = wins + 0.005 * (wins + wins.transpose(0, 2, 1) > 0)
    meetings = wins + wins.transpose(0, 2, 1)
    total_wins = wins.sum(axis=2)
    strength = np.full(total_wins.shape, 1 / max(total_wins.shape[1], 1))
    for _ in range(steps):
        expected = (meetings / (strength[:, :, None] + strength[:, None, :])).sum(axis=2)
        updated = np.where(total_wins > 0, total_wins / np.maximum(expected, _SMALLEST), strength)
        updated /= updated.sum(axis=1, keepdims=True)
        change = float(np.abs(updated - strength).max(initial=0.0))
        strength = updated
        if change < tolerance:
            break
    return strength


class UndefinedEstimate(Exception):
    """The estimate does not exist; the message says why."""


def share_without_gap(
    shares: Sequence[float], gaps: Sequence[float], clusters: Sequence[str]
) -> tuple[float, tuple[float, float]]:
    """Estimate the share at gap 0 with its cluster-robust 95 % interval.

    A logistic regression. The gap enters as the hyperbolic tangent of its standardised value, so that a few large gaps
    do not dominate (as in length-controlled AlpacaEval, 2024). Raises UndefinedEstimate.

    >>> shares, gaps = [1, 1, 1, 0, 0, 0, 1, 0], [2, 2, 2, 2, -2, -2, -2, -2]  # 3 of 4 where longer, else 1 of 4
    >>> round(share_without_gap(shares, gaps, list("abcdefgh"))[0], 3)
    0.5
    """
    y, gap = np.asarray(shares, dtype=float), np.asarray(gaps, dtype=float)
    spread = float(np.sqrt((gap**2).mean())) if len(gap) else 0.0
    if len(y) < 5:
        raise UndefinedEstimate("fewer than 5 questions")
    if np.ptp(gap) <= 1e-9 * max(spread, 1.0):
        raise UndefinedEstimate("the difference in length is always the same")
    if np.ptp(y) == 0 and y[0] in (0.0, 1.0):
        raise UndefinedEstimate("one of the two always wins")
    from scipy.optimize import root  # takes half a second
    from scipy.special import expit

    x = np.column_stack([np.ones(len(y)), np.tanh(gap / spread)])

    def information(coefficients: Floats) -> Floats:
        p = expit(x @ coefficients)
        return np.asarray(x.T @ (x * (p * (1 - p))[:, None]))

    fit = root(lambda c: x.T @ (expit(x @ c) - y), np.zeros(2), jac=information, tol=1e-12)
    if not fit.success or np.abs(fit.x).max() > _MAX_COEFFICIENT or np.linalg.cond(information(fit.x)) > 1e10:
        raise UndefinedEstimate("length alone tells the winners apart")
    inverse = np.linalg.inv(information(fit.x))
    scores = x * (y - expit(x @ fit.x))[:, None]
    sums = np.column_stack([_cluster_sums(column, clusters) for column in scores.T])
    sandwich = inverse @ (sums.T @ sums) @ inverse * len(sums) / max(len(sums) - 1, 1)
    share, low, high = expit(fit.x[0] + np.array([0, -1, 1]) * _Z * np.sqrt(sandwich[0, 0]))
    return float(share), (float(low), float(high))
