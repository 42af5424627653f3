"""Verdicts -> points of each question and pair of systems, and how often counts agree with the judge."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

from kumihimo.evaluate.claims.study_claims import THRESHOLDS, cluster_measure_name
from kumihimo.evaluate.records import ByQuestion, Clusters, ValuesByMeasure, Verdict
from kumihimo.evaluate.statistics import bootstrap_interval

MIN_TASKS = 5  # for an interval
COUNT_MEASURES = {  # by criterion
    "comprehensiveness": ("claims",),
    "diversity": tuple(map(cluster_measure_name, THRESHOLDS)),
}


class CriterionPair(NamedTuple):
    """A pair of systems under one criterion of one protocol."""

    protocol: str
    criterion: str
    a: str
    b: str

    @property
    def swapped(self) -> "CriterionPair":
        """Return the pair in the other direction."""
        return CriterionPair(self.protocol, self.criterion, self.b, self.a)


_PointsByReplicate = dict[int, float | None]  # points of a; None: the verdict is not ok
_PointsByOrder = tuple[_PointsByReplicate, _PointsByReplicate]  # a shown first, b shown first


def points_by_pair(verdicts: Iterable[Verdict], *, self_pairs: bool = False) -> dict[CriterionPair, dict[str, float]]:
    """Return the mean points of a by pair and question.

    Points range from 0 to 100. Only the first judge counts. Each pair occurs once, in the direction of its first
    verdict. If a design shows each replicate in both orders, the number of valid verdicts of each order is made equal:
    the first replicates are kept. Otherwise the order would bias the mean. A question without valid verdicts in one
    order has no points. Designs with one order, or with alternating orders, use all valid verdicts. self_pairs: return
    the pairs of a system with another generation of itself instead.

    >>> both = [Verdict("p", "c", "q", "x", "y", "a", 0, "a"), Verdict("p", "c", "q", "x", "y", "b", 0, "tie")]
    >>> list(points_by_pair(both).values())
    [{'q': 75.0}]
    >>> points_by_pair([*both[:1], Verdict("p", "c", "q", "x", "y", "b", 0, "", status="invalid")])
    {CriterionPair(protocol='p', criterion='c', a='x', b='y'): {}}
    """
    replicates: dict[CriterionPair, dict[str, _PointsByOrder]] = {}
    for v in verdicts:
        if v.role != "judge" or (v.a == v.b) is not self_pairs:
            continue
        pair, points, order = CriterionPair(v.protocol, v.criterion, v.a, v.b), v.points, v.first == "b"
        if pair not in replicates and pair.swapped in replicates:
            pair, points, order = pair.swapped, None if points is None else 100.0 - points, not order
        replicates.setdefault(pair, {}).setdefault(v.question, ({}, {}))[order][v.replicate] = points
    return {pair: _mean_points(by_question) for pair, by_question in replicates.items()}


def _mean_points(by_question: Mapping[str, _PointsByOrder]) -> dict[str, float]:
    both_orders = any(a_first.keys() & a_second.keys() for a_first, a_second in by_question.values())
    means: dict[str, float] = {}
    for question, orders in by_question.items():
        valid = [[points for _, points in sorted(order.items()) if points is not None] for order in orders]
        shortest = min(map(len, valid)) if both_orders else None
        if points := [*valid[0][:shortest], *valid[1][:shortest]]:
            means[question] = sum(points) / len(points)
    return means


def with_swapped_pairs(pair_points: Mapping[CriterionPair, ByQuestion]) -> dict[CriterionPair, dict[str, float]]:
    """Return each pair in both directions.

    The points of both directions sum to 100.
    """
    both_directions: dict[CriterionPair, dict[str, float]] = {}
    for pair, scores in pair_points.items():
        both_directions[pair] = dict(scores)
        both_directions[pair.swapped] = {question: 100.0 - value for question, value in scores.items()}
    return both_directions


# -- win rates


@dataclass(frozen=True, slots=True)
class WinRate:
    """A win rate over `n` questions with its 95 % interval.

    value: 0 to 100, None if it is undefined; `why` says why.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int = 0
    why: str = ""

    @property
    def differs_from_even(self) -> bool:
        """Return whether the interval excludes 50."""
        return self.low is not None and self.high is not None and not self.low <= 50.0 <= self.high

    @property
    def is_win(self) -> bool:
        """Return whether the interval is above 50."""
        return self.low is not None and self.low > 50.0

    @classmethod
    def from_points(cls, points: Sequence[tuple[str, float]], clusters: Clusters, *, reason: str) -> Self:
        """Return the mean of some points with an interval by task.

        A question may occur several times. reason: the reason to report if there are no points.
        """
        if not points:
            return cls(None, why=reason)
        values, groups = [value for _, value in points], [clusters.get(question, question) for question, _ in points]
        mean = sum(values) / len(values)
        if len(set(groups)) < MIN_TASKS:
            return cls(mean, n=len(values), why=f"no interval: fewer than {MIN_TASKS} tasks")
        return cls(mean, *bootstrap_interval(values, groups), len(values))


