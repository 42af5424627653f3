"""question -> chunks by meaning and words, fused: plain RAG."""

from kumihimo.core.context import Context, Ruler
from kumihimo.core.records import Chunk
from kumihimo.core.table import Table
from kumihimo.llm.protocols import Rank, Rerank
from kumihimo.methods.shared.hybrid_search import plain
from kumihimo.search.protocols import Match, Near


def naive(
    question: str,
    chunks: Table[Chunk],
    match: Match,
    near: Near,
    ruler: Ruler,
    rank: Rank,
    *,
    k: int = 20,
    pool: int = 100,
    meaning: float = 0.5,
    words: bool = True,
    budget: int = 8000,
    rerank: Rerank = "none",
) -> Context:
    """Chunks near the question by meaning and by words, until the budget is full (SS of arXiv:2404.16130, section 3.2).

    The budget is the window of `mapreduce` and `global`, as in the paper, so that they can be compared.
    But: the paper searches by meaning alone, which is `words=False`; here the scores of both searches are fused,
    each spread from 0 to 1 over its best `pool`, those of meaning times `meaning`.
    """
    if words:
        [found] = plain([question], chunks, match, near, pool=pool, meaning=meaning)
    else:
        found = near(chunks, question, k=max(k, rank.candidates))
    return rank(question, found, rerank).top(k).fit(budget, ruler)
