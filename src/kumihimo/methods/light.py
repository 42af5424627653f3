"""question -> keywords of two levels -> entities, relations, their neighbours and source chunks."""

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Literal

from kumihimo.core.context import Context, Evidence, Tokenizer
from kumihimo.core.errors import UnparsableReply
from kumihimo.core.records import Chunk, Entity, Mention, Relation, RelationMention
from kumihimo.core.settings import Bounds, Results, StartRows, Tokens
from kumihimo.core.signature import IndexSizes, MethodSettings, QueryCost, declare
from kumihimo.core.table import Table
from kumihimo.llm import prompts, protocols
from kumihimo.methods.shared import ranking
from kumihimo.methods.shared.map_step import FORM_TOKENS
from kumihimo.search.protocols import KeywordSearch, VectorSearch
from kumihimo.text.name_keys import entity_id, name_key
from kumihimo.text.question import ParsedQuestion
from kumihimo.text.tokens import subject_terms

PROMPT = Path(__file__).with_suffix(".md")
_MAX_KEYWORDS = 10  # of each level
_SHOWN_NAMES, _MAX_NAME_CHARS = 8, 60  # names in the prompt, which show how the documents write
_NAME_FLOOR = 0.8  # of the best score: a name below is far from the question
_NAME_TOKENS = 30  # of a name, at most
_MAX_RULE_RELATIONS = 100  # rule-based relations ranked by their text
_NEIGHBOUR_WEIGHT = 0.5  # score of a neighbour, relative to its hit
log = logging.getLogger("kumihimo")


@dataclass(frozen=True, slots=True)
class Keys:
    """Keywords of a question: its themes, and the particulars it names."""

    high: list[str]
    low: list[str]


def light_cost(settings: MethodSettings, sizes: IndexSizes) -> QueryCost:  # noqa: ARG001
    """Return one call, or none for a question on the whole."""
    prompt = sizes.prompt_tokens(PROMPT)
    names = min(_SHOWN_NAMES, sizes.rows("entities")) * _NAME_TOKENS
    return QueryCost.for_calls((0, 1), (prompt, prompt + FORM_TOKENS + names), texts=(1, 2 * _MAX_KEYWORDS + 1))


@declare(best_for="a thing, its themes and its relations", calls=light_cost)
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
    llm: protocols.LLM | None,
    rerank: protocols.Reranker,
    *,
    mode: Literal["hybrid", "low", "high", "mix"] = "hybrid",
    source: bool = True,
    neighbours: Annotated[int, Bounds(0, 20, asked=(0, 5))] = 1,
    k: StartRows = 20,
    pool: Results = 50,
    entity_budget: Tokens = 4000,
    relation_budget: Tokens = 4000,
    text_budget: Tokens = 4000,
    reranker: protocols.RerankerName = "none",
) -> Context:
    """Search entities by low-level and relations by high-level keywords (LightRAG, arXiv:2410.05779).

    One call extracts keywords of both levels; each keyword is searched alone. The call sees the names of the entities
    nearest to the question, so that the keywords are in the language of the documents. mode: `low` searches entities
    and takes their relations (-High in the paper); `high` searches relations and takes their ends (-Low); `hybrid` does
    both; `mix` adds the chunks of plain search. source: include chunks (without: -Origin). neighbours: number of
    expansion steps; with 0, low keywords bring no relations and high ones no ends. k: maximum entities and relations
    for each search and step; only the budget limits chunks.
    Without a model, and for a question on the whole corpus: entity names in the question are low-level keywords, its
    other words high-level ones.
    But: keywords are searched one by one, not as one text; entities by name and words too; relations rank by similarity
    to the keywords, not by degree; chunks rank by the question and by the rows that they support.
    """
    low, high = _extract_keywords(question, entities, vector_search, llm)
    low, high = low if mode != "high" else [], high if mode != "low" else []
    graph = _Graph(entities, relations, keyword_search, vector_search, k)
    found_entities, found_relations = graph.find_entities(low), graph.find_relations(high)
    for _ in range(neighbours):
        sizes = len(found_entities), len(found_relations)
        adjacent_relations = graph.rank_relations([*low, *high], graph.relation_ids(found_entities))
        found_relations = ranking.order_by_score([*found_relations, *adjacent_relations])
        found_entities += graph.end_entities(found_relations)
        if sizes == (len(found_entities), len(found_relations)):
            break
    chunk_hits = Context()
    if source:
        support = ranking.source_chunk_scores(mentions, ties, found_entities, found_relations)
        chunk_hits = ranking.rank_source_chunks(
            question, chunks, keyword_search, vector_search, support, pool, include_plain_hits=mode == "mix"
        )
        chunk_hits = ranking.scale_scores(rerank(question, chunk_hits, reranker)).fit(text_budget, tokenizer)
    entity_part = found_entities.fit(entity_budget, tokenizer)
    relation_part = ranking.drop_same_text(found_relations).fit(relation_budget, tokenizer)
    return ranking.order_by_score([*chunk_hits, *entity_part, *relation_part])


