"""question -> chunks by words alone: the baseline no claim may omit."""

from kumihimo.core.context import Context
from kumihimo.core.records import Chunk
from kumihimo.core.table import Table
from kumihimo.llm.protocols import Rank, Rerank
from kumihimo.search.protocols import Match


def bm25(
    question: str, chunks: Table[Chunk], match: Match, rank: Rank, *, k: int = 20, rerank: Rerank = "none"
) -> Context:
    """Chunks that share words with the question, rare words counting most (Robertson & Zaragoza, 2009).

    But: the constants are those of SQLite's FTS5, k1 = 1.2 and b = .75.
    """
    found = match(chunks, question, k=max(k, rank.candidates))
    return rank(question, found, rerank).top(k)
