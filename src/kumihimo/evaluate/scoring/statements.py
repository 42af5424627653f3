"""question + text -> the statements that the text makes, by a model: of an answer, of a reference."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kumihimo.evaluate.scoring.case import Case, Tools

PROMPT = Path(__file__).with_name("scoring_statements.md")


@dataclass(frozen=True, slots=True)
class Taken:
    """The statements of a text, each of which can be checked by itself."""

    statements: list[str]


def split_statements(tools: Tools, question: str, text: str) -> list[str]:
    """Each once, in the order of the text; none of an empty text, about which nobody is asked.

    The same text is taken apart once, whichever measures want it: equal prompts are one call.
    """
    if not text.strip():
        return []
    found = tools.ask(PROMPT, Taken, question=question, text=text).statements
    return list(dict.fromkeys(statement.strip() for statement in found if statement.strip()))


def answer_statements(case: Case, tools: Tools) -> list[str]:
    return split_statements(tools, case.question.text, case.answer_text)


def reference_statements(case: Case, tools: Tools) -> list[str]:
    return split_statements(tools, case.question.text, case.question.reference)
