"""an answer + its evidence -> faithfulness: the share of statements that the evidence supports."""

from __future__ import annotations

from kumihimo.evaluate.scoring.case import Case, ScoreResult, Tools, fraction_true, join_passages
from kumihimo.evaluate.scoring.statements import answer_statements
from kumihimo.evaluate.scoring.support_check import check_support, describe_checks


def faithfulness(case: Case, tools: Tools) -> ScoreResult:
    """Score the supported statements / statements of the answer (ragas, arXiv:2309.15217, 3).

    Four statements, three of them supported by the evidence: .75. Undefined if the answer makes no statement; 0 if it
    makes some without any evidence.
    But: one call extracts the statements of the whole answer, instead of one call per sentence.
    """
    claims = answer_statements(case, tools)
    if not claims:
        return ScoreResult(None, "the answer makes no statement", {"statements": []})
    verdicts = check_support(tools, case.question.text, claims, join_passages(case.contexts))
    reason = "" if case.contexts else "there is no evidence"
    return ScoreResult(
        fraction_true([verdict.holds for verdict in verdicts]),
        reason,
        {"statements": describe_checks(claims, verdicts)},
    )
