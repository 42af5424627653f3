"""question -> chunks by vector and keyword search, fused: plain RAG."""

from kumihimo.core import context, records, settings, signature, table
from kumihimo.llm.protocols import Reranker, RerankerName
from kumihimo.methods.shared.ranking import hybrid_search
from kumihimo.search.protocols import KeywordSearch, VectorSearch


@signature.declare(best_for="a detail in one place")
def naive(
    question: str,
    chunks: table.Table[records.Chunk],
    keyword_search: KeywordSearch,
    vector_search: VectorSearch,
    tokenizer: context.Tokenizer,
    rerank: Reranker,
    *,
    k: settings.Results = 20,
    pool: settings.Results = 100,
    meaning: settings.Weight = 0.5,
    words: bool = True,
    budget: settings.Tokens = 8000,
    reranker: RerankerName = "none",
) -> context.Context:
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
