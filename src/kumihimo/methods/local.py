"""question -> the entities it is about, and what is said of them: relations, claims, reports, chunks."""

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

_BOTH_ENDS_BONUS = 0.5  # what it counts for a relation, beside its cosine, that both of its ends were found
_MAX_CLAIMS = 10
_MAX_REPORTS = 5  # that are looked at: a report may have to be written first


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
    """Entities near the question and what is said of them, in one budget (GraphRAG, local search).

    Shares of the budget: `text` for chunks, `whole` for reports, the rest for entities, relations and claims; what one
    does not use the others may. edges: relations that each of the `k` entities may bring, however many it has. Scores:
    each table's best has 1; chunks stand before what is made of them where scores are equal.
    But: entities are sought by name and words too; relations are ranked by their nearness to the question, not by
    degree; chunks that plain search finds are among the others; a piece that does not fit gives way to the next.
    """
    found = _find_entities(question, entities, keyword_search, vector_search, k)
    ids = [item.record.id for item in found]
    tied = _find_relations(question, relations, vector_search, ids, edges)
    claimed = _find_claims(question, claims, vector_search, ids)
    told = _find_reports(members, communities, reports, ids)
    support = source_chunk_scores(mentions, ties, found, tied)
    read = scale_scores(
        rerank(question, rank_source_chunks(question, chunks, keyword_search, vector_search, support, pool), reranker)
    )
    graph = drop_same_text(sorted([*found, *tied, *claimed], key=lambda item: -item.score))
    parts = share_budget([(told, whole), (graph, 1 - text - whole), (read, text)], budget, tokenizer)
    return Context(tuple(sorted([*parts[2], *parts[1], *parts[0]], key=lambda item: -item.score)))


def _find_entities(
    question: str, entities: Table[Entity], keyword_search: KeywordSearch, vector_search: VectorSearch, k: int
) -> Context:
    """Those that the question names, then those that it is near to by meaning and words."""
    searches = [keyword_search(entities, question, k=2 * k), vector_search(entities, question, k=2 * k)]
    return fuse_entities(link_entities(question, entities)[0], searches, k)


def _find_relations(
    question: str, relations: Table[Relation], vector_search: VectorSearch, ids: Sequence[str], edges: int
) -> Context:
    """Those between two of the entities, and of each entity those nearest to the question."""
    edges_of = list(relations_by_entity(relations, ids).values())
    pairs = dict.fromkeys(relation_id(one, other) for one, other in combinations(ids, 2))
    few = dict.fromkeys([*pairs, *(id for some in edges_of if len(some) <= edges for id in some)])
    nearest = [vector_search(relations, question, k=len(few), candidate_ids=list(few))] if few else []
    nearest += [
        vector_search(relations, question, k=edges, candidate_ids=some) for some in edges_of if len(some) > edges
    ]
    found = {item.record.id: item for some in nearest for item in some}
    unjudged = relations.get_many(id for id in pairs if id not in found).values()  # by rule: found by their ends alone
    found |= {relation.id: Evidence("relations", relation, 0.0) for relation in unjudged}
    rated = (Evidence(e.table, e.record, e.score + _BOTH_ENDS_BONUS * (id in pairs)) for id, e in found.items())
    return scale_scores(sorted(rated, key=relation_sort_key))


def _find_claims(question: str, claims: Table[Claim], vector_search: VectorSearch, ids: Sequence[str]) -> Context:
    """What is claimed of the entities, nearest to the question first."""
    about = dict.fromkeys(claim for id in ids for claim in [*claims.ids(subject=id), *claims.ids(object=id)])
    return (
        scale_scores(vector_search(claims, question, k=_MAX_CLAIMS, candidate_ids=list(about))) if about else Context()
    )


def _find_reports(
    members: Table[Member], communities: Table[Community], reports: Table[Report], ids: Sequence[str]
) -> Context:
    """Reports of the communities that hold most of the entities: of those with as many the smallest, then the best."""
    held: Counter[str] = Counter()
    known = cache(communities.get)
    for id in ids:
        for member in members.ids(entity=id):
            community = known(member.rpartition(".")[0])
            while community:
                held[community.id] += 1
                community = known(community.parent) if community.parent else None
    levels = {id: community.level for id in held if (community := known(id))}
    ranked = sorted(held, key=lambda id: (-held[id], -levels[id], id))[:_MAX_REPORTS]
    found = [report for id in ranked if (report := reports.get(id))]
    found.sort(key=lambda report: (-held[report.id], -levels[report.id], -report.rating, report.id))
    return scale_scores(Evidence("reports", report, held[report.id]) for report in found)