@dataclass(frozen=True, slots=True)
class JudgedPoints:
    """The input of the panels.

    scores: points by pair. clusters: by question. token_counts: of the answers, by system and question.
    """

    scores: Mapping[CriterionPair, ByQuestion]
    clusters: Clusters
    token_counts: Mapping[str, Mapping[str, int]]  # by system, by question

    def win_rate(self, scores: Mapping[str, float], *, reason: str = "no question was judged") -> WinRate:
        """Return the mean points of these questions with its interval."""
        return WinRate.from_points(list(scores.items()), self.clusters, reason=reason)

    def length_gap(self, pair: CriterionPair, question: str) -> float:
        """Return the difference in length in percent of the longer answer.

        It is negative if b's answer is longer.
        """
        length_a, length_b = (self.token_counts[system].get(question, 0) for system in (pair.a, pair.b))
        return 100.0 * (length_a - length_b) / max(length_a, length_b, 1)


# -- agreement with counts


@dataclass(frozen=True, slots=True)
class CountAgreement:
    """The agreement of a criterion of a protocol with a counted measure.

    pairs: judged pairs of answers. decided: pairs with a majority winner. unknown: decided, but a count is missing.
    equal: decided, but both counts are equal. agreeing: the winner has the higher count.
    """

    protocol: str
    criterion: str
    measure: str
    pairs: int
    decided: int
    unknown: int
    equal: int
    agreeing: int

    @property
    def n(self) -> int:
        """Return the number of decided pairs with both counts."""
        return self.decided - self.unknown

    @property
    def share(self) -> float | None:
        """Return the share of agreeing pairs, None without comparable pairs."""
        return self.agreeing / self.n if self.n else None


def compare_with_counts(verdicts: Iterable[Verdict], values: Mapping[str, ValuesByMeasure]) -> list[CountAgreement]:
    """Return the agreement of judge and counts (GraphRAG, section 5.2).

    Only verdicts on comprehensiveness and diversity count. values: by system, as `counts.measure_claims` returns
    them. Verdicts of a second judge, or between two answers of one system, do not count.
    """
    winners_by_pair: defaultdict[tuple[str, str, str, str, str], list[str]] = defaultdict(list)
    for v in verdicts:
        if v.criterion in COUNT_MEASURES and v.role == "judge" and v.a != v.b:
            first, second = sorted((v.a, v.b))
            winner = {"a": v.a, "b": v.b}.get(v.winner, v.winner) if v.status == "ok" else ""
            winners_by_pair[v.protocol, v.criterion, v.question, first, second].append(winner)
    outcomes: defaultdict[tuple[str, str], list[tuple[str, str, str]]] = defaultdict(list)  # question, winner, loser
    for (protocol, criterion, question, first, second), winners in winners_by_pair.items():
        majority = majority_winner(winners)
        loser = {first: second, second: first}.get(majority, "")
        outcomes[protocol, criterion].append((question, majority if loser else "", loser))
    agreements: list[CountAgreement] = []
    for (protocol, criterion), rows in outcomes.items():
        decided = [row for row in rows if row[1]]
        for measure in COUNT_MEASURES[criterion]:
            counts = [
                [values.get(system, {}).get(measure, {}).get(question) for system in (winner, loser)]
                for question, winner, loser in decided
            ]
            both = [(more, less) for more, less in counts if more is not None and less is not None]
            equal, agreeing = sum(more == less for more, less in both), sum(more > less for more, less in both)
            totals = (len(rows), len(decided), len(decided) - len(both), equal, agreeing)
            agreements.append(CountAgreement(protocol, criterion, measure, *totals))
    return agreements


def majority_winner(winners: Iterable[str]) -> str:
    """Return the winner of more than half of the verdicts, else "tie".

    "" stands for a verdict without a winner.

    >>> majority_winner(["a", "a", "tie", "b", "a"]), majority_winner(["a", "a", "tie", "b", "b"])
    ('a', 'tie')
    >>> majority_winner(["a", "a", "", "", ""])
    'tie'
    """
    counts = Counter(winners)
    name = max(counts, key=lambda name: counts[name], default="")
    return name if name and 2 * counts[name] > counts.total() else "tie"
