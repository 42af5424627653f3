"""points or measures of each question -> Compared, Ranked: who is better than whom, by how much, and how sure that is.

The unit is the question, and only questions count that both sides have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Literal

from kumihimo.evaluate.points import CriterionPair
from kumihimo.evaluate.statistics import (
    SEED,
    NormalityResult,
    ZeroMethod,
    bootstrap_interval,
    bradley_terry_batch,
    check_normality,
    detectable_rate,
    holm_correct,
    sign_flip_p,
    signed_rank,
    upper_quantile,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

QuestionValues = Mapping[str, float]  # of each question
SystemPair = tuple[str, str]  # two systems, the second not the first

PROTOCOLS_DROPPING_ZEROS = (
    "graphrag",
    "lightrag",
    "mk",
)  # protocols of which zeros are left out before they are ranked
SIGNIFICANCE_LEVEL = 0.05


@dataclass(frozen=True, slots=True)
class Comparison:
    """System a over system b.

    kind: `points`, then mean is a's share of 100, 50 as good as the other; or `difference`, then it is that of the
    means, 0 as good as the other. n: questions that count; left_out: those that only one side has.
    p: of Wilcoxon's test; corrected: by Holm, among `family` comparisons. low, high: of the mean, 95 %, by clusters.
    flipped: p by flips of signs. detectable: the mean that such questions show as significant in 80 % of studies, as a
    comparison of its own; corrected_detectable: at .05 by the size of the family; None: nothing differs between them.
    """

    metric: str
    a: str
    b: str
    kind: Literal["points", "difference"]
    mean: float
    n: int
    left_out: int
    shape: NormalityResult
    z: float
    p: float
    effect: float
    low: float
    high: float
    flipped: float
    detectable: float | None
    corrected: float
    corrected_detectable: float | None
    family: int = 1

    @property
    def is_significant(self) -> bool:
        return self.corrected < SIGNIFICANCE_LEVEL

    @property
    def even_mean(self) -> float:
        """The mean of two that are as good as each other."""
        return 50.0 if self.kind == "points" else 0.0

    def swap_sides(self) -> Comparison:
        """System b over system a: the means of the two of `points` sum to 100."""

        def of(mean: float) -> float:
            return 2 * self.even_mean - mean

        return replace(
            self, a=self.b, b=self.a, mean=of(self.mean), z=-self.z, effect=-self.effect, low=of(self.high),
            high=of(self.low),
        )  # fmt: skip


def zero_method_for(protocol: str) -> ZeroMethod:
    """What is done with questions that nobody won: as published, or such that they count for what they are."""
    return "wilcox" if protocol in PROTOCOLS_DROPPING_ZEROS else "pratt"


# -- one pair


def compare_pair_by_points(
    metric: str,
    sides: SystemPair,
    points: QuestionValues,
    clusters: Mapping[str, str],
    *,
    zeros: ZeroMethod = "pratt",
    left_out: int = 0,
) -> Comparison | None:
    """By the points of the first side, 0 to 100 for each question; None where there are none.

    clusters: of a question the cluster it belongs to; one that is not there is a cluster of its own.
    """
    if not points:
        return None
    values, groups = _values_and_clusters(points, clusters)
    return _compare(metric, sides, "points", [value - 50 for value in values], groups, zeros, left_out)


def compare_pair_by_measure(
    metric: str,
    sides: SystemPair,
    values: Mapping[str, QuestionValues],
    clusters: Mapping[str, str],
    *,
    zeros: ZeroMethod = "pratt",
) -> Comparison | None:
    """By a measure of both, of the questions that both have; None where there are none."""
    one, other = (values.get(side, {}) for side in sides)
    shared = {question: one[question] - other[question] for question in one if question in other}
    if not shared:
        return None
    differences, groups = _values_and_clusters(shared, clusters)
    return _compare(metric, sides, "difference", differences, groups, zeros, len(one.keys() ^ other.keys()))


def _values_and_clusters(values: QuestionValues, clusters: Mapping[str, str]) -> tuple[list[float], list[str]]:
    ordered = sorted(values)
    return [values[question] for question in ordered], [clusters.get(question, question) for question in ordered]


def _compare(
    metric: str,
    sides: SystemPair,
    kind: Literal["points", "difference"],
    off: Sequence[float],  # from what it would be, were both as good
    groups: Sequence[str],
    zeros: ZeroMethod,
    left_out: int,
) -> Comparison:
    even = 50.0 if kind == "points" else 0.0
    off = [round(value, 9) for value in off]  # means of thirds that are equal have the same last bit
    tested = signed_rank(off, zeros)
    low, high = bootstrap_interval(off, groups)
    seen = _detectable_mean(off, groups, 1, even)
    mean = even + sum(off) / len(off)
    return Comparison(
        metric, *sides, kind, mean, len(off), left_out, check_normality(off), tested.z, tested.p, tested.effect,
        even + low, even + high, sign_flip_p(off), seen, tested.p, seen,
    )  # fmt: skip


def _detectable_mean(off: Sequence[float], groups: Sequence[str], family: int, even: float) -> float | None:
    """The mean that would have been seen, in the measure's own unit."""
    if len(set(off)) < 2:
        return None
    most = max(map(abs, off))
    return even + (detectable_rate([50 + value / most for value in off], groups, family=family) - 50) * most


