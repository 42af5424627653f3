"""numbers of paired questions -> what may be concluded: tests, corrections, intervals, what could have been seen.

The unit is the question: the mean over its replicates and orders. Nothing here draws by chance without a seed.
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

ZeroMethod = Literal["wilcox", "pratt"]  # what is done with differences of 0: left out; ranked, then left out
SEED = 20240424
_SMALLEST = 1e-300  # a p-value is never 0


@dataclass(frozen=True, slots=True)
class SignedRankResult:
    """What a Wilcoxon signed-rank test says: Z, two-sided p, and the matched-pairs rank-biserial r, -1 to 1."""

    z: float
    p: float
    effect: float
    n: int


def signed_rank(differences: Sequence[float], zeros: ZeroMethod = "pratt") -> SignedRankResult:
    """Wilcoxon's test of paired differences by the normal approximation, corrected for ties, not for continuity.

    All 0, or none at all: Z = 0, p = 1. Z is above 0 where the first of the pairs are larger.

    >>> found = signed_rank([1.0, 2.0, 3.0, -1.5])  # ranks 1, 3, 4 and -2: 6 of 10, by the root of 30
    >>> round(found.z, 4), round(found.p, 4), found.effect
    (1.0954, 0.2733, 0.6)
    """
    import numpy as np
    from scipy.stats import rankdata

    d = np.asarray(differences, dtype=float).round(9)  # 58 1/3 - 50 and 50 - 41 2/3 are tied, whatever their last bit
    n = len(d)
    if zeros == "wilcox":
        d = d[d != 0]
    if not np.any(d):
        return SignedRankResult(0.0, 1.0, 0.0, n)
    ranks = rankdata(np.abs(d))
    kept = d != 0
    above, below = float(ranks[d > 0].sum()), float(ranks[d < 0].sum())
    squares = float((ranks[kept] ** 2).sum())  # of tied ranks too: their variance is smaller for it
    z = (above - below) / sqrt(squares)
    return SignedRankResult(z, two_sided_p(z), (above - below) / (above + below), n)


def two_sided_p(z: float) -> float:
    """The two-sided p-value of a Z value; never 0.

    >>> round(p_of(1.96), 4)
    0.05
    """
    return max(erfc(abs(z) / sqrt(2)), _SMALLEST)


def holm_correct(ps: Sequence[float]) -> list[float]:
    """The p-values of one family, corrected (Holm, 1979), in their order.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
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
    """Whether numbers look normal (Shapiro–Wilk). p None: it cannot be said, and `why`."""

    w: float | None
    p: float | None
    why: str = ""


def check_normality(differences: Sequence[float]) -> NormalityResult:
    """Reported, never used to choose a test."""
    if len(differences) < 3:
        return NormalityResult(None, None, "fewer than 3 questions")
    if len(set(differences)) == 1:
        return NormalityResult(None, None, "constant")
    from scipy.stats import shapiro

    found = shapiro(differences)
    return NormalityResult(float(found.statistic), float(found.pvalue))


def bootstrap_interval(
    values: Sequence[float], clusters: Sequence[str], *, level: float = 0.95, draws: int = 2000
) -> tuple[float, float]:
    """Where the mean of the values lies, by drawing whole clusters again and again (percentile bootstrap).

    With one cluster alone nothing can be drawn: nan is not given, but all there may be, (least, most).
    """
    import numpy as np

    names = list(dict.fromkeys(clusters))
    if len(names) < 2:
        return (min(values), max(values))
    of = {name: i for i, name in enumerate(names)}
    sums, sizes = np.zeros(len(names)), np.zeros(len(names))
    for value, cluster in zip(values, clusters, strict=True):
        sums[of[cluster]] += value
        sizes[of[cluster]] += 1
    drawn = _bootstrap_indices(len(names), draws)
    means = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


