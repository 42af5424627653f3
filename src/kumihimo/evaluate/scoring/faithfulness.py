"""an answer + its evidence -> faithfulness: how much of what it says the evidence says, too."""

from __future__ import annotations

from kumihimo.evaluate.scoring.case import Case, Found, Tools, joined, share
from kumihimo.evaluate.scoring.statements import of_answer
from kumihimo.evaluate.scoring.support_check import supported, told


def faithfulness(case: Case, tools: Tools) -> Found:
    """Statements of the answer that the evidence supports / statements of the answer (ragas, arXiv:2309.15217, 3).

    An answer of four statements, three of which the evidence supports: .75. Undefined where the answer makes no
    statement; 0 where it makes some and there is no evidence.
    But: the statements are those of the whole answer, taken apart in one call, not sentence by sentence.
    """
    made = of_answer(case, tools)
    if not made:
        return Found(None, "the answer makes no statement", {"statements": []})
    verdicts = supported(tools, case.question.text, made, joined(case.contexts))
    reason = "" if case.contexts else "there is no evidence"
    return Found(share([v.holds for v in verdicts]), reason, {"statements": told(made, verdicts)})
