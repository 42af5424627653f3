"""verdicts + what was counted in the answers -> how often the judge prefers the answer that has more."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from kumihimo.evaluate.claims.claim_counts import ValuesByMeasure, cluster_measure_name
from kumihimo.evaluate.clusters import THRESHOLDS
from kumihimo.evaluate.records import Verdict

COUNT_MEASURES = {
    "comprehensiveness": ("claims",),
    "diversity": tuple(map(cluster_measure_name, THRESHOLDS)),
}  # by criterion


@dataclass(frozen=True, slots=True)
class CountAgreement:
    """Of a criterion of a protocol, and a measure.

    pairs: of answers that were judged. decided: of which most verdicts name the same winner. unknown: decided, but of
    one of the answers nothing was counted. equal: decided, but both have as many. agreeing: the winner has more.
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
        """Pairs that could agree: equal ones do not."""
        return self.decided - self.unknown

    @property
    def share(self) -> float | None:
        """None where there is nothing to compare."""
        return self.agreeing / self.n if self.n else None


def compare_with_counts(verdicts: Iterable[Verdict], values: Mapping[str, ValuesByMeasure]) -> list[CountAgreement]:
    """For each protocol that judged by comprehensiveness or diversity (GraphRAG, section 5.2).

    values: by system, as `counting.values` gives them. Verdicts of a second judge, and on two answers of one system,
    do not count.
    """
    labels: defaultdict[tuple[str, str], list[tuple[str, str, str]]] = defaultdict(list)
    for protocol, criterion, question, winner, loser in _majority_verdicts(verdicts):
        labels[protocol, criterion].append((question, winner, loser))
    return [
        _count_agreement(protocol, criterion, measure, found, values)
        for (protocol, criterion), found in labels.items()
        for measure in COUNT_MEASURES[criterion]
    ]


def _majority_verdicts(verdicts: Iterable[Verdict]) -> Iterator[tuple[str, str, str, str, str]]:
    """Protocol, criterion, question, winner and loser of each pair of answers; nobody where no winner has most."""
    held: defaultdict[tuple[str, str, str, str, str], list[str]] = defaultdict(list)
    for v in verdicts:
        if v.criterion in COUNT_MEASURES and v.role == "judge" and v.a != v.b:
            one, other = sorted((v.a, v.b))
            winner = {"a": v.a, "b": v.b}.get(v.winner, v.winner)
            held[v.protocol, v.criterion, v.question, one, other].append(winner if v.status == "ok" else "")
    for (protocol, criterion, question, one, other), winners in held.items():
        won = majority_winner(winners)
        loser = {one: other, other: one}.get(won, "")
        yield protocol, criterion, question, won if loser else "", loser


def majority_winner(winners: Iterable[str]) -> str:
    """Whom more than half of the verdicts name; "tie" where there is no such. "": a verdict that names nobody.

    >>> majority(["a", "a", "tie", "b", "a"]), majority(["a", "a", "tie", "b", "b"]), majority(["a", "a", "", "", ""])
    ('a', 'tie', 'tie')
    """
    found = Counter(winners)
    name = max(found, key=lambda name: found[name], default="")
    return name if name and 2 * found[name] > found.total() else "tie"


def _count_agreement(
    protocol: str,
    criterion: str,
    measure: str,
    found: Iterable[tuple[str, str, str]],
    values: Mapping[str, ValuesByMeasure],
) -> CountAgreement:
    count: Counter[str] = Counter()
    for question, winner, loser in found:
        count["pairs"] += 1
        if winner:
            count["decided"] += 1
            more, less = (_value(values, system, measure, question) for system in (winner, loser))
            if more is None or less is None:
                count["unknown"] += 1
            else:
                count["equal"] += more == less
                count["agreeing"] += more > less
    numbers = (count[name] for name in ("pairs", "decided", "unknown", "equal", "agreeing"))
    return CountAgreement(protocol, criterion, measure, *numbers)


def _value(values: Mapping[str, ValuesByMeasure], system: str, measure: str, question: str) -> float | None:
    return values.get(system, {}).get(measure, {}).get(question)
