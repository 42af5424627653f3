"""an answer + the reference answer -> answer_correctness: how much of one is in the other, and how near they are."""

from __future__ import annotations

from kumihimo.evaluate.scoring.case import NO_REFERENCE, Case, ScoreResult, Tools
from kumihimo.evaluate.scoring.statements import answer_statements, reference_statements
from kumihimo.evaluate.scoring.support_check import check_support, describe_checks

FACTS_WEIGHT, COSINE_WEIGHT = 0.75, 0.25  # the weights of ragas


def answer_correctness(case: Case, tools: Tools) -> ScoreResult:
    """.75 F1 + .25 cosine (ragas, as the knowledge graph of chunks was measured with).

    F1 = TP / (TP + (FP + FN) / 2): TP statements of the answer that the reference supports, FP those that it does not,
    FN statements of the reference that the answer does not support. The cosine is that of the vectors of the whole
    texts, at least 0. TP 2, FP 1, FN 1 and a cosine of .8: .75 * 2/3 + .25 * .8 = .7.
    0 where the answer states nothing; undefined where neither states anything, or there is no reference, or only one
    that states nothing.
    But: ragas gives the facts 1.0 where either of the lists is empty; and has TP, FP and FN sorted in one call, where
    each side is here checked against the other.
    """
    reference = case.question.reference
    if not reference.strip():
        return ScoreResult(None, NO_REFERENCE)
    made, wanted = answer_statements(case, tools), reference_statements(case, tools)
    if not wanted:
        who = "the reference answer states nothing" if made else "neither the answer nor the reference states anything"
        return ScoreResult(None, who, {"answer": made, "reference": []})
    if not made:
        return ScoreResult(0.0, "the answer states nothing", {"answer": [], "reference": wanted})
    right = check_support(tools, case.question.text, made, reference)
    there = check_support(tools, case.question.text, wanted, case.answer_text)
    tp, fn = sum(v.holds for v in right), sum(not v.holds for v in there)
    facts, cosine = f1(tp, len(made) - tp, fn), tools.cosine(case.answer_text, reference)
    detail = {
        "f1": facts,
        "cosine": cosine,
        "answer": describe_checks(made, right),
        "reference": describe_checks(wanted, there),
    }
    return ScoreResult(FACTS_WEIGHT * facts + COSINE_WEIGHT * cosine, detail=detail)


def f1(tp: int, fp: int, fn: int) -> float:
    """
    >>> f1(2, 1, 1), f1(0, 3, 0)
    (0.6666666666666666, 0.0)
    """
    return tp / (tp + (fp + fn) / 2) if tp else 0.0
