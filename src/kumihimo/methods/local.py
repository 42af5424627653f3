"""question -> its entities, with relations, claims, reports and chunks about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import combinations

from kumihimo.core.context import Context, Evidence, Tokenizer
from kumihimo.core.records import Chunk, Claim, Community, Entity, Member, Mention, Relation, RelationMention, Report
from kumihimo.core.table import Table
from kumihimo.llm.protocols import Reranker, RerankerName
from kumihimo.methods.shared.entity_linking import link_entities
from kumihimo.methods.shared.graph_context import (
    drop_same_text,
    fuse_entities,
    rank_source_chunks,
    relation_sort_key,
    relations_by_entity,
    scale_scores,
    share_budget,
    source_chunk_scores,
)
from kumihimo.search.protocols import KeywordSearch, VectorSearch
from kumihimo.text.name_keys import relation_id

_BOTH_ENDS_BONUS = 0.5  # added to the cosine of a relation between two hits
_MAX_CLAIMS = 10
_MAX_REPORTS = 5  # few: a missing report costs an LLM call


def local(
    question: str,
    chunks: Table[Chunk],
    mentions: Table[Mention],
    ties: Table[RelationMention],
    entities: Table[Entity],
    relations: Table[Relation],
    claims: Table[Claim],
    communities: Table[Community],
    members: Table[Member],
    reports: Table[Report],
    keyword_search: KeywordSearch,
    vector_search: VectorSearch,
    tokenizer: Tokenizer,
    rerank: Reranker,
    *,
    k: int = 10,
    edges: int = 10,
    pool: int = 20,
    budget: int = 12000,
    text: float = 0.5,
    whole: float = 0.15,
    reranker: RerankerName = "none",
) -> Context:
    """Return entities near the question and their context (GraphRAG local search).

    All share one budget: `text` is the share of chunks, `whole` that of reports, and the rest goes to entities,
    relations and claims; unused tokens go to the others. edges: maximum relations for each of the `k` entities. The
    best row of each table scores 1; chunks come first among equals.
    But: entities are also found by name and words; relations rank by similarity to the question, not by degree; plain
    search adds chunks; a piece that does not fit is skipped.
    """
    found_entities = _find_entities(question, entities, keyword_search, vector_search, k)
    ids = [item.record.id for item in found_entities]
    found_relations = _find_relations(question, relations, vector_search, ids, edges)
    found_claims = _find_claims(question, claims, vector_search, ids)
    found_reports = _find_reports(members, communities, reports, ids)
    support = source_chunk_scores(mentions, ties, found_entities, found_relations)
    chunk_hits = scale_scores(
        rerank(question, rank_source_chunks(question, chunks, keyword_search, vector_search, support, pool), reranker)
    )
    graph_rows = drop_same_text(
        sorted([*found_entities, *found_relations, *found_claims], key=lambda item: -item.score)
    )
    parts = share_budget(
        [(found_reports, whole), (graph_rows, 1 - text - whole), (chunk_hits, text)], budget, tokenizer
    )
    return Context(tuple(sorted([*parts[2], *parts[1], *parts[0]], key=lambda item: -item.score)))


def _find_entities(
    question: str, entities: Table[Entity], keyword_search: KeywordSearch, vector_search: VectorSearch, k: int
) -> Context:
    """Return the entities named in the question, then similar ones."""
    searches = [keyword_search(entities, question, k=2 * k), vector_search(entities, question, k=2 * k)]
    return fuse_entities(link_entities(question, entities)[0], searches, k)


def _find_relations(
    question: str, relations: Table[Relation], vector_search: VectorSearch, ids: Sequence[str], edges: int
) -> Context:
    """Return relations between the entities, and the nearest of each entity."""
    edges_of = list(relations_by_entity(relations, ids).values())
    pairs = dict.fromkeys(relation_id(one, other) for one, other in combinations(ids, 2))
    small_pool = dict.fromkeys([*pairs, *(id for context in edges_of if len(context) <= edges for id in context)])
    nearest = (
        [vector_search(relations, question, k=len(small_pool), candidate_ids=list(small_pool))] if small_pool else []
    )
    nearest += [
        vector_search(relations, question, k=edges, candidate_ids=context)
        for context in edges_of
        if len(context) > edges
    ]
    hits = {item.record.id: item for context in nearest for item in context}
    unscored = relations.get_many(id for id in pairs if id not in hits).values()  # rule-based relations are not indexed
    hits |= {relation.id: Evidence("relations", relation, 0.0) for relation in unscored}
    rescored = (Evidence(e.table, e.record, e.score + _BOTH_ENDS_BONUS * (id in pairs)) for id, e in hits.items())
    return scale_scores(sorted(rescored, key=relation_sort_key))


def _find_claims(question: str, claims: Table[Claim], vector_search: VectorSearch, ids: Sequence[str]) -> Context:
    """Return the claims about the entities, nearest to the question first."""
    claim_ids = dict.fromkeys(claim for id in ids for claim in [*claims.ids(subject=id), *claims.ids(object=id)])
    return (
        scale_scores(vector_search(claims, question, k=_MAX_CLAIMS, candidate_ids=list(claim_ids)))
        if claim_ids
        else Context()
    )


def _find_reports(
    members: Table[Member], communities: Table[Community], reports: Table[Report], ids: Sequence[str]
) -> Context:
    """Return reports on the communities with most of the entities.

    Ties go to the smaller community, then to the better rating.
    """
    counts: Counter[str] = Counter()
    get_community = cache(communities.get)
    for id in ids:
        for member in members.ids(entity=id):
            community = get_community(member.rpartition(".")[0])
            while community:
                counts[community.id] += 1
                community = get_community(community.parent) if community.parent else None
    levels = {id: community.level for id in counts if (community := get_community(id))}
    ranked = sorted(counts, key=lambda id: (-counts[id], -levels[id], id))[:_MAX_REPORTS]
    selected = [report for id in ranked if (report := reports.get(id))]
    selected.sort(key=lambda report: (-counts[report.id], -levels[report.id], -report.rating, report.id))
    return scale_scores(Evidence("reports", report, counts[report.id]) for report in selected)
