"""Points or measures of each question -> Comparison, RankedSystem: who wins, by how much, how surely.

The unit is the question. Only questions with values on both sides count.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from math import sqrt
from typing import Literal, Self

import numpy as np

from kumihimo.evaluate import statistics
from kumihimo.evaluate.points import CriterionPair
from kumihimo.evaluate.records import ByQuestion, Clusters
from kumihimo.evaluate.statistics import ZeroMethod

SystemPair = tuple[str, str]  # two different systems
PairPoints = Mapping[SystemPair, ByQuestion]  # points of the first system, 0 to 100

PROTOCOLS_DROPPING_ZEROS = ("graphrag", "lightrag", "mk")  # their papers drop ties before ranking
SIGNIFICANCE_LEVEL = 0.05
DecisiveTest = Literal["signed ranks", "sign flips"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of system a with system b.

    kind: `points`: mean is a's share of 100, 50 for equal systems; `difference`: mean is the difference of the means,
    0 for equal systems. n: questions that count; left_out: questions that only one side has. p: Wilcoxon's test;
    flipped: the sign-flip test, by clusters. test: which of the two decides; corrected: its p with Holm's correction
    for a family of `family` comparisons. low, high: the 95 % interval of the mean, by clusters; corrected_low,
    corrected_high: the interval that holds for all means of the family together. detectable: the mean that such
    questions would show as significant in 80 % of studies, for a single comparison; corrected_detectable: the same at
    .05 divided by the size of the family; None: all values are equal.
    """

    metric: str
    a: str
    b: str
    kind: Literal["points", "difference"]
    mean: float
    n: int
    left_out: int
    shape: statistics.NormalityResult
    z: float
    p: float
    effect: float
    low: float
    high: float
    flipped: float
    detectable: float | None
    corrected: float
    corrected_low: float
    corrected_high: float
    corrected_detectable: float | None
    family: int = 1
    test: DecisiveTest = "signed ranks"

    @property
    def decisive_p(self) -> float:
        """Return the p-value of the test that decides, uncorrected."""
        return self.flipped if self.test == "sign flips" else self.p

    @property
    def is_significant(self) -> bool:
        """Return whether the corrected p-value is significant."""
        return self.corrected < SIGNIFICANCE_LEVEL

    @property
    def even_mean(self) -> float:
        """Return the mean of two equal systems."""
        return 50.0 if self.kind == "points" else 0.0

    @property
    def higher(self) -> str:
        """Return the system with the significantly higher mean, or "tie"."""
        if not self.is_significant:
            return "tie"
        return self.a if self.mean > self.even_mean else self.b

    def questions_needed(self, difference: float) -> int | None:
        """Return the number of such questions for this difference.

        As significant in 80 % of studies, at .05 divided by the size of the family. None: all values are equal.
        """
        if self.detectable is None:
            return None
        error = (self.detectable - self.even_mean) / statistics.detectable_errors()
        return statistics.questions_for(difference, error * sqrt(self.n), self.family)

    def swap_sides(self) -> Self:
        """Return the comparison of b with a.

        The means of both directions of `points` sum to 100.
        """
        total = 2 * self.even_mean
        low, high = total - self.high, total - self.low
        sides = replace(self, a=self.b, b=self.a, mean=total - self.mean, low=low, high=high)
        low, high = total - self.corrected_high, total - self.corrected_low
        return replace(sides, z=-self.z, effect=-self.effect, corrected_low=low, corrected_high=high)


def zero_method_for(protocol: str) -> ZeroMethod:
    """Return the treatment of ties: as published, or Pratt's."""
    return "wilcox" if protocol in PROTOCOLS_DROPPING_ZEROS else "pratt"


def _compare(
    metric: str, sides: SystemPair, values: ByQuestion, clusters: Clusters, zeros: ZeroMethod, left_out: int, even: int
) -> Comparison | None:
    """Compare two systems by values that are 0 if they are equal.

    Returns None without values. clusters: a missing question is its own cluster. even: the mean of equal systems.
    """
    if not values:
        return None
    groups = [clusters.get(question, question) for question in sorted(values)]
    deviations = [round(values[question], 9) for question in sorted(values)]  # equal thirds must be equal
    tested = statistics.signed_rank(deviations, zeros)
    low, high = statistics.bootstrap_interval(deviations, groups)
    spread = statistics.standard_error(deviations, groups) if len(set(deviations)) > 1 else None
    detectable_mean = None if spread is None else even + statistics.detectable_errors() * spread
    mean = even + sum(deviations) / len(deviations)
    return Comparison(
        metric, *sides, "points" if even else "difference", mean, len(deviations), left_out,
        statistics.check_normality(deviations), tested.z, tested.p, tested.effect, even + low, even + high,
        statistics.sign_flip_p(deviations, groups), detectable_mean, tested.p, even + low, even + high, detectable_mean,
    )  # fmt: skip


