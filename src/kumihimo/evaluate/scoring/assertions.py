"""an answer + assertions about a good answer -> assertions: the share it meets."""

from __future__ import annotations

from pathlib import Path

from kumihimo.evaluate.scoring.case import Case, ScoreResult, Tools, fraction_true
from kumihimo.evaluate.scoring.support_check import Checked, check_items, describe_checks

PROMPT = Path(__file__).with_name("scoring_assertions.md")


def assertions_met(case: Case, tools: Tools) -> ScoreResult:
    """Score the assertions that the answer meets / all assertions (BenchmarkQED).

    Three of four met: .75. Undefined without assertions; 0 for an empty answer.
    """
    expected = [text for text in case.question.assertions if text.strip()]
    if not expected:
        return ScoreResult(None, "the question has no assertions")
    if not case.answer_text:
        checks = [Checked(n, "the answer is empty", False) for n, _ in enumerate(expected, 1)]
    else:
        checks = check_items(tools, PROMPT, expected, question=case.question.text, text=case.answer_text)
    return ScoreResult(
        fraction_true([check.holds for check in checks]),
        "" if case.answer_text else "the answer is empty",
        {"assertions": describe_checks(expected, checks)},
    )
