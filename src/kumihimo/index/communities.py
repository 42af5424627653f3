"""entities and relations -> communities: hierarchical clusters of entities; each entity belongs to one leaf."""

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

LOOKUP_FRACTION = 0.1  # up to this share of all entities, relations are looked up one by one
CommunitiesById = dict[str, Community]


def communities(
    entities: Table[Entity],
    relations: Table[Relation],
    previous: Table[Community],
    *,
    max_size: int = 10,
    seed: int = 0,
) -> Iterable[Community]:
    """Detect communities by hierarchical Leiden; clustered entities stay in their community.

    (GraphRAG, arXiv:2404.16130, section 3.1.4.) But: a full detection after each small change would move nearly every
    entity and force new reports. So entities keep their leaf, and only new entities join one: the leaf with the most
    weight of relations to them. New entities without a relation to an old one form communities of their own. A leaf
    that grows above `max_size` is split. `kumi index --recluster` starts afresh.
    """
    if max_size < 1:
        raise SettingsError(f"communities.max_size is {max_size}; it must be 1 or more")
    graph = MentionGraph(dict(entities.columns("id", "mentions")), relations)
    by_id = {row.id: row for row in previous}
    leaf_of = {entity: leaf.id for leaf in by_id.values() for entity in leaf.members if entity in graph.mentions}
    new = graph.mentions.keys() - leaf_of.keys()
    edges = graph.edges_touching(new)
    assigned = _assign_to_leaves(new, edges, leaf_of, by_id)
    rows = _keep_populated(by_id, leaf_of | assigned)
    _split_large_leaves(rows, set(assigned.values()), graph, max_size, seed)
    unassigned = new - assigned.keys()
    new_clusters = leiden_clusters(
        unassigned, (edge for edge in edges if edge[0] in unassigned), max_size=max_size, seed=seed
    )
    _add_clusters(rows, new_clusters, 0, "")
    return rows.values()


def members(community: Community) -> Iterable[Member]:
    """Return the entities of a leaf community."""
    return [Member(entity=entity) for entity in community.members]


def community_modularity(
    entities: Table[Entity], relations: Table[Relation], communities: Table[Community], *, seed: int = 0
) -> tuple[float, float]:
    """Return the modularity of level 0, now and after a fresh start."""
    graph = MentionGraph(dict(entities.columns("id", "mentions")), relations)
    rows = {row.id: row for row in communities}
    cluster_numbers = {id: number for number, id in enumerate(rows)}
    groups = {
        entity: cluster_numbers[_path_from_root(row.id, rows)[0]] for row in rows.values() for entity in row.members
    }
    return leiden.partition_modularity(graph.edges_touching(graph.mentions.keys()), groups, seed=seed)


@dataclass(slots=True)
class MentionGraph:
    """Entities with their mention counts, and the relations between them."""

    mentions: Mapping[str, int]
    relations: Table[Relation]
    total: int = field(init=False)

    def __post_init__(self) -> None:
        self.total = sum(self.mentions.values())

    def edges_touching(self, entities: Collection[str]) -> list[WeightedEdge]:
        """Return the sorted edges with at least one end among these entities."""
        is_small = len(entities) <= LOOKUP_FRACTION * len(self.mentions)
        if is_small:
            return sorted(set(self._weighted_edges(self._lookup_relations(entities))))
        edges = self._weighted_edges(self.relations.columns("source", "target", "weight", "strength"))
        return sorted({edge for edge in edges if edge[0] in entities or edge[1] in entities})

    def _lookup_relations(self, entities: Iterable[str]) -> Iterator[Row]:
        """Yield the edge columns of each relation of these entities."""
        for id in entities:
            for relation in (*self.relations.where(source=id), *self.relations.where(target=id)):
                yield relation.source, relation.target, relation.weight, relation.strength

    def _weighted_edges(self, rows: Iterable[Row]) -> Iterator[WeightedEdge]:
        """Yield one weighted edge per relation between two different entities.

        The weight is the number of relation mentions. Without a judged strength, NPMI scales it, so that chance
        co-occurrences count less.
        """
        counts = self.mentions
        for source, target, count, strength in rows:
            if source != target and source in counts and target in counts:
                factor = 1 if strength is not None else npmi(count, counts[source], counts[target], self.total)
                weight = float(count * factor)
                yield (source, target, weight) if source < target else (target, source, weight)


