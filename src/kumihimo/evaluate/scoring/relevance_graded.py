"""a question + the evidence -> context_relevance_graded: whether it could be answered from that, by two ratings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kumihimo.evaluate.scoring.case import Case, ScoreResult, Tools, join_passages

GRADE_PROMPTS = tuple(Path(__file__).with_name(name) for name in ("scoring_grade.md", "scoring_grade_again.md"))


@dataclass(frozen=True, slots=True)
class Grade:
    """The reason first."""

    reason: str
    grade: Literal[0, 1, 2]


def context_relevance_graded(case: Case, tools: Tools) -> ScoreResult:
    """The mean of two ratings, 0 none, 1 a part, 2 all of what the question needs, / 2 (as ragas has it from Nvidia).

    Ratings of 2 and 1: .75. Undefined where there is no evidence.
    But: two prompts in our own words, for those of the original contradict themselves; where one rating cannot be had
    there is no value, instead of that of the other alone.
    """
    if not case.contexts:
        return ScoreResult(None, "there is no evidence")
    values = {"question": case.question.text, "text": join_passages(case.contexts)}
    given = [tools.ask(path, Grade, **values) for path in GRADE_PROMPTS]
    detail = {"ratings": [{"grade": g.grade, "reason": g.reason} for g in given]}
    return ScoreResult(sum(g.grade for g in given) / (2 * len(given)), detail=detail)
