"""answers so far + a question -> the question as it would be asked alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kumihimo.core.context import Answer
from kumihimo.llm.prompts import prompt
from kumihimo.llm.protocols import Ask
from kumihimo.llm.structured import any_text

PROMPT = Path(__file__).with_suffix(".md")
_TURNS = 6  # that a question may point back to
_LENGTH = 800  # characters of each answer


def alone(question: str, before: Sequence[Answer], ask: Ask) -> str:
    """The question with what it points back to named, by one call; as it is, where nothing came before."""
    if not before:
        return question
    told = (f"Asked: {answer.question}\nAnswered: {answer.text[:_LENGTH]}" for answer in before[-_TURNS:])
    return " ".join(ask(prompt(PROMPT, before="\n\n".join(told), question=question), read=any_text).split())
