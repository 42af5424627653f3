"""graph rows -> Context: scores on one scale, duplicate texts dropped, and the chunks behind the rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from kumihimo.core.context import Context, Evidence, Tokenizer
from kumihimo.core.records import Chunk, Entity, Mention, Relation, RelationMention
from kumihimo.core.table import Table
from kumihimo.search.protocols import KeywordSearch, VectorSearch

_MAX_SUPPORT_CHUNKS = 300  # searched source chunks, the best supported first


def scale_scores(evidence: Iterable[Evidence]) -> Context:
    """Return the evidence by descending score, with a maximum of 1."""
    items = sorted(evidence, key=lambda item: -item.score)
    max_score = items[0].score if items and items[0].score > 0 else 1.0
    return Context(tuple(Evidence(item.table, item.record, max(item.score, 0.0) / max_score) for item in items))


def merge_by_score(one: Context, other: Context) -> Context:
    """Return both contexts by descending score; duplicates keep the better score."""
    return Context(tuple(sorted([*one, *other], key=lambda item: -item.score)))


def drop_same_text(items: Iterable[Evidence]) -> Context:
    """Drop items whose text repeats an earlier one.

    Rule-based extraction relates many entities by the same sentence.
    """
    first: dict[str, Evidence] = {}
    for item in items:
        first.setdefault(item.text, item)
    return Context(tuple(first.values()))


def relation_sort_key(item: Evidence) -> tuple[float, int, str]:
    """Return the sort key of relations: score, then weight, then id."""
    return -item.score, -getattr(item.record, "weight", 0), item.record.id


def share_budget(parts: Sequence[tuple[Context, float]], budget: int, tokenizer: Tokenizer) -> list[Context]:
    """Fit each part to its share of the budget.

    Unused tokens go to the other parts, in order.
    """
    fitted = [part.fit(int(budget * share), tokenizer) for part, share in parts]
    for i, (part, _) in enumerate(parts):
        used = sum(item.tokens(tokenizer) for j, other in enumerate(fitted) if j != i for item in other)
        fitted[i] = part.fit(budget - used, tokenizer)
    return fitted


def fuse_entities(exact: Iterable[Entity], searches: Sequence[Context], k: int) -> Context:
    """Return the best `k` entities from exact names and searches.

    Each search counts half as much as an exact name.
    """
    exact_hits = Context(tuple(Evidence("entities", entity, 1.0) for entity in exact))
    return scale_scores(Context.fuse([exact_hits, *searches], weights=[1.0, *(0.5 for _ in searches)]).top(k))


def relations_by_entity(relations: Table[Relation], ids: Sequence[str]) -> dict[str, list[str]]:
    """Return the relations of each entity, as source or target."""
    sources, targets = (relations.ids_grouped(end, ids) for end in ("source", "target"))
    return {id: [*sources[id], *targets[id]] for id in ids}


def source_chunk_scores(
    mentions: Table[Mention], ties: Table[RelationMention], entities: Context, relations: Context
) -> Mapping[str, float]:
    """Return the source chunks of entities and relations, with support scores.

    A chunk scores the sum of the rows that it is a source of.
    """
    sources = mentions.ids_grouped("entity", (item.record.id for item in entities))
    sources |= ties.ids_grouped("relation", (item.record.id for item in relations))
    support: dict[str, float] = defaultdict(float)
    for item in (*entities, *relations):
        for chunk in {id.rpartition(".")[0] for id in sources[item.record.id]}:
            support[chunk] += item.score
    return support


def rank_source_chunks(
    question: str,
    chunks: Table[Chunk],
    keyword_search: KeywordSearch,
    vector_search: VectorSearch,
    support: Mapping[str, float],
    pool: int,
    *,
    include_plain_hits: bool = True,
) -> Context:
    """Rank the source chunks together with the hits of plain search.

    Ranks by keywords, by meaning and by support are fused. include_plain_hits: whether to keep hits outside `support`.
    They are kept anyway if no chunk in `support` shares a word with the question.
    """
    keyword_hits, vector_hits = keyword_search(chunks, question, k=pool), Context()
    supported = Context(tuple(item for item in keyword_hits if item.record.id in support))
    if include_plain_hits or not supported:
        vector_hits = vector_search(chunks, question, k=pool)
    else:
        keyword_hits = supported
    if best_supported := sorted(support, key=lambda id: (-support[id], id))[:_MAX_SUPPORT_CHUNKS]:
        vector_hits = merge_by_score(vector_hits, vector_search(chunks, question, k=pool, candidate_ids=best_supported))
    hits = [item for item in (*keyword_hits, *vector_hits) if item.record.id in support]
    supporting = Context(tuple(Evidence("chunks", item.record, support[item.record.id]) for item in hits))
    return scale_scores(Context.fuse([keyword_hits, vector_hits, supporting], weights=[1.0, 0.5, 0.5]))
