"""chunks + mentions -> a bipartite graph of passages and entities, and personalized PageRank on it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import inf, log, sqrt

from kumihimo.core import records, table
from kumihimo.text import lazy_numpy as np

HUB_MENTIONS = 200  # an entity with more mentions is a hub: too common to link passages
_MAX_PASSAGES = 300  # in a subgraph: those best linked to the seeds
_ITERATIONS = 10  # later steps carry almost no mass
_EPSILON = 1e-9

Scores = Mapping[str, float]  # by id
EntitySet = Mapping[str, None]  # an ordered set


@dataclass(frozen=True, slots=True)
class PassageGraph:
    """Passages and their entities, read lazily and cached for one question."""

    mentions: table.Table[records.Mention]
    _entity_cache: dict[str, EntitySet] = field(default_factory=dict)
    _passage_cache: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def entities(self, passages: Iterable[str]) -> dict[str, EntitySet]:
        """Return the entities of each passage, each once and in order."""
        ids = list(passages)
        missing = [passage for passage in ids if passage not in self._entity_cache]
        for passage, entities in self.mentions.child_values(missing, "entity").items() if missing else ():
            self._entity_cache[passage] = dict.fromkeys(entities)
        return {passage: self._entity_cache[passage] for passage in ids}

    def passages(self, entities: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Return the passages that mention each entity; none for hubs."""
        keys = list(entities)
        missing = [entity for entity in keys if entity not in self._passage_cache]
        grouped = self.mentions.ids_grouped("entity", missing, limit=HUB_MENTIONS + 1) if missing else {}
        for entity, ids in grouped.items():
            kept_ids = ids if len(ids) <= HUB_MENTIONS else []
            self._passage_cache[entity] = tuple(dict.fromkeys(id.rpartition(".")[0] for id in kept_ids))
        return {entity: self._passage_cache[entity] for entity in keys}


@dataclass(frozen=True, slots=True)
class Subgraph:
    """A subgraph as arrays: positions of passages and entities, weighted edges.

    question_entities: entities of the question and their weights. out_weights: total edge weight of each passage, and
    of each entity.
    """

    passages: Mapping[str, int]
    entities: Mapping[str, int]
    question_entities: Scores
    edge_passages: np.Integers
    edge_entities: np.Integers
    edge_weights: np.Floats
    out_weights: tuple[np.Floats, np.Floats]


def expand_graph(graph: PassageGraph, seeds: Iterable[str], question_entities: Iterable[str]) -> Subgraph:
    """Return the subgraph around the seeds and the question's entities.

    An edge weighs 1 / sqrt(df), so frequent entities matter little; hubs have no edges. df is the number of passages
    that mention the entity. For entities of neither the seeds nor the question, df counts the passages of this subgraph
    only.
    """
    seed_ids, question_ids = list(dict.fromkeys(seeds)), list(dict.fromkeys(question_entities))
    seed_entities = chain.from_iterable(graph.entities(seed_ids).values())
    entry_entities = dict.fromkeys([*question_ids, *seed_entities])
    passages_of = {entity: passages for entity, passages in graph.passages(entry_entities).items() if passages}
    nearest = _nearest_passages(seed_ids, passages_of)
    entities_of = graph.entities(nearest)
    local_counts = Counter(chain.from_iterable(map(entities_of.__getitem__, nearest)))
    local_df = {entity: count for entity, count in local_counts.items() if entity not in entry_entities}
    df = {entity: len(passages) for entity, passages in passages_of.items()} | local_df
    entity_weights = {entity: 1 / max(1.0, log(1 + df[entity])) for entity in question_ids if entity in df}
    passage_positions = {passage: i for i, passage in enumerate(nearest)}
    entity_positions = {entity: i for i, entity in enumerate(df)}
    targets = [[entity_positions[entity] for entity in entities_of[id] if entity in df] for id in nearest]
    rows = np.repeat(np.arange(len(nearest)), np.array(list(map(len, targets)), dtype=np.int64))
    columns = np.fromiter(chain.from_iterable(targets), dtype=np.int64)
    sqrt_df = np.sqrt(np.array(list(df.values()), dtype=np.float64))
    weights = 1 / sqrt_df[columns]
    # an entity has df edges of weight 1 / sqrt(df)
    totals = np.bincount(rows, weights, len(nearest)).astype(np.float64), sqrt_df
    return Subgraph(passage_positions, entity_positions, entity_weights, rows, columns, weights, totals)


def _nearest_passages(seeds: Sequence[str], passages_of: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the seeds and passages linked to them, the best linked first.

    A shared entity with few passages counts more.
    """
    closeness: dict[str, float] = defaultdict(float, dict.fromkeys(seeds, inf))
    for passages in passages_of.values():
        weight = 1 / sqrt(len(passages))
        for passage in passages:
            closeness[passage] += weight
    return top_ids(closeness, _MAX_PASSAGES)


def personalized_pagerank(graph: Subgraph, seeds: Scores, *, passage_share: float, damping: float) -> dict[str, float]:
    """Return each passage's score by personalized PageRank.

    The walk starts at the seeds and at the entities of the question. passage_share: share of the passages in the
    restart distribution; the rest goes to the entities, if there are any. damping: share that continues at each step.
    Restart mass of a passage does not count for its score; only mass that arrives along edges does.
    """
    share = 0.0 if not seeds else passage_share if graph.question_entities else 1.0
    passage_restart = _distribute(seeds, graph.passages, share)
    entity_restart = _distribute(graph.question_entities, graph.entities, 1 - share)
    passages, entities = passage_restart, entity_restart
    by_passage, by_entity = graph.out_weights
    for _ in range(_ITERATIONS):  # mass moves along every edge, in both directions at once
        inflow = graph.edge_weights * (entities / by_entity)[graph.edge_entities]
        outflow = graph.edge_weights * (passages / np.maximum(by_passage, _EPSILON))[graph.edge_passages]
        to_passages = np.bincount(graph.edge_passages, inflow, len(passages))
        to_entities = np.bincount(graph.edge_entities, outflow, len(entities))
        passages = damping * to_passages + (1 - damping) * passage_restart
        entities = damping * to_entities + (1 - damping) * entity_restart
    scores = (passages - (1 - damping) * passage_restart).round(12)  # sums do not depend on the order
    return {passage: float(scores[i]) for passage, i in graph.passages.items() if scores[i] > _EPSILON}


def _distribute(scores: Scores, positions: Mapping[str, int], share: float) -> np.Floats:
    """Distribute `share` over the positions, in proportion to the scores."""
    vector, total = np.zeros(len(positions)), sum(scores.values())
    for id, score in scores.items() if total else ():
        vector[positions[id]] = share * score / total
    return vector


def top_ids(scores: Scores, k: int) -> list[str]:
    """Return the ids of the `k` best scores, ties by id."""
    return sorted(scores, key=lambda id: (-scores[id], id))[:k]
