"""question -> hypothetical passages by a model -> chunks near them."""

from itertools import zip_longest
from pathlib import Path
from typing import Annotated

from kumihimo.core import context, signature, table
from kumihimo.core.records import Chunk
from kumihimo.core.settings import Bounds, Results, Tokens
from kumihimo.llm import prompts, protocols
from kumihimo.methods.shared.ranking import merge_best
from kumihimo.search.protocols import VectorSearch

PROMPT = Path(__file__).with_suffix(".md")
_MAX_STEPS = 3  # passages of a reply that are searched, each alone


def hyde_cost(settings: signature.MethodSettings, sizes: signature.IndexSizes) -> signature.QueryCost:
    """Return one call for each hypothetical passage."""
    calls, prompt, asked = settings["passages"], sizes.prompt_tokens(PROMPT), int(settings["asked"])
    return signature.QueryCost.for_calls(
        (calls, calls), (prompt, prompt), texts=(min(1, calls + asked), _MAX_STEPS * (calls + asked))
    )


@signature.declare(best_for="a question that shares no words with its answer", calls=hyde_cost)
def hyde(
    question: str,
    chunks: table.Table[Chunk],
    llm: protocols.LLM,
    vector_search: VectorSearch,
    tokenizer: context.Tokenizer,
    rerank: protocols.Reranker,
    *,
    passages: Annotated[int, Bounds(1, 50, asked=(1, 10))] = 1,
    asked: bool = True,
    temperature: Annotated[float, Bounds(0, 5)] = 0.7,
    k: Results = 20,
    budget: Tokens = 8000,
    reranker: protocols.RerankerName = "none",
) -> context.Context:
    """Search with the mean of question and hypothetical passages.

    (Gao et al., 2022, arXiv:2212.10496.)
    But: one passage, while the paper takes the mean of eight (`passages=8`); for a question in several steps, one for
    each step, which is searched alone, and the best score of a chunk counts; the embedder is that of the index, not
    Contriever; the prompt is our own and leaves the kind of text open. `asked=False` leaves the question out of the
    mean.
    """
    prompt = prompts.render_prompt(PROMPT, question=question)
    hypothetical = llm.samples(prompt, passages, parse=prompts.require_text, temperature=temperature)
    by_step = zip_longest(*(filter(str.strip, text.split("\n\n")) for text in hypothetical))
    queries = [[*filter(None, texts), *([question] if asked else [])] for texts in by_step]
    hits = merge_best(vector_search(chunks, texts, k=max(k, rerank.candidates)) for texts in queries[:_MAX_STEPS])
    return rerank(question, hits, reranker).top(k).fit(budget, tokenizer)
