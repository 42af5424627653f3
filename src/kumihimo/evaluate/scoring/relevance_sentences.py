"""a question + the evidence -> context_relevance_sentences: the share of evidence that is needed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kumihimo.evaluate.scoring.case import Case, ScoreResult, Tools, render_numbered_list, split_into_sentences

PROMPT = Path(__file__).with_name("scoring_needed.md")


@dataclass(frozen=True, slots=True)
class Needed:
    """The numbers of the needed sentences."""

    numbers: list[int]


def context_relevance_sentences(case: Case, tools: Tools) -> ScoreResult:
    """Score the needed sentences / sentences of the evidence (arXiv:2309.15217, section 3).

    Two needed of eight: .25. Undefined without evidence or without sentences in it; 0 if none is needed.
    But: the model returns the numbers of the sentences instead of copying them, so it cannot change them. Unknown
    numbers are ignored and kept in the detail.
    """
    sentences = [sentence for text in case.contexts for sentence in split_into_sentences(text)]
    if not sentences:
        return ScoreResult(None, "there is no evidence" if not case.contexts else "the evidence has no sentences")
    numbers = tools.ask(PROMPT, Needed, question=case.question.text, items=render_numbered_list(sentences)).numbers
    needed = sorted({n for n in numbers if 1 <= n <= len(sentences)})
    unknown = sorted({n for n in numbers if not 1 <= n <= len(sentences)})
    detail = {"sentences": len(sentences), "needed": [sentences[n - 1] for n in needed], "beyond": unknown}
    return ScoreResult(len(needed) / len(sentences), detail=detail)
