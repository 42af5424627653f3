"""question -> candidates and their features in two passes: direct hits, then continuations of the best hits."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from kumihimo.core.context import Context
from kumihimo.core.records import Chunk, Mention
from kumihimo.core.table import Table
from kumihimo.methods.braid.features import Candidates, Features, compute_features
from kumihimo.methods.braid.ppr import PassageGraph, Scores, expand_graph, personalized_pagerank, top_ids
from kumihimo.methods.shared import ranking
from kumihimo.search.protocols import KeywordSearch, VectorSearch

DEFAULT_POOL = 40  # candidates from each ranking
DEFAULT_ANCHORS = 2  # best chunks of the first pass
_SEARCH_DEPTH = 100  # hits of each search
_SEEDS_PER_SEARCH = 2  # entry points of the graph
_FIRST_ANCHORS = 3  # keyword hits that are anchors of the first pass
FIRST_FEATURES = ("words rank", "covers", "meaning", "graph rank", "titled", "adds", "shares", "named", "bridges")
SECOND_FEATURES = ("words rank", "covers", "meaning", "before", "onward rank", "new", "adds", "named", "bridges")


@dataclass(frozen=True)
class Pass:
    """Candidates of one pass with rankings, anchors and features.

    anchors: the chunks that candidates are compared with.
    """

    candidates: Candidates
    rankings: Mapping[str, Scores]
    anchors: tuple[str, ...]
    features: Mapping[str, Features]


def run_first_pass(
    question: str,
    chunks: Table[Chunk],
    mentions: Table[Mention],
    keyword_search: KeywordSearch,
    vector_search: VectorSearch,
    *,
    pool: int = DEFAULT_POOL,
) -> Pass:
    """Search by keywords, vectors and graph, with keyword hits as anchors."""
    keyword_hits = keyword_search(chunks, question, k=_SEARCH_DEPTH)
    vector_hits = vector_search(chunks, question, k=_SEARCH_DEPTH)
    keyword_scores, vector_scores = _positive_scores(keyword_hits), _positive_scores(vector_hits)
    passage_graph, entity_ids = PassageGraph(mentions), ranking.link_entity_ids(question, mentions)
    entry_ids = top_ids(keyword_scores, _SEEDS_PER_SEARCH)
    subgraph = expand_graph(passage_graph, [*entry_ids, *top_ids(vector_scores, _SEEDS_PER_SEARCH)], entity_ids)
    seeds = {id: keyword_scores[id] ** 2 for id in entry_ids}
    graph_scores = personalized_pagerank(subgraph, seeds, passage_share=0.8, damping=0.6)
    rankings = {"words": keyword_scores, "meaning": vector_scores, "graph": graph_scores}
    records = {item.record.id: item.record for item in (*keyword_hits, *vector_hits) if isinstance(item.record, Chunk)}
    loaded = _load_candidates(rankings, pool, chunks, records)
    candidates = Candidates(question, loaded, passage_graph, frozenset(entity_ids))
    return _build_pass(candidates, rankings, top_ids(keyword_scores, _FIRST_ANCHORS))


def run_second_pass(
    first_pass: Pass, scores: Scores, chunks: Table[Chunk], *, anchors: int = DEFAULT_ANCHORS, pool: int = DEFAULT_POOL
) -> Pass:
    """Score the candidates and graph neighbours against the first hop.

    scores: the scores of the first pass.
    """
    anchor_ids, previous = top_ids(scores, anchors), first_pass.candidates
    subgraph = expand_graph(previous.graph, anchor_ids, sorted(previous.question_entities))
    reachable = personalized_pagerank(subgraph, {id: scores[id] for id in anchor_ids}, passage_share=1.0, damping=0.5)
    rankings = {**first_pass.rankings, "before": scores, "onward": reachable}
    candidate_chunks = previous.chunks | _load_candidates({"onward": reachable}, pool, chunks, previous.chunks)
    candidates = replace(previous, chunks=dict(sorted(candidate_chunks.items())))
    return _build_pass(candidates, rankings, anchor_ids)


def _build_pass(candidates: Candidates, rankings: Mapping[str, Scores], anchors: Iterable[str]) -> Pass:
    present_anchors = tuple(id for id in anchors if id in candidates.chunks)
    return Pass(candidates, rankings, present_anchors, compute_features(candidates, rankings, present_anchors))


def _positive_scores(hits: Context) -> dict[str, float]:
    return {item.record.id: max(item.score, 0.0) for item in hits}


def _load_candidates(
    rankings: Mapping[str, Scores], pool: int, chunks: Table[Chunk], loaded_before: Mapping[str, Chunk]
) -> dict[str, Chunk]:
    """Return the best chunks of each ranking, sorted by id.

    Chunks in `loaded_before` are not read again.
    """
    ids = {id for scores in rankings.values() for id in top_ids(scores, pool)}
    loaded = chunks.get_many(sorted(ids - loaded_before.keys()))
    return {id: chunk for id in sorted(ids) if (chunk := loaded_before.get(id) or loaded.get(id))}
