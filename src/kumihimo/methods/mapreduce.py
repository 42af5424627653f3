"""question -> points from every chunk: corpus-level answers without a graph."""

from collections.abc import Iterator

from kumihimo.core.context import Context, Evidence, Tokenizer
from kumihimo.core.records import Chunk
from kumihimo.core.table import Table
from kumihimo.llm.protocols import LLM, Reranker, RerankerName
from kumihimo.methods.shared.map_step import extract_points, shuffle_ids


def mapreduce(
    question: str,
    chunks: Table[Chunk],
    llm: LLM,
    tokenizer: Tokenizer,
    rerank: Reranker,
    *,
    window: int = 8000,
    seed: int = 0,
    reranker: RerankerName = "none",
) -> Context:
    """Extract points from every chunk, in shuffled batches (arXiv:2404.16130, section 3.2, TS).

    The most helpful points come first. Each question reads the whole index: `kumi plan --ask mapreduce` shows the cost.
    But: a batch gives several points with sources; in the paper it gives one answer.
    """
    points = extract_points(question, _iterate_chunks(chunks, seed), llm, tokenizer, window=window)
    return rerank(question, points, reranker).fit(window, tokenizer)


def _iterate_chunks(chunks: Table[Chunk], seed: int) -> Iterator[Evidence]:
    """Yield every chunk; only ids stay in memory."""
    for id in shuffle_ids((id for (id,) in chunks.columns("id")), seed):
        if chunk := chunks.get(id):
            yield Evidence("chunks", chunk, 0.0)