# -- families of pairs


def correct_family(family: Iterable[Comparison | None]) -> list[Comparison]:
    """Comparisons that are one family: their p-values by Holm's method."""
    found = [one for one in family if one is not None]
    ps = holm_correct([one.p for one in found])
    return [
        replace(one, corrected=p, family=len(found), corrected_detectable=_detectable_in_family(one, len(found)))
        for one, p in zip(found, ps, strict=True)
    ]


def _detectable_in_family(one: Comparison, family: int) -> float | None:
    """What could have been seen at .05 by the size of the family: it grows as the quantile of the normal does."""
    if one.detectable is None:
        return None
    power = upper_quantile(0.2)
    wider = (upper_quantile(SIGNIFICANCE_LEVEL / family / 2) + power) / (upper_quantile(SIGNIFICANCE_LEVEL / 2) + power)
    seen = one.even_mean + (one.detectable - one.even_mean) * wider
    return min(100.0, seen) if one.kind == "points" else seen


def compare_by_criterion(
    metric: str,
    points: Mapping[SystemPair, QuestionValues],
    clusters: Mapping[str, str],
    *,
    zeros: ZeroMethod = "pratt",
) -> list[Comparison]:
    """Every pair of systems by one criterion, as one family; a system against itself is not of it."""
    asked: dict[str, set[str]] = {}
    for sides, values in points.items():
        for side in sides:
            asked.setdefault(side, set()).update(values)
    pairs = [sides for sides in points if sides[0] != sides[1]]

    def missing(sides: SystemPair) -> int:
        return len((asked[sides[0]] | asked[sides[1]]) - points[sides].keys())

    return correct_family(
        compare_pair_by_points(metric, s, points[s], clusters, zeros=zeros, left_out=missing(s)) for s in pairs
    )


def compare_by_criteria(found: Mapping[CriterionPair, QuestionValues], clusters: Mapping[str, str]) -> list[Comparison]:
    """Every pair by each criterion of each protocol, a family each."""
    families: dict[tuple[str, str], dict[SystemPair, QuestionValues]] = {}
    for pair, values in found.items():
        families.setdefault((pair.protocol, pair.criterion), {})[pair.a, pair.b] = values
    return [
        one
        for (protocol, criterion), points in families.items()
        for one in compare_by_criterion(criterion, points, clusters, zeros=zero_method_for(protocol))
    ]


def compare_by_measure(
    metric: str,
    values: Mapping[str, QuestionValues],
    clusters: Mapping[str, str],
    *,
    pairs: Sequence[SystemPair] | None = None,
    zeros: ZeroMethod = "pratt",
) -> list[Comparison]:
    """Every pair of systems, or these, by a measure of each, as one family."""
    chosen = list(combinations(values, 2)) if pairs is None else pairs
    return correct_family(compare_pair_by_measure(metric, sides, values, clusters, zeros=zeros) for sides in chosen)


def neighbouring_pairs(systems: Sequence[str]) -> list[SystemPair]:
    """Each against the one before it, as MK-RAG's arms.

    >>> neighbouring(["plain", "tags", "summary"])
    [('tags', 'plain'), ('summary', 'tags')]
    """
    return [(after, before) for before, after in pairwise(systems)]


