"""points or measures of each question -> Compared, Ranked: who is better than whom, by how much, and how sure that is.

The unit is the question, and only questions count that both sides have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Literal

from kumihimo.evaluate.points import Pair
from kumihimo.evaluate.statistics import (
    SEED,
    Shape,
    Zeros,
    beyond,
    detectable,
    flipped,
    holm,
    interval,
    normal,
    signed_rank,
    strengths_of,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Values = Mapping[str, float]  # of each question
Sides = tuple[str, str]  # two systems, the second not the first

AS_PUBLISHED = ("graphrag", "lightrag", "mk")  # protocols of which zeros are left out before they are ranked
LEVEL = 0.05


@dataclass(frozen=True, slots=True)
class Compared:
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
    shape: Shape
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
    def sure(self) -> bool:
        return self.corrected < LEVEL

    @property
    def even(self) -> float:
        """The mean of two that are as good as each other."""
        return 50.0 if self.kind == "points" else 0.0

    def turned(self) -> Compared:
        """System b over system a: the means of the two of `points` sum to 100."""

        def of(mean: float) -> float:
            return 2 * self.even - mean

        return replace(
            self, a=self.b, b=self.a, mean=of(self.mean), z=-self.z, effect=-self.effect, low=of(self.high),
            high=of(self.low),
        )  # fmt: skip


def zeros_of(protocol: str) -> Zeros:
    """What is done with questions that nobody won: as published, or such that they count for what they are."""
    return "wilcox" if protocol in AS_PUBLISHED else "pratt"


# -- one pair


def judged(
    metric: str, sides: Sides, points: Values, clusters: Mapping[str, str], *, zeros: Zeros = "pratt", left_out: int = 0
) -> Compared | None:
    """By the points of the first side, 0 to 100 for each question; None where there are none.

    clusters: of a question the cluster it belongs to; one that is not there is a cluster of its own.
    """
    if not points:
        return None
    values, groups = _listed(points, clusters)
    return _compared(metric, sides, "points", [value - 50 for value in values], groups, zeros, left_out)


def measured(
    metric: str, sides: Sides, values: Mapping[str, Values], clusters: Mapping[str, str], *, zeros: Zeros = "pratt"
) -> Compared | None:
    """By a measure of both, of the questions that both have; None where there are none."""
    one, other = (values.get(side, {}) for side in sides)
    shared = {question: one[question] - other[question] for question in one if question in other}
    if not shared:
        return None
    differences, groups = _listed(shared, clusters)
    return _compared(metric, sides, "difference", differences, groups, zeros, len(one.keys() ^ other.keys()))


def _listed(values: Values, clusters: Mapping[str, str]) -> tuple[list[float], list[str]]:
    ordered = sorted(values)
    return [values[question] for question in ordered], [clusters.get(question, question) for question in ordered]


def _compared(
    metric: str,
    sides: Sides,
    kind: Literal["points", "difference"],
    off: Sequence[float],  # from what it would be, were both as good
    groups: Sequence[str],
    zeros: Zeros,
    left_out: int,
) -> Compared:
    even = 50.0 if kind == "points" else 0.0
    off = [round(value, 9) for value in off]  # means of thirds that are equal have the same last bit
    tested = signed_rank(off, zeros)
    low, high = interval(off, groups)
    seen = _seen(off, groups, 1, even)
    mean = even + sum(off) / len(off)
    return Compared(
        metric, *sides, kind, mean, len(off), left_out, normal(off), tested.z, tested.p, tested.effect,
        even + low, even + high, flipped(off), seen, tested.p, seen,
    )  # fmt: skip


def _seen(off: Sequence[float], groups: Sequence[str], family: int, even: float) -> float | None:
    """The mean that would have been seen, in the measure's own unit."""
    if len(set(off)) < 2:
        return None
    most = max(map(abs, off))
    return even + (detectable([50 + value / most for value in off], groups, family=family) - 50) * most


# -- families of pairs


def corrected(family: Iterable[Compared | None]) -> list[Compared]:
    """Comparisons that are one family: their p-values by Holm's method."""
    found = [one for one in family if one is not None]
    ps = holm([one.p for one in found])
    return [
        replace(one, corrected=p, family=len(found), corrected_detectable=_widened(one, len(found)))
        for one, p in zip(found, ps, strict=True)
    ]


def _widened(one: Compared, family: int) -> float | None:
    """What could have been seen at .05 by the size of the family: it grows as the quantile of the normal does."""
    if one.detectable is None:
        return None
    power = beyond(0.2)
    wider = (beyond(LEVEL / family / 2) + power) / (beyond(LEVEL / 2) + power)
    seen = one.even + (one.detectable - one.even) * wider
    return min(100.0, seen) if one.kind == "points" else seen


