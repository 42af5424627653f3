"""weighted edges -> clusters: each node once, in any order of the edges."""

from __future__ import annotations

import random
from itertools import combinations

import pytest
from hypothesis import given, strategies as st

from kumihimo.index.communities import MIN_NPMI, Cluster, WeightedEdge, leiden_clusters, npmi, partition_modularity

NODES = [f"n{number:02}" for number in range(24)]
PAIRS = list(combinations(NODES, 2))
edge_weights = st.dictionaries(st.sampled_from(PAIRS), st.sampled_from([0.05, 0.5, 1.0, 2.0, 7.0]), max_size=60)


def to_edges(weights: dict[tuple[str, str], float]) -> list[WeightedEdge]:
    return [(*pair, weight) for pair, weight in weights.items()]


def check_parts(cluster: Cluster) -> None:
    """Check that a cluster's parts are two or more and cover it."""
    assert list(cluster.nodes) == sorted(cluster.nodes)
    if cluster.parts:
        assert len(cluster.parts) > 1
        assert sorted(node for part in cluster.parts for node in part.nodes) == list(cluster.nodes)
    for part in cluster.parts:
        check_parts(part)


@given(edge_weights, st.integers(1, 6))
def test_each_node_is_in_one_cluster_on_each_level(weights: dict[tuple[str, str], float], max_size: int) -> None:
    clusters = leiden_clusters(NODES, to_edges(weights), max_size=max_size, seed=0)
    check_parts(Cluster(tuple(NODES), clusters) if len(clusters) > 1 else clusters[0])


@given(edge_weights, st.randoms())
def test_the_order_of_edges_does_not_count(weights: dict[tuple[str, str], float], rng: random.Random) -> None:
    edges = to_edges(weights)
    shuffled = rng.sample(edges, len(edges))
    assert leiden_clusters(NODES, edges, max_size=3, seed=0) == leiden_clusters(
        NODES[::-1], shuffled, max_size=3, seed=0
    )


def test_nothing_has_no_clusters() -> None:
    assert leiden_clusters([], [], max_size=10, seed=0) == ()


def test_a_clique_does_not_split_however_large() -> None:
    edges = [(*pair, 1.0) for pair in combinations(NODES, 2)]
    assert leiden_clusters(NODES, edges, max_size=3, seed=0) == (Cluster(tuple(NODES)),)


def test_modularity_by_hand() -> None:
    """Two triangles and an edge between them: 6/7 of the weight is inside, by chance 2 * (7/14) ** 2."""
    edges = [(*pair, 1.0) for pair in [*combinations("abc", 2), *combinations("def", 2), ("c", "d")]]
    groups = dict.fromkeys("abc", 4) | dict.fromkeys("def", 9)
    current, fresh_start = partition_modularity(edges, groups, seed=0)
    assert current == fresh_start == pytest.approx(6 / 7 - 1 / 2)


def test_modularity_of_nothing_and_of_what_is_in_no_group() -> None:
    assert partition_modularity([], {}, seed=0) == (0.0, 0.0)
    assert partition_modularity([], {"a": 0}, seed=0) == (0.0, 0.0)
    current, fresh_start = partition_modularity([("a", "b", 1.0), ("c", "d", 1.0)], {"a": 0, "b": 0, "z": 1}, seed=0)
    assert (current, fresh_start) == (0.5 - (0.5**2 + 0.25**2 + 0.25**2), 0.5)  # c and d are single groups


@given(st.integers(1, 50), st.integers(0, 50), st.integers(0, 50), st.integers(0, 200))
def test_npmi_is_a_weight(together: int, one: int, other: int, total: int) -> None:
    assert MIN_NPMI <= npmi(together, one, other, total) <= 1
