"""passages + what they mention -> the part of the entity graph around them, and what reaches which passage of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import log, sqrt
from typing import TYPE_CHECKING

from kumihimo.core.records import Mention
from kumihimo.core.table import Table

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Whole = NDArray[np.int64]

HUB = 200  # mentions of an entity beyond which it says little about any passage, and none is reached through it
_PASSAGES = 400  # of a neighbourhood, those that the seeds lie nearest to
_STEPS = 10  # of the walk; what goes further has lost nearly all of its weight
_LEAST = 1e-9

Weights = Mapping[str, float]


@dataclass
class Graph:
    """Passages and the entities that they mention, as far as somebody has asked; read once for a question."""

    mentions: Table[Mention]
    _named: dict[str, dict[str, str]] = field(default_factory=dict)
    _passages: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def named(self, passages: Iterable[str]) -> dict[str, dict[str, str]]:
        """The entities that each passage mentions, each with the id of its first mention there."""
        listed = list(passages)
        new = [passage for passage in listed if passage not in self._named]
        for passage, found in self.mentions.under(new, "entity").items() if new else ():
            first: dict[str, str] = {}
            for id, entity in found:
                first.setdefault(entity, id)
            self._named[passage] = first
        return {passage: self._named[passage] for passage in listed}

    def passages(self, entities: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """The passages that mention each entity; of one that is a hub none."""
        listed = list(entities)
        new = [entity for entity in listed if entity not in self._passages]
        for entity, ids in self.mentions.ids_by("entity", new, most=HUB + 1).items() if new else ():
            few = ids if len(ids) <= HUB else []
            self._passages[entity] = tuple(dict.fromkeys(id.rpartition(".")[0] for id in few))
        return {entity: self._passages[entity] for entity in listed}


@dataclass(frozen=True, slots=True)
class Around:
    """A neighbourhood, as a walk needs it: its edges, each with its weight, and what each end gives away in all."""

    passages: dict[str, int]
    entities: dict[str, int]
    spoken: Weights  # the question's entities, and what each is worth
    rows: Whole
    columns: Whole
    weights: Floats
    given: tuple[Floats, Floats]  # by passages, by entities


def around(graph: Graph, seeds: Iterable[str], spoken: Iterable[str]) -> Around:
    """What lies around these passages, and the entities that the question names.

    An edge weighs 1 / sqrt(df): hubs are damped. df is how many passages mention the entity; of one that no seed
    mentions how many do here.
    """
    import numpy as np

    first, asked = list(seeds), list(spoken)
    entities = dict.fromkeys([*asked, *(e for found in graph.named(first).values() for e in found)])
    reached = graph.passages(entities)
    near: dict[str, float] = defaultdict(float, dict.fromkeys(first, 1.0))
    for entity in entities:
        for passage in reached[entity]:
            near[passage] += 1 / sqrt(len(reached[entity]))
    chosen = sorted(near, key=lambda passage: (-near[passage], passage))[:_PASSAGES]
    named = graph.named(chosen)
    here = Counter(entity for passage in chosen for entity in named[passage])
    df = {entity: len(reached.get(entity, ())) or here[entity] or 1 for entity in [*asked, *here]}
    kept = {e: i for i, e in enumerate(e for e in df if e in entities or here[e] > 1)}
    edges = [(i, kept[e], df[e] ** -0.5) for i, passage in enumerate(chosen) for e in named[passage] if e in kept]
    rows, columns, weights = (np.array(part) for part in zip(*edges, strict=True)) if edges else (np.zeros(0, int),) * 3
    out = np.bincount(rows, weights, len(chosen)), np.array([sqrt(df[entity]) for entity in kept])
    worth = {entity: 1 / max(1.0, log(1 + df[entity])) for entity in asked}
    return Around({p: i for i, p in enumerate(chosen)}, kept, worth, rows, columns, weights, out)


def reached(part: Around, seeds: Weights, *, text: float, further: float) -> dict[str, float]:
    """What arrives at each passage by personalised PageRank from these passages and the question's entities.

    text: share of the passages in what is given out; the rest is the entities', if there are any. further: what goes on
    at each step. What merely returns to where it started from is not counted.
    """
    import numpy as np

    home, asked = np.zeros(len(part.passages)), np.zeros(len(part.entities))
    total, worth = sum(seeds.values()), sum(part.spoken.values())
    share = 0.0 if not total else text if worth else 1.0
    for passage, weight in seeds.items():
        if passage in part.passages:
            home[part.passages[passage]] = share * weight / total
    for entity, weight in part.spoken.items() if worth else ():
        asked[part.entities[entity]] = (1 - share) * weight / worth
    passages, entities = home, asked
    for _ in range(_STEPS):
        passages, entities = _across(part, passages, entities)
        passages, entities = further * passages + (1 - further) * home, further * entities + (1 - further) * asked
    arrived = passages - (1 - further) * home
    return {passage: float(arrived[i]) for passage, i in part.passages.items() if arrived[i] > _LEAST}


def _across(part: Around, passages: Floats, entities: Floats) -> tuple[Floats, Floats]:
    """One step along every edge, both ways at once."""
    import numpy as np

    rows, columns, (by_passage, by_entity) = part.rows, part.columns, part.given
    to_passages = np.bincount(rows, part.weights * (entities / by_entity)[columns], len(passages))
    to_entities = np.bincount(columns, part.weights * (passages / np.maximum(by_passage, _LEAST))[rows], len(entities))
    return to_passages, to_entities
