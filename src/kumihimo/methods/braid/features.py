"""candidates + anchors -> features of each candidate, for a linear scorer."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import chain
from math import log

from kumihimo.core.records import Chunk
from kumihimo.methods.braid.ppr import EntitySet, PassageGraph, Scores, top_ids
from kumihimo.text.name_keys import entity_id, name_key
from kumihimo.text.tokens import content_tokens, find_tokens

Features = dict[str, float]
_MAX_RANK = 100  # ranks below count as unranked
_UNRANKED = 200  # rank of an unranked candidate
_ANCHOR_FEATURES = ("adds", "shares", "named", "bridges")


@dataclass(frozen=True)
class Candidates:
    """Candidate chunks for a question, with cached lookups.

    question_entities: the entities that the question names. word_cache: the words of the question found in each chunk
    so far.
    """

    question: str
    chunks: dict[str, Chunk]
    graph: PassageGraph
    question_entities: frozenset[str]
    word_cache: dict[str, frozenset[str]] = field(default_factory=dict)

    @cached_property
    def matched_words(self) -> dict[str, frozenset[str]]:
        """Return the question words in each candidate."""
        question_words = frozenset(content_tokens(self.question))
        for id in self.chunks.keys() - self.word_cache.keys():
            self.word_cache[id] = find_tokens(self.chunks[id].index_text, question_words)
        return {id: self.word_cache[id] for id in self.chunks}

    @cached_property
    def rarity(self) -> Scores:
        """Return the weight of each question word, by rarity; sum 1."""
        counts, size = Counter(chain.from_iterable(self.matched_words.values())), len(self.matched_words)
        idf = {word: log(1 + size / (1 + counts[word])) for word in content_tokens(self.question)}
        return {word: weight / sum(idf.values()) for word, weight in idf.items()}

    def coverage(self, words: Iterable[str]) -> float:
        """Return the total weight of these question words."""
        return sum(self.rarity[word] for word in sorted(words))

    @cached_property
    def title_entities(self) -> dict[str, str]:
        """Return the entity in each document title, if it is a name."""
        return {id: entity for id, chunk in self.chunks.items() if (entity := _title_entity(chunk.title))}

    @cached_property
    def entities(self) -> dict[str, EntitySet]:
        """Return the entities that each candidate mentions."""
        return self.graph.entities(self.chunks)

    def entity_rarity(self, id: str) -> Features:
        """Return the entities of a chunk, weighted by rarity, without hubs."""
        passages_of = self.graph.passages(self.entities[id])
        return {entity: 1 / len(passages) for entity, passages in passages_of.items() if passages}


def compute_features(
    candidates: Candidates, rankings: Mapping[str, Scores], anchors: Sequence[str]
) -> dict[str, Features]:
    """Return the features of each candidate, relative to the anchors.

    Each ranking gives a score and a reciprocal rank. covers: the fourth power of the weighted share of question words;
    it is small unless the candidate contains nearly all of them. new: the share that no anchor contains. titled: 1 if
    the question names the title entity. The remaining features are maxima over anchors.
    """
    tops = {name: max(scores.values(), default=0.0) or 1.0 for name, scores in rankings.items()}
    ranked_ids = {name: top_ids(scores, _MAX_RANK) for name, scores in rankings.items()}
    ranks_of = {name: {id: rank for rank, id in enumerate(ids, 1)} for name, ids in ranked_ids.items()}
    anchor_words = frozenset[str]().union(*(candidates.matched_words[anchor] for anchor in anchors))
    rarity = {anchor: candidates.entity_rarity(anchor) for anchor in anchors}
    features: dict[str, Features] = {}
    for id, words in candidates.matched_words.items():
        values = {"covers": candidates.coverage(words) ** 4, "new": candidates.coverage(words - anchor_words)}
        values["titled"] = float(candidates.title_entities.get(id) in candidates.question_entities)
        for name, scores in rankings.items():
            values[name] = scores.get(id, 0.0) / tops[name]
            values[f"{name} rank"] = 1 / (1 + ranks_of[name].get(id, _UNRANKED))
        links = [_anchor_features(candidates, id, anchor, rarity[anchor]) for anchor in anchors if anchor != id]
        features[id] = values | {name: max((link[name] for link in links), default=0.0) for name in _ANCHOR_FEATURES}
    return features


def _anchor_features(candidates: Candidates, id: str, anchor: str, rare: Features) -> Features:
    """Return how a chunk continues an anchor.

    rare: the rarity of the anchor's entities. adds: weighted share of question words in the chunk but not in the
    anchor. shares: rarity of the entities in common. named: 1 if the anchor mentions the title of the chunk. bridges:
    adds, times the strongest link between both, titles included.
    """
    adds = candidates.coverage(candidates.matched_words[id] - candidates.matched_words[anchor])
    shares = min(1.0, sum(weight for entity, weight in rare.items() if entity in candidates.entities[id]))
    forward = back = 0.0
    if candidates.title_entities.get(id) != candidates.title_entities.get(anchor):
        forward = float(candidates.title_entities.get(id) in candidates.entities[anchor])
        back = float(candidates.title_entities.get(anchor) in candidates.entities[id])
    return {"adds": adds, "shares": shares, "named": forward, "bridges": adds * max(shares, forward, back)}


def find_anchor_link(candidates: Candidates, id: str, anchors: Iterable[str]) -> tuple[str, str]:
    """Return the anchor with the rarest common entity, and this entity.

    Both are empty if the chunk shares no entity with an anchor.
    """
    links = [
        (weight, shared, other)
        for other in anchors
        if other != id
        for shared, weight in candidates.entity_rarity(other).items()
        if shared in candidates.entities[id]
    ]
    _, entity, anchor = max(links, default=(0.0, "", ""))
    return anchor, entity


@lru_cache(maxsize=16384)
def _title_entity(title: str) -> str:
    from kumihimo.index.rules.ner import title_as_name  # its patterns take long to compile

    name = title_as_name(title)
    return entity_id(name_key(name)) if name else ""


def score_candidates(features: Mapping[str, Features], weights: Scores) -> dict[str, float]:
    """Return the weighted feature sums, scaled from 0 to 1."""
    sums = {
        id: sum(value * values.get(name, 0.0) for name, value in weights.items()) for id, values in features.items()
    }
    low, high = min(sums.values(), default=0.0), max(sums.values(), default=0.0)
    return {id: (value - low) / (high - low) if high > low else 1.0 for id, value in sums.items()}


def feature_contributions(features: Features, weights: Scores) -> tuple[tuple[str, float], ...]:
    """Return what each feature adds to the sum, largest first."""
    contributions = {name: round(value * features.get(name, 0.0), 4) for name, value in weights.items()}
    present = [(name, value) for name, value in contributions.items() if value]
    return tuple(sorted(present, key=lambda pair: (-pair[1], pair[0])))
