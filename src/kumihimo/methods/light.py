"""question -> keywords of two levels -> entities, relations, what lies next to them, and the chunks they come from."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Literal

from kumihimo.core.context import Context, Evidence, Tokenizer
from kumihimo.core.errors import SettingsError, UnparsableReply
from kumihimo.core.records import Chunk, Entity, Mention, Relation, RelationMention
from kumihimo.core.table import Table
from kumihimo.llm.prompts import render_prompt
from kumihimo.llm.protocols import LLM, Reranker, RerankerName
from kumihimo.methods.shared.entity_linking import link_entities
from kumihimo.methods.shared.graph_context import (
    drop_same_text,
    fuse_entities,
    merge_by_score,
    rank_source_chunks,
    relation_sort_key,
    relations_by_entity,
    scale_scores,
    source_chunk_scores,
)
from kumihimo.search.protocols import KeywordSearch, VectorSearch
from kumihimo.text.name_keys import entity_id, name_key
from kumihimo.text.tokens import subject_terms

PROMPT = Path(__file__).with_suffix(".md")
_MAX_KEYWORDS = 10  # of each level, at most
_MAX_RULE_RELATIONS = 100  # relations by rule that are read to see which of them speak of the keys
_NEIGHBOUR_WEIGHT = 0.5  # what it counts to lie next to what was found
log = logging.getLogger("kumihimo")


@dataclass(frozen=True, slots=True)
class Keys:
    """What a question is after, and the particulars it names."""

    high: list[str]
    low: list[str]


def light(
    question: str,
    chunks: Table[Chunk],
    mentions: Table[Mention],
    ties: Table[RelationMention],
    entities: Table[Entity],
    relations: Table[Relation],
    keyword_search: KeywordSearch,
    vector_search: VectorSearch,
    tokenizer: Tokenizer,
    llm: LLM | None,
    rerank: Reranker,
    *,
    mode: Literal["hybrid", "low", "high", "mix"] = "hybrid",
    source: bool = True,
    neighbours: int = 1,
    k: int = 20,
    pool: int = 50,
    entity_budget: int = 4000,
    relation_budget: int = 4000,
    text_budget: int = 4000,
    reranker: RerankerName = "none",
) -> Context:
    """Entities by what a question names, relations by what it is after, and their chunks (LightRAG, arXiv:2410.05779).

    One call finds keywords of both levels; each is searched by itself. mode: `low` searches entities and takes their
    relations (the paper's -High); `high` searches relations and takes their ends (-Low); `hybrid` does both; `mix`
    adds the chunks that plain search finds. source: chunks too, not the graph alone (without: -Origin). neighbours: how
    many steps to go on from what was found; with 0 low keys bring no relations, high ones no ends. k: entities and
    relations at most, for each search and step; chunks are limited by their budget alone.
    Without a model: names of entities in the question are low, its other words high.
    But: keywords are searched one by one, not as one text; entities by name and words too; relations are ranked by
    their nearness to the keywords, not by degree; chunks by the question and by how much of that they support.
    """
    if neighbours < 0:
        raise SettingsError(f"light.neighbours is {neighbours}; 0 stays with what was found")
    low, high = _extract_keywords(question, entities, llm)
    low, high = low if mode != "high" else [], high if mode != "low" else []
    found = _find_entities(low, entities, keyword_search, vector_search, k)
    tied = _find_relations(high, entities, relations, keyword_search, vector_search, k)
    for _ in range(neighbours):
        before = len(found), len(tied)
        tied = merge_by_score(
            tied, _rank_relations([*low, *high], _relation_ids(found, relations), relations, vector_search, k)
        )
        found += _end_entities(tied, entities, k)
        if before == (len(found), len(tied)):
            break
    parts = [found.fit(entity_budget, tokenizer), drop_same_text(tied).fit(relation_budget, tokenizer)]
    if source:
        support = source_chunk_scores(mentions, ties, found, tied)
        read = rank_source_chunks(
            question, chunks, keyword_search, vector_search, support, pool, include_plain_hits=mode == "mix"
        )
        parts.insert(0, scale_scores(rerank(question, read, reranker)).fit(text_budget, tokenizer))
    return Context(tuple(sorted((item for part in parts for item in part), key=lambda item: -item.score)))


def _extract_keywords(question: str, entities: Table[Entity], llm: LLM | None) -> tuple[list[str], list[str]]:
    """Keywords, low and high, each at least one: where there are none, the question itself."""
    if llm is None:
        names, rest = link_entities(question, entities)
        return _distinct_keywords(entity.name for entity in names) or [question], [rest or question]
    try:
        said = llm(render_prompt(PROMPT, question=question), schema=Keys)
    except UnparsableReply as error:
        log.warning("light searches for the question itself: %s", error)
        return [question], [question]
    return _distinct_keywords(said.low) or [question], _distinct_keywords(said.high) or [question]


def _distinct_keywords(words: Iterable[str]) -> list[str]:
    """
    >>> _distinct(["tides ", "", "Tides", "the ferry"])
    ['tides', 'the ferry']
    """
    first: dict[str, str] = {}
    for word in words:
        first.setdefault(word.strip().casefold(), word.strip())
    return [word for folded, word in first.items() if folded][:_MAX_KEYWORDS]


def _find_entities(
    keys: Sequence[str], entities: Table[Entity], keyword_search: KeywordSearch, vector_search: VectorSearch, k: int
) -> Context:
    """Those that a keyword names, then those that keywords are near to by meaning and words."""
    exact = entities.get_many(entity_id(name_key(word)) for word in keys).values()
    by_words = [keyword_search(entities, word, k=k) for word in keys]
    return fuse_entities(exact, [*by_words, *vector_search.search_many(entities, keys, k=k)], k)


def _find_relations(
    keys: Sequence[str],
    entities: Table[Entity],
    relations: Table[Relation],
    keyword_search: KeywordSearch,
    vector_search: VectorSearch,
    k: int,
) -> Context:
    """Those that keywords are near to. Made by rule they are in no search: then those of the entities that are."""
    found = Context.fuse(vector_search.search_many(relations, keys, k=k))
    if found or not keys:
        return scale_scores(found.top(k))
    ends = _find_entities(keys, entities, keyword_search, vector_search, k)
    return _rank_relations(keys, _relation_ids(ends, relations), relations, vector_search, k)


def _relation_ids(found: Context, relations: Table[Relation]) -> list[str]:
    """The relations of these entities, those first that tie most of them."""
    ids = Counter(chain.from_iterable(relations_by_entity(relations, [item.record.id for item in found]).values()))
    return [id for id, _ in ids.most_common()]


def _rank_relations(
    keys: Sequence[str], among: Sequence[str], relations: Table[Relation], vector_search: VectorSearch, k: int
) -> Context:
    """Of these relations the nearest to the keywords, of equals the heaviest; made by rule, what speaks of most."""
    by_key = vector_search.search_many(relations, keys, k=k, candidate_ids=among) if among else []
    found = (
        Context.fuse(by_key)
        if any(by_key)
        else _score_by_words(keys, relations.get_many(among[:_MAX_RULE_RELATIONS]).values())
    )
    return scale_scores(sorted(found, key=relation_sort_key)).top(k)


def _score_by_words(keys: Iterable[str], relations: Iterable[Relation]) -> Context:
    """Each with how much of the keywords it speaks of."""
    asked = set(subject_terms(" ".join(keys)))
    speaks = cache(lambda text: float(len(asked.intersection(subject_terms(text)))))  # by rule, one sentence ties many
    return Context(tuple(Evidence("relations", relation, speaks(relation.text)) for relation in relations))


def _end_entities(tied: Context, entities: Table[Entity], k: int) -> Context:
    """What the relations tie, those of the best first."""
    nearest: dict[str, float] = {}
    for item in tied:
        if isinstance(relation := item.record, Relation):
            for end in (relation.source, relation.target):
                nearest.setdefault(end, _NEIGHBOUR_WEIGHT * item.score)
    rows = entities.get_many(list(nearest)[:k])
    return Context(tuple(Evidence("entities", entity, nearest[id]) for id, entity in rows.items()))
