"""the reference answer + the evidence -> context_precision: whether useful evidence ranks first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kumihimo.evaluate.scoring.case import NO_REFERENCE, Case, ScoreResult, Tools
from kumihimo.evaluate.scoring.support_check import check_items, describe_checks

PROMPT = Path(__file__).with_name("scoring_useful.md")


def context_precision(case: Case, tools: Tools) -> ScoreResult:
    """Score the sum of P@k v_k / sum of v_k (ragas).

    v_k: whether piece k of the evidence is useful for the reference answer. P@k: the share of useful pieces among the
    first k. Undefined without a reference answer, without evidence, or without a useful piece: the sum is 0 / 0.
    But: one call shows all pieces in order, where ragas uses a call per piece. Without a useful piece ragas gives 0.
    """
    if not case.question.reference.strip():
        return ScoreResult(None, NO_REFERENCE)
    if not case.contexts:
        return ScoreResult(None, "there is no evidence")
    values = {"question": case.question.text, "reference": case.question.reference}
    verdicts = check_items(tools, PROMPT, case.contexts, **values)
    value = average_useful_precision([verdict.holds for verdict in verdicts])
    return ScoreResult(
        value,
        "" if value is not None else "no piece of the evidence is useful",
        {"contexts": describe_checks(case.contexts, verdicts)},
    )


def average_useful_precision(useful: Sequence[bool]) -> float | None:
    """Return the mean precision at the useful positions.

    >>> average_useful_precision([True, False, True])  # (1 + 2/3) / 2
    0.8333333333333333
    >>> average_useful_precision([False, True]), average_useful_precision([False])
    (0.5, None)
    """
    precisions = [sum(useful[: k + 1]) / (k + 1) for k, is_useful in enumerate(useful) if is_useful]
    return sum(precisions) / len(precisions) if precisions else None
