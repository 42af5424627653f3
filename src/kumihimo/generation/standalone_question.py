"""answers so far + a question -> the question as it would be asked alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kumihimo.core.context import Answer
from kumihimo.llm.prompts import render_prompt
from kumihimo.llm.protocols import LLM
from kumihimo.llm.structured import require_text

PROMPT = Path(__file__).with_suffix(".md")
_MAX_TURNS = 6  # that a question may point back to
_MAX_ANSWER_CHARS = 800  # characters of each answer


def rewrite_standalone(question: str, history: Sequence[Answer], llm: LLM) -> str:
    """The question with what it points back to named, by one call; as it is, where nothing came before."""
    if not history:
        return question
    told = (
        f"Asked: {answer.question}\nAnswered: {answer.text[:_MAX_ANSWER_CHARS]}" for answer in history[-_MAX_TURNS:]
    )
    return " ".join(llm(render_prompt(PROMPT, before="\n\n".join(told), question=question), parse=require_text).split())
