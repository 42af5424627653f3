"""question -> points from every chunk: corpus-level answers without a graph."""

from kumihimo.core import context, records, signature, table
from kumihimo.core.settings import Seed, Window
from kumihimo.llm.protocols import LLM, Reranker, RerankerName
from kumihimo.methods.shared.map_step import REDUCE_PROMPT, batch_evidence, extract_points, map_cost, shuffle_ids


def mapreduce_cost(settings: signature.MethodSettings, sizes: signature.IndexSizes) -> signature.QueryCost:
    """Return a call for each batch of chunks."""
    return map_cost(sizes.rows("chunks"), sizes.tokens("chunks"), settings["window"], sizes)


@signature.declare(
    best_for="the whole corpus, at any cost: reads everything for each question",
    answer_prompt=REDUCE_PROMPT,
    calls=mapreduce_cost,
)
def mapreduce(
    question: str,
    chunks: table.Table[records.Chunk],
    llm: LLM,
    tokenizer: context.Tokenizer,
    rerank: Reranker,
    *,
    window: Window = 8000,
    seed: Seed = 0,
    reranker: RerankerName = "none",
) -> context.Context:
    """Extract points from every chunk, in shuffled batches (arXiv:2404.16130, section 3.2, TS).

    The most helpful points come first. Each question reads the whole index: `kumi plan --ask mapreduce` shows the cost.
    But: a batch gives several points with sources; in the paper it gives one answer.
    """
    ids = shuffle_ids((id for (id,) in chunks.columns("id")), seed)  # only these stay in memory
    rows = (context.Evidence("chunks", chunk, 0.0) for id in ids if (chunk := chunks.get(id)))
    points = extract_points(question, batch_evidence(rows, window, tokenizer), llm, tokenizer)
    return rerank(question, points, reranker).fit(window, tokenizer)
