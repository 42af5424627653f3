"""question -> chunks near a hypothetical answer, which resembles the wanted chunk more than the question does."""

from pathlib import Path

from kumihimo.core.context import Context, Tokenizer
from kumihimo.core.records import Chunk
from kumihimo.core.table import Table
from kumihimo.llm.prompts import render_prompt
from kumihimo.llm.protocols import LLM, Reranker, RerankerName
from kumihimo.llm.structured import require_text
from kumihimo.search.protocols import VectorSearch

PROMPT = Path(__file__).with_suffix(".md")


def hyde(
    question: str,
    chunks: Table[Chunk],
    llm: LLM,
    vector_search: VectorSearch,
    tokenizer: Tokenizer,
    rerank: Reranker,
    *,
    passages: int = 1,
    asked: bool = True,
    temperature: float = 0.7,
    k: int = 20,
    budget: int = 8000,
    reranker: RerankerName = "none",
) -> Context:
    """Search with the mean of question and hypothetical passages.

    (Gao et al., 2022, arXiv:2212.10496.)
    But: one passage, while the paper takes the mean of eight (`passages=8`); the embedder is that of the index, not
    Contriever; the prompt is our own and leaves the kind of text open. `asked=False` leaves the question out of the
    mean.
    """
    hypothetical = llm.samples(
        render_prompt(PROMPT, question=question), passages, parse=require_text, temperature=temperature
    )
    hits = vector_search(chunks, [question, *hypothetical] if asked else hypothetical, k=max(k, rerank.candidates))
    return rerank(question, hits, reranker).top(k).fit(budget, tokenizer)
