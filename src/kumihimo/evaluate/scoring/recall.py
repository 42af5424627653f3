"""the reference answer + the evidence -> context_recall: the share of the reference that the evidence supports."""

from __future__ import annotations

from kumihimo.evaluate.scoring.case import (
    NO_REFERENCE,
    Case,
    ScoreResult,
    Tools,
    fraction_true,
    join_passages,
    split_into_sentences,
)
from kumihimo.evaluate.scoring.support_check import check_support, describe_checks


def context_recall(case: Case, tools: Tools) -> ScoreResult:
    """Score the supported sentences / sentences of the reference (ragas).

    One of two: .5. Undefined without a reference answer; 0 without evidence.
    """
    expected = list(split_into_sentences(case.question.reference))
    if not expected:
        return ScoreResult(None, NO_REFERENCE)
    verdicts = check_support(tools, case.question.text, expected, join_passages(case.contexts))
    reason = "" if case.contexts else "there is no evidence"
    return ScoreResult(
        fraction_true([verdict.holds for verdict in verdicts]),
        reason,
        {"sentences": describe_checks(expected, verdicts)},
    )
