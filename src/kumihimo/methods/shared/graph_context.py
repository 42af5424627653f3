"""rows of the graph -> Context: on one scale, each saying something else, and the chunks that they come from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from kumihimo.core.context import Context, Evidence, Tokenizer
from kumihimo.core.records import Chunk, Entity, Mention, Relation, RelationMention
from kumihimo.core.table import Table
from kumihimo.search.protocols import KeywordSearch, VectorSearch

_MAX_SUPPORT_CHUNKS = 300  # chunks behind what was found that are looked at, those behind most of it first


def scale_scores(found: Iterable[Evidence]) -> Context:
    """Best first, the best with a score of 1."""
    items = sorted(found, key=lambda item: -item.score)
    best = items[0].score if items and items[0].score > 0 else 1.0
    return Context(tuple(Evidence(item.table, item.record, max(item.score, 0.0) / best) for item in items))


def merge_by_score(one: Context, other: Context) -> Context:
    """Both, best first; of a row that is in both the better score."""
    return Context(tuple(sorted([*one, *other], key=lambda item: -item.score)))


def drop_same_text(items: Iterable[Evidence]) -> Context:
    """Of those that say the same the first: by rule, one sentence ties many."""
    first: dict[str, Evidence] = {}
    for item in items:
        first.setdefault(item.text, item)
    return Context(tuple(first.values()))


def relation_sort_key(item: Evidence) -> tuple[float, int, str]:
    """The order of relations that are equally near."""
    return -item.score, -getattr(item.record, "weight", 0), item.record.id


def share_budget(parts: Sequence[tuple[Context, float]], budget: int, tokenizer: Tokenizer) -> list[Context]:
    """What of each part fits into its share of the budget; what the others leave is given to one after the other."""
    kept = [part.fit(int(budget * share), tokenizer) for part, share in parts]
    for i, (part, _) in enumerate(parts):
        others = sum(item.tokens(tokenizer) for j, other in enumerate(kept) if j != i for item in other)
        kept[i] = part.fit(budget - others, tokenizer)
    return kept


def fuse_entities(exact: Iterable[Entity], searches: Sequence[Context], k: int) -> Context:
    """The best k entities: those that are named exactly, with those that searches find, each at half weight."""
    named = Context(tuple(Evidence("entities", entity, 1.0) for entity in exact))
    return scale_scores(Context.fuse([named, *searches], weights=[1.0, *(0.5 for _ in searches)]).top(k))


def relations_by_entity(relations: Table[Relation], ids: Sequence[str]) -> dict[str, list[str]]:
    """Of each entity the relations that it is an end of."""
    sources, targets = (relations.ids_grouped(end, ids) for end in ("source", "target"))
    return {id: [*sources[id], *targets[id]] for id in ids}


def source_chunk_scores(
    mentions: Table[Mention], ties: Table[RelationMention], found: Context, tied: Context
) -> Mapping[str, float]:
    """The chunks that entities and relations come from, and the scores of those that each speaks of, added up."""
    made = mentions.ids_grouped("entity", (item.record.id for item in found))
    made |= ties.ids_grouped("relation", (item.record.id for item in tied))
    support: dict[str, float] = defaultdict(float)
    for item in (*found, *tied):
        for chunk in {id.rpartition(".")[0] for id in made[item.record.id]}:
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
    """The chunks behind what was found, and what plain search finds: by words, meaning, and how much they support.

    plain: whether those count that plain search alone finds. They do anyway where nothing else shares a word with the
    question.
    """
    by_words, by_meaning = keyword_search(chunks, question, k=pool), Context()
    among = Context(tuple(item for item in by_words if item.record.id in support))
    if include_plain_hits or not among:
        by_meaning = vector_search(chunks, question, k=pool)
    else:
        by_words = among
    if most := sorted(support, key=lambda id: (-support[id], id))[:_MAX_SUPPORT_CHUNKS]:
        by_meaning = merge_by_score(by_meaning, vector_search(chunks, question, k=pool, candidate_ids=most))
    found = [item for item in (*by_words, *by_meaning) if item.record.id in support]
    supporting = Context(tuple(Evidence("chunks", item.record, support[item.record.id]) for item in found))
    return scale_scores(Context.fuse([by_words, by_meaning, supporting], weights=[1.0, 0.5, 0.5]))
