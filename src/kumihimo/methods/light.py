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

from kumihimo.core.context import Context, Evidence, Ruler
from kumihimo.core.errors import SettingsError, Unreadable
from kumihimo.core.records import Chunk, Entity, Mention, Relation, Tie
from kumihimo.core.table import Table
from kumihimo.llm.prompts import prompt
from kumihimo.llm.protocols import Ask, Rank, Rerank
from kumihimo.methods.shared.entity_linking import named
from kumihimo.methods.shared.graph_context import (
    behind,
    distinct,
    excerpts,
    merged,
    scaled,
    sought,
    touching,
    weightiest_first,
)
from kumihimo.search.protocols import Match, Near
from kumihimo.text.name_keys import entity_id, key
from kumihimo.text.tokens import subjects

PROMPT = Path(__file__).with_suffix(".md")
_KEYS = 10  # of each level, at most
_UNJUDGED = 100  # relations by rule that are read to see which of them speak of the keys
_NEXT = 0.5  # what it counts to lie next to what was found
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
    ties: Table[Tie],
    entities: Table[Entity],
    relations: Table[Relation],
    match: Match,
    near: Near,
    ruler: Ruler,
    ask: Ask | None,
    rank: Rank,
    *,
    mode: Literal["hybrid", "low", "high", "mix"] = "hybrid",
    source: bool = True,
    neighbours: int = 1,
    k: int = 20,
    pool: int = 50,
    entity_budget: int = 4000,
    relation_budget: int = 4000,
    text_budget: int = 4000,
    rerank: Rerank = "none",
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
    low, high = _keys(question, entities, ask)
    low, high = low if mode != "high" else [], high if mode != "low" else []
    found = _entities(low, entities, match, near, k)
    tied = _relations(high, entities, relations, match, near, k)
    for _ in range(neighbours):
        before = len(found), len(tied)
        tied = merged(tied, _rated([*low, *high], _tying(found, relations), relations, near, k))
        found += _ends(tied, entities, k)
        if before == (len(found), len(tied)):
            break
    parts = [found.fit(entity_budget, ruler), distinct(tied).fit(relation_budget, ruler)]
    if source:
        support = behind(mentions, ties, found, tied)
        read = excerpts(question, chunks, match, near, support, pool, plain=mode == "mix")
        parts.insert(0, scaled(rank(question, read, rerank)).fit(text_budget, ruler))
    return Context(tuple(sorted((item for part in parts for item in part), key=lambda item: -item.score)))


def _keys(question: str, entities: Table[Entity], ask: Ask | None) -> tuple[list[str], list[str]]:
    """Keywords, low and high, each at least one: where there are none, the question itself."""
    if ask is None:
        names, rest = named(question, entities)
        return _distinct(entity.name for entity in names) or [question], [rest or question]
    try:
        said = ask(prompt(PROMPT, question=question), into=Keys)
    except Unreadable as error:
        log.warning("light searches for the question itself: %s", error)
        return [question], [question]
    return _distinct(said.low) or [question], _distinct(said.high) or [question]


def _distinct(words: Iterable[str]) -> list[str]:
    """
    >>> _distinct(["tides ", "", "Tides", "the ferry"])
    ['tides', 'the ferry']
    """
    first: dict[str, str] = {}
    for word in words:
        first.setdefault(word.strip().casefold(), word.strip())
    return [word for folded, word in first.items() if folded][:_KEYS]


def _entities(keys: Sequence[str], entities: Table[Entity], match: Match, near: Near, k: int) -> Context:
    """Those that a keyword names, then those that keywords are near to by meaning and words."""
    exact = entities.some(entity_id(key(word)) for word in keys).values()
    by_words = [match(entities, word, k=k) for word in keys]
    return sought(exact, [*by_words, *near.each(entities, keys, k=k)], k)


def _relations(
    keys: Sequence[str], entities: Table[Entity], relations: Table[Relation], match: Match, near: Near, k: int
) -> Context:
    """Those that keywords are near to. Made by rule they are in no search: then those of the entities that are."""
    found = Context.fuse(near.each(relations, keys, k=k))
    if found or not keys:
        return scaled(found.top(k))
    ends = _entities(keys, entities, match, near, k)
    return _rated(keys, _tying(ends, relations), relations, near, k)


def _tying(found: Context, relations: Table[Relation]) -> list[str]:
    """The relations of these entities, those first that tie most of them."""
    ids = Counter(chain.from_iterable(touching(relations, [item.record.id for item in found]).values()))
    return [id for id, _ in ids.most_common()]


def _rated(keys: Sequence[str], among: Sequence[str], relations: Table[Relation], near: Near, k: int) -> Context:
    """Of these relations the nearest to the keywords, of equals the heaviest; made by rule, what speaks of most."""
    by_key = near.each(relations, keys, k=k, among=among) if among else []
    found = Context.fuse(by_key) if any(by_key) else _speaking(keys, relations.some(among[:_UNJUDGED]).values())
    return scaled(sorted(found, key=weightiest_first)).top(k)


def _speaking(keys: Iterable[str], relations: Iterable[Relation]) -> Context:
    """Each with how much of the keywords it speaks of."""
    asked = set(subjects(" ".join(keys)))
    speaks = cache(lambda text: float(len(asked.intersection(subjects(text)))))  # by rule, one sentence ties many
    return Context(tuple(Evidence("relations", relation, speaks(relation.text)) for relation in relations))


def _ends(tied: Context, entities: Table[Entity], k: int) -> Context:
    """What the relations tie, those of the best first."""
    nearest: dict[str, float] = {}
    for item in tied:
        if isinstance(relation := item.record, Relation):
            for end in (relation.source, relation.target):
                nearest.setdefault(end, _NEXT * item.score)
    rows = entities.some(list(nearest)[:k])
    return Context(tuple(Evidence("entities", entity, nearest[id]) for id, entity in rows.items()))
