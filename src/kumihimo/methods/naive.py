"""question -> chunks by meaning and words, fused: plain RAG."""

from kumihimo.core.context import Context, Tokenizer
from kumihimo.core.records import Chunk
from kumihimo.core.table import Table
from kumihimo.llm.protocols import Reranker, RerankerName
from kumihimo.methods.shared.hybrid_search import hybrid_search
from kumihimo.search.protocols import KeywordSearch, VectorSearch


def naive(
    question: str,
    chunks: Table[Chunk],
    keyword_search: KeywordSearch,
    vector_search: VectorSearch,
    tokenizer: Tokenizer,
    rerank: Reranker,
    *,
    k: int = 20,
    pool: int = 100,
    meaning: float = 0.5,
    words: bool = True,
    budget: int = 8000,
    reranker: RerankerName = "none",
) -> Context:
    """Chunks near the question by meaning and by words, until the budget is full (SS of arXiv:2404.16130, section 3.2).

    The budget is the window of `mapreduce` and `global`, as in the paper, so that they can be compared.
    But: the paper searches by meaning alone, which is `words=False`; here the scores of both searches are fused,
    each spread from 0 to 1 over its best `pool`, those of meaning times `meaning`.
    """
    if words:
        [found] = hybrid_search([question], chunks, keyword_search, vector_search, pool=pool, meaning=meaning)
    else:
        found = vector_search(chunks, question, k=max(k, rerank.candidates))
    return rerank(question, found, reranker).top(k).fit(budget, tokenizer)
