"""question + candidates -> the same candidates, the most relevant first, as a model or server scores them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kumihimo.core.context import Context
from kumihimo.core.errors import UnparsableReply
from kumihimo.llm.prompts import render_prompt
from kumihimo.llm.protocols import LLM, RerankerName

PROMPT = Path(__file__).with_suffix(".md")
RelevanceScorer = Callable[[str, Sequence[str]], Sequence[float]]  # question, texts -> the relevance of each, 0 to 1


@dataclass(frozen=True, slots=True)
class CandidateReranker:
    """A `Reranker` with these scorers, each created on first use.

    Raises SettingsError where a scorer is not available.

    >>> from kumihimo.core.context import Evidence
    >>> from kumihimo.core.records import Record
    >>> context = Context(tuple(Evidence("notes", Record(id=text, text=text), 5.0) for text in ("sea", "ship", "sky")))
    >>> scorers = {"model": lambda: lambda question, texts: [float(text in question) for text in texts]}
    >>> rerank = CandidateReranker(scorers, 2)
    >>> [(item.text, item.score) for item in rerank("Which ship? What sky?", context, "model")]
    [('ship', 2.0), ('sea', 1.0), ('sky', 0.5)]
    """

    scorers: Mapping[RerankerName, Callable[[], RelevanceScorer]]
    candidates: int = 20

    def check_available(self, reranker: RerankerName) -> None:
        """Raise SettingsError where the scorer is not available, before anything is paid."""
        if reranker != "none":
            self.scorers[reranker]()

    def __call__(self, question: str, context: Context, reranker: RerankerName) -> Context:
        if reranker == "none" or len(context) < 2:
            return context
        candidates, rest = context.evidence[: self.candidates], context.evidence[self.candidates :]
        scores = self.scorers[reranker]()(question, [item.prompt_text for item in candidates])
        reordered = [replace(item, score=1 + score) for item, score in zip(candidates, scores, strict=True)]
        unscored = (replace(item, score=1 - n / (len(rest) + 1)) for n, item in enumerate(rest, 1))
        return replace(context, evidence=(*sorted(reordered, key=lambda item: -item.score), *unscored))


@dataclass(frozen=True, slots=True)
class Judged:
    """The relevance of a numbered passage, 0 to 100."""

    number: int
    score: int


def listwise_scorer(llm: LLM) -> RelevanceScorer:
    """Return a scorer that shows a model all texts in one call.

    After RankGPT (Sun et al., arXiv:2304.09542). Unlike the paper, the model gives each text a score instead of
    writing the order, and there is one window, not several that slide.
    """

    def score_texts(question: str, texts: Sequence[str]) -> list[float]:
        try:
            messages = render_prompt(PROMPT, passages=_number_texts(texts), question=question)
            judgements = llm(messages, schema=list[Judged])
        except UnparsableReply as failure:
            raise UnparsableReply(f'{failure} (while reranking: `reranker = "none"` turns it off)') from failure
        scores: dict[int, float] = {}
        for judgement in judgements:
            scores.setdefault(judgement.number, min(max(judgement.score, 0), 100) / 100)
        return [scores.get(number, 0.0) for number in range(1, len(texts) + 1)]

    return score_texts


def _number_texts(texts: Sequence[str]) -> str:
    """Return the texts with numbers, for the prompt."""
    return "\n\n".join(f"[{number}]\n{text}" for number, text in enumerate(texts, 1))