# -- families of pairs


def correct_family(family: Iterable[Comparison | None]) -> list[Comparison]:
    """Correct the p-values (Holm) and the intervals of one family of comparisons."""
    comparisons = [comparison for comparison in family if comparison is not None]
    p_values = statistics.holm_correct([comparison.decisive_p for comparison in comparisons])
    size = len(comparisons)
    return [
        replace(
            _correct_interval(row, size), corrected=p, family=size, corrected_detectable=_correct_detectable(row, size)
        )
        for row, p in zip(comparisons, p_values, strict=True)
    ]


def _correct_interval(comparison: Comparison, family: int) -> Comparison:
    """Return the comparison with its interval for the whole family."""
    low, high = statistics.widen_interval(comparison.low, comparison.mean, comparison.high, family)
    if comparison.kind == "points":
        low, high = max(low, 0.0), min(high, 100.0)
    return replace(comparison, corrected_low=low, corrected_high=high)


def _correct_detectable(comparison: Comparison, family: int) -> float | None:
    """Return the detectable mean at .05 / family."""
    if comparison.detectable is None:
        return None
    wider = statistics.detectable_errors(family) / statistics.detectable_errors()
    mean = comparison.even_mean + (comparison.detectable - comparison.even_mean) * wider
    return min(mean, 100.0) if comparison.kind == "points" else mean


def compare_by_criterion(
    metric: str, points: PairPoints, clusters: Clusters, *, zeros: ZeroMethod = "pratt"
) -> list[Comparison]:
    """Compare every pair of systems by one criterion, as one family.

    points: 0 to 100 a question, of the first system. A system against itself is left out.
    """
    judged: defaultdict[str, set[str]] = defaultdict(set)
    for (a, b), values in points.items():
        judged[a].update(values)
        judged[b].update(values)
    family: list[Comparison | None] = []
    for (a, b), values in points.items():
        if a != b:
            deviations = {question: value - 50 for question, value in values.items()}
            left_out = len((judged[a] | judged[b]) - values.keys())
            family.append(_compare(metric, (a, b), deviations, clusters, zeros, left_out, 50))
    return correct_family(family)


def compare_by_criteria(pair_points: Mapping[CriterionPair, ByQuestion], clusters: Clusters) -> list[Comparison]:
    """Compare every pair by each criterion of each protocol, one family each."""
    families: dict[tuple[str, str], dict[SystemPair, ByQuestion]] = {}
    for pair, values in pair_points.items():
        families.setdefault((pair.protocol, pair.criterion), {})[pair.a, pair.b] = values
    return [
        comparison
        for (protocol, criterion), points in families.items()
        for comparison in compare_by_criterion(criterion, points, clusters, zeros=zero_method_for(protocol))
    ]


def neighbouring_pairs(systems: Sequence[str]) -> list[SystemPair]:
    """Return each system with its predecessor, as the arms of MK-RAG.

    >>> neighbouring_pairs(["plain", "tags", "summary"])
    [('tags', 'plain'), ('summary', 'tags')]
    """
    return [(current, previous) for previous, current in pairwise(systems)]


def compare_by_measures(
    values: Mapping[str, Mapping[str, ByQuestion]],
    clusters: Clusters,
    pairs: Sequence[SystemPair] | None = None,
    *,
    zeros: ZeroMethod = "wilcox",
    test: DecisiveTest = "signed ranks",
) -> list[Comparison]:
    """Compare these pairs, or all, by some measures, as one family.

    values: by measure and system; only the common questions of a pair count. 6 measures x 3 neighbours of MK-RAG are
    18 comparisons.
    """
    family: list[Comparison | None] = []
    for metric, by_system in values.items():
        for sides in combinations(by_system, 2) if pairs is None else pairs:
            first, second = (by_system.get(side, {}) for side in sides)
            differences = {question: first[question] - second[question] for question in first if question in second}
            left_out = len(first.keys() ^ second.keys())
            family.append(_compare(metric, sides, differences, clusters, zeros, left_out, 0))
    return correct_family(replace(pair, test=test) for pair in family if pair)


# -- ranking


@dataclass(frozen=True, slots=True)
class RankedSystem:
    """A system's rank by its Bradley–Terry strength.

    best, worst: the ranks in 95 % of cluster resamples. mean: its mean points against each other system.
    """

    system: str
    strength: float
    mean: float
    rank: int
    best: int
    worst: int


