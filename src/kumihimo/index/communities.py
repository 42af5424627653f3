"""entities and relations -> communities: hierarchical clusters of entities; each entity belongs to one leaf."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from math import log
from typing import Annotated, Self

from kumihimo.core import digests, settings
from kumihimo.core.records import Community, Entity, Member, Relation
from kumihimo.core.table import Row, Table
from kumihimo.index.imports import ImportedCommunity, add_imported

LOOKUP_FRACTION = 0.1  # up to this share of all entities, relations are looked up one by one
MIN_NPMI = 0.05  # lower bound: each co-occurrence stays an edge
CommunitiesById = dict[str, Community]
WeightedEdge = tuple[str, str, float]  # undirected: the smaller end first; each pair once


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster of sorted nodes.

    parts: its subclusters; at least two, or none.
    """

    nodes: tuple[str, ...]
    parts: tuple[Self, ...] = ()


def communities(
    entities: Table[Entity],
    relations: Table[Relation],
    previous: Table[Community],
    imported_communities: Table[ImportedCommunity],
    *,
    max_size: Annotated[int, settings.Bounds(1, 1_000_000)] = 10,
    seed: settings.Seed = 0,
) -> Iterable[Community]:
    """Detect communities by hierarchical Leiden; clustered entities stay in their community.

    (GraphRAG, arXiv:2404.16130, section 3.1.4.) But: a full detection after each small change would move nearly every
    entity and force new reports. So entities keep their leaf, and only new entities join one: the leaf with the most
    weight of relations to them. New entities without a relation to an old one form communities of their own. A leaf
    that grows above `max_size` is split. `kumi index --recluster` starts afresh. The communities of an import come
    first.
    """
    graph = MentionGraph(dict(entities.columns("id", "mentions")), relations)
    by_id = {row.id: row for row in previous}
    leaf_of = {entity: leaf.id for leaf in by_id.values() for entity in leaf.members if entity in graph.mentions}
    leaf_of, by_id = add_imported(leaf_of, by_id, imported_communities, graph.mentions)
    new = graph.mentions.keys() - leaf_of.keys()
    edges = graph.edges_touching(new)
    assigned = _assign_to_leaves(new, edges, leaf_of, by_id)
    rows = _keep_populated(by_id, leaf_of | assigned)
    _split_large_leaves(rows, set(assigned.values()), graph, max_size, seed)
    unassigned = new - assigned.keys()
    inner_edges = (edge for edge in edges if edge[0] in unassigned)
    _add_clusters(rows, leiden_clusters(unassigned, inner_edges, max_size=max_size, seed=seed), 0, "")
    return rows.values()


def members(community: Community) -> Iterable[Member]:
    """Return the entities of a leaf community."""
    return [Member(entity=entity) for entity in community.members]


def communities_at_level(communities: Iterable[Community], level: int) -> list[Community]:
    """Return the communities of a level, with leaves of higher levels.

    Leaf communities repeat on deeper levels, so every level covers all entities.

    >>> top = Community(id="t", level=0, parent="", children=("a", "b"), members=())
    >>> parts = [Community(id=id, level=1, parent="t", children=(), members=(id * 2,)) for id in "ab"]
    >>> alone = Community(id="z", level=0, parent="", children=(), members=("zz",))
    >>> [[c.id for c in communities_at_level([top, *parts, alone], level)] for level in (0, 1, 2)]
    [['t', 'z'], ['a', 'b', 'z'], ['a', 'b', 'z']]
    """
    return [c for c in communities if c.level == level or (c.level < level and not c.children)]


def deepest_level(communities: Iterable[Community]) -> int:
    """Return the deepest level; 0 without a split or without communities."""
    return max((community.level for community in communities), default=0)


def community_modularity(
    entities: Table[Entity], relations: Table[Relation], communities: Table[Community], *, seed: int = 0
) -> tuple[float, float]:
    """Return the modularity of level 0, now and after a fresh start."""
    graph = MentionGraph(dict(entities.columns("id", "mentions")), relations)
    rows = {row.id: row for row in communities}
    groups = {entity: _path_from_root(row.id, rows)[0] for row in rows.values() for entity in row.members}
    return partition_modularity(graph.edges_touching(graph.mentions.keys()), groups, seed=seed)


@dataclass(slots=True)
class MentionGraph:
    """Entities with their mention counts, and the relations between them."""

    mentions: Mapping[str, int]
    relations: Table[Relation]

    def edges_touching(
        self, entities: Collection[str], ends: Sequence[str] = ("source", "target")
    ) -> list[WeightedEdge]:
        """Return the sorted edges with at least one end among these entities.

        ends: to look up; `source` alone finds each edge between two of them.
        """
        if len(entities) <= LOOKUP_FRACTION * len(self.mentions):
            found = (row for id in entities for end in ends for row in self.relations.where(**{end: id}))
            return sorted(set(self._weighted_edges((r.source, r.target, r.weight, r.strength) for r in found)))
        edges = self._weighted_edges(self.relations.columns("source", "target", "weight", "strength"))
        return sorted({edge for edge in edges if edge[0] in entities or edge[1] in entities})

    def _weighted_edges(self, rows: Iterable[Row]) -> Iterator[WeightedEdge]:
        """Yield one weighted edge per relation between two different entities.

        The weight is the number of relation mentions. Without a judged strength, NPMI scales it, so that chance
        co-occurrences count less.
        """
        counts, total = self.mentions, sum(self.mentions.values())
        for source, target, count, strength in rows:
            if source != target and source in counts and target in counts:
                factor = 1 if strength is not None else npmi(count, counts[source], counts[target], total)
                yield min(source, target), max(source, target), float(count * factor)


