"""Points or measures of each question -> Comparison, RankedSystem: who wins, by how much, how surely.

The unit is the question. Only questions with values on both sides count.
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

QuestionValues = Mapping[str, float]  # by question
SystemPair = tuple[str, str]  # two different systems

PROTOCOLS_DROPPING_ZEROS = ("graphrag", "lightrag", "mk")  # their papers drop ties before ranking
SIGNIFICANCE_LEVEL = 0.05


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of system a with system b.

    kind: `points`: mean is a's share of 100, 50 for equal systems; `difference`: mean is the difference of the means,
    0 for equal systems. n: questions that count; left_out: questions that only one side has. p: Wilcoxon's test;
    corrected: Holm's correction for a family of `family` comparisons. low, high: the 95 % interval of the mean, by
    clusters. flipped: p of the sign-flip test. detectable: the mean that such questions would show as significant in
    80 % of studies, for a single comparison; corrected_detectable: the same at .05 divided by the size of the family;
    None: all values are equal.
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
        """Return whether the corrected p-value is significant."""
        return self.corrected < SIGNIFICANCE_LEVEL

    @property
    def even_mean(self) -> float:
        """Return the mean of two equal systems."""
        return 50.0 if self.kind == "points" else 0.0

    def swap_sides(self) -> Comparison:
        """Return the comparison of b with a.

        The means of both directions of `points` sum to 100.
        """

        def mirror(mean: float) -> float:
            return 2 * self.even_mean - mean

        return replace(
            self, a=self.b, b=self.a, mean=mirror(self.mean), z=-self.z, effect=-self.effect, low=mirror(self.high),
            high=mirror(self.low),
        )  # fmt: skip


def zero_method_for(protocol: str) -> ZeroMethod:
    """Return the treatment of ties: as published, or Pratt's."""
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
    """Compare two systems by the points of the first one.

    Returns None without points. points: 0 to 100 a question. clusters: the cluster of each question; a missing
    question is its own cluster.
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
    """Compare two systems by a measure, over their common questions.

    Returns None without common questions.
    """
    first, second = (values.get(side, {}) for side in sides)
    differences_by_question = {question: first[question] - second[question] for question in first if question in second}
    if not differences_by_question:
        return None
    differences, groups = _values_and_clusters(differences_by_question, clusters)
    return _compare(metric, sides, "difference", differences, groups, zeros, len(first.keys() ^ second.keys()))


def _values_and_clusters(values: QuestionValues, clusters: Mapping[str, str]) -> tuple[list[float], list[str]]:
    questions = sorted(values)
    return [values[question] for question in questions], [clusters.get(question, question) for question in questions]


def _compare(
    metric: str,
    sides: SystemPair,
    kind: Literal["points", "difference"],
    deviations: Sequence[float],  # from the value of two equal systems
    groups: Sequence[str],
    zeros: ZeroMethod,
    left_out: int,
) -> Comparison:
    even = 50.0 if kind == "points" else 0.0
    deviations = [round(value, 9) for value in deviations]  # equal means of thirds must be equal to the last bit
    tested = signed_rank(deviations, zeros)
    low, high = bootstrap_interval(deviations, groups)
    detectable_mean = _detectable_mean(deviations, groups, 1, even)
    mean = even + sum(deviations) / len(deviations)
    return Comparison(
        metric, *sides, kind, mean, len(deviations), left_out, check_normality(deviations),
        tested.z, tested.p, tested.effect, even + low, even + high, sign_flip_p(deviations),
        detectable_mean, tested.p, detectable_mean,
    )  # fmt: skip


def _detectable_mean(deviations: Sequence[float], groups: Sequence[str], family: int, even: float) -> float | None:
    """Return the detectable mean in the unit of the measure."""
    if len(set(deviations)) < 2:
        return None
    largest = max(map(abs, deviations))
    scaled = [50 + value / largest for value in deviations]
    return even + (detectable_rate(scaled, groups, family=family) - 50) * largest


# -- families of pairs


def correct_family(family: Iterable[Comparison | None]) -> list[Comparison]:
    """Correct the p-values of one family of comparisons by Holm's method."""
    comparisons = [comparison for comparison in family if comparison is not None]
    p_values = holm_correct([comparison.p for comparison in comparisons])
    return [
        replace(
            comparison,
            corrected=p,
            family=len(comparisons),
            corrected_detectable=_detectable_in_family(comparison, len(comparisons)),
        )
        for comparison, p in zip(comparisons, p_values, strict=True)
    ]


def _detectable_in_family(comparison: Comparison, family: int) -> float | None:
    """Return the detectable mean at .05 by the size of the family.

    It grows with the quantile of the normal distribution.
    """
    if comparison.detectable is None:
        return None
    power = upper_quantile(0.2)
    wider = (upper_quantile(SIGNIFICANCE_LEVEL / family / 2) + power) / (upper_quantile(SIGNIFICANCE_LEVEL / 2) + power)
    detectable_mean = comparison.even_mean + (comparison.detectable - comparison.even_mean) * wider
    return min(100.0, detectable_mean) if comparison.kind == "points" else detectable_mean


def compare_by_criterion(
    metric: str,
    points: Mapping[SystemPair, QuestionValues],
    clusters: Mapping[str, str],
    *,
    zeros: ZeroMethod = "pratt",
) -> list[Comparison]:
    """Compare every pair of systems by one criterion, as one family.

    A system against itself is left out.
    """
    judged_questions: dict[str, set[str]] = {}
    for sides, values in points.items():
        for side in sides:
            judged_questions.setdefault(side, set()).update(values)
    pairs = [sides for sides in points if sides[0] != sides[1]]

    def missing(sides: SystemPair) -> int:
        return len((judged_questions[sides[0]] | judged_questions[sides[1]]) - points[sides].keys())

    return correct_family(
        compare_pair_by_points(metric, s, points[s], clusters, zeros=zeros, left_out=missing(s)) for s in pairs
    )