def by_judging(
    metric: str, points: Mapping[Sides, Values], clusters: Mapping[str, str], *, zeros: Zeros = "pratt"
) -> list[Compared]:
    """Every pair of systems by one criterion, as one family; a system against itself is not of it."""
    asked: dict[str, set[str]] = {}
    for sides, values in points.items():
        for side in sides:
            asked.setdefault(side, set()).update(values)
    pairs = [sides for sides in points if sides[0] != sides[1]]

    def missing(sides: Sides) -> int:
        return len((asked[sides[0]] | asked[sides[1]]) - points[sides].keys())

    return corrected(judged(metric, s, points[s], clusters, zeros=zeros, left_out=missing(s)) for s in pairs)


def by_criteria(found: Mapping[Pair, Values], clusters: Mapping[str, str]) -> list[Compared]:
    """Every pair by each criterion of each protocol, a family each."""
    families: dict[tuple[str, str], dict[Sides, Values]] = {}
    for pair, values in found.items():
        families.setdefault((pair.protocol, pair.criterion), {})[pair.a, pair.b] = values
    return [
        one
        for (protocol, criterion), points in families.items()
        for one in by_judging(criterion, points, clusters, zeros=zeros_of(protocol))
    ]


def by_measure(
    metric: str,
    values: Mapping[str, Values],
    clusters: Mapping[str, str],
    *,
    pairs: Sequence[Sides] | None = None,
    zeros: Zeros = "pratt",
) -> list[Compared]:
    """Every pair of systems, or these, by a measure of each, as one family."""
    chosen = list(combinations(values, 2)) if pairs is None else pairs
    return corrected(measured(metric, sides, values, clusters, zeros=zeros) for sides in chosen)


def neighbouring(systems: Sequence[str]) -> list[Sides]:
    """Each against the one before it, as MK-RAG's arms.

    >>> neighbouring(["plain", "tags", "summary"])
    [('tags', 'plain'), ('summary', 'tags')]
    """
    return [(after, before) for before, after in pairwise(systems)]


def by_measures(
    values: Mapping[str, Mapping[str, Values]],
    clusters: Mapping[str, str],
    pairs: Sequence[Sides],
    *,
    zeros: Zeros = "wilcox",
) -> list[Compared]:
    """These pairs by several measures, all as one family: 6 measures x 3 neighbours of MK-RAG are 18."""
    found = (measured(metric, sides, held, clusters, zeros=zeros) for metric, held in values.items() for sides in pairs)
    return corrected(found)


# -- all of them in an order


@dataclass(frozen=True, slots=True)
class Ranked:
    """A system's place: by its Bradley–Terry strength, with the ranks that 95 % of draws of clusters give it.

    mean: of its points against each of the others.
    """

    system: str
    strength: float
    mean: float
    rank: int
    best: int
    worst: int


def ranked(points: Mapping[Sides, Values], clusters: Mapping[str, str], *, draws: int = 1000) -> list[Ranked]:
    """The systems, the strongest first; equal ones by name. Questions are drawn by their clusters, by a seed."""
    import numpy as np

    pairs = {sides: values for sides, values in points.items() if sides[0] != sides[1] and values}
    systems = sorted({side for sides in pairs for side in sides})
    if not systems:
        return []
    wins = _wins(pairs, systems, clusters)
    whole = wins.sum(axis=0, keepdims=True)
    strength = strengths_of(whole)[0]
    groups = len(wins)
    drawn = np.random.default_rng(SEED).multinomial(groups, np.full(groups, 1 / groups), size=draws)
    each = strengths_of(np.einsum("dc,cij->dij", drawn.astype(float), wins))
    ranks = 1 + (each[:, None, :] > each[:, :, None] * (1 + 1e-9)).sum(axis=2)
    best = np.quantile(ranks, 0.025, axis=0, method="lower")
    worst = np.quantile(ranks, 0.975, axis=0, method="higher")
    means = _means(pairs)
    order = sorted(range(len(systems)), key=lambda i: (-round(float(strength[i]), 9), systems[i]))
    found = []
    for i in order:
        rank = 1 + sum(float(other) > float(strength[i]) * (1 + 1e-6) for other in strength)
        found.append(Ranked(systems[i], float(strength[i]), means[systems[i]], rank, int(best[i]), int(worst[i])))
    return found


def _wins(pairs: Mapping[Sides, Values], systems: Sequence[str], clusters: Mapping[str, str]) -> NDArray[np.float64]:
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


def _means(pairs: Mapping[Sides, Values]) -> dict[str, float]:
    """Of each system the mean of what it has against each of the others."""
    against: dict[str, list[float]] = {}
    for (a, b), values in sorted(pairs.items()):
        mean = sum(values.values()) / len(values)
        against.setdefault(a, []).append(mean)
        against.setdefault(b, []).append(100 - mean)
    return {system: sum(means) / len(means) for system, means in against.items()}


def together(parts: Sequence[Mapping[Sides, Values]]) -> dict[Sides, dict[str, float]]:
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


def matrix(found: Iterable[Compared]) -> dict[Sides, Compared]:
    """Each pair in both directions: row over column."""
    return {(one.a, one.b): one for pair in found for one in _both(pair)}


def _both(pair: Compared) -> Iterator[Compared]:
    yield pair
    yield pair.turned()