def compare_by_measures(
    values: Mapping[str, Mapping[str, QuestionValues]],
    clusters: Mapping[str, str],
    pairs: Sequence[SystemPair],
    *,
    zeros: ZeroMethod = "wilcox",
) -> list[Comparison]:
    """These pairs by several measures, all as one family: 6 measures x 3 neighbours of MK-RAG are 18."""
    found = (
        compare_pair_by_measure(metric, sides, held, clusters, zeros=zeros)
        for metric, held in values.items()
        for sides in pairs
    )
    return correct_family(found)


# -- all of them in an order


@dataclass(frozen=True, slots=True)
class RankedSystem:
    """A system's place: by its Bradley–Terry strength, with the ranks that 95 % of draws of clusters give it.

    mean: of its points against each of the others.
    """

    system: str
    strength: float
    mean: float
    rank: int
    best: int
    worst: int


def rank_systems(
    points: Mapping[SystemPair, QuestionValues], clusters: Mapping[str, str], *, draws: int = 1000
) -> list[RankedSystem]:
    """The systems, the strongest first; equal ones by name. Questions are drawn by their clusters, by a seed."""
    import numpy as np

    pairs = {sides: values for sides, values in points.items() if sides[0] != sides[1] and values}
    systems = sorted({side for sides in pairs for side in sides})
    if not systems:
        return []
    wins = _win_tables(pairs, systems, clusters)
    whole = wins.sum(axis=0, keepdims=True)
    strength = bradley_terry_batch(whole)[0]
    groups = len(wins)
    drawn = np.random.default_rng(SEED).multinomial(groups, np.full(groups, 1 / groups), size=draws)
    each = bradley_terry_batch(np.einsum("dc,cij->dij", drawn.astype(float), wins))
    ranks = 1 + (each[:, None, :] > each[:, :, None] * (1 + 1e-9)).sum(axis=2)
    best = np.quantile(ranks, 0.025, axis=0, method="lower")
    worst = np.quantile(ranks, 0.975, axis=0, method="higher")
    means = _mean_points(pairs)
    order = sorted(range(len(systems)), key=lambda i: (-round(float(strength[i]), 9), systems[i]))
    found = []
    for i in order:
        rank = 1 + sum(float(other) > float(strength[i]) * (1 + 1e-6) for other in strength)
        found.append(RankedSystem(systems[i], float(strength[i]), means[systems[i]], rank, int(best[i]), int(worst[i])))
    return found


def _win_tables(
    pairs: Mapping[SystemPair, QuestionValues], systems: Sequence[str], clusters: Mapping[str, str]
) -> NDArray[np.float64]:
    """Of each cluster how often one has beaten another, a tie half a time."""
    import numpy as np

    of = {clusters.get(question, question) for values in pairs.values() for question in values}
    at = {cluster: i for i, cluster in enumerate(sorted(of))}
    place = {system: i for i, system in enumerate(systems)}
    wins = np.zeros((len(at), len(systems), len(systems)))
    for (a, b), values in sorted(pairs.items()):
        for question, points in sorted(values.items()):
            cluster = at[clusters.get(question, question)]
            wins[cluster, place[a], place[b]] += points / 100
            wins[cluster, place[b], place[a]] += 1 - points / 100
    return wins


def _mean_points(pairs: Mapping[SystemPair, QuestionValues]) -> dict[str, float]:
    """Of each system the mean of what it has against each of the others."""
    against: dict[str, list[float]] = {}
    for (a, b), values in sorted(pairs.items()):
        mean = sum(values.values()) / len(values)
        against.setdefault(a, []).append(mean)
        against.setdefault(b, []).append(100 - mean)
    return {system: sum(means) / len(means) for system, means in against.items()}


def average_criteria(parts: Sequence[Mapping[SystemPair, QuestionValues]]) -> dict[SystemPair, dict[str, float]]:
    """The mean of several criteria, of the questions that were judged by all of them."""
    pairs = [sides for sides in (parts[0] if parts else {}) if all(sides in part for part in parts)]
    return {
        sides: {
            question: sum(part[sides][question] for part in parts) / len(parts)
            for question in parts[0][sides]
            if all(question in part[sides] for part in parts)
        }
        for sides in pairs
    }


def comparison_matrix(found: Iterable[Comparison]) -> dict[SystemPair, Comparison]:
    """Each pair in both directions: row over column."""
    return {(one.a, one.b): one for pair in found for one in _both_directions(pair)}


def _both_directions(pair: Comparison) -> Iterator[Comparison]:
    yield pair
    yield pair.swap_sides()
