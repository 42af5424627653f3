"""the reference answer + the evidence -> context_precision: whether what is of use stands before what is not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kumihimo.evaluate.scoring.case import NO_REFERENCE, Case, ScoreResult, Tools
from kumihimo.evaluate.scoring.support_check import check_items, describe_checks

PROMPT = Path(__file__).with_name("scoring_useful.md")


def context_precision(case: Case, tools: Tools) -> ScoreResult:
    """Sum of P@k v_k / sum of v_k: v_k whether piece k of the evidence is of use for the reference answer, P@k the
    share of such pieces among the first k (ragas).

    Undefined without a reference answer, without evidence, and where no piece is of use: the sum is 0 / 0.
    But: all pieces are shown in one call, in their order, where ragas asks about each by itself; and where none is of
    use ragas gives 0.
    """
    if not case.question.reference.strip():
        return ScoreResult(None, NO_REFERENCE)
    if not case.contexts:
        return ScoreResult(None, "there is no evidence")
    values = {"question": case.question.text, "reference": case.question.reference}
    verdicts = check_items(tools, PROMPT, case.contexts, **values)
    value = average_useful_precision([v.holds for v in verdicts])
    return ScoreResult(
        value,
        "" if value is not None else "no piece of the evidence is of use",
        {"contexts": describe_checks(case.contexts, verdicts)},
    )


def average_useful_precision(useful: Sequence[bool]) -> float | None:
    """
    >>> average([True, False, True]), average([False, True]), average([False])  # (1 + 2/3) / 2
    (0.8333333333333333, 0.5, None)
    """
    at = [sum(useful[: k + 1]) / (k + 1) for k, v in enumerate(useful) if v]
    return sum(at) / len(at) if at else None
