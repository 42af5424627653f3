"""question -> its entities, and the rows about them: reports, relations, claims and source chunks."""

from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import combinations
from typing import Annotated

from kumihimo.core import settings, signature
from kumihimo.core.context import Context, Evidence, Tokenizer
from kumihimo.core.records import Chunk, Claim, Community, Entity, Member, Mention, Relation, RelationMention, Report
from kumihimo.core.table import Table
from kumihimo.llm.protocols import Reranker, RerankerName
from kumihimo.methods.shared import ranking
from kumihimo.search.protocols import KeywordSearch, VectorSearch
from kumihimo.text.name_keys import relation_id

_BOTH_ENDS_BONUS = 0.5  # added to the cosine of a relation between two hits
_MAX_CLAIMS = 10
_MAX_REPORTS = 5


@signature.declare(best_for="everything about a person, a place, a thing")
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
    k: settings.StartRows = 10,
    edges: Annotated[int, settings.Bounds(0, 1000, asked=(0, 100))] = 10,
    pool: settings.Results = 20,
    budget: settings.Tokens = 12000,
    text: settings.Share = 0.5,
    whole: settings.Share = 0.15,
    reranker: RerankerName = "none",
) -> Context:
    """Return entities near the question and their context (GraphRAG local search).

    All share one budget: `text` is the share of chunks, `whole` that of reports, and the rest goes to entities,
    relations and claims; unused tokens go to the others. edges: maximum relations for each of the `k` entities. The
    best row of each table scores 1; chunks come first among equals.
    But: entities are also found by name and words; relations rank by similarity to the question, not by degree; plain
    search adds chunks; a piece that does not fit is skipped.
    """
    searches = [keyword_search(entities, question, k=2 * k), vector_search(entities, question, k=2 * k)]
    found_entities = ranking.fuse_entities(ranking.link_entities(question, entities)[0], searches, k)
    ids = [item.record.id for item in found_entities]
    found_relations = _find_relations(question, relations, vector_search, ids, edges)
    found_claims = _find_claims(question, claims, vector_search, ids)
    found_reports = _find_reports(members, communities, reports, ids)
    support = ranking.source_chunk_scores(mentions, ties, found_entities, found_relations)
    chunk_hits = ranking.rank_source_chunks(question, chunks, keyword_search, vector_search, support, pool)
    chunk_hits = ranking.scale_scores(rerank(question, chunk_hits, reranker))
    graph_rows = ranking.order_by_score([*found_entities, *found_relations, *found_claims])
    shares = [(found_reports, whole), (ranking.drop_same_text(graph_rows), 1 - text - whole), (chunk_hits, text)]
    reports_part, graph_part, chunks_part = ranking.share_budget(shares, budget, tokenizer)
    return ranking.order_by_score([*chunks_part, *graph_part, *reports_part])


def _find_relations(
    question: str, relations: Table[Relation], vector_search: VectorSearch, ids: Sequence[str], edges: int
) -> Context:
    """Return relations between the entities, and the nearest of each entity."""
    edges_of = list(ranking.relations_by_entity(relations, ids).values())
    pairs = dict.fromkeys(relation_id(one, other) for one, other in combinations(ids, 2))
    small_pool = dict.fromkeys([*pairs, *(id for context in edges_of if len(context) <= edges for id in context)])
    pools = [(list(small_pool), len(small_pool)), *((context, edges) for context in edges_of if len(context) > edges)]
    nearest = [vector_search(relations, question, k=size, candidate_ids=pool) for pool, size in pools if pool]
    hits = {item.record.id: item for context in nearest for item in context}
    unscored = relations.get_many(id for id in pairs if id not in hits).values()  # rule-based relations are not indexed
    hits |= {relation.id: Evidence("relations", relation, 0.0) for relation in unscored}
    rescored = (Evidence(e.table, e.record, e.score + _BOTH_ENDS_BONUS * (id in pairs)) for id, e in hits.items())
    return ranking.scale_scores(sorted(rescored, key=ranking.relation_sort_key))


def _find_claims(question: str, claims: Table[Claim], vector_search: VectorSearch, ids: Sequence[str]) -> Context:
    """Return the claims about the entities, nearest to the question first."""
    claim_ids = dict.fromkeys(claim for id in ids for claim in [*claims.ids(subject=id), *claims.ids(object=id)])
    if not claim_ids:
        return Context()
    return ranking.scale_scores(vector_search(claims, question, k=_MAX_CLAIMS, candidate_ids=list(claim_ids)))


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
    selected = list(reports.get_many(ranked).values())
    selected.sort(key=lambda report: (-counts[report.id], -levels[report.id], -report.rating, report.id))
    return ranking.scale_scores(Evidence("reports", report, counts[report.id]) for report in selected)
