"""question -> chunks by keyword search alone: the baseline."""

from kumihimo.core import context, records, settings, signature, table
from kumihimo.llm.protocols import Reranker, RerankerName
from kumihimo.search.protocols import KeywordSearch


@signature.declare(best_for="exact words of the documents: a name, a number, a term")
def bm25(
    question: str,
    chunks: table.Table[records.Chunk],
    keyword_search: KeywordSearch,
    rerank: Reranker,
    *,
    k: settings.Results = 20,
    reranker: RerankerName = "none",
) -> context.Context:
    """Return the chunks with the best BM25 scores (Robertson & Zaragoza, 2009).

    But: k1 = 1.2 and b = .75 are fixed.
    """
    hits = keyword_search(chunks, question, k=max(k, rerank.candidates))
    return rerank(question, hits, reranker).top(k)
