"""the reference answer + the evidence -> context_recall: how much of the reference the evidence says."""

from __future__ import annotations

from kumihimo.evaluate.scoring.case import NO_REFERENCE, Case, Found, Tools, cut, joined, share
from kumihimo.evaluate.scoring.support_check import supported, told


def context_recall(case: Case, tools: Tools) -> Found:
    """Sentences of the reference that the evidence supports / sentences of the reference (ragas).

    One of two: .5. Undefined without a reference answer; 0 where there is no evidence.
    """
    wanted = list(cut(case.question.reference))
    if not wanted:
        return Found(None, NO_REFERENCE)
    verdicts = supported(tools, case.question.text, wanted, joined(case.contexts))
    reason = "" if case.contexts else "there is no evidence"
    return Found(share([v.holds for v in verdicts]), reason, {"sentences": told(wanted, verdicts)})
