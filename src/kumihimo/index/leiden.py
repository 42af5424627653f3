"""weighted edges -> clusters and the clusters they split into: hierarchical Leiden, whatever order edges come in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import log

WeightedEdge = tuple[str, str, float]  # undirected: the smaller end first; each pair once
MIN_NPMI = 0.05  # of what two things named together count: less would be no edge


@dataclass(frozen=True, slots=True)
class Cluster:
    """Nodes that hang together, sorted, and the clusters they split into: at least two, or none."""

    nodes: tuple[str, ...]
    parts: tuple[Cluster, ...] = ()


def leiden_clusters(
    nodes: Iterable[str], edges: Iterable[WeightedEdge], *, max_size: int, seed: int
) -> tuple[Cluster, ...]:
    """The nodes by modularity, each cluster above `max_size` again among itself (Traag et al., 2019, arXiv:1810.08473).

    `max_size` is where splitting stops, no ceiling: what hangs together evenly stays whole.
    But: a node without an edge is a cluster of its own, where the released code leaves it out.

    >>> edges = [("a", "b", 1.0), ("b", "c", 1.0), ("a", "c", 1.0), ("d", "e", 1.0)]
    >>> [cluster.nodes for cluster in clusters("abcdef", edges, max_size=10, seed=0)]
    [('a', 'b', 'c'), ('d', 'e'), ('f',)]
    """
    alone = set(nodes)
    found: defaultdict[int, list[str]] = defaultdict(list)
    inside: dict[int, int | None] = {}
    for node, cluster, parent in _run_leiden(edges, max_size, seed):
        found[cluster].append(node)
        inside[cluster] = parent
        alone.discard(node)
    parts: defaultdict[int | None, list[Cluster]] = defaultdict(list)
    for cluster in sorted(found, reverse=True):  # parts are numbered after what they are parts of
        within = sorted(parts[cluster], key=lambda part: part.nodes)
        parts[inside[cluster]].append(Cluster(tuple(sorted(found[cluster])), tuple(within)))
    return tuple(sorted([*parts[None], *(Cluster((node,)) for node in alone)], key=lambda cluster: cluster.nodes))


def _run_leiden(edges: Iterable[WeightedEdge], max_size: int, seed: int) -> Iterable[tuple[str, int, int | None]]:
    """(node, cluster, the cluster that one is part of), for each level on which the node stands."""
    from graspologic_native import hierarchical_leiden

    rows = sorted(edges)  # what comes out depends on the order
    found = hierarchical_leiden(rows, max_cluster_size=max_size, seed=seed) if rows else []
    return ((row.node, row.cluster, row.parent_cluster) for row in found)


def partition_modularity(edges: Iterable[WeightedEdge], groups: Mapping[str, int], *, seed: int) -> tuple[float, float]:
    """How much more of the weight lies within groups than by chance: of these groups, and of those Leiden finds now.

    Two pairs, and no edge between them: half the weight would lie within by chance.

    >>> modularity([("a", "b", 1.0), ("c", "d", 1.0)], {"a": 0, "b": 0, "c": 1, "d": 1}, seed=0)
    (0.5, 0.5)
    """
    from graspologic_native import leiden
    from graspologic_native import modularity as measure

    rows = sorted(edges)
    if not rows:
        return 0.0, 0.0
    nodes = sorted({end for edge in rows for end in edge[:2]})
    numbers: dict[int | str, int] = {}  # groups numbered without a gap; a node in no group is its own
    held = {node: numbers.setdefault(groups.get(node, node), len(numbers)) for node in nodes}
    best, _ = leiden(rows, seed=seed)
    return float(measure(rows, held)), float(best)


def npmi(together: int, one: int, other: int, total: int) -> float:
    """How much more often two things are named together than by chance, of 1: normalised pointwise mutual information.

    Of 100 mentions, a and b have 10 each and are named together 5 times: ln(5 * 100 / (10 * 10)) = 1.609, of
    -ln(5 / 100) = 2.996 there could be (Bouma, 2009). At least `FLOOR`.

    >>> round(npmi(5, 10, 10, 100), 3)
    0.537
    >>> npmi(10, 10, 10, 100), npmi(1, 50, 50, 100), npmi(3, 1, 1, 3)
    (1.0, 0.05, 1.0)
    """
    if together >= total:
        return 1.0
    gain = log(together * total / (one * other or 1))
    return min(1.0, max(MIN_NPMI, gain / -log(together / total)))
