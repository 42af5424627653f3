"""Verdicts and claims -> how often the judge prefers the answer with more claims."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

from kumihimo.evaluate.claims.study_claims import THRESHOLDS, cluster_measure_name
from kumihimo.evaluate.points import compare_with_counts
from kumihimo.evaluate.records import Verdict

VALUES: Any = {
    "naive": {"claims": {"q1": 3, "q2": 5, "q3": 2, "q4": 1}}
    | {cluster_measure_name(t): {"q1": 3} for t in THRESHOLDS},
    "global:C0": {"claims": {"q1": 9, "q2": 4, "q3": 2, "q4": None}}
    | {cluster_measure_name(t): {"q1": 2} for t in THRESHOLDS},
}


def judged(question: str, winners: str, criterion: str = "comprehensiveness", **more: Any) -> Iterator[Verdict]:
    """Yield a verdict for each letter: a, b, t for a tie, x for an invalid one."""
    for n, letter in enumerate(winners):
        winner = cast(Any, {"t": "tie", "x": ""}.get(letter, letter))
        row = Verdict("graphrag", criterion, question, "naive", "global:C0", "a", n, winner)
        yield replace(row, status="ok" if winner else "invalid", **more)


def test_the_majority_of_five() -> None:
    rows = [
        *judged("q1", "bbbta"),  # b has more: agreement
        *judged("q2", "bbbxx"),  # b has fewer
        *judged("q3", "aaaaa"),  # equal counts
        *judged("q4", "aaaaa"),  # a count is missing
        *judged("q5", "aattb"),  # no majority
        *judged("q6", "aaxxx"),  # no majority either
        *judged("q1", "aaaaa", role="second_judge"),
        *judged("q1", "aaaaa", b="naive"),
        *judged("q1", "aaaaa", "directness"),
    ]
    [result] = compare_with_counts(rows, VALUES)
    assert (result.pairs, result.decided, result.unknown, result.equal, result.agreeing) == (6, 4, 1, 1, 1)
    assert (result.protocol, result.measure, result.n, result.share) == ("graphrag", "claims", 3, 1 / 3)


def test_diversity_is_compared_at_each_threshold() -> None:
    results = compare_with_counts(
        [*judged("q1", "aaabt", "diversity"), *judged("q1", "bbbbb", a="global:C0", b="naive")], VALUES
    )
    assert [(result.criterion, result.measure, result.share) for result in results] == [
        *(("diversity", cluster_measure_name(t), 1.0) for t in THRESHOLDS),
        ("comprehensiveness", "claims", 0.0),
    ]
    assert compare_with_counts([], VALUES) == []
    [tied] = compare_with_counts(judged("q1", "ttttt"), VALUES)
    assert (tied.n, tied.share) == (0, None)
