"""Paired numbers of questions -> tests, corrections, intervals and detectable effects.

The unit is the question: the mean over its replicates and orders. All random draws use a fixed seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import erfc, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ZeroMethod = Literal["wilcox", "pratt"]  # zero differences: dropped; ranked, then dropped
SEED = 20240424
_SMALLEST = 1e-300  # a p-value is never 0


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
    """Run Wilcoxon's signed-rank test by the normal approximation.

    It corrects for ties, not for continuity. If all differences are 0, or there are none: Z = 0, p = 1. A positive Z
    means that the first of the pairs are larger.

    >>> result = signed_rank([1.0, 2.0, 3.0, -1.5])  # ranks 1, 3, 4 and -2: 6 of 10, over the root of 30
    >>> round(result.z, 4), round(result.p, 4), result.effect
    (1.0954, 0.2733, 0.6)
    """
    import numpy as np
    from scipy.stats import rankdata

    d = np.asarray(differences, dtype=float).round(9)  # so that 58 1/3 - 50 and 50 - 41 2/3 are tied
    n = len(d)
    if zeros == "wilcox":
        d = d[d != 0]
    if not np.any(d):
        return SignedRankResult(0.0, 1.0, 0.0, n)
    ranks = rankdata(np.abs(d))
    nonzero = d != 0
    positive, negative = float(ranks[d > 0].sum()), float(ranks[d < 0].sum())
    squares = float((ranks[nonzero] ** 2).sum())  # ties lower it, which corrects the variance
    z = (positive - negative) / sqrt(squares)
    return SignedRankResult(z, two_sided_p(z), (positive - negative) / (positive + negative), n)


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
    corrected = [1.0] * len(ps)
    least = 0.0
    for rank, i in enumerate(sorted(range(len(ps)), key=lambda i: ps[i])):
        least = max(least, min(1.0, (len(ps) - rank) * ps[i]))
        corrected[i] = least
    return corrected


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
    from scipy.stats import shapiro

    result = shapiro(differences)
    return NormalityResult(float(result.statistic), float(result.pvalue))


def bootstrap_interval(
    values: Sequence[float], clusters: Sequence[str], *, level: float = 0.95, draws: int = 2000
) -> tuple[float, float]:
    """Return the interval of the mean by a percentile bootstrap over clusters.

    With a single cluster nothing can be resampled; the result is then (minimum, maximum) of the values.
    """
    import numpy as np

    names = list(dict.fromkeys(clusters))
    if len(names) < 2:
        return (min(values), max(values))
    index = {name: i for i, name in enumerate(names)}
    sums, sizes = np.zeros(len(names)), np.zeros(len(names))
    for value, cluster in zip(values, clusters, strict=True):
        sums[index[cluster]] += value
        sizes[index[cluster]] += 1
    resamples = _bootstrap_indices(len(names), draws)
    means = sums[resamples].sum(axis=1) / sizes[resamples].sum(axis=1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


@lru_cache(maxsize=8)
def _bootstrap_indices(clusters: int, draws: int) -> NDArray[np.int64]:
    import numpy as np

    return np.random.default_rng(SEED).integers(0, clusters, size=(draws, clusters))


def sign_flip_p(differences: Sequence[float], *, draws: int = 10_000) -> float:
    """Return the p-value of the mean difference by random sign flips.

    (k + 1) / (N + 1) for N random flips.
    """
    import numpy as np

    d = np.asarray(differences, dtype=float)
    extreme = np.abs(_random_signs(len(d), draws) @ d) >= abs(d.sum()) - 1e-9
    return (int(extreme.sum()) + 1) / (draws + 1)


@lru_cache(maxsize=2)
def _random_signs(n: int, draws: int) -> NDArray[np.float64]:
    import numpy as np

    bits = np.random.default_rng(SEED).integers(0, 2, size=(draws, n), dtype=np.int8)
    return (bits * 2 - 1).astype(float)  # float, for a fast matrix product


def detectable_rate(values: Sequence[float], clusters: Sequence[str], *, family: int = 1, power: float = 0.8) -> float:
    """Return the lowest detectable win rate above 50.

    The test is at .05 / family, with this power. values: the points of one side, 0 to 100; only their spread counts,
    or the spread of cluster means if values within clusters are correlated.
    """
    if len(values) < 2:
        return 100.0
    quantile = upper_quantile(0.05 / family / 2) + upper_quantile(1 - power)
    return min(100.0, 50.0 + quantile * _standard_error(values, clusters))


def upper_quantile(share: float) -> float:
    """Return the value that a normal variable exceeds with this probability.

    >>> round(upper_quantile(0.025), 2)
    1.96
    """
    return -NormalDist().inv_cdf(share)


def _standard_error(values: Sequence[float], clusters: Sequence[str]) -> float:
    """Return the standard error of the mean.

    The larger one of the cluster sandwich estimate and the plain estimate.
    """
    import numpy as np

    deviations = np.asarray(values, dtype=float)
    deviations = deviations - deviations.mean()
    sums: dict[str, float] = {}
    for deviation, cluster in zip(deviations, clusters, strict=True):
        sums[cluster] = sums.get(cluster, 0.0) + float(deviation)
    n, groups = len(deviations), len(sums)
    plain = sqrt(float((deviations**2).sum()) / (n - 1) / n)
    if groups < 2:
        return plain
    clustered = sqrt(sum(s * s for s in sums.values()) * groups / (groups - 1)) / n
    return max(plain, clustered)


def bradley_terry(wins: Sequence[Sequence[float]]) -> list[float]:
    """Return Bradley–Terry strengths that sum to 1.

    wins[i][j]: the number of wins of i over j; a tie is half a win for each. Computed by Hunter's MM algorithm (2004).
    A system without a win or without a loss would get an extreme strength; so each pair that has met gets an extra tie
    of 1/100. Systems without comparisons share the rest.

    >>> [round(s, 3) for s in bradley_terry([[0, 3], [1, 0]])]  # 3 : 1, less the extra tie
    [0.749, 0.251]
    """
    import numpy as np

    return [float(s) for s in bradley_terry_batch(np.asarray([wins], dtype=float), steps=10_000, tolerance=1e-13)[0]]


def bradley_terry_batch(wins: NDArray[np.float64], *, steps: int = 400, tolerance: float = 1e-9) -> NDArray[np.float64]:
    """Return the strengths of many win tables at once.

    It stops after `steps`, or as soon as no strength changes by more than `tolerance`.
    """
    import numpy as np

    meetings = wins + wins.transpose(0, 2, 1)
    wins = wins + 0.005 * (meetings > 0)
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
