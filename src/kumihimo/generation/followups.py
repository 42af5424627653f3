"""an answer + what it was made from -> questions that one may want to ask next."""

from __future__ import annotations

from pathlib import Path

from kumihimo.core.context import Answer, Tokenizer
from kumihimo.llm.prompts import render_prompt
from kumihimo.llm.protocols import LLM

PROMPT = Path(__file__).with_suffix(".md")
MAX_QUESTIONS = 5
_EVIDENCE_BUDGET = 4000  # tokens of evidence that the model is told
_MAX_ANSWER_CHARS = 4000  # characters of the answer


def suggest_questions(answer: Answer, llm: LLM, tokenizer: Tokenizer) -> tuple[str, ...]:
    """Up to `COUNT` questions, by one call; none where nothing was found that one could ask more about."""
    sources = answer.context.fit(_EVIDENCE_BUDGET, tokenizer)
    if not sources:
        return ()
    told = "\n\n---\n\n".join(item.text for item in sources)
    asked = render_prompt(
        PROMPT, count=str(MAX_QUESTIONS), sources=told, question=answer.question, answer=answer.text[:_MAX_ANSWER_CHARS]
    )
    return _drop_repeats(llm(asked, schema=list[str]), answer.question)


def _drop_repeats(questions: list[str], asked: str) -> tuple[str, ...]:
    """Each once, without what was asked already.

    >>> _others(["Who  lit it?", " When? ", "", "who lit it?", "Why?"], "Why?")
    ('Who lit it?', 'When?')
    """
    found: dict[str, str] = {}
    for question in (" ".join(each.split()) for each in questions):
        if question and question.casefold() != " ".join(asked.split()).casefold():
            found.setdefault(question.casefold(), question)
    return tuple(found.values())[:MAX_QUESTIONS]