def _assign_to_leaves(
    new: Set[str], edges: Iterable[WeightedEdge], leaf_of: Mapping[str, str], previous: CommunitiesById
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
            leaves = [(leaf_of.get(other) or assigned.get(other, ""), weight) for other, weight in neighbours[entity]]
            assigned[entity] = _heaviest_leaf(leaves, previous)
        wave = {target for entity in wave for target, _ in neighbours[entity]} & new - assigned.keys()
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
    kept = {}
    for id, row in previous.items():
        if id in members or id in children:
            ends = tuple(sorted(members[id])), tuple(sorted(children[id]))
            is_same = ends == (row.members, row.children)  # as nearly all are
            kept[id] = row if is_same else replace(row, members=ends[0], children=ends[1])
    return kept


def _split_large_leaves(
    rows: CommunitiesById, leaves: Iterable[str], graph: MentionGraph, max_size: int, seed: int
) -> None:
    """Split the leaves above `max_size`, where Leiden finds parts."""
    leaf_of = {entity: leaf for leaf in leaves if len(rows[leaf].members) > max_size for entity in rows[leaf].members}
    inner_edges = defaultdict(list)
    for edge in graph.edges_touching(leaf_of, ends=("source",)):
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
        id = digests.hash_parts(str(level), *cluster.nodes)
        while id in rows:
            id = digests.hash_parts(id)
        rows[id] = Community(id=id, level=level, parent=parent, children=(), members=cluster.nodes)
        if cluster.parts:
            rows[id] = replace(rows[id], members=(), children=_add_clusters(rows, cluster.parts, level + 1, id))
        ids.append(id)
    return tuple(sorted(ids))


def leiden_clusters(
    nodes: Iterable[str], edges: Iterable[WeightedEdge], *, max_size: int, seed: int
) -> tuple[Cluster, ...]:
    """Cluster nodes by modularity; split clusters above `max_size` again.

    (Traag et al., 2019, arXiv:1810.08473.) `max_size` is a target, not a limit: a cluster without substructure stays
    whole. But: a node without an edge forms its own cluster; the released GraphRAG code drops it.

    >>> edges = [("a", "b", 1.0), ("b", "c", 1.0), ("a", "c", 1.0), ("d", "e", 1.0)]
    >>> [cluster.nodes for cluster in leiden_clusters("abcdef", edges, max_size=10, seed=0)]
    [('a', 'b', 'c'), ('d', 'e'), ('f',)]
    """
    from graspologic_native import hierarchical_leiden

    isolated = set(nodes)
    nodes_of: defaultdict[int, list[str]] = defaultdict(list)
    parent_of: dict[int, int | None] = {}
    rows = sorted(edges)  # the result depends on the order
    for row in hierarchical_leiden(rows, max_cluster_size=max_size, seed=seed) if rows else ():
        nodes_of[row.cluster].append(row.node)
        parent_of[row.cluster] = row.parent_cluster
        isolated.discard(row.node)
    parts: defaultdict[int | None, list[Cluster]] = defaultdict(list)
    for cluster in sorted(nodes_of, reverse=True):  # Leiden numbers parts after their parents
        subclusters = sorted(parts[cluster], key=lambda part: part.nodes)
        parts[parent_of[cluster]].append(Cluster(tuple(sorted(nodes_of[cluster])), tuple(subclusters)))
    return tuple(sorted([*parts[None], *(Cluster((node,)) for node in isolated)], key=lambda cluster: cluster.nodes))


def partition_modularity(
    edges: Iterable[WeightedEdge], groups: Mapping[str, object], *, seed: int
) -> tuple[float, float]:
    """Return the modularity of these groups, and of a new Leiden partition.

    Modularity is the share of weight inside groups above chance. Example: two pairs without an edge between them; by
    chance half the weight would lie inside.

    >>> partition_modularity([("a", "b", 1.0), ("c", "d", 1.0)], {"a": 0, "b": 0, "c": 1, "d": 1}, seed=0)
    (0.5, 0.5)
    """
    from graspologic_native import leiden, modularity

    rows = sorted(edges)
    if not rows:
        return 0.0, 0.0
    nodes = sorted({end for edge in rows for end in edge[:2]})
    numbers: dict[object, int] = {}  # consecutive group numbers; a node without a group is its own group
    partition = {node: numbers.setdefault(groups.get(node, node), len(numbers)) for node in nodes}
    best, _ = leiden(rows, seed=seed)
    return float(modularity(rows, partition)), float(best)


def npmi(together: int, one: int, other: int, total: int) -> float:
    """Return the normalised pointwise mutual information of two things.

    Example: of 100 mentions, a and b have 10 each and occur together 5 times: ln(5 * 100 / (10 * 10)) = 1.609, divided
    by the maximum -ln(5 / 100) = 2.996 (Bouma, 2009). At least `MIN_NPMI`, at most 1.

    >>> round(npmi(5, 10, 10, 100), 3)
    0.537
    >>> npmi(10, 10, 10, 100), npmi(1, 50, 50, 100), npmi(3, 1, 1, 3)
    (1.0, 0.05, 1.0)
    """
    if together >= total:
        return 1.0
    gain = log(together * total / (one * other or 1))
    return min(1.0, max(MIN_NPMI, gain / -log(together / total)))
