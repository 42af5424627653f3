"""the reference answer + the evidence -> context_recall: how much of the reference the evidence says."""

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
    """Sentences of the reference that the evidence supports / sentences of the reference (ragas).

    One of two: .5. Undefined without a reference answer; 0 where there is no evidence.
    """
    wanted = list(split_into_sentences(case.question.reference))
    if not wanted:
        return ScoreResult(None, NO_REFERENCE)
    verdicts = check_support(tools, case.question.text, wanted, join_passages(case.contexts))
    reason = "" if case.contexts else "there is no evidence"
    return ScoreResult(
        fraction_true([v.holds for v in verdicts]), reason, {"sentences": describe_checks(wanted, verdicts)}
    )
