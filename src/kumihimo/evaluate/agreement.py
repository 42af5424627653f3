"""Verdicts and counts -> how often the judge prefers the answer with the higher count."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from kumihimo.evaluate.claims.claim_counts import ValuesByMeasure, cluster_measure_name
from kumihimo.evaluate.clusters import THRESHOLDS
from kumihimo.evaluate.records import Verdict

COUNT_MEASURES = {  # by criterion
    "comprehensiveness": ("claims",),
    "diversity": tuple(map(cluster_measure_name, THRESHOLDS)),
}


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

    Only verdicts on comprehensiveness and diversity count. values: by system, as `claim_counts.measure_claims`
    returns them. Verdicts of a second judge, or between two answers of one system, do not count.
    """
    by_criterion: defaultdict[tuple[str, str], list[tuple[str, str, str]]] = defaultdict(list)
    for protocol, criterion, question, winner, loser in _majority_verdicts(verdicts):
        by_criterion[protocol, criterion].append((question, winner, loser))
    return [
        _count_agreement(protocol, criterion, measure, outcomes, values)
        for (protocol, criterion), outcomes in by_criterion.items()
        for measure in COUNT_MEASURES[criterion]
    ]


def _majority_verdicts(verdicts: Iterable[Verdict]) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield protocol, criterion, question, winner, loser of each judged pair."""
    winners_by_pair: defaultdict[tuple[str, str, str, str, str], list[str]] = defaultdict(list)
    for v in verdicts:
        if v.criterion in COUNT_MEASURES and v.role == "judge" and v.a != v.b:
            first, second = sorted((v.a, v.b))
            winner = {"a": v.a, "b": v.b}.get(v.winner, v.winner)
            winners_by_pair[v.protocol, v.criterion, v.question, first, second].append(
                winner if v.status == "ok" else ""
            )
    for (protocol, criterion, question, first, second), winners in winners_by_pair.items():
        majority = majority_winner(winners)
        loser = {first: second, second: first}.get(majority, "")
        yield protocol, criterion, question, majority if loser else "", loser


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


def _count_agreement(
    protocol: str,
    criterion: str,
    measure: str,
    outcomes: Iterable[tuple[str, str, str]],
    values: Mapping[str, ValuesByMeasure],
) -> CountAgreement:
    count: Counter[str] = Counter()
    for question, winner, loser in outcomes:
        count["pairs"] += 1
        if winner:
            count["decided"] += 1
            winner_count, loser_count = (_value(values, system, measure, question) for system in (winner, loser))
            if winner_count is None or loser_count is None:
                count["unknown"] += 1
            else:
                count["equal"] += winner_count == loser_count
                count["agreeing"] += winner_count > loser_count
    numbers = (count[name] for name in ("pairs", "decided", "unknown", "equal", "agreeing"))
    return CountAgreement(protocol, criterion, measure, *numbers)


def _value(values: Mapping[str, ValuesByMeasure], system: str, measure: str, question: str) -> float | None:
    return values.get(system, {}).get(measure, {}).get(question)