def _assign_to_leaves(
    new: Collection[str], edges: Iterable[WeightedEdge], leaf_of: Mapping[str, str], previous: CommunitiesById
) -> dict[str, str]:
    """Assign new entities to the leaf with the strongest relations.

    Breadth first: entities next to old ones come before entities next to new ones.
    """
    neighbours: defaultdict[str, list[tuple[str, float]]] = defaultdict(list)
    for source, target, weight in edges:
        neighbours[source].append((target, weight))
        neighbours[target].append((source, weight))
    assigned: dict[str, str] = {}
    wave = {entity for entity in new if any(target in leaf_of for target, _ in neighbours[entity])}
    while wave:
        for entity in sorted(wave):
            leaves = [
                (leaf_of.get(neighbour) or assigned.get(neighbour, ""), weight)
                for neighbour, weight in neighbours[entity]
            ]
            assigned[entity] = _heaviest_leaf(leaves, previous)
        wave = {
            target for entity in wave for target, _ in neighbours[entity] if target in new and target not in assigned
        }
    return assigned


def _heaviest_leaf(edges: Iterable[tuple[str, float]], previous: CommunitiesById) -> str:
    """Return the leaf with the most weight.

    Compare level by level: first the level-0 community, then its children, and so on; ties go to the smaller id.
    """
    weights: defaultdict[str, float] = defaultdict(float)
    for leaf, weight in edges:
        for id in _path_from_root(leaf, previous):
            weights[id] += weight
    leaves = sorted(id for id in weights if previous[id].members)
    return max(leaves, key=lambda leaf: [weights[id] for id in _path_from_root(leaf, previous)])


def _path_from_root(id: str, rows: CommunitiesById) -> list[str]:
    """Return the community ids from level 0 down to this one."""
    path: list[str] = []
    while id:
        path.append(id)
        id = rows[id].parent
    return path[::-1]


def _keep_populated(previous: CommunitiesById, leaf_of: Mapping[str, str]) -> CommunitiesById:
    """Return the communities that still contain an entity."""
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
    """Split the leaves above `max_size`, where Leiden finds parts."""
    leaf_of = {entity: leaf for leaf in leaves if len(rows[leaf].members) > max_size for entity in rows[leaf].members}
    inner_edges = defaultdict(list)
    for edge in graph.edges_touching(leaf_of):
        if leaf_of.get(edge[0]) == leaf_of.get(edge[1]):
            inner_edges[leaf_of[edge[0]]].append(edge)
    for leaf in sorted(set(leaf_of.values())):
        row = rows[leaf]
        parts = leiden_clusters(row.members, inner_edges[leaf], max_size=max_size, seed=seed)
        if len(parts) > 1:
            rows[leaf] = replace(row, members=(), children=_add_clusters(rows, parts, row.level + 1, leaf))


def _add_clusters(rows: CommunitiesById, clusters: Iterable[Cluster], level: int, parent: str) -> tuple[str, ...]:
    """Add these clusters and their subclusters, and return their sorted ids.

    An id is a digest of level and members; a taken id is hashed again.
    """
    ids = []
    for cluster in clusters:
        id = hash_parts(str(level), *cluster.nodes)
        while id in rows:
            id = hash_parts(id)
        rows[id] = Community(id=id, level=level, parent=parent, children=(), members=cluster.nodes)
        if cluster.parts:
            rows[id] = replace(rows[id], members=(), children=_add_clusters(rows, cluster.parts, level + 1, id))
        ids.append(id)
    return tuple(sorted(ids))
