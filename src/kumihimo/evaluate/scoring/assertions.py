"""an answer + what a good answer should say -> assertions: how much of that it says."""

from __future__ import annotations

from pathlib import Path

from kumihimo.evaluate.scoring.case import Case, ScoreResult, Tools, fraction_true
from kumihimo.evaluate.scoring.support_check import Checked, check_items, describe_checks

PROMPT = Path(__file__).with_name("scoring_assertions.md")


def assertions_met(case: Case, tools: Tools) -> ScoreResult:
    """Assertions that the answer meets / assertions of the question (as BenchmarkQED has them).

    Three of four met: .75. Undefined where the question carries none; 0 where the answer is empty.
    """
    wanted = [text for text in case.question.assertions if text.strip()]
    if not wanted:
        return ScoreResult(None, "the question carries no assertions")
    if not case.answer_text:
        met = [Checked(n, "the answer is empty", False) for n, _ in enumerate(wanted, 1)]
    else:
        met = check_items(tools, PROMPT, wanted, question=case.question.text, text=case.answer_text)
    return ScoreResult(
        fraction_true([v.holds for v in met]),
        "" if case.answer_text else "the answer is empty",
        {"assertions": describe_checks(wanted, met)},
    )
