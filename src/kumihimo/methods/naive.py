"""question -> chunks by vector and keyword search, fused: plain RAG."""

from kumihimo.core import records, signature
from kumihimo.core.context import Context, Tokenizer
from kumihimo.core.settings import Results, Tokens, Weight
from kumihimo.core.table import Table
from kumihimo.llm.protocols import Reranker, RerankerName
from kumihimo.methods.shared.ranking import hybrid_search
from kumihimo.search.protocols import KeywordSearch, VectorSearch


@signature.declare(best_for="a detail in one place")
def naive(
    question: str,
    chunks: Table[records.Chunk],
    keyword_search: KeywordSearch,
    vector_search: VectorSearch,
    tokenizer: Tokenizer,
    rerank: Reranker,
    *,
    k: Results = 20,
    pool: Results = 100,
    meaning: Weight = 0.5,
    words: bool = True,
    budget: Tokens = 8000,
    reranker: RerankerName = "none",
) -> Context:
    """Return chunks by vector and keyword search (SS of arXiv:2404.16130, section 3.2).

    The budget equals the window of `mapreduce` and `global`, as in the paper, for comparison.
    But: the paper uses vectors alone (`words=False`); here both scores are scaled from 0 to 1 over the best `pool` and
    added, vectors times `meaning`.
    """
    if words:
        [hits] = hybrid_search([question], chunks, keyword_search, vector_search, pool=pool, meaning=meaning)
    else:
        hits = vector_search(chunks, question, k=max(k, rerank.candidates))
    return rerank(question, hits, reranker).top(k).fit(budget, tokenizer)
