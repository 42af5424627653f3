"""question + earlier answers -> a standalone question."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kumihimo.core.context import Answer
from kumihimo.llm.prompts import render_prompt
from kumihimo.llm.protocols import LLM
from kumihimo.llm.structured import require_text

PROMPT = Path(__file__).with_suffix(".md")
_MAX_TURNS = 6  # of the history in the prompt
_MAX_ANSWER_CHARS = 800


def rewrite_standalone(question: str, history: Sequence[Answer], llm: LLM) -> str:
    """Rewrite a follow-up question to stand alone, with one call.

    Without history, returns the question as it is.
    """
    if not history:
        return question
    turns = (
        f"Asked: {answer.question}\nAnswered: {answer.text[:_MAX_ANSWER_CHARS]}" for answer in history[-_MAX_TURNS:]
    )
    return " ".join(
        llm(render_prompt(PROMPT, history="\n\n".join(turns), question=question), parse=require_text).split()
    )
