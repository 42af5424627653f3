"""candidates + anchors -> features of each candidate, for a linear scorer."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from itertools import repeat
from math import exp

from kumihimo.core import context, table
from kumihimo.core.records import Chunk
from kumihimo.methods.braid.document_match import DocumentMatch
from kumihimo.methods.braid.plain_match import Features, PlainMatcher
from kumihimo.methods.braid.ppr import EntitySet, PassageGraph, Scores, top_ids
from kumihimo.search.protocols import KeywordSearch, VectorSearch
from kumihimo.text.name_keys import entity_id, name_key, title_as_name

_MAX_RANK = 100  # ranks below count as unranked
_UNRANKED = 200  # rank of an unranked candidate
_ANCHOR_FEATURES = ("adds", "shares", "named", "bridges")


@dataclass(frozen=True)
class CandidateReader:
    """Reads candidate chunks for one question, with their plain features.

    found: chunks that the searches returned. keyword_scores: of the search. vector_scores: of the candidates of both
    searches. documents: the documents that the question names.
    """

    chunks: table.Table[Chunk]
    keyword_search: KeywordSearch
    vector_search: VectorSearch
    matcher: PlainMatcher
    found: Mapping[str, Chunk]
    keyword_scores: Scores
    vector_scores: Scores
    documents: Mapping[str, DocumentMatch]

    def read(self, ids: Sequence[str]) -> tuple[dict[str, Chunk], dict[str, Features], dict[str, frozenset[str]]]:
        """Return chunks, features and question words of these ids."""
        pool, question = self.matcher.pool, self.matcher.question.text
        tokens = pool if pool.keys() == set(ids) else self.keyword_search.tokens(self.chunks, ids)
        features, words = self.matcher.match(tokens)
        unscored = [id for id in tokens if id not in self.vector_scores]
        hits = (
            self.vector_search(self.chunks, question, k=len(unscored), candidate_ids=unscored)
            if unscored
            else context.Context()
        )
        vector_scores = {**self.vector_scores, **positive_scores(hits)}
        document_scores = {id: match.score for id, match in self.documents.items()}
        best = max(self.keyword_scores.values(), default=0.0) or 1.0
        low, high = min(self.vector_scores.values(), default=0.0), max(self.vector_scores.values(), default=0.0)
        for id in tokens:
            features[id]["words"] = self.matcher.lexical_trust * self.keyword_scores.get(id, 0.0) / best
            features[id]["meaning"] = max(vector_scores.get(id, 0.0) - low, 0.0) / ((high - low) or 1.0)
            features[id]["document"] = document_scores.get(id.partition(".")[0], 0.0)
        found = {**self.found, **found_chunks(hits)}
        found |= self.chunks.get_many(id for id in tokens if id not in found)
        return {id: found[id] for id in tokens if id in found}, features, words


@dataclass(frozen=True)
class Candidates:
    """Candidate chunks for a question, with cached lookups.

    plain: the features of each chunk by itself. matched_words: the words of the question in each chunk.
    question_entities: the entities that the question names.
    """

    reader: CandidateReader
    graph: PassageGraph
    question_entities: frozenset[str]
    chunks: Mapping[str, Chunk]
    plain: Mapping[str, Features]
    matched_words: Mapping[str, frozenset[str]]

    def extended(self, ids: Iterable[str]) -> "Candidates":
        """Return these candidates and the chunks with further ids."""
        chunks, plain, words = self.reader.read(sorted(set(ids) - self.chunks.keys()))
        merged = dict(sorted({**self.chunks, **chunks}.items()))
        return replace(
            self, chunks=merged, plain={**self.plain, **plain}, matched_words={**self.matched_words, **words}
        )

    @cached_property
    def rarity(self) -> Scores:
        """Return the weight of each question word, by rarity; sum 1."""
        matcher = self.reader.matcher
        return dict(zip(matcher.question.wording.tokens, matcher.rarity.tolist(), strict=True))

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


def walk_features(
    candidates: Candidates, rankings: Mapping[str, Scores], anchors: Sequence[str]
) -> dict[str, Features]:
    """Return the graph features of each candidate, relative to the anchors.

    Each ranking gives a score and a reciprocal rank. new: the share of question words that no anchor contains. titled:
    1 if the question names the title entity. The remaining features are maxima over anchors.
    """
    tops = {name: max(scores.values(), default=0.0) or 1.0 for name, scores in rankings.items()}
    ranked_ids = {name: top_ids(scores, _MAX_RANK) for name, scores in rankings.items()}
    ranks_of = {name: {id: rank for rank, id in enumerate(ids, 1)} for name, ids in ranked_ids.items()}
    anchor_words = frozenset[str]().union(*(candidates.matched_words[anchor] for anchor in anchors))
    rarity = {anchor: candidates.entity_rarity(anchor) for anchor in anchors}
    coverage = cache(candidates.coverage)  # many chunks have the same words of the question
    features: dict[str, Features] = {}
    for id in candidates.chunks:
        values = {"new": coverage(candidates.matched_words[id] - anchor_words)}
        values["titled"] = float(candidates.title_entities.get(id) in candidates.question_entities)
        for name, scores in rankings.items():
            values[name] = scores.get(id, 0.0) / tops[name]
            values[f"{name} rank"] = 1 / (1 + ranks_of[name].get(id, _UNRANKED))
        adds = {other: coverage(candidates.matched_words[id] - candidates.matched_words[other]) for other in anchors}
        links = [
            _anchor_features(candidates, id, other, adds[other], rarity[other]) for other in anchors if other != id
        ]
        best = map(max, zip(*links, strict=True)) if links else repeat(0.0, len(_ANCHOR_FEATURES))
        features[id] = values | dict(zip(_ANCHOR_FEATURES, best, strict=True))
    return features


def _anchor_features(
    candidates: Candidates, id: str, anchor: str, adds: float, rare: Features
) -> tuple[float, float, float, float]:
    """Return how a chunk continues an anchor: adds, shares, named, bridges.

    rare: the rarity of the anchor's entities. adds: weighted share of question words in the chunk but not in the
    anchor. shares: rarity of the entities in common. named: 1 if the anchor mentions the title of the chunk. bridges:
    adds, times the strongest link between both, titles included.
    """
    titles, entities, shares = candidates.title_entities, candidates.entities[id], 0.0
    if not rare.keys().isdisjoint(entities):
        shares = min(1.0, sum(weight for entity, weight in rare.items() if entity in entities))
    forward = back = 0.0
    if titles.get(id) != titles.get(anchor):
        forward, back = float(titles.get(id) in candidates.entities[anchor]), float(titles.get(anchor) in entities)
    return adds, shares, forward, adds * max(shares, forward, back)


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
def _title_name(title: str) -> str:
    return title_as_name(title)


def _title_entity(title: str) -> str:
    name = _title_name(title)
    return entity_id(name_key(name)) if name else ""


def found_chunks(hits: Iterable[context.Evidence]) -> dict[str, Chunk]:
    """Return the chunks among the rows that a search found, by id."""
    return {item.record.id: item.record for item in hits if isinstance(item.record, Chunk)}


def positive_scores(hits: context.Context) -> dict[str, float]:
    """Return the score of each row, at least 0."""
    return {item.record.id: max(item.score, 0.0) for item in hits}


def names_its_title(chunk: Chunk) -> bool:
    """Return whether a sentence of the chunk names its title.

    A line with nothing else is a heading.
    """
    name, text = _title_name(chunk.title), chunk.text
    place = text.find(name) if name else -1
    while place >= 0:
        end = place + len(name)
        if not (name.isascii() and (text[place - 1 : place].isalnum() or text[end : end + 1].isalnum())):
            line = text[text.rfind("\n", 0, place) + 1 : text.find("\n", end) % (len(text) + 1)]
            if any(map(str.isalpha, line.replace(chunk.title, "").replace(name, ""))):
                return True
        place = text.find(name, end)
    return False


def sum_features(features: Mapping[str, Features], weights: Scores) -> dict[str, float]:
    """Return the weighted sum of the features of each candidate."""
    terms = list(weights.items())
    return {id: sum([value * values.get(name, 0.0) for name, value in terms]) for id, values in features.items()}


def scale_sums(sums: Mapping[str, float]) -> dict[str, float]:
    """Return the sums, scaled from 0 to 1."""
    low, high = min(sums.values(), default=0.0), max(sums.values(), default=0.0)
    return {id: (value - low) / (high - low) if high > low else 1.0 for id, value in sums.items()}


def compare_sums(sums: Mapping[str, float]) -> dict[str, float]:
    """Return the odds of each candidate against the best."""
    high = max(sums.values(), default=0.0)
    return {id: exp(value - high) for id, value in sums.items()}


def feature_contributions(features: Features, weights: Scores) -> tuple[tuple[str, float], ...]:
    """Return what each feature adds to the sum, largest first."""
    contributions = {name: round(value * features.get(name, 0.0), 4) for name, value in weights.items()}
    present = [(name, value) for name, value in contributions.items() if value]
    return tuple(sorted(present, key=lambda pair: (-pair[1], pair[0])))
