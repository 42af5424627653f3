"""question -> candidates and their features: plain search, then two passes over the graph where it helps."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from kumihimo.core.context import Context, Evidence
from kumihimo.core.records import Chunk, Mention
from kumihimo.core.table import Table
from kumihimo.index.chunk_background import Description
from kumihimo.methods.braid import features
from kumihimo.methods.braid.document_match import match_documents
from kumihimo.methods.braid.plain_match import PLAIN_FEATURES, Features, PlainMatcher
from kumihimo.methods.braid.ppr import PassageGraph, Scores, expand_graph, personalized_pagerank, top_ids
from kumihimo.methods.shared import ranking
from kumihimo.search.protocols import KeywordSearch, VectorSearch
from kumihimo.text.question import ParsedQuestion

DEFAULT_POOL = 60  # candidates from each search
DEFAULT_ANCHORS = 2  # best chunks of the first pass
_SEARCH_DEPTH = 100  # hits of each search
_GRAPH_POOL = 40  # candidates from each walk
_SEEDS_PER_SEARCH = 2  # entry points of the graph
_FIRST_ANCHORS = 3  # keyword hits that are anchors of the first pass
_MIN_TITLED_SHARE = 0.4  # of the candidates, from which the graph is of use (measured)
FEATURES = {  # by pass
    "plain": PLAIN_FEATURES,
    "first": ("plain", "graph rank", "titled", "adds", "shares", "named", "bridges"),
    "second": ("plain", "before", "onward rank", "new", "adds", "shares", "named", "bridges"),
}
BraidWeights = Mapping[str, Scores]  # by pass


@dataclass(frozen=True)
class Pass:
    """Candidates of one pass with anchors and features.

    anchors: the chunks that candidates are compared with. walk: the graph features; empty if the documents are not
    about named subjects.
    """

    candidates: features.Candidates
    anchors: tuple[str, ...]
    walk: Mapping[str, Features]

    def features(self, weights: BraidWeights) -> Mapping[str, Features]:
        """Return the features that rank the candidates.

        The plain ones; or those of the graph, with the plain score as one of them.
        """
        if not self.walk:
            return self.candidates.plain
        plain = features.compare_sums(features.sum_features(self.candidates.plain, weights["plain"]))
        return {id: {**values, "plain": plain[id]} for id, values in self.walk.items()}


def run_first_pass(
    question: ParsedQuestion,
    chunks: Table[Chunk],
    mentions: Table[Mention],
    descriptions: Table[Description],
    keyword_search: KeywordSearch,
    vector_search: VectorSearch,
    *,
    pool: int = DEFAULT_POOL,
) -> Pass:
    """Search by keywords and vectors, and in the graph if it helps.

    Links between entities lead from one document to another if each document has a subject. It has one if its text
    names its title.
    """
    keyword_hits = keyword_search(chunks, question.wording.tokens, k=max(pool, _SEARCH_DEPTH))
    vector_hits = vector_search(chunks, question.text, k=max(pool, _SEARCH_DEPTH))
    keyword_scores, vector_scores = features.positive_scores(keyword_hits), features.positive_scores(vector_hits)
    ids = sorted({*top_ids(keyword_scores, pool), *top_ids(vector_scores, pool)})
    unscored = [id for id in ids if id not in vector_scores]
    other_hits = (
        vector_search(chunks, question.text, k=len(unscored), candidate_ids=unscored) if unscored else Context()
    )
    vector_scores |= features.positive_scores(other_hits)
    found = features.found_chunks((*keyword_hits, *vector_hits, *other_hits))
    matcher = PlainMatcher(question, keyword_search.tokens(chunks, ids))
    documents = match_documents(question, descriptions, keyword_search, {id.partition(".")[0] for id in ids})
    reader = features.CandidateReader(
        chunks, keyword_search, vector_search, matcher, found, keyword_scores, vector_scores, documents
    )
    passage_graph = PassageGraph(mentions)
    candidates = features.Candidates(reader, passage_graph, frozenset(), *reader.read(ids))
    if not candidates.chunks or fmean(map(features.names_its_title, candidates.chunks.values())) < _MIN_TITLED_SHARE:
        return Pass(candidates, (), {})
    entity_ids = ranking.link_entity_ids(question.text, mentions)
    entry_ids = top_ids(keyword_scores, _SEEDS_PER_SEARCH)
    subgraph = expand_graph(passage_graph, [*entry_ids, *top_ids(vector_scores, _SEEDS_PER_SEARCH)], entity_ids)
    seeds = {id: keyword_scores[id] ** 2 for id in entry_ids}
    graph_scores = personalized_pagerank(subgraph, seeds, passage_share=0.8, damping=0.6)
    reachable = candidates.extended(top_ids(graph_scores, _GRAPH_POOL))
    linked = replace(reachable, question_entities=frozenset(entity_ids))
    return _build_pass(linked, {"graph": graph_scores}, top_ids(keyword_scores, _FIRST_ANCHORS))


def run_second_pass(first_pass: Pass, weights: BraidWeights, *, anchors: int = DEFAULT_ANCHORS) -> Pass:
    """Score the candidates and graph neighbours against the first hop."""
    scores = features.scale_sums(features.sum_features(first_pass.features(weights), weights["first"]))
    anchor_ids, previous = top_ids(scores, anchors), first_pass.candidates
    subgraph = expand_graph(previous.graph, anchor_ids, sorted(previous.question_entities))
    reachable = personalized_pagerank(subgraph, {id: scores[id] for id in anchor_ids}, passage_share=1.0, damping=0.5)
    rankings = {"before": scores, "onward": reachable}
    return _build_pass(previous.extended(top_ids(reachable, _GRAPH_POOL)), rankings, anchor_ids)


def _build_pass(candidates: features.Candidates, rankings: Mapping[str, Scores], anchors: Iterable[str]) -> Pass:
    present_anchors = tuple(id for id in anchors if id in candidates.chunks)
    return Pass(candidates, present_anchors, features.walk_features(candidates, rankings, present_anchors))


def rank_candidates(last_pass: Pass, values: Mapping[str, Features], weights: BraidWeights) -> Context:
    """Return the candidates by their probability to be the best.

    values: the features of the last pass. After two passes, the first hop leads, and passages with the same title
    change places until the plain score orders them: the graph tells which subject, not which passage about it.
    """
    odds = features.compare_sums(features.sum_features(values, weights["second" if last_pass.walk else "plain"]))
    if last_pass.walk and last_pass.anchors:
        odds[last_pass.anchors[0]] = 2.0  # the best of the second pass has 1
    total, chunks = sum(odds.values()), last_pass.candidates.chunks
    places = ids = top_ids(odds, len(odds))
    if last_pass.walk:
        ids = _order_same_titles(last_pass.candidates, ids, weights["plain"])
    return Context(
        tuple(Evidence("chunks", chunks[id], odds[place] / total) for id, place in zip(ids, places, strict=True))
    )


def _order_same_titles(candidates: features.Candidates, ids: Sequence[str], weights: Scores) -> list[str]:
    """Return the ids, those of one title by plain score."""
    plain, chunks = features.sum_features(candidates.plain, weights), candidates.chunks
    groups: dict[str, list[str]] = {}
    for id in sorted(ids, key=lambda id: -plain[id]):
        groups.setdefault(chunks[id].title or id, []).append(id)
    best_first = {title: iter(group) for title, group in groups.items()}
    return [next(best_first[chunks[id].title or id]) for id in ids]
