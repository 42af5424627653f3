"""a question + a text -> its statements, by an LLM: for an answer or a reference."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kumihimo.evaluate.scoring.case import Case, Tools

PROMPT = Path(__file__).with_name("scoring_statements.md")


@dataclass(frozen=True, slots=True)
class Taken:
    """The statements of a text; each can be checked alone."""

    statements: list[str]


def split_statements(tools: Tools, question: str, text: str) -> list[str]:
    """Return the distinct statements of a text, in its order.

    An empty text has none, and no LLM is called. Equal prompts are one call, so several measures can share it.
    """
    if not text.strip():
        return []
    statements = tools.ask(PROMPT, Taken, question=question, text=text).statements
    return list(dict.fromkeys(statement.strip() for statement in statements if statement.strip()))


def answer_statements(case: Case, tools: Tools) -> list[str]:
    """Return the statements of the answer."""
    return split_statements(tools, case.question.text, case.answer_text)


def reference_statements(case: Case, tools: Tools) -> list[str]:
    """Return the statements of the reference answer."""
    return split_statements(tools, case.question.text, case.question.reference)
