"""answer + evidence -> questions to ask next."""

from __future__ import annotations

from pathlib import Path

from kumihimo.core.context import Answer, Tokenizer
from kumihimo.llm.prompts import render_prompt
from kumihimo.llm.protocols import LLM

PROMPT = Path(__file__).with_suffix(".md")
MAX_QUESTIONS = 5
_EVIDENCE_BUDGET = 4000  # tokens in the prompt
_MAX_ANSWER_CHARS = 4000


def suggest_questions(answer: Answer, llm: LLM, tokenizer: Tokenizer) -> tuple[str, ...]:
    """Suggest up to `MAX_QUESTIONS` follow-up questions, with one call.

    Returns nothing if the answer has no evidence.
    """
    sources = answer.context.fit(_EVIDENCE_BUDGET, tokenizer)
    if not sources:
        return ()
    sources_text = "\n\n---\n\n".join(item.text for item in sources)
    messages = render_prompt(
        PROMPT,
        count=str(MAX_QUESTIONS),
        sources=sources_text,
        question=answer.question,
        answer=answer.text[:_MAX_ANSWER_CHARS],
    )
    return _drop_repeats(llm(messages, schema=list[str]), answer.question)


def _drop_repeats(questions: list[str], asked_question: str) -> tuple[str, ...]:
    """Return the distinct questions that differ from the one asked.

    >>> _drop_repeats(["Who  lit it?", " When? ", "", "who lit it?", "Why?"], "Why?")
    ('Who lit it?', 'When?')
    """
    distinct: dict[str, str] = {}
    for question in (" ".join(text.split()) for text in questions):
        if question and question.casefold() != " ".join(asked_question.split()).casefold():
            distinct.setdefault(question.casefold(), question)
    return tuple(distinct.values())[:MAX_QUESTIONS]