def compare_by_criteria(
    pair_points: Mapping[CriterionPair, QuestionValues], clusters: Mapping[str, str]
) -> list[Comparison]:
    """Compare every pair by each criterion of each protocol, one family each."""
    families: dict[tuple[str, str], dict[SystemPair, QuestionValues]] = {}
    for pair, values in pair_points.items():
        families.setdefault((pair.protocol, pair.criterion), {})[pair.a, pair.b] = values
    return [
        comparison
        for (protocol, criterion), points in families.items()
        for comparison in compare_by_criterion(criterion, points, clusters, zeros=zero_method_for(protocol))
    ]


def compare_by_measure(
    metric: str,
    values: Mapping[str, QuestionValues],
    clusters: Mapping[str, str],
    *,
    pairs: Sequence[SystemPair] | None = None,
    zeros: ZeroMethod = "pratt",
) -> list[Comparison]:
    """Compare every pair of systems, or these pairs, by one measure.

    The pairs are one family.
    """
    selected = list(combinations(values, 2)) if pairs is None else pairs
    return correct_family(compare_pair_by_measure(metric, sides, values, clusters, zeros=zeros) for sides in selected)


def neighbouring_pairs(systems: Sequence[str]) -> list[SystemPair]:
    """Return each system with its predecessor, as the arms of MK-RAG.

    >>> neighbouring_pairs(["plain", "tags", "summary"])
    [('tags', 'plain'), ('summary', 'tags')]
    """
    return [(current, previous) for previous, current in pairwise(systems)]


def compare_by_measures(
    values: Mapping[str, Mapping[str, QuestionValues]],
    clusters: Mapping[str, str],
    pairs: Sequence[SystemPair],
    *,
    zeros: ZeroMethod = "wilcox",
) -> list[Comparison]:
    """Compare pairs by several measures, all as one family.

    6 measures x 3 neighbours of MK-RAG are 18 comparisons.
    """
    comparisons = (
        compare_pair_by_measure(metric, sides, by_system, clusters, zeros=zeros)
        for metric, by_system in values.items()
        for sides in pairs
    )
    return correct_family(comparisons)


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


def rank_systems(
    points: Mapping[SystemPair, QuestionValues], clusters: Mapping[str, str], *, draws: int = 1000
) -> list[RankedSystem]:
    """Rank the systems, strongest first; ties by name.

    Questions are resampled by clusters with a fixed seed.
    """
    import numpy as np

    pairs = {sides: values for sides, values in points.items() if sides[0] != sides[1] and values}
    systems = sorted({side for sides in pairs for side in sides})
    if not systems:
        return []
    wins = _win_tables(pairs, systems, clusters)
    total_wins = wins.sum(axis=0, keepdims=True)
    strength = bradley_terry_batch(total_wins)[0]
    groups = len(wins)
    draw_counts = np.random.default_rng(SEED).multinomial(groups, np.full(groups, 1 / groups), size=draws)
    draw_strengths = bradley_terry_batch(np.einsum("dc,cij->dij", draw_counts.astype(float), wins))
    ranks = 1 + (draw_strengths[:, None, :] > draw_strengths[:, :, None] * (1 + 1e-9)).sum(axis=2)
    best = np.quantile(ranks, 0.025, axis=0, method="lower")
    worst = np.quantile(ranks, 0.975, axis=0, method="higher")
    means = _mean_points(pairs)
    order = sorted(range(len(systems)), key=lambda i: (-round(float(strength[i]), 9), systems[i]))
    rows = []
    for i in order:
        rank = 1 + sum(float(rival) > float(strength[i]) * (1 + 1e-6) for rival in strength)
        rows.append(RankedSystem(systems[i], float(strength[i]), means[systems[i]], rank, int(best[i]), int(worst[i])))
    return rows


def _win_tables(
    pairs: Mapping[SystemPair, QuestionValues], systems: Sequence[str], clusters: Mapping[str, str]
) -> NDArray[np.float64]:
    """Return a win table for each cluster.

    A tie is half a win.
    """
    import numpy as np

    names = {clusters.get(question, question) for values in pairs.values() for question in values}
    cluster_index = {cluster: i for i, cluster in enumerate(sorted(names))}
    system_index = {system: i for i, system in enumerate(systems)}
    wins = np.zeros((len(cluster_index), len(systems), len(systems)))
    for (a, b), values in sorted(pairs.items()):
        for question, points in sorted(values.items()):
            cluster = cluster_index[clusters.get(question, question)]
            wins[cluster, system_index[a], system_index[b]] += points / 100
            wins[cluster, system_index[b], system_index[a]] += 1 - points / 100
    return wins


def _mean_points(pairs: Mapping[SystemPair, QuestionValues]) -> dict[str, float]:
    """Return each system's mean over its opponents."""
    means_by_system: dict[str, list[float]] = {}
    for (a, b), values in sorted(pairs.items()):
        mean = sum(values.values()) / len(values)
        means_by_system.setdefault(a, []).append(mean)
        means_by_system.setdefault(b, []).append(100 - mean)
    return {system: sum(means) / len(means) for system, means in means_by_system.items()}


def average_criteria(parts: Sequence[Mapping[SystemPair, QuestionValues]]) -> dict[SystemPair, dict[str, float]]:
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
    return {(comparison.a, comparison.b): comparison for pair in comparisons for comparison in _both_directions(pair)}


def _both_directions(pair: Comparison) -> Iterator[Comparison]:
    yield pair
    yield pair.swap_sides()
