"""weighted edges -> clusters and subclusters: hierarchical Leiden, independent of edge order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import log

WeightedEdge = tuple[str, str, float]  # undirected: the smaller end first; each pair once
MIN_NPMI = 0.05  # lower bound: each co-occurrence stays an edge


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster of sorted nodes.

    parts: its subclusters; at least two, or none.
    """

    nodes: tuple[str, ...]
    parts: tuple[Cluster, ...] = ()


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
    isolated = set(nodes)
    nodes_of: defaultdict[int, list[str]] = defaultdict(list)
    parent_of: dict[int, int | None] = {}
    for node, cluster, parent in _run_leiden(edges, max_size, seed):
        nodes_of[cluster].append(node)
        parent_of[cluster] = parent
        isolated.discard(node)
    parts: defaultdict[int | None, list[Cluster]] = defaultdict(list)
    for cluster in sorted(nodes_of, reverse=True):  # Leiden numbers parts after their parents
        subclusters = sorted(parts[cluster], key=lambda part: part.nodes)
        parts[parent_of[cluster]].append(Cluster(tuple(sorted(nodes_of[cluster])), tuple(subclusters)))
    return tuple(sorted([*parts[None], *(Cluster((node,)) for node in isolated)], key=lambda cluster: cluster.nodes))


def _run_leiden(edges: Iterable[WeightedEdge], max_size: int, seed: int) -> Iterable[tuple[str, int, int | None]]:
    """Yield (node, cluster, parent cluster) for each level of each node."""
    from graspologic_native import hierarchical_leiden

    rows = sorted(edges)  # the result depends on the order
    assignments = hierarchical_leiden(rows, max_cluster_size=max_size, seed=seed) if rows else []
    return ((row.node, row.cluster, row.parent_cluster) for row in assignments)


def partition_modularity(edges: Iterable[WeightedEdge], groups: Mapping[str, int], *, seed: int) -> tuple[float, float]:
    """Return the modularity of these groups, and of a new Leiden partition.

    Modularity is the share of weight inside groups above chance. Example: two pairs without an edge between them; by
    chance half the weight would lie inside.

    >>> partition_modularity([("a", "b", 1.0), ("c", "d", 1.0)], {"a": 0, "b": 0, "c": 1, "d": 1}, seed=0)
    (0.5, 0.5)
    """
    from graspologic_native import leiden
    from graspologic_native import modularity as measure

    rows = sorted(edges)
    if not rows:
        return 0.0, 0.0
    nodes = sorted({end for edge in rows for end in edge[:2]})
    numbers: dict[int | str, int] = {}  # consecutive group numbers; a node without a group is its own group
    partition = {node: numbers.setdefault(groups.get(node, node), len(numbers)) for node in nodes}
    best, _ = leiden(rows, seed=seed)
    return float(measure(rows, partition)), float(best)


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
