"""question + candidates -> the same candidates, those first that speak to the question most, as others judge."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kumihimo.core.context import Context
from kumihimo.core.errors import UnparsableReply
from kumihimo.llm.prompts import render_prompt
from kumihimo.llm.protocols import LLM, RerankerName

PROMPT = Path(__file__).with_suffix(".md")
RelevanceScorer = Callable[
    [str, Sequence[str]], Sequence[float]
]  # question, texts -> how much each speaks to it, from 0 to 1


@dataclass(frozen=True, slots=True)
class CandidateReranker:
    """`Rank` by these judges, each made when it is asked for. Raises SettingsError where it cannot be had.

    >>> from kumihimo.core.context import Evidence
    >>> from kumihimo.core.records import Record
    >>> found = Context(tuple(Evidence("notes", Record(id=text, text=text), 5.0) for text in ("sea", "ship", "sky")))
    >>> rank = Ranking({"model": lambda: lambda question, texts: [float(text in question) for text in texts]}, 2)
    >>> [(item.text, item.score) for item in rank("Which ship? What sky?", found, "model")]
    [('ship', 2.0), ('sea', 1.0), ('sky', 0.5)]
    """

    scorers: Mapping[RerankerName, Callable[[], RelevanceScorer]]
    candidates: int = 20

    def check_available(self, reranker: RerankerName) -> None:
        """Raises SettingsError where nobody is there to judge: before anything is paid."""
        if reranker != "none":
            self.scorers[reranker]()

    def __call__(self, question: str, context: Context, reranker: RerankerName) -> Context:
        if reranker == "none" or len(context) < 2:
            return context
        judged, rest = context.evidence[: self.candidates], context.evidence[self.candidates :]
        scores = self.scorers[reranker]()(question, [item.prompt_text for item in judged])
        first = [replace(item, score=1 + score) for item, score in zip(judged, scores, strict=True)]
        below = (replace(item, score=1 - n / (len(rest) + 1)) for n, item in enumerate(rest, 1))
        return replace(context, evidence=(*sorted(first, key=lambda item: -item.score), *below))


@dataclass(frozen=True, slots=True)
class Judged:
    """How much the passage of that number helps, 0 to 100."""

    number: int
    score: int


def listwise_scorer(llm: LLM) -> RelevanceScorer:
    """A model that is shown all texts together, in one call (after RankGPT, Sun et al., arXiv:2304.09542).

    But: it gives each text a score, where the paper has it write down the order; one window, not several that slide.
    """

    def judge(question: str, texts: Sequence[str]) -> list[float]:
        try:
            said = llm(render_prompt(PROMPT, passages=_number_texts(texts), question=question), schema=list[Judged])
        except UnparsableReply as failure:
            raise UnparsableReply(f'{failure} (that was reranking: `rerank = "none"` does without)') from failure
        scores: dict[int, float] = {}
        for one in said:
            scores.setdefault(one.number, min(max(one.score, 0), 100) / 100)
        return [scores.get(number, 0.0) for number in range(1, len(texts) + 1)]

    return judge


def _number_texts(texts: Sequence[str]) -> str:
    """The texts as a model is shown them."""
    return "\n\n".join(f"[{number}]\n{text}" for number, text in enumerate(texts, 1))
