"""a question + the evidence -> context_relevance_sentences: how much of what was read is needed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kumihimo.evaluate.scoring.case import Case, ScoreResult, Tools, render_numbered_list, split_into_sentences

PROMPT = Path(__file__).with_name("scoring_needed.md")


@dataclass(frozen=True, slots=True)
class Needed:
    """The numbers of the sentences that are needed."""

    numbers: list[int]


def context_relevance_sentences(case: Case, tools: Tools) -> ScoreResult:
    """Sentences of the evidence that are needed to answer / sentences of the evidence (arXiv:2309.15217, section 3).

    Two needed of eight: .25. Undefined where there is no evidence, or none with sentences; 0 where none is needed.
    But: the model names the sentences by their numbers instead of copying them out, so that none can be changed;
    numbers that there are not are passed over, and kept in the detail.
    """
    found = [sentence for text in case.contexts for sentence in split_into_sentences(text)]
    if not found:
        return ScoreResult(None, "there is no evidence" if not case.contexts else "the evidence has no sentences")
    said = tools.ask(PROMPT, Needed, question=case.question.text, items=render_numbered_list(found)).numbers
    needed = sorted({n for n in said if 1 <= n <= len(found)})
    beyond = sorted({n for n in said if not 1 <= n <= len(found)})
    detail = {"sentences": len(found), "needed": [found[n - 1] for n in needed], "beyond": beyond}
    return ScoreResult(len(needed) / len(found), detail=detail)