def rank_systems(points: PairPoints, clusters: Clusters, *, draws: int = 1000) -> list[RankedSystem]:
    """Rank the systems, strongest first; ties by name.

    Questions are resampled by clusters with a fixed seed.
    """
    pairs = {sides: values for sides, values in points.items() if sides[0] != sides[1] and values}
    if not (systems := sorted({side for sides in pairs for side in sides})):
        return []
    wins = _win_tables(pairs, systems, clusters)
    total_wins = wins.sum(axis=0, keepdims=True)
    strength = statistics.bradley_terry_batch(total_wins)[0]
    groups = len(wins)
    draw_counts = np.random.default_rng(statistics.SEED).multinomial(groups, np.full(groups, 1 / groups), size=draws)
    draw_strengths = statistics.bradley_terry_batch(np.einsum("dc,cij->dij", draw_counts.astype(float), wins))
    ranks = 1 + (draw_strengths[:, None, :] > draw_strengths[:, :, None] * (1 + 1e-9)).sum(axis=2)
    best = np.quantile(ranks, 0.025, axis=0, method="lower")
    worst = np.quantile(ranks, 0.975, axis=0, method="higher")
    means = mean_points(pairs)
    order = sorted(range(len(systems)), key=lambda i: (-round(float(strength[i]), 9), systems[i]))
    rivals = strength[:, None] > strength[None, :] * (1 + 1e-6)
    return [
        RankedSystem(
            systems[i], float(strength[i]), means[systems[i]], 1 + int(rivals[:, i].sum()), int(best[i]), int(worst[i])
        )
        for i in order
    ]


def _win_tables(pairs: PairPoints, systems: Sequence[str], clusters: Clusters) -> statistics.Floats:
    """Return a win table for each cluster.

    A tie is half a win.
    """
    names = {clusters.get(question, question) for values in pairs.values() for question in values}
    cluster_index = {cluster: i for i, cluster in enumerate(sorted(names))}
    wins = np.zeros((len(cluster_index), len(systems), len(systems)))
    for sides, values in sorted(pairs.items()):
        a, b = map(systems.index, sides)
        for question, points in sorted(values.items()):
            cluster = cluster_index[clusters.get(question, question)]
            wins[cluster, a, b] += points / 100
            wins[cluster, b, a] += 1 - points / 100
    return wins


def mean_points(pairs: PairPoints) -> dict[str, float]:
    """Return each system's mean over its opponents."""
    means_by_system: dict[str, list[float]] = {}
    for (a, b), values in sorted(pairs.items()):
        mean = sum(values.values()) / len(values)
        means_by_system.setdefault(a, []).append(mean)
        means_by_system.setdefault(b, []).append(100 - mean)
    return {system: sum(means) / len(means) for system, means in means_by_system.items()}


def average_criteria(parts: Sequence[PairPoints]) -> dict[SystemPair, dict[str, float]]:
    """Average several criteria over the questions judged by all of them."""
    pairs = [sides for sides in (parts[0] if parts else {}) if all(sides in part for part in parts)]
    return {
        sides: {
            question: sum(part[sides][question] for part in parts) / len(parts)
            for question in parts[0][sides]
            if all(question in part[sides] for part in parts)
        }
        for sides in pairs
    }


def comparison_matrix(comparisons: Iterable[Comparison]) -> dict[SystemPair, Comparison]:
    """Return each pair in both directions: row against column."""
    both_directions = [side for comparison in comparisons for side in (comparison, comparison.swap_sides())]
    return {(comparison.a, comparison.b): comparison for comparison in both_directions}


# -- conclusion

_CHEAPER_RATIO = 0.95  # of the tokens of the best system; above, a system is not cheaper


@dataclass(frozen=True, slots=True)
class Leader:
    """The first system of a ranking: whom it beats, loses to, or ties with, by significance."""

    system: str
    beaten: Sequence[Comparison]
    lost_to: Sequence[Comparison]
    tied: Sequence[Comparison]

    @property
    def detectable(self) -> float | None:
        """Return the mean that would be significant against every tied system."""
        means = (pair.corrected_detectable for pair in self.tied)
        return max((mean for mean in means if mean is not None), default=None)


def find_leader(order: Sequence[str], comparisons: Sequence[Comparison], lower_is_better: bool = False) -> Leader:
    """Return the first system with its significant comparisons."""
    cells = comparison_matrix(comparisons)
    pairs = [cells[order[0], other] for other in order[1:] if (order[0], other) in cells]
    significant = [pair for pair in pairs if pair.is_significant]
    beaten = [pair for pair in significant if (pair.mean > pair.even_mean) != lower_is_better]
    lost_to = [pair for pair in significant if pair not in beaten]
    return Leader(order[0], beaten, lost_to, [pair for pair in pairs if not pair.is_significant])


def find_cheaper(
    tokens: Mapping[str, float], best: str, comparisons: Sequence[Comparison]
) -> list[tuple[Comparison, float]]:
    """Return the systems cheaper than the best, with savings in percent.

    The cheapest comes first. tokens: by system.
    """
    cells = comparison_matrix(comparisons)
    limit = _CHEAPER_RATIO * tokens[best]
    cheaper = sorted((s for s in tokens if tokens[s] < limit and (s, best) in cells), key=tokens.__getitem__)
    return [(cells[system, best], 100 * (1 - tokens[system] / tokens[best])) for system in cheaper]
