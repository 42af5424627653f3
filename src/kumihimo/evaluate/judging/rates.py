"""points of pairs -> win rates with their tests, one family for each criterion; ratings -> means of systems."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kumihimo.evaluate.bias import Rate, rate
from kumihimo.evaluate.points import Pair
from kumihimo.evaluate.records import Rating
from kumihimo.evaluate.statistics import Zeros, holm, signed_rank

PAPERS = ("graphrag", "lightrag", "mk")


@dataclass(frozen=True, slots=True)
class Won:
    """How often a beats b. p: of Wilcoxon's test; corrected: by Holm for all pairs of the criterion, `family` many."""

    criterion: str
    a: str
    b: str
    rate: Rate
    z: float
    p: float
    corrected: float
    family: int


def rates(scores: Mapping[Pair, Mapping[str, float]], clusters: Mapping[str, str]) -> list[Won]:
    """Of one protocol, in the order of its pairs, criterion by criterion."""
    families: defaultdict[str, list[Pair]] = defaultdict(list)
    for pair in scores:
        families[pair.criterion].append(pair)
    return [won for pairs in families.values() for won in _family({p: scores[p] for p in pairs}, clusters)]


def _family(scores: Mapping[Pair, Mapping[str, float]], clusters: Mapping[str, str]) -> list[Won]:
    def zeros(pair: Pair) -> Zeros:
        return "wilcox" if pair.protocol in PAPERS else "pratt"

    tests = [signed_rank([2 * value - 100 for value in held.values()], zeros(pair)) for pair, held in scores.items()]
    corrected = holm([test.p for test in tests])
    made: list[Won] = []
    for (pair, held), test, p in zip(scores.items(), tests, corrected, strict=True):
        found = rate(list(held.items()), clusters, few="no question was judged")
        made.append(Won(pair.criterion, pair.a, pair.b, found, test.z, test.p, p, len(tests)))
    return made


def means(ratings: Iterable[Rating]) -> dict[tuple[str, str], tuple[float | None, int]]:
    """By system and criterion the mean over questions of the mean of replicates, and how many questions that is."""
    said: defaultdict[tuple[str, str], defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in ratings:
        held = said[row.system, row.criterion]
        if row.value is not None:
            held[row.question].append(row.value)
    return {of: _mean([sum(v) / len(v) for v in held.values()]) for of, held in said.items()}


def _mean(values: list[float]) -> tuple[float | None, int]:
    return (sum(values) / len(values) if values else None), len(values)
