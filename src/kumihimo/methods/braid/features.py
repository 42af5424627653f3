"""candidates + the passages read first -> what speaks for each candidate, as numbers that a scorer weighs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from math import log

from kumihimo.core.records import Chunk
from kumihimo.index.rules.ner import title_as_name
from kumihimo.methods.braid.ppr import EntitySet, PassageGraph, Scores, top_ids
from kumihimo.text.name_keys import entity_id, name_key
from kumihimo.text.tokens import content_tokens, find_tokens

Features = dict[str, float]
_MAX_RANK = 100  # places of a ranking that count
_UNRANKED = 200  # the place of what is not among them
_ANCHOR_FEATURES = ("adds", "shares", "named", "bridges")


@dataclass(frozen=True)
class Candidates:
    """Passages that may answer a question, and what is known of each. spoken: the entities that the question names.

    heard: the words of the question that were found in passages so far.
    """

    question: str
    chunks: dict[str, Chunk]
    graph: PassageGraph
    question_entities: frozenset[str]
    word_cache: dict[str, frozenset[str]] = field(default_factory=dict)

    @cached_property
    def matched_words(self) -> dict[str, frozenset[str]]:
        """The words of the question that each says."""
        asked = frozenset(content_tokens(self.question))
        for id in self.chunks.keys() - self.word_cache.keys():
            self.word_cache[id] = find_tokens(self.chunks[id].index_text, asked)
        return {id: self.word_cache[id] for id in self.chunks}

    @cached_property
    def rarity(self) -> Scores:
        """How much each word of the question tells, by how few of the candidates say it; 1 in all."""
        counts = {
            word: sum(word in said for said in self.matched_words.values()) for word in content_tokens(self.question)
        }
        rare = {word: log(1 + len(self.matched_words) / (1 + count)) for word, count in counts.items()}
        return {word: much / sum(rare.values()) for word, much in rare.items()}

    def coverage(self, words: Iterable[str]) -> float:
        """How much these words of the question tell together."""
        return sum(self.rarity[word] for word in sorted(words))

    @cached_property
    def title_entities(self) -> dict[str, str]:
        """The entities that the titles of their documents name, as far as they look like names."""
        return {id: entity for id, chunk in self.chunks.items() if (entity := _title_entity(chunk.title))}

    @cached_property
    def entities(self) -> dict[str, EntitySet]:
        """The entities that each mentions."""
        return self.graph.entities(self.chunks)

    def entity_rarity(self, id: str) -> Features:
        """The entities that it mentions, each by how few passages do; hubs are none of them."""
        return {entity: 1 / len(found) for entity, found in self.graph.passages(self.entities[id]).items() if found}


def compute_features(of: Candidates, rankings: Mapping[str, Scores], anchors: Sequence[str]) -> dict[str, Features]:
    """For each candidate: its score and place in each ranking, and how it goes on from the anchors, read before it.

    covers: the fourth power of the share of the question, by rarity, that it says: little, unless it says nearly all.
    new: the share that it says and no anchor does. titled: its title is named in the question. The others are those of
    the anchor to which they are most.
    """
    ranked = [(name, scores, max(scores.values(), default=0.0), _rank_ids(scores)) for name, scores in rankings.items()]
    read = frozenset[str]().union(*(of.matched_words[anchor] for anchor in anchors))
    rare = {anchor: of.entity_rarity(anchor) for anchor in anchors}
    found: dict[str, Features] = {}
    for id, said in of.matched_words.items():
        told = {"covers": of.coverage(said) ** 4, "new": of.coverage(said - read)}
        told["titled"] = float(of.title_entities.get(id) in of.question_entities)
        for name, scores, most, places in ranked:
            told[name] = scores.get(id, 0.0) / most if most > 0 else 0.0
            told[f"{name} rank"] = 1 / (1 + places.get(id, _UNRANKED))
        ties = [_anchor_features(of, id, anchor, rare[anchor]) for anchor in anchors if anchor != id]
        found[id] = told | {name: max((tie[name] for tie in ties), default=0.0) for name in _ANCHOR_FEATURES}
    return found


def _anchor_features(of: Candidates, id: str, anchor: str, rare: Features) -> Features:
    """How a passage goes on from an anchor. rare: the entities of the anchor.

    adds: share of the question, by rarity, that it says and the anchor does not. shares: how specifically it is tied to
    it. named: the anchor mentions its title. bridges: what it adds, as far as they are tied, by titles either way.
    """
    adds = of.coverage(of.matched_words[id] - of.matched_words[anchor])
    shares = min(1.0, sum(much for entity, much in rare.items() if entity in of.entities[id]))
    named = back = 0.0
    if of.title_entities.get(id) != of.title_entities.get(anchor):
        named = float(of.title_entities.get(id) in of.entities[anchor])
        back = float(of.title_entities.get(anchor) in of.entities[id])
    return {"adds": adds, "shares": shares, "named": named, "bridges": adds * max(shares, named, back)}


def find_anchor_link(of: Candidates, id: str, anchors: Iterable[str]) -> tuple[str, str]:
    """The anchor that it is tied to most specifically, and the entity that both mention; empty where nothing ties."""
    ties = [(much, e, a) for a in anchors if a != id for e, much in of.entity_rarity(a).items() if e in of.entities[id]]
    _, entity, anchor = max(ties, default=(0.0, "", ""))
    return anchor, entity


@lru_cache(maxsize=16384)
def _title_entity(title: str) -> str:
    name = title_as_name(title)
    return entity_id(name_key(name)) if name else ""


def _rank_ids(scores: Scores) -> dict[str, int]:
    return {id: place for place, id in enumerate(top_ids(scores, _MAX_RANK), 1)}


def score_candidates(found: Mapping[str, Features], weights: Scores) -> dict[str, float]:
    """The weighted sum of each candidate's features, spread from 0, the last, to 1, the best."""
    sums = {id: sum(much * told.get(name, 0.0) for name, much in weights.items()) for id, told in found.items()}
    low, high = min(sums.values(), default=0.0), max(sums.values(), default=0.0)
    return {id: (much - low) / (high - low) if high > low else 1.0 for id, much in sums.items()}


def feature_contributions(told: Features, weights: Scores) -> tuple[tuple[str, float], ...]:
    """What each feature adds to the sum, most first."""
    parts = {name: round(much * told.get(name, 0.0), 4) for name, much in weights.items()}
    return tuple(sorted(((name, much) for name, much in parts.items() if much), key=lambda part: (-part[1], part[0])))