@lru_cache(maxsize=8)
def _bootstrap_indices(clusters: int, draws: int) -> NDArray[np.int64]:
    import numpy as np

    return np.random.default_rng(SEED).integers(0, clusters, size=(draws, clusters))


def sign_flip_p(differences: Sequence[float], *, draws: int = 10_000) -> float:
    """The p-value of the mean difference where signs mean nothing: (k + 1) / (N + 1) of N random flips."""
    import numpy as np

    d = np.asarray(differences, dtype=float)
    as_far = np.abs(_random_signs(len(d), draws) @ d) >= abs(d.sum()) - 1e-9
    return (int(as_far.sum()) + 1) / (draws + 1)


@lru_cache(maxsize=2)
def _random_signs(n: int, draws: int) -> NDArray[np.float64]:
    import numpy as np

    drawn = np.random.default_rng(SEED).integers(0, 2, size=(draws, n), dtype=np.int8)
    return (drawn * 2 - 1).astype(float)  # as they are multiplied with


def detectable_rate(values: Sequence[float], clusters: Sequence[str], *, family: int = 1, power: float = 0.8) -> float:
    """The win rate above 50 that such questions would show as significant with that power, at .05 / family.

    values: points of one side, 0 to 100, whose spread is what counts; that of clusters, where they go together.
    """
    if len(values) < 2:
        return 100.0
    wanted = upper_quantile(0.05 / family / 2) + upper_quantile(1 - power)
    return min(100.0, 50.0 + wanted * _standard_error(values, clusters))


def upper_quantile(share: float) -> float:
    """The value that so large a share of a normal distribution lies above.

    >>> round(beyond(0.025), 2)
    1.96
    """
    return -NormalDist().inv_cdf(share)


def _standard_error(values: Sequence[float], clusters: Sequence[str]) -> float:
    """The standard error of the mean: that of clusters (a sandwich), or of the values alone where that is larger."""
    import numpy as np

    off = np.asarray(values, dtype=float)
    off = off - off.mean()
    sums: dict[str, float] = {}
    for one, cluster in zip(off, clusters, strict=True):
        sums[cluster] = sums.get(cluster, 0.0) + float(one)
    n, groups = len(off), len(sums)
    alone = sqrt(float((off**2).sum()) / (n - 1) / n)
    if groups < 2:
        return alone
    together = sqrt(sum(s * s for s in sums.values()) * groups / (groups - 1)) / n
    return max(alone, together)


def bradley_terry(wins: Sequence[Sequence[float]]) -> list[float]:
    """Bradley–Terry strengths that sum to 1: wins[i][j] is how often i beat j, a tie half a win each.

    By Hunter's MM algorithm (2004). A system without a win or without a loss would be infinitely weak or strong: each
    pair that has met is given a tie of 1/100 more. Systems that nobody compared share what is left.

    >>> [round(s, 3) for s in strengths([[0, 3], [1, 0]])]  # 3 : 1, but for the hundredth
    [0.749, 0.251]
    """
    import numpy as np

    return [float(s) for s in bradley_terry_batch(np.asarray([wins], dtype=float), steps=10_000, tolerance=1e-13)[0]]


def bradley_terry_batch(wins: NDArray[np.float64], *, steps: int = 400, tolerance: float = 1e-9) -> NDArray[np.float64]:
    """The same of many tables at once: as many steps at most, or till none changes by more."""
    import numpy as np

    met = wins + wins.transpose(0, 2, 1)
    wins = wins + 0.005 * (met > 0)
    met = wins + wins.transpose(0, 2, 1)
    won = wins.sum(axis=2)
    s = np.full(won.shape, 1 / max(won.shape[1], 1))
    for _ in range(steps):
        expected = (met / (s[:, :, None] + s[:, None, :])).sum(axis=2)
        new = np.where(won > 0, won / np.maximum(expected, _SMALLEST), s)
        new /= new.sum(axis=1, keepdims=True)
        far = float(np.abs(new - s).max(initial=0.0))
        s = new
        if far < tolerance:
            break
    return s
