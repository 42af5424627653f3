"""question -> points read out of all chunks: what an answer over the whole corpus takes without a graph."""

from collections.abc import Iterator

from kumihimo.core.context import Context, Evidence, Ruler
from kumihimo.core.records import Chunk
from kumihimo.core.table import Table
from kumihimo.llm.protocols import Ask, Rank, Rerank
from kumihimo.methods.shared.map_step import read, shuffled


def mapreduce(
    question: str,
    chunks: Table[Chunk],
    ask: Ask,
    ruler: Ruler,
    rank: Rank,
    *,
    window: int = 8000,
    seed: int = 0,
    rerank: Rerank = "none",
) -> Context:
    """Points from every chunk, shuffled, in batches; those that help most first (TS of arXiv:2404.16130, section 3.2).

    It reads the whole index for each question: `kumi plan --ask mapreduce` says what that costs.
    But: a batch gives several points, each with its sources, where the paper has one answer a batch.
    """
    found = read(question, _all(chunks, seed), ask, ruler, window=window)
    return rank(question, found, rerank).fit(window, ruler)


def _all(chunks: Table[Chunk], seed: int) -> Iterator[Evidence]:
    """Every chunk, one at a time: only their ids are held."""
    for id in shuffled((id for (id,) in chunks.columns("id")), seed):
        if chunk := chunks.get(id):
            yield Evidence("chunks", chunk, 0.0)
