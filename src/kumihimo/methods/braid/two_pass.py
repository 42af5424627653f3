"""question -> two passes over its candidates: as they are found, and as they go on from what is read first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from kumihimo.core.context import Context
from kumihimo.core.records import Chunk, Mention
from kumihimo.core.table import Table
from kumihimo.methods.braid.features import Candidates, Features, compute_features
from kumihimo.methods.braid.ppr import PassageGraph, Scores, expand_graph, personalized_pagerank, top_ids
from kumihimo.methods.shared import entity_linking
from kumihimo.search.protocols import KeywordSearch, VectorSearch

DEFAULT_POOL = 40  # the best of each ranking, which are candidates
DEFAULT_ANCHORS = 2  # the best of the first pass, which the second goes on from
_SEARCH_DEPTH = 100  # passages of each search
_SEEDS_PER_SEARCH = 2  # the best of each search, from which the graph is entered
_FIRST_ANCHORS = 3  # the best by words, which the first pass goes on from
FIRST_FEATURES = ("words rank", "covers", "meaning", "graph rank", "titled", "adds", "shares", "named", "bridges")
SECOND_FEATURES = ("words rank", "covers", "meaning", "before", "onward rank", "new", "adds", "named", "bridges")


@dataclass(frozen=True)
class Pass:
    """Candidates, the rankings they are in, the passages they go on from, and what speaks for each.

    told: the features of each candidate.
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
    """What words, meaning and the graph around the best of both find, each going on from the best by words."""
    by_words, by_meaning = (
        keyword_search(chunks, question, k=_SEARCH_DEPTH),
        vector_search(chunks, question, k=_SEARCH_DEPTH),
    )
    words, meaning = _positive_scores(by_words), _positive_scores(by_meaning)
    graph, spoken = PassageGraph(mentions), entity_linking.link_entity_ids(question, mentions)
    part = expand_graph(graph, [*top_ids(words, _SEEDS_PER_SEARCH), *top_ids(meaning, _SEEDS_PER_SEARCH)], spoken)
    seeds = {id: words[id] ** 2 for id in top_ids(words, _SEEDS_PER_SEARCH)}
    rankings = {
        "words": words,
        "meaning": meaning,
        "graph": personalized_pagerank(part, seeds, passage_share=0.8, damping=0.6),
    }
    known = {item.record.id: item.record for item in (*by_words, *by_meaning) if isinstance(item.record, Chunk)}
    of = Candidates(question, _load_candidates(rankings, pool, chunks, known), graph, frozenset(spoken))
    return _build_pass(of, rankings, top_ids(words, _FIRST_ANCHORS))


def run_second_pass(
    before: Pass, scores: Scores, chunks: Table[Chunk], *, anchors: int = DEFAULT_ANCHORS, pool: int = DEFAULT_POOL
) -> Pass:
    """The same candidates, and what the graph reaches from the best of them, each going on from those.

    scores: what the first pass came to.
    """
    start, was = top_ids(scores, anchors), before.candidates
    part = expand_graph(was.graph, start, sorted(was.question_entities))
    onward = personalized_pagerank(part, {id: scores[id] for id in start}, passage_share=1.0, damping=0.5)
    rankings = {**before.rankings, "before": scores, "onward": onward}
    chosen = was.chunks | _load_candidates({"onward": onward}, pool, chunks, was.chunks)
    of = replace(was, chunks=dict(sorted(chosen.items())))
    return _build_pass(of, rankings, start)


def _build_pass(of: Candidates, rankings: Mapping[str, Scores], anchors: Iterable[str]) -> Pass:
    read = tuple(id for id in anchors if id in of.chunks)
    return Pass(of, rankings, read, compute_features(of, rankings, read))


def _positive_scores(found: Context) -> dict[str, float]:
    return {item.record.id: max(item.score, 0.0) for item in found}


def _load_candidates(
    rankings: Mapping[str, Scores], pool: int, chunks: Table[Chunk], known: Mapping[str, Chunk]
) -> dict[str, Chunk]:
    """The best of each ranking, sorted by id; those are read that are not known yet."""
    wanted = {id for scores in rankings.values() for id in top_ids(scores, pool)}
    read = chunks.get_many(sorted(wanted - known.keys()))
    return {id: chunk for id in sorted(wanted) if (chunk := known.get(id) or read.get(id))}
