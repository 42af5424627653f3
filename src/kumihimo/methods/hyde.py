"""question -> hypothetical passages by a model -> chunks near them."""

from pathlib import Path
from typing import Annotated

from kumihimo.core.context import Context, Tokenizer
from kumihimo.core.records import Chunk
from kumihimo.core.settings import Bounds, Results, Tokens
from kumihimo.core.signature import IndexSizes, MethodSettings, QueryCost, declare
from kumihimo.core.table import Table
from kumihimo.llm.prompts import render_prompt, require_text
from kumihimo.llm.protocols import LLM, Reranker, RerankerName
from kumihimo.search.protocols import VectorSearch

PROMPT = Path(__file__).with_suffix(".md")


def hyde_cost(settings: MethodSettings, sizes: IndexSizes) -> QueryCost:
    """Return one call for each hypothetical passage."""
    calls, prompt, asked = settings["passages"], sizes.prompt_tokens(PROMPT), int(settings["asked"])
    return QueryCost.for_calls((calls, calls), (prompt, prompt), texts=(min(1, calls + asked), calls + asked))


@declare(best_for="a question that shares no words with its answer", calls=hyde_cost)
def hyde(
    question: str,
    chunks: Table[Chunk],
    llm: LLM,
    vector_search: VectorSearch,
    tokenizer: Tokenizer,
    rerank: Reranker,
    *,
    passages: Annotated[int, Bounds(1, 50, asked=(1, 10))] = 1,
    asked: bool = True,
    temperature: Annotated[float, Bounds(0, 5)] = 0.7,
    k: Results = 20,
    budget: Tokens = 8000,
    reranker: RerankerName = "none",
) -> Context:
    """Search with the mean of question and hypothetical passages.

    (Gao et al., 2022, arXiv:2212.10496.)
    But: one passage, while the paper takes the mean of eight (`passages=8`); the embedder is that of the index, not
    Contriever; the prompt is our own and leaves the kind of text open. `asked=False` leaves the question out of the
    mean.
    """
    prompt = render_prompt(PROMPT, question=question)
    hypothetical = llm.samples(prompt, passages, parse=require_text, temperature=temperature)
    hits = vector_search(chunks, [question, *hypothetical] if asked else hypothetical, k=max(k, rerank.candidates))
    return rerank(question, hits, reranker).top(k).fit(budget, tokenizer)