def _extract_keywords(
    question: str, entities: Table[Entity], vector_search: VectorSearch, llm: protocols.LLM | None
) -> tuple[list[str], list[str]]:
    """Return low and high keywords; the question where there are none."""
    if llm is None or ParsedQuestion(question).is_on_all:  # such a question names nothing
        names, rest = ranking.link_entities(question, entities)
        return _distinct_keywords(entity.name for entity in names) or [question], [rest or question]
    nearest = vector_search(entities, question, k=_SHOWN_NAMES)
    floor = _NAME_FLOOR * max((item.score for item in nearest), default=0.0)
    shown = "\n".join(item.title[:_MAX_NAME_CHARS] for item in nearest if item.score >= floor)
    try:
        keywords = llm(prompts.render_prompt(PROMPT, names=shown, question=question), schema=Keys)
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


@dataclass(frozen=True, slots=True)
class _Graph:
    """The entities and relations, with searches for at most `k` of each."""

    entities: Table[Entity]
    relations: Table[Relation]
    keyword_search: KeywordSearch
    vector_search: VectorSearch
    k: int

    def find_entities(self, keywords: Sequence[str]) -> Context:
        """Return entities by exact name, then by similarity and words."""
        exact = self.entities.get_many(entity_id(name_key(word)) for word in keywords).values()
        searches = [self.keyword_search(self.entities, word, k=self.k) for word in keywords]
        searches += self.vector_search.search_many(self.entities, keywords, k=self.k)
        return ranking.fuse_entities(exact, searches, self.k)

    def find_relations(self, keywords: Sequence[str]) -> Context:
        """Return the relations nearest to the keywords.

        Rule-based relations are in no search index; then the relations of the matching entities are ranked.
        """
        hits = Context.fuse(self.vector_search.search_many(self.relations, keywords, k=self.k))
        if hits or not keywords:
            return ranking.scale_scores(hits.top(self.k))
        return self.rank_relations(keywords, self.relation_ids(self.find_entities(keywords)))

    def relation_ids(self, entities: Context) -> list[str]:
        """Return the relations of these entities, the most shared first."""
        by_entity = ranking.relations_by_entity(self.relations, [item.record.id for item in entities])
        return [id for id, _ in Counter(chain.from_iterable(by_entity.values())).most_common()]

    def rank_relations(self, keywords: Sequence[str], ids: Sequence[str]) -> Context:
        """Return the best of these relations by keyword similarity, then weight.

        Rule-based relations rank by the number of keyword terms in their text.
        """
        rankings = self.vector_search.search_many(self.relations, keywords, k=self.k, candidate_ids=ids) if ids else []
        hits = Context.fuse(rankings)
        if not hits:
            hits = _score_by_words(keywords, self.relations.get_many(ids[:_MAX_RULE_RELATIONS]).values())
        return ranking.scale_scores(sorted(hits, key=ranking.relation_sort_key)).top(self.k)

    def end_entities(self, relations: Context) -> Context:
        """Return the end entities of the relations, best relations first."""
        scores: dict[str, float] = {}
        for item in relations:
            if isinstance(relation := item.record, Relation):
                for end in (relation.source, relation.target):
                    scores.setdefault(end, _NEIGHBOUR_WEIGHT * item.score)
        rows = self.entities.get_many(list(scores)[: self.k])
        return Context(tuple(Evidence("entities", entity, scores[id]) for id, entity in rows.items()))


def _score_by_words(keywords: Iterable[str], relations: Iterable[Relation]) -> Context:
    """Score each relation by the keyword terms in its text.

    By rule, one sentence ties many entities, so equal texts are read once.
    """
    terms, relations = set(subject_terms(" ".join(keywords))), list(relations)
    scores = {text: len(terms.intersection(subject_terms(text))) for text in {relation.text for relation in relations}}
    return Context(tuple(Evidence("relations", relation, float(scores[relation.text])) for relation in relations))
