"""entities and relations -> communities: entities that hang together, level by level; each its leaf."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import SettingsError
from kumihimo.core.records import Community, Entity, Member, Relation
from kumihimo.core.table import Row, Table
from kumihimo.index import leiden
from kumihimo.index.leiden import Cluster, WeightedEdge, leiden_clusters, npmi

LOOKUP_FRACTION = 0.1  # of all entities: up to so many, their relations are looked up one by one
CommunitiesById = dict[str, Community]


def communities(
    entities: Table[Entity],
    relations: Table[Relation],
    previous: Table[Community],
    *,
    max_size: int = 10,
    seed: int = 0,
) -> Iterable[Community]:
    """Hierarchical Leiden (GraphRAG, arXiv:2404.16130, section 3.1.4); entities that have a community keep it.

    But: detection from nothing reshuffles nearly everything after the smallest change, and each report would be
    written again. So entities stay in the leaf they have, and only new ones choose: the leaf they have most ties
    with. New ones with no tie to any old one make communities of their own. A leaf that grew above `max_size` is
    split among itself. `kumi index --recluster` starts afresh.
    """
    if max_size < 1:
        raise SettingsError(f"communities.max_size is {max_size}; it must be 1 or more")
    graph = MentionGraph(dict(entities.columns("id", "mentions")), relations)
    old = {row.id: row for row in previous}
    home = {entity: leaf.id for leaf in old.values() for entity in leaf.members if entity in graph.mentions}
    new = graph.mentions.keys() - home.keys()
    edges = graph.edges_touching(new)
    joined = _assign_to_leaves(new, edges, home, old)
    rows = _keep_populated(old, home | joined)
    _split_large_leaves(rows, set(joined.values()), graph, max_size, seed)
    apart = new - joined.keys()
    found = leiden_clusters(apart, (edge for edge in edges if edge[0] in apart), max_size=max_size, seed=seed)
    _add_clusters(rows, found, 0, "")
    return rows.values()


def members(community: Community) -> Iterable[Member]:
    """The entities of a leaf."""
    return [Member(entity=entity) for entity in community.members]


def community_modularity(
    entities: Table[Entity], relations: Table[Relation], communities: Table[Community], *, seed: int = 0
) -> tuple[float, float]:
    """How well the relations stay within communities of level 0: as these are, and as a fresh start would have it."""
    graph = MentionGraph(dict(entities.columns("id", "mentions")), relations)
    rows = {row.id: row for row in communities}
    numbers = {id: number for number, id in enumerate(rows)}
    groups = {entity: numbers[_path_from_root(row.id, rows)[0]] for row in rows.values() for entity in row.members}
    return leiden.partition_modularity(graph.edges_touching(graph.mentions.keys()), groups, seed=seed)


@dataclass(slots=True)
class MentionGraph:
    """The entities, each with how many mentions it has, and the relations between them."""

    mentions: Mapping[str, int]
    relations: Table[Relation]
    total: int = field(init=False)

    def __post_init__(self) -> None:
        self.total = sum(self.mentions.values())

    def edges_touching(self, entities: Collection[str]) -> list[WeightedEdge]:
        """The edges with an end among these, sorted."""
        few = len(entities) <= LOOKUP_FRACTION * len(self.mentions)
        rows = (
            self._lookup_relations(entities)
            if few
            else self.relations.columns("source", "target", "weight", "strength")
        )
        return sorted(
            {edge for edge in self._weighted_edges(rows) if few or edge[0] in entities or edge[1] in entities}
        )

    def _lookup_relations(self, entities: Iterable[str]) -> Iterator[Row]:
        for id in entities:
            for r in (*self.relations.where(source=id), *self.relations.where(target=id)):
                yield r.source, r.target, r.weight, r.strength

    def _weighted_edges(self, rows: Iterable[Row]) -> Iterator[WeightedEdge]:
        """An edge weighs as many ties as it is made of; where nobody has judged them, as far as they are no chance."""
        said = self.mentions
        for source, target, ties, strength in rows:
            if source != target and source in said and target in said:
                weight = ties if strength is not None else ties * npmi(ties, said[source], said[target], self.total)
                yield (source, target, float(weight)) if source < target else (target, source, float(weight))


def _assign_to_leaves(
    new: Collection[str], edges: Iterable[WeightedEdge], leaf_of: Mapping[str, str], previous: CommunitiesById
) -> dict[str, str]:
    """New entity -> the old leaf it is tied to most, those next to old entities first, then those next to these."""
    near: defaultdict[str, list[tuple[str, float]]] = defaultdict(list)
    for one, other, weight in edges:
        near[one].append((other, weight))
        near[other].append((one, weight))
    joined: dict[str, str] = {}
    wave = {entity for entity in new if any(other in leaf_of for other, _ in near[entity])}
    while wave:
        for entity in sorted(wave):
            joined[entity] = _heaviest_leaf(
                [(leaf_of.get(o) or joined.get(o, ""), w) for o, w in near[entity]], previous
            )
        wave = {other for entity in wave for other, _ in near[entity] if other in new and other not in joined}
    return joined


def _heaviest_leaf(ties: Iterable[tuple[str, float]], previous: CommunitiesById) -> str:
    """The leaf with most weight: among those of the level-0 community with most, and so on down; first by id."""
    weights: defaultdict[str, float] = defaultdict(float)
    for leaf, weight in ties:
        for id in _path_from_root(leaf, previous):
            weights[id] += weight
    leaves = sorted(id for id in weights if previous[id].members)
    return max(leaves, key=lambda leaf: [weights[id] for id in _path_from_root(leaf, previous)])


def _path_from_root(id: str, rows: CommunitiesById) -> list[str]:
    """The communities it stands in, from level 0 down to itself."""
    path: list[str] = []
    while id:
        path.append(id)
        id = rows[id].parent
    return path[::-1]


def _keep_populated(previous: CommunitiesById, leaf_of: Mapping[str, str]) -> CommunitiesById:
    """The communities that still hold an entity."""
    members, children = defaultdict(list), defaultdict(list)
    for entity, leaf in leaf_of.items():
        members[leaf].append(entity)
    for row in sorted(previous.values(), key=lambda row: -row.level):
        if row.id in members or row.id in children:
            children[row.parent].append(row.id)
    return {
        id: replace(row, members=tuple(sorted(members[id])), children=tuple(sorted(children[id])))
        for id, row in previous.items()
        if id in members or id in children
    }


def _split_large_leaves(
    rows: CommunitiesById, leaves: Iterable[str], graph: MentionGraph, max_size: int, seed: int
) -> None:
    """Split those leaves that are too large, as far as they fall apart."""
    large = {entity: leaf for leaf in leaves if len(rows[leaf].members) > max_size for entity in rows[leaf].members}
    inner = defaultdict(list)
    for edge in graph.edges_touching(large):
        if large.get(edge[0]) == large.get(edge[1]):
            inner[large[edge[0]]].append(edge)
    for leaf in sorted(set(large.values())):
        row = rows[leaf]
        parts = leiden_clusters(row.members, inner[leaf], max_size=max_size, seed=seed)
        if len(parts) > 1:
            rows[leaf] = replace(row, members=(), children=_add_clusters(rows, parts, row.level + 1, leaf))


def _add_clusters(rows: CommunitiesById, found_clusters: Iterable[Cluster], level: int, parent: str) -> tuple[str, ...]:
    """Add these clusters and their parts; their ids, sorted. An id tells level and founders: a taken one is salted."""
    ids = []
    for cluster in found_clusters:
        id = hash_parts(str(level), *cluster.nodes)
        while id in rows:
            id = hash_parts(id)
        rows[id] = Community(id=id, level=level, parent=parent, children=(), members=cluster.nodes)
        if cluster.parts:
            rows[id] = replace(rows[id], members=(), children=_add_clusters(rows, cluster.parts, level + 1, id))
        ids.append(id)
    return tuple(sorted(ids))
