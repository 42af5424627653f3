"""question -> points read out of all chunks: what an answer over the whole corpus takes without a graph."""

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
    """Points from every chunk, shuffled, in batches; those that help most first (TS of arXiv:2404.16130, section 3.2).

    It reads the whole index for each question: `kumi plan --ask mapreduce` says what that costs.
    But: a batch gives several points, each with its sources, where the paper has one answer a batch.
    """
    found = extract_points(question, _iterate_chunks(chunks, seed), llm, tokenizer, window=window)
    return rerank(question, found, reranker).fit(window, tokenizer)


def _iterate_chunks(chunks: Table[Chunk], seed: int) -> Iterator[Evidence]:
    """Every chunk, one at a time: only their ids are held."""
    for id in shuffle_ids((id for (id,) in chunks.columns("id")), seed):
        if chunk := chunks.get(id):
            yield Evidence("chunks", chunk, 0.0)
