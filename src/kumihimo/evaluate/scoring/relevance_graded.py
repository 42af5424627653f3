"""a question + the evidence -> context_relevance_graded: whether the evidence suffices, by two ratings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kumihimo.evaluate.scoring.case import Case, ScoreResult, Tools, join_passages

GRADE_PROMPTS = tuple(Path(__file__).with_name(name) for name in ("scoring_grade.md", "scoring_grade_again.md"))


@dataclass(frozen=True, slots=True)
class Grade:
    """A grade with the reason before it."""

    reason: str
    grade: Literal[0, 1, 2]


def context_relevance_graded(case: Case, tools: Tools) -> ScoreResult:
    """Score the mean of two grades / 2 (ragas, from Nvidia).

    Grades: 0 for nothing, 1 for a part, 2 for everything the question needs. Grades of 2 and 1: .75. Undefined without
    evidence.
    But: the two prompts are our own, because the original ones contradict themselves. If one grade is missing there is
    no value; ragas uses the other grade alone.
    """
    if not case.contexts:
        return ScoreResult(None, "there is no evidence")
    values = {"question": case.question.text, "text": join_passages(case.contexts)}
    grades = [tools.ask(path, Grade, **values) for path in GRADE_PROMPTS]
    detail = {"ratings": [{"grade": grade.grade, "reason": grade.reason} for grade in grades]}
    return ScoreResult(sum(grade.grade for grade in grades) / (2 * len(grades)), detail=detail)
