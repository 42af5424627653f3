"""Verdicts -> points of each question and pair of systems, balanced over presentation order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kumihimo.evaluate.records import Verdict


class CriterionPair(NamedTuple):
    """A pair of systems under one criterion of one protocol."""

    protocol: str
    criterion: str
    a: str
    b: str

    @property
    def swapped(self) -> CriterionPair:
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
        if v.role == "judge" and (v.a == v.b) is self_pairs:
            _add(replicates, v)
    return {pair: _question_points(by_question) for pair, by_question in replicates.items()}


def _add(replicates: dict[CriterionPair, dict[str, _PointsByOrder]], v: Verdict) -> None:
    pair = CriterionPair(v.protocol, v.criterion, v.a, v.b)
    value, a_second = v.points, v.first == "b"
    by_question = replicates.get(pair)
    if by_question is None and (by_question := replicates.get(pair.swapped)) is not None:
        value, a_second = None if value is None else 100.0 - value, not a_second
    if by_question is None:
        by_question = replicates[pair] = {}
    by_question.setdefault(v.question, ({}, {}))[a_second][v.replicate] = value


def _question_points(by_question: Mapping[str, _PointsByOrder]) -> dict[str, float]:
    both_orders = any(a_first.keys() & a_second.keys() for a_first, a_second in by_question.values())
    means = {
        question: _mean_points(a_first, a_second, both=both_orders)
        for question, (a_first, a_second) in by_question.items()
    }
    return {question: value for question, value in means.items() if value is not None}


def _mean_points(a_first: _PointsByReplicate, a_second: _PointsByReplicate, *, both: bool) -> float | None:
    first_points, second_points = _valid_points(a_first), _valid_points(a_second)
    if both:
        n = min(len(first_points), len(second_points))
        first_points, second_points = first_points[:n], second_points[:n]
    n = len(first_points) + len(second_points)
    return (sum(first_points) + sum(second_points)) / n if n else None


def _valid_points(points: _PointsByReplicate) -> list[float]:
    return [value for _, value in sorted(points.items()) if value is not None]


def with_swapped_pairs(
    pair_points: Mapping[CriterionPair, Mapping[str, float]],
) -> dict[CriterionPair, dict[str, float]]:
    """Return each pair in both directions.

    The points of both directions sum to 100.
    """
    both_directions: dict[CriterionPair, dict[str, float]] = {}
    for pair, scores in pair_points.items():
        both_directions[pair] = dict(scores)
        both_directions[pair.swapped] = {question: 100.0 - value for question, value in scores.items()}
    return both_directions
