"""an answer + its evidence -> faithfulness: how much of what it says the evidence says, too."""

from __future__ import annotations

from kumihimo.evaluate.scoring.case import Case, ScoreResult, Tools, fraction_true, join_passages
from kumihimo.evaluate.scoring.statements import answer_statements
from kumihimo.evaluate.scoring.support_check import check_support, describe_checks


def faithfulness(case: Case, tools: Tools) -> ScoreResult:
    """Statements of the answer that the evidence supports / statements of the answer (ragas, arXiv:2309.15217, 3).

    An answer of four statements, three of which the evidence supports: .75. Undefined where the answer makes no
    statement; 0 where it makes some and there is no evidence.
    But: the statements are those of the whole answer, taken apart in one call, not sentence by sentence.
    """
    made = answer_statements(case, tools)
    if not made:
        return ScoreResult(None, "the answer makes no statement", {"statements": []})
    verdicts = check_support(tools, case.question.text, made, join_passages(case.contexts))
    reason = "" if case.contexts else "there is no evidence"
    return ScoreResult(
        fraction_true([v.holds for v in verdicts]), reason, {"statements": describe_checks(made, verdicts)}
    )
