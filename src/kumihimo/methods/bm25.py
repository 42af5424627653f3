"""question -> chunks by words alone: the baseline no claim may omit."""

from kumihimo.core.context import Context
from kumihimo.core.records import Chunk
from kumihimo.core.table import Table
from kumihimo.llm.protocols import Reranker, RerankerName
from kumihimo.search.protocols import KeywordSearch


def bm25(
    question: str,
    chunks: Table[Chunk],
    keyword_search: KeywordSearch,
    rerank: Reranker,
    *,
    k: int = 20,
    reranker: RerankerName = "none",
) -> Context:
    """Chunks that share words with the question, rare words counting most (Robertson & Zaragoza, 2009).

    But: the constants are those of SQLite's FTS5, k1 = 1.2 and b = .75.
    """
    found = keyword_search(chunks, question, k=max(k, rerank.candidates))
    return rerank(question, found, reranker).top(k)
