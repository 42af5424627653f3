"""passages + what they mention -> the part of the entity graph around them, and what reaches which passage of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, log, sqrt
from typing import TYPE_CHECKING

from kumihimo.core.records import Mention
from kumihimo.core.table import Table

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Places = NDArray[np.int64]

HUB_MENTIONS = (
    200  # mentions of an entity beyond which it says little about any passage, and none is reached through it
)
_MAX_PASSAGES = 300  # of a neighbourhood, those that the seeds lie nearest to
_ITERATIONS = 10  # of the walk; what goes further has lost nearly all of its weight
_EPSILON = 1e-9

Scores = Mapping[str, float]  # by id
EntitySet = Mapping[str, None]  # a set that keeps its order


@dataclass(frozen=True, slots=True)
class PassageGraph:
    """Passages and the entities that they mention, as far as somebody has asked; each is read once for a question."""

    mentions: Table[Mention]
    _entity_cache: dict[str, EntitySet] = field(default_factory=dict)
    _passage_cache: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def entities(self, passages: Iterable[str]) -> dict[str, EntitySet]:
        """The entities that each passage mentions, each once, in their order."""
        listed = list(passages)
        new = [passage for passage in listed if passage not in self._entity_cache]
        for passage, found in self.mentions.child_values(new, "entity").items() if new else ():
            self._entity_cache[passage] = dict.fromkeys(found)
        return {passage: self._entity_cache[passage] for passage in listed}

    def passages(self, entities: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """The passages that mention each entity; of one that is a hub none."""
        listed = list(entities)
        new = [entity for entity in listed if entity not in self._passage_cache]
        for entity, ids in self.mentions.ids_grouped("entity", new, limit=HUB_MENTIONS + 1).items() if new else ():
            few = ids if len(ids) <= HUB_MENTIONS else []
            self._passage_cache[entity] = tuple(dict.fromkeys(id.rpartition(".")[0] for id in few))
        return {entity: self._passage_cache[entity] for entity in listed}


@dataclass(frozen=True, slots=True)
class Subgraph:
    """A neighbourhood, as a walk needs it: places of passages and entities, edges between them, each with its weight.

    spoken: the entities of the question, and what each is worth. gives: what the edges of each passage, and of each
    entity, weigh in all.
    """

    passages: Mapping[str, int]
    entities: Mapping[str, int]
    question_entities: Scores
    edge_passages: Places
    edge_entities: Places
    edge_weights: Floats
    out_weights: tuple[Floats, Floats]


def expand_graph(graph: PassageGraph, seeds: Iterable[str], spoken: Iterable[str]) -> Subgraph:
    """What lies around these passages, and the entities that the question names.

    An edge weighs 1 / sqrt(df), so that it matters little what many mention; hubs have no edges. df is how many
    passages mention the entity; of one that neither seeds mention nor the question, how many do here.
    """
    first, asked = list(dict.fromkeys(seeds)), list(dict.fromkeys(spoken))
    known = dict.fromkeys([*asked, *(entity for found in graph.entities(first).values() for entity in found)])
    through = {entity: passages for entity, passages in graph.passages(known).items() if passages}
    chosen = _nearest_passages(first, through)
    named = graph.entities(chosen)
    here = Counter(entity for passage in chosen for entity in named[passage])
    others = {entity: count for entity, count in here.items() if entity not in known}
    df = {entity: len(passages) for entity, passages in through.items()} | others
    worth = {entity: 1 / max(1.0, log(1 + df[entity])) for entity in asked if entity in df}
    return _build_subgraph([named[passage] for passage in chosen], chosen, df, worth)


def _nearest_passages(seeds: Sequence[str], through: Mapping[str, Sequence[str]]) -> list[str]:
    """The seeds, and what entities tie to them; those first that most entities do, and rare ones."""
    near: dict[str, float] = defaultdict(float, dict.fromkeys(seeds, inf))
    for passages in through.values():
        for passage in passages:
            near[passage] += 1 / sqrt(len(passages))
    return top_ids(near, _MAX_PASSAGES)


def _build_subgraph(
    named: Sequence[Iterable[str]], passages: Sequence[str], df: Mapping[str, int], spoken: Scores
) -> Subgraph:
    import numpy as np

    places = {entity: i for i, entity in enumerate(df)}
    edges = [(i, places[entity]) for i, found in enumerate(named) for entity in found if entity in places]
    rows, columns = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    damped = np.sqrt(np.array(list(df.values()), dtype=np.float64))
    weights = 1 / damped[columns]
    given = np.bincount(rows, weights, len(passages)).astype(np.float64)
    gives = given, damped  # of an entity: df edges of 1 / sqrt(df)
    return Subgraph({passage: i for i, passage in enumerate(passages)}, places, spoken, rows, columns, weights, gives)


def personalized_pagerank(part: Subgraph, seeds: Scores, *, passage_share: float, damping: float) -> dict[str, float]:
    """What arrives at each passage by personalised PageRank from these passages and the question's entities.

    text: share of the passages in what is given out; the rest is the entities', if there are any. further: what goes on
    at each step. What is given out to a passage is not counted there, only what comes along edges.
    """
    share = 0.0 if not seeds else passage_share if part.question_entities else 1.0
    home = _distribute(seeds, part.passages, share)
    asked = _distribute(part.question_entities, part.entities, 1 - share)
    passages, entities = home, asked
    for _ in range(_ITERATIONS):
        onto, into = _propagate(part, passages, entities)
        passages, entities = damping * onto + (1 - damping) * home, damping * into + (1 - damping) * asked
    arrived = (passages - (1 - damping) * home).round(12)  # in whichever order equals were added up
    return {passage: float(arrived[i]) for passage, i in part.passages.items() if arrived[i] > _EPSILON}


def _distribute(scores: Scores, places: Mapping[str, int], share: float) -> Floats:
    """That much, shared out by the scores."""
    import numpy as np

    found, total = np.zeros(len(places)), sum(scores.values())
    for id, much in scores.items() if total else ():
        found[places[id]] = share * much / total
    return found


def _propagate(part: Subgraph, passages: Floats, entities: Floats) -> tuple[Floats, Floats]:
    """What comes onto passages, and into entities, by one step along every edge, both ways at once."""
    import numpy as np

    by_passage, by_entity = part.out_weights
    onto = np.bincount(
        part.edge_passages, part.edge_weights * (entities / by_entity)[part.edge_entities], len(passages)
    )
    leaving = passages / np.maximum(by_passage, _EPSILON)
    into = np.bincount(part.edge_entities, part.edge_weights * leaving[part.edge_passages], len(entities))
    return onto.astype(np.float64), into.astype(np.float64)


def top_ids(scores: Scores, k: int) -> list[str]:
    """The ids of the best k, equal ones in the order of their ids."""
    return sorted(scores, key=lambda id: (-scores[id], id))[:k]
