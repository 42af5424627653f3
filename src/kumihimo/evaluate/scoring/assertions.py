"""an answer + what a good answer should say -> assertions: how much of that it says."""

from __future__ import annotations

from pathlib import Path

from kumihimo.evaluate.scoring.case import Case, Found, Tools, share
from kumihimo.evaluate.scoring.support_check import Checked, checked, told

PROMPT = Path(__file__).with_name("scoring_assertions.md")


def assertions(case: Case, tools: Tools) -> Found:
    """Assertions that the answer meets / assertions of the question (as BenchmarkQED has them).

    Three of four met: .75. Undefined where the question carries none; 0 where the answer is empty.
    """
    wanted = [text for text in case.question.assertions if text.strip()]
    if not wanted:
        return Found(None, "the question carries no assertions")
    if not case.said:
        met = [Checked(n, "the answer is empty", False) for n, _ in enumerate(wanted, 1)]
    else:
        met = checked(tools, PROMPT, wanted, question=case.question.text, text=case.said)
    return Found(
        share([v.holds for v in met]), "" if case.said else "the answer is empty", {"assertions": told(wanted, met)}
    )
