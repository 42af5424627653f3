"""verdicts -> the points of each question and pair of systems, from as many verdicts in one order as in the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kumihimo.evaluate.records import Verdict


class CriterionPair(NamedTuple):
    """Two systems, compared by one criterion of one protocol."""

    protocol: str
    criterion: str
    a: str
    b: str

    @property
    def swapped(self) -> CriterionPair:
        return CriterionPair(self.protocol, self.criterion, self.b, self.a)


_PointsByReplicate = dict[int, float | None]  # by replicate the points of a, None where the verdict is not ok
_PointsByOrder = tuple[_PointsByReplicate, _PointsByReplicate]  # of one question: a shown first, b shown first


def points_by_pair(verdicts: Iterable[Verdict], *, self_pairs: bool = False) -> dict[CriterionPair, dict[str, float]]:
    """By pair and question the mean points of a, 0 to 100: of the first judge, each pair once, as it was first met.

    Where a design shows each replicate in both orders, only as many verdicts of one order enter as there are valid ones
    of the other, those of the first replicates: else the order would count. A question without any of one order has no
    points. Designs of one order, or of changing ones, are taken as they are: all valid verdicts.
    same: instead of pairs of systems, those of a system with another generation of itself.

    >>> both = [Verdict("p", "c", "q", "x", "y", "a", 0, "a"), Verdict("p", "c", "q", "x", "y", "b", 0, "tie")]
    >>> list(points(both).values())
    [{'q': 75.0}]
    >>> points([*both[:1], Verdict("p", "c", "q", "x", "y", "b", 0, "", status="invalid")])
    {Pair(protocol='p', criterion='c', a='x', b='y'): {}}
    """
    judged: dict[CriterionPair, dict[str, _PointsByOrder]] = {}
    for v in verdicts:
        if v.role == "judge" and (v.a == v.b) is self_pairs:
            _add(judged, v)
    return {pair: _question_points(held) for pair, held in judged.items()}


def _add(judged: dict[CriterionPair, dict[str, _PointsByOrder]], v: Verdict) -> None:
    pair = CriterionPair(v.protocol, v.criterion, v.a, v.b)
    value, second = v.points, v.first == "b"
    held = judged.get(pair)
    if held is None and (held := judged.get(pair.swapped)) is not None:
        value, second = None if value is None else 100.0 - value, not second
    if held is None:
        held = judged[pair] = {}
    held.setdefault(v.question, ({}, {}))[second][v.replicate] = value


def _question_points(held: Mapping[str, _PointsByOrder]) -> dict[str, float]:
    both = any(one.keys() & other.keys() for one, other in held.values())
    found = {question: _mean_points(one, other, both=both) for question, (one, other) in held.items()}
    return {question: value for question, value in found.items() if value is not None}


def _mean_points(one: _PointsByReplicate, other: _PointsByReplicate, *, both: bool) -> float | None:
    mine, theirs = _valid_points(one), _valid_points(other)
    if both:
        n = min(len(mine), len(theirs))
        mine, theirs = mine[:n], theirs[:n]
    n = len(mine) + len(theirs)
    return (sum(mine) + sum(theirs)) / n if n else None


def _valid_points(shown: _PointsByReplicate) -> list[float]:
    return [value for _, value in sorted(shown.items()) if value is not None]


def with_swapped_pairs(found: Mapping[CriterionPair, Mapping[str, float]]) -> dict[CriterionPair, dict[str, float]]:
    """Each pair from both sides: what is missing to 100 is the other's, exactly."""
    made: dict[CriterionPair, dict[str, float]] = {}
    for pair, scores in found.items():
        made[pair] = dict(scores)
        made[pair.swapped] = {question: 100.0 - value for question, value in scores.items()}
    return made
