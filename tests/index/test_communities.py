"""entities and relations -> communities: each entity in one on every level, and old ones stay where they are."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kumihimo.core.digests import hash_parts
from kumihimo.core.records import Community, Document, Entity, Mention, Relation, RelationMention
from kumihimo.core.table import Group, Table
from kumihimo.index.communities import communities, community_modularity, members
from kumihimo.index.community_levels import communities_at_level, deepest_level
from kumihimo.text.name_keys import relation_id
from tests.core.factories_build import Small, Step
from tests.factories_tables import table

NODES = [f"n{number:02}" for number in range(30)]
Ties = Mapping[tuple[str, str], int]
tied_pairs = st.dictionaries(st.sampled_from(list(combinations(NODES, 2))), st.integers(1, 4), max_size=70)
some = st.sets(st.sampled_from(NODES), max_size=30)


def graph(nodes: Iterable[str], tied: Ties, strength: float | None = None) -> tuple[Table[Entity], Table[Relation]]:
    said: Counter[str] = Counter(nodes)
    for pair, weight in tied.items():
        said.update(dict.fromkeys(pair, weight))
    entities = [
        Entity(id=id, name=id, type="", forms=(id,), types=(), mentions=said[id], tokens=0) for id in sorted(set(nodes))
    ]
    relations = [
        Relation(
            id=relation_id(one, other),
            source=one,
            target=other,
            names=(one, other),
            keywords=(),
            weight=weight,
            strength=strength,
            tokens=0,
        )
        for (one, other), weight in tied.items()
    ]
    return table(Entity, entities), table(Relation, relations)


def build(nodes: Iterable[str], tied: Ties, previous: Iterable[Community] = (), max_size: int = 10) -> list[Community]:
    made = communities(*graph(nodes, tied), table(Community, previous), max_size=max_size)
    return sorted(made, key=lambda row: row.id)


def among(nodes: Iterable[str], tied: Ties) -> Ties:
    """The ties with both ends there."""
    there = set(nodes)
    return {pair: weight for pair, weight in tied.items() if there.issuperset(pair)}


def leaves(rows: Iterable[Community]) -> dict[str, str]:
    return {entity: row.id for row in rows for entity in row.members}


def below(id: str, rows: Mapping[str, Community]) -> list[str]:
    row = rows[id]
    return [*row.members, *(entity for child in row.children for entity in below(child, rows))]


def check(rows: list[Community], nodes: Iterable[str]) -> None:
    """It is a forest whose every level holds each entity once."""
    by_id = {row.id: row for row in rows}
    assert len(by_id) == len(rows)
    for row in rows:
        assert bool(row.members) != bool(row.children)
        assert list(row.members) == sorted(row.members)
        assert list(row.children) == sorted(row.children)
        assert all(by_id[child].parent == row.id for child in row.children)
        assert row.level == (by_id[row.parent].level + 1 if row.parent else 0)
        assert not row.parent or row.id in by_id[row.parent].children
    for level in range(deepest_level(rows) + 2):
        held = [entity for row in communities_at_level(rows, level) for entity in below(row.id, by_id)]
        assert sorted(held) == sorted(set(nodes))


@given(tied_pairs, some, st.integers(1, 6))
def test_each_entity_is_in_one_community_on_each_level(tied: Ties, nodes: set[str], max_size: int) -> None:
    """Relations with an end that is no entity do not count."""
    check(build(nodes, tied, max_size=max_size), nodes)


@given(tied_pairs, some, some, st.integers(1, 6))
def test_old_entities_keep_their_leaf(tied: Ties, before: set[str], after: set[str], max_size: int) -> None:
    old = build(before, among(before, tied), max_size=max_size)
    new = build(after, among(after, tied), old, max_size=max_size)
    check(new, after)
    rows, was, now = {row.id: row for row in new}, leaves(old), leaves(new)
    for entity in before & after:
        assert entity in below(was[entity], rows)  # in that leaf, or in a part of what was that leaf
        assert now[entity] == was[entity] or len(below(was[entity], rows)) > max_size


@given(tied_pairs, some, some, st.integers(1, 6))
def test_again_is_the_same(tied: Ties, before: set[str], after: set[str], max_size: int) -> None:
    cold = build(before, among(before, tied), max_size=max_size)
    assert build(before, among(before, tied), cold, max_size) == cold
    grown = build(after, among(after, tied), cold, max_size)
    assert build(after, among(after, tied), grown, max_size) == grown


@given(tied_pairs, some, some)
def test_what_is_taken_out_leaves_the_rest_as_it_was(tied: Ties, nodes: set[str], gone: set[str]) -> None:
    old = build(nodes, among(nodes, tied), max_size=3)
    new = build(nodes - gone, among(nodes - gone, tied), old, max_size=3)
    was = leaves(old)
    assert leaves(new) == {entity: was[entity] for entity in nodes - gone}
    assert {row.id for row in new} <= {row.id for row in old}


@given(tied_pairs, some, st.randoms())
def test_the_order_of_rows_does_not_count(tied: Ties, nodes: set[str], rng: random.Random) -> None:
    old = build(NODES[::2], among(NODES[::2], tied), max_size=3)
    entities, relations = graph(nodes, tied)
    made = communities(
        table(Entity, rng.sample(list(entities), len(entities)), shuffled=True),
        table(Relation, rng.sample(list(relations), len(relations)), shuffled=True),
        table(Community, rng.sample(old, len(old)), shuffled=True),
        max_size=3,
    )
    assert sorted(made, key=lambda row: row.id) == build(nodes, tied, old, max_size=3)


def test_no_entities_no_communities() -> None:
    assert build([], {}) == []
    assert build([], {}, build("ab", {("a", "b"): 1})) == []
    assert community_modularity(*graph([], {}), table(Community, [])) == (0.0, 0.0)


def test_one_entity_is_a_community() -> None:
    (row,) = build(["a"], {("a", "a"): 2})
    assert (row.level, row.parent, row.children, row.members) == (0, "", (), ("a",))
    assert [member.entity for member in members(row)] == ["a"]


def test_small_communities_make_many_levels() -> None:
    path = dict.fromkeys(zip(range(100, 179), range(101, 180), strict=True), 1)
    tied = {(str(one), str(other)): weight for (one, other), weight in path.items()}
    rows = build([str(number) for number in range(100, 180)], tied, max_size=2)
    assert deepest_level(rows) >= 2


def triangles(*names: str) -> dict[tuple[str, str], int]:
    return {(one, other): 1 for name in names for one, other in combinations([f"{name}{i}" for i in range(3)], 2)}


def test_a_new_entity_joins_those_it_is_tied_to_most() -> None:
    tied = triangles("a", "b")
    old = build([f"{name}{i}" for name in "ab" for i in range(3)], tied)
    nodes = [*leaves(old), "new", "next", "far"]
    now = leaves(build(nodes, {**tied, ("a0", "new"): 1, ("b0", "new"): 3, ("new", "next"): 1}, old))
    assert now["new"] == now["next"] == now["b0"]  # the next one is tied to nothing but the new one
    assert now["far"] not in leaves(old).values()


def test_what_no_old_entity_is_tied_to_makes_communities_of_its_own() -> None:
    tied = triangles("a")
    old = build([f"a{i}" for i in range(3)], tied)
    more = triangles("a", "b", "c")
    new = build(sorted({end for pair in more for end in pair}), more, old)
    assert sorted(row.members for row in new) == [tuple(f"{name}{i}" for i in range(3)) for name in "abc"]
    assert {row.level for row in new} == {0}


def test_a_leaf_that_grew_is_split_and_keeps_its_id() -> None:
    tied = triangles("a")
    (leaf,) = build([f"a{i}" for i in range(3)], tied, max_size=3)
    more = {**triangles("a", "b"), ("a0", "b0"): 1}
    top, *parts = sorted(build([f"{n}{i}" for n in "ab" for i in range(3)], more, [leaf], 3), key=lambda r: r.level)
    assert (top.id, top.level, top.members) == (leaf.id, 0, ())
    assert sorted(part.members for part in parts) == [("a0", "a1", "a2"), ("b0", "b1", "b2")]
    assert {(part.level, part.parent) for part in parts} == {(1, leaf.id)}


def test_a_large_leaf_that_did_not_grow_stays() -> None:
    """Though `max_size` is smaller now: it would split if it were made afresh."""
    tied = {**triangles("a", "b"), ("a0", "b0"): 1}
    nodes = [f"{name}{i}" for name in "ab" for i in range(3)]
    whole = Community(id="w", level=0, parent="", children=(), members=tuple(nodes))
    assert build(nodes, tied, [whole], max_size=3) == [whole]


def test_a_community_without_children_goes_and_one_with_a_single_child_stays() -> None:
    rows = [
        Community(id="t", level=0, parent="", children=("p", "q"), members=()),
        Community(id="p", level=1, parent="t", children=("r",), members=()),
        Community(id="r", level=2, parent="p", children=(), members=("gone",)),
        Community(id="q", level=1, parent="t", children=(), members=("a", "b")),
    ]
    top, leaf = sorted(build("ab", {("a", "b"): 1}, rows), key=lambda row: row.level)
    assert (top.id, top.children) == ("t", ("q",))
    assert leaf == rows[3]


def test_an_id_in_use_is_not_given_twice() -> None:
    """The founder left, others joined; now it comes back on its own."""
    (old,) = build(["a"], {})
    without = Community(id=old.id, level=0, parent="", children=(), members=("b",))
    new = build("ab", {}, [without])
    assert len({row.id for row in new}) == 2
    assert leaves(new)["b"] == old.id
    assert build("ab", {}, new) == new


def test_few_new_entities_are_looked_up_and_many_read_alike() -> None:
    """As many again, in a corner of their own, change how the relations are read, not who joins whom."""
    rng = random.Random(0)
    nodes = [f"n{number:03}" for number in range(200)]
    tied = {tuple(sorted(rng.sample(nodes, 2))): 1 for _ in range(400)}
    pairs = {(one, other): weight for (one, other), weight in tied.items()}
    old = build(nodes[:190], among(nodes[:190], pairs))
    few = leaves(build(nodes, pairs, old))
    many = leaves(build([*nodes, *(f"z{number:03}" for number in range(200))], pairs, old))
    assert {node: many[node] for node in nodes[:190]} == {node: few[node] for node in nodes[:190]}
    assert {node: many[node] for node in nodes} == few


@pytest.mark.parametrize("strength", [None, 5.0])
def test_modularity_of_a_fresh_start_is_that_of_now(strength: float | None) -> None:
    tied = {**triangles("a", "b", "c"), ("a0", "b0"): 1, ("b1", "c1"): 1}
    nodes = sorted({end for pair in tied for end in pair})
    entities, relations = graph(nodes, tied, strength)
    fresh = table(Community, communities(entities, relations, table(Community, []), max_size=2))
    now, cold = community_modularity(entities, relations, fresh)
    assert now == cold > 0.3
    one = table(Community, [Community(id="all", level=0, parent="", children=(), members=tuple(nodes))])
    assert abs(community_modularity(entities, relations, one)[0]) < 1e-9


def mentions(document: Document) -> Iterable[Mention]:
    """Each word names an entity."""
    return [Mention(text=word, entity=hash_parts(word), name=word, type="") for word in document.text.split()]


def ties(document: Document) -> Iterable[RelationMention]:
    """Each word is tied to all others of its document."""
    for pair in combinations(sorted({hash_parts(word) for word in document.text.split()}), 2):
        yield RelationMention(relation=relation_id(*pair), source=pair[0], target=pair[1], names=pair)


def entities(mentions: Group[Mention]) -> Entity:
    name = mentions[0].name
    return Entity(name=name, type="", forms=(name,), types=(), mentions=len(mentions), tokens=0)


def relations(ties: Group[RelationMention]) -> Relation:
    one = ties[0]
    return Relation(
        source=one.source,
        target=one.target,
        names=one.names,
        keywords=(),
        weight=len(ties),
        strength=None,
        tokens=0,
    )


STEPS: list[Step] = [mentions, ties, entities, relations, communities, members]


def test_in_an_index_documents_come_and_go(tmp_path: Path) -> None:
    world = Small(tmp_path)
    texts = {"a": "ada bo cy", "b": "dee eve flo", "c": "gil hal ida", "d": "cy dee"}
    world.build(STEPS, texts)
    first = world.rows("communities")
    world.build(STEPS, {**texts, "e": "ada new", "f": "jo kit"})
    more = world.rows("communities")
    assert len(world.rows("members")) == len(world.rows("entities")) == 12
    assert len({*more} - {*first}) == 2  # one leaf has one more; two that nobody knows are on their own
    world.build(STEPS, {**texts, "e": "ada new", "f": "jo kit"}, code="2")
    assert world.rows("communities") == more
    world.build(STEPS, texts)
    assert world.rows("communities") == first
    world.build(STEPS, {})
    assert world.rows("communities") == world.rows("members") == []


PRINTS = """
from tests.index.test_communities import NODES, build
import random
rng = random.Random(3)
tied = {tuple(sorted(rng.sample(NODES, 2))): 1 + i % 3 for i in range(60)}
old = build(NODES[:20], {p: w for p, w in tied.items() if max(p) < "n20"}, max_size=3)
print(old, build(NODES, tied, old, max_size=3))
"""


def test_another_hash_seed_changes_nothing() -> None:
    said = set()
    for seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        said.add(subprocess.run([sys.executable, "-c", PRINTS], env=env, capture_output=True, check=True).stdout)
    assert len(said) == 1
    assert b"Community" in said.pop()
