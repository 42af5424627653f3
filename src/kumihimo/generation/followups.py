"""an answer + what it was made from -> questions that one may want to ask next."""

from __future__ import annotations

from pathlib import Path

from kumihimo.core.context import Answer, Ruler
from kumihimo.llm.prompts import prompt
from kumihimo.llm.protocols import Ask

PROMPT = Path(__file__).with_suffix(".md")
COUNT = 5
_BUDGET = 4000  # tokens of evidence that the model is told
_LENGTH = 4000  # characters of the answer


def suggested(answer: Answer, ask: Ask, ruler: Ruler) -> tuple[str, ...]:
    """Up to `COUNT` questions, by one call; none where nothing was found that one could ask more about."""
    sources = answer.context.fit(_BUDGET, ruler)
    if not sources:
        return ()
    told = "\n\n---\n\n".join(item.text for item in sources)
    asked = prompt(PROMPT, count=str(COUNT), sources=told, question=answer.question, answer=answer.text[:_LENGTH])
    return _others(ask(asked, into=list[str]), answer.question)


def _others(questions: list[str], asked: str) -> tuple[str, ...]:
    """Each once, without what was asked already.

    >>> _others(["Who  lit it?", " When? ", "", "who lit it?", "Why?"], "Why?")
    ('Who lit it?', 'When?')
    """
    found: dict[str, str] = {}
    for question in (" ".join(each.split()) for each in questions):
        if question and question.casefold() != " ".join(asked.split()).casefold():
            found.setdefault(question.casefold(), question)
    return tuple(found.values())[:COUNT]
