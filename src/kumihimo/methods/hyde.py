"""question -> chunks near a made-up answer, which looks more like what is sought than the question does."""

from pathlib import Path

from kumihimo.core.context import Context, Ruler
from kumihimo.core.records import Chunk
from kumihimo.core.table import Table
from kumihimo.llm.prompts import prompt
from kumihimo.llm.protocols import Ask, Rank, Rerank
from kumihimo.llm.structured import any_text
from kumihimo.search.protocols import Near

PROMPT = Path(__file__).with_suffix(".md")


def hyde(
    question: str,
    chunks: Table[Chunk],
    ask: Ask,
    near: Near,
    ruler: Ruler,
    rank: Rank,
    *,
    passages: int = 1,
    asked: bool = True,
    temperature: float = 0.7,
    k: int = 20,
    budget: int = 8000,
    rerank: Rerank = "none",
) -> Context:
    """Chunks near the mean of the question and made-up passages that answer it (Gao et al., 2022, arXiv:2212.10496).

    But: one passage, where the paper takes the mean of eight (`passages=8`); the embedder is that of the index, not
    Contriever; the prompt is our own and leaves the kind of text to the question. `asked=False` leaves the question
    out of the mean.
    """
    made_up = ask.samples(prompt(PROMPT, question=question), passages, read=any_text, temperature=temperature)
    found = near(chunks, [question, *made_up] if asked else made_up, k=max(k, rank.candidates))
    return rank(question, found, rerank).top(k).fit(budget, ruler)
