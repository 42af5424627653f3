"""an answer + the reference answer -> answer_correctness: shared statements and text similarity."""

from __future__ import annotations

from kumihimo.evaluate.scoring.case import NO_REFERENCE, Case, ScoreResult, Tools
from kumihimo.evaluate.scoring.statements import answer_statements, reference_statements
from kumihimo.evaluate.scoring.support_check import check_support, describe_checks

FACTS_WEIGHT, COSINE_WEIGHT = 0.75, 0.25  # as in ragas


def answer_correctness(case: Case, tools: Tools) -> ScoreResult:
    """Score .75 F1 + .25 cosine (ragas), against the reference answer.

    F1 = TP / (TP + (FP + FN) / 2). TP: statements of the answer that the reference supports. FP: those it does not
    support. FN: statements of the reference that the answer does not support. The cosine compares the vectors of the
    whole texts and is at least 0. TP 2, FP 1, FN 1 and a cosine of .8: .75 * 2/3 + .25 * .8 = .7.
    0 if the answer states nothing. Undefined without a reference, or with a reference that states nothing.
    But: ragas gives an F1 of 1.0 if either list is empty, and sorts TP, FP and FN in one call. Here each side is
    checked against the other.
    """
    reference = case.question.reference
    if not reference.strip():
        return ScoreResult(None, NO_REFERENCE)
    answer_claims, reference_claims = answer_statements(case, tools), reference_statements(case, tools)
    if not reference_claims:
        reason = (
            "the reference answer states nothing"
            if answer_claims
            else "neither the answer nor the reference states anything"
        )
        return ScoreResult(None, reason, {"answer": answer_claims, "reference": []})
    if not answer_claims:
        return ScoreResult(0.0, "the answer states nothing", {"answer": [], "reference": reference_claims})
    precision_checks = check_support(tools, case.question.text, answer_claims, reference)
    recall_checks = check_support(tools, case.question.text, reference_claims, case.answer_text)
    tp, fn = sum(check.holds for check in precision_checks), sum(not check.holds for check in recall_checks)
    facts, cosine = f1(tp, len(answer_claims) - tp, fn), tools.cosine(case.answer_text, reference)
    detail = {
        "f1": facts,
        "cosine": cosine,
        "answer": describe_checks(answer_claims, precision_checks),
        "reference": describe_checks(reference_claims, recall_checks),
    }
    return ScoreResult(FACTS_WEIGHT * facts + COSINE_WEIGHT * cosine, detail=detail)


def f1(tp: int, fp: int, fn: int) -> float:
    """Return the F1 score of these counts.

    >>> f1(2, 1, 1), f1(0, 3, 0)
    (0.6666666666666666, 0.0)
    """
    return tp / (tp + (fp + fn) / 2) if tp else 0.0
