"""question -> keywords of two levels -> entities, relations, their neighbours and source chunks."""

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
_MAX_KEYWORDS = 10  # of each level
_MAX_RULE_RELATIONS = 100  # rule-based relations ranked by their text
_NEIGHBOUR_WEIGHT = 0.5  # score of a neighbour, relative to its hit
log = logging.getLogger("kumihimo")


@dataclass(frozen=True, slots=True)
class Keys:
    """Keywords of a question: its themes, and the particulars it names."""

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
    """Search entities by low-level and relations by high-level keywords (LightRAG, arXiv:2410.05779).

    One call extracts keywords of both levels; each keyword is searched alone. mode: `low` searches entities and takes
    their relations (-High in the paper); `high` searches relations and takes their ends (-Low); `hybrid` does both;
    `mix` adds the chunks of plain search. source: include chunks (without: -Origin). neighbours: number of expansion
    steps; with 0, low keywords bring no relations and high ones no ends. k: maximum entities and relations for each
    search and step; only the budget limits chunks.
    Without a model: entity names in the question are low-level keywords, its other words high-level ones.
    But: keywords are searched one by one, not as one text; entities by name and words too; relations rank by similarity
    to the keywords, not by degree; chunks rank by the question and by the rows that they support.
    """
    if neighbours < 0:
        raise SettingsError(f"light.neighbours is {neighbours}: it has to be 0 or more")
    low, high = _extract_keywords(question, entities, llm)
    low, high = low if mode != "high" else [], high if mode != "low" else []
    found_entities = _find_entities(low, entities, keyword_search, vector_search, k)
    found_relations = _find_relations(high, entities, relations, keyword_search, vector_search, k)
    for _ in range(neighbours):
        sizes = len(found_entities), len(found_relations)
        found_relations = merge_by_score(
            found_relations,
            _rank_relations([*low, *high], _relation_ids(found_entities, relations), relations, vector_search, k),
        )
        found_entities += _end_entities(found_relations, entities, k)
        if sizes == (len(found_entities), len(found_relations)):
            break
    parts = [
        found_entities.fit(entity_budget, tokenizer),
        drop_same_text(found_relations).fit(relation_budget, tokenizer),
    ]
    if source:
        support = source_chunk_scores(mentions, ties, found_entities, found_relations)
        chunk_hits = rank_source_chunks(
            question, chunks, keyword_search, vector_search, support, pool, include_plain_hits=mode == "mix"
        )
        parts.insert(0, scale_scores(rerank(question, chunk_hits, reranker)).fit(text_budget, tokenizer))
    return Context(tuple(sorted((item for part in parts for item in part), key=lambda item: -item.score)))


def _extract_keywords(question: str, entities: Table[Entity], llm: LLM | None) -> tuple[list[str], list[str]]:
    """Return low and high keywords; the question where there are none."""
    if llm is None:
        names, rest = link_entities(question, entities)
        return _distinct_keywords(entity.name for entity in names) or [question], [rest or question]
    try:
        keywords = llm(render_prompt(PROMPT, question=question), schema=Keys)
    except UnparsableReply as error:
        log.warning("light searches for the question itself: %s", error)
        return [question], [question]
    return _distinct_keywords(keywords.low) or [question], _distinct_keywords(keywords.high) or [question]


def _distinct_keywords(words: Iterable[str]) -> list[str]:
    """Return the keywords without repeats, at most ten.

    >>> _distinct_keywords(["tides ", "", "Tides", "the ferry"])
    ['tides', 'the ferry']
    """
    first: dict[str, str] = {}
    for word in words:
        first.setdefault(word.strip().casefold(), word.strip())
    return [word for folded, word in first.items() if folded][:_MAX_KEYWORDS]


def _find_entities(
    keywords: Sequence[str], entities: Table[Entity], keyword_search: KeywordSearch, vector_search: VectorSearch, k: int
) -> Context:
    """Return entities by exact name, then by similarity and words."""
    exact = entities.get_many(entity_id(name_key(word)) for word in keywords).values()
    keyword_hits = [keyword_search(entities, word, k=k) for word in keywords]
    return fuse_entities(exact, [*keyword_hits, *vector_search.search_many(entities, keywords, k=k)], k)


def _find_relations(
    keywords: Sequence[str],
    entities: Table[Entity],
    relations: Table[Relation],
    keyword_search: KeywordSearch,
    vector_search: VectorSearch,
    k: int,
) -> Context:
    """Return the relations nearest to the keywords.

    Rule-based relations are in no search index; then the relations of the matching entities are ranked.
    """
    hits = Context.fuse(vector_search.search_many(relations, keywords, k=k))
    if hits or not keywords:
        return scale_scores(hits.top(k))
    ends = _find_entities(keywords, entities, keyword_search, vector_search, k)
    return _rank_relations(keywords, _relation_ids(ends, relations), relations, vector_search, k)


def _relation_ids(entities: Context, relations: Table[Relation]) -> list[str]:
    """Return the relations of these entities, the most shared first."""
    ids = Counter(chain.from_iterable(relations_by_entity(relations, [item.record.id for item in entities]).values()))
    return [id for id, _ in ids.most_common()]


def _rank_relations(
    keywords: Sequence[str], ids: Sequence[str], relations: Table[Relation], vector_search: VectorSearch, k: int
) -> Context:
    """Return the best of these relations by keyword similarity, then weight.

    Rule-based relations rank by the number of keyword terms in their text.
    """
    rankings = vector_search.search_many(relations, keywords, k=k, candidate_ids=ids) if ids else []
    hits = (
        Context.fuse(rankings)
        if any(rankings)
        else _score_by_words(keywords, relations.get_many(ids[:_MAX_RULE_RELATIONS]).values())
    )
    return scale_scores(sorted(hits, key=relation_sort_key)).top(k)


def _score_by_words(keywords: Iterable[str], relations: Iterable[Relation]) -> Context:
    """Score each relation by the keyword terms in its text."""
    terms = set(subject_terms(" ".join(keywords)))
    count_terms = cache(
        lambda text: float(len(terms.intersection(subject_terms(text))))
    )  # by rule, one sentence ties many
    return Context(tuple(Evidence("relations", relation, count_terms(relation.text)) for relation in relations))


def _end_entities(relations: Context, entities: Table[Entity], k: int) -> Context:
    """Return the end entities of the relations, best relations first."""
    scores: dict[str, float] = {}
    for item in relations:
        if isinstance(relation := item.record, Relation):
            for end in (relation.source, relation.target):
                scores.setdefault(end, _NEIGHBOUR_WEIGHT * item.score)
    rows = entities.get_many(list(scores)[:k])
    return Context(tuple(Evidence("entities", entity, scores[id]) for id, entity in rows.items()))
