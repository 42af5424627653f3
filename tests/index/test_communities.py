"""entities and relations -> communities: one per entity and level; old entities stay in theirs."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from kumihimo.core.digests import hash_parts
from kumihimo.core.records import Community, Document, Entity, Mention, Relation, RelationMention
from kumihimo.core.table import Group, Table
from kumihimo.index.communities import communities, communities_at_level, community_modularity, deepest_level, members
from kumihimo.index.imports import ImportedCommunity
from kumihimo.text.name_keys import relation_id
from tests.core.factories_build import Small, Step
from tests.factories_tables import table

NODES = [f"n{number:02}" for number in range(30)]
NO_IMPORTS = table(ImportedCommunity, [])
PairWeights = Mapping[tuple[str, str], int]
pair_weights = st.dictionaries(st.sampled_from(list(combinations(NODES, 2))), st.integers(1, 4), max_size=70)
node_sets = st.sets(st.sampled_from(NODES), max_size=30)


def make_tables(
    nodes: Iterable[str], weights: PairWeights, strength: float | None = None
) -> tuple[Table[Entity], Table[Relation]]:
    counts: Counter[str] = Counter(nodes)
    for pair, weight in weights.items():
        counts.update(dict.fromkeys(pair, weight))
    entities = [
        Entity(id=id, name=id, type="", forms=(id,), types=(), mentions=counts[id], tokens=0)
        for id in sorted(set(nodes))
    ]
    relations = [
        Relation(
            id=relation_id(first, second),
            source=first,
            target=second,
            names=(first, second),
            keywords=(),
            weight=weight,
            strength=strength,
            tokens=0,
        )
        for (first, second), weight in weights.items()
    ]
    return table(Entity, entities), table(Relation, relations)


def build(
    nodes: Iterable[str], weights: PairWeights, previous: Iterable[Community] = (), max_size: int = 10
) -> list[Community]:
    result = communities(*make_tables(nodes, weights), table(Community, previous), NO_IMPORTS, max_size=max_size)
    return sorted(result, key=lambda row: row.id)


def inner_pairs(nodes: Iterable[str], weights: PairWeights) -> PairWeights:
    """Return the pairs with both ends in `nodes`."""
    present = set(nodes)
    return {pair: weight for pair, weight in weights.items() if present.issuperset(pair)}


def leaf_of_entity(rows: Iterable[Community]) -> dict[str, str]:
    return {entity: row.id for row in rows for entity in row.members}


def descendants(id: str, rows: Mapping[str, Community]) -> list[str]:
    row = rows[id]
    return [*row.members, *(entity for child in row.children for entity in descendants(child, rows))]


def check_levels(rows: list[Community], nodes: Iterable[str]) -> None:
    """Check that the rows form a forest with each entity once per level."""
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
        level_entities = [entity for row in communities_at_level(rows, level) for entity in descendants(row.id, by_id)]
        assert sorted(level_entities) == sorted(set(nodes))


def test_a_leaf_that_has_grown_too_large_looks_for_each_of_its_relations_once(monkeypatch: pytest.MonkeyPatch) -> None:
    core, alone = NODES[:11], [f"alone {number:03}" for number in range(200)]
    pairs = dict.fromkeys(combinations(core, 2), 3)
    old = build([*core[:10], *alone], inner_pairs({*core[:10]}, pairs))
    asked: list[dict[str, object]] = []
    where = Table.where

    def noted(self: Table[Any], **conditions: object) -> list[Any]:
        asked.append(conditions)
        return where(self, **conditions)

    monkeypatch.setattr(Table, "where", noted)
    build([*core, *alone], pairs, old)
    new = [{end: core[10]} for end in ("source", "target")]
    assert sorted(map(str, asked)) == sorted(map(str, [*new, *({"source": id} for id in core)]))


@given(pair_weights, node_sets, st.integers(1, 6))
def test_each_entity_is_in_one_community_on_each_level(weights: PairWeights, nodes: set[str], max_size: int) -> None:
    """Relations with an unknown end do not count."""
    check_levels(build(nodes, weights, max_size=max_size), nodes)


@given(pair_weights, node_sets, node_sets, st.integers(1, 6))
def test_old_entities_keep_their_leaf(weights: PairWeights, before: set[str], after: set[str], max_size: int) -> None:
    old = build(before, inner_pairs(before, weights), max_size=max_size)
    new = build(after, inner_pairs(after, weights), old, max_size=max_size)
    check_levels(new, after)
    rows, old_leaf, new_leaf = {row.id: row for row in new}, leaf_of_entity(old), leaf_of_entity(new)
    for entity in before & after:
        assert entity in descendants(old_leaf[entity], rows)  # in that leaf, or in a part of it
        assert new_leaf[entity] == old_leaf[entity] or len(descendants(old_leaf[entity], rows)) > max_size


@given(pair_weights, node_sets, node_sets, st.integers(1, 6))
def test_again_is_the_same(weights: PairWeights, before: set[str], after: set[str], max_size: int) -> None:
    first = build(before, inner_pairs(before, weights), max_size=max_size)
    assert build(before, inner_pairs(before, weights), first, max_size) == first
    second = build(after, inner_pairs(after, weights), first, max_size)
    assert build(after, inner_pairs(after, weights), second, max_size) == second


@given(pair_weights, node_sets, node_sets)
def test_what_is_taken_out_leaves_the_rest_as_it_was(weights: PairWeights, nodes: set[str], removed: set[str]) -> None:
    old = build(nodes, inner_pairs(nodes, weights), max_size=3)
    new = build(nodes - removed, inner_pairs(nodes - removed, weights), old, max_size=3)
    old_leaf = leaf_of_entity(old)
    assert leaf_of_entity(new) == {entity: old_leaf[entity] for entity in nodes - removed}
    assert {row.id for row in new} <= {row.id for row in old}


@given(pair_weights, node_sets, st.randoms())
def test_the_order_of_rows_does_not_count(weights: PairWeights, nodes: set[str], rng: random.Random) -> None:
    old = build(NODES[::2], inner_pairs(NODES[::2], weights), max_size=3)
    entities, relations = make_tables(nodes, weights)
    result = communities(
        table(Entity, rng.sample(list(entities), len(entities)), shuffled=True),
        table(Relation, rng.sample(list(relations), len(relations)), shuffled=True),
        table(Community, rng.sample(old, len(old)), shuffled=True),
        NO_IMPORTS,
        max_size=3,
    )
    assert sorted(result, key=lambda row: row.id) == build(nodes, weights, old, max_size=3)


def test_no_entities_no_communities() -> None:
    assert build([], {}) == []
    assert build([], {}, build("ab", {("a", "b"): 1})) == []
    assert community_modularity(*make_tables([], {}), table(Community, [])) == (0.0, 0.0)


def test_one_entity_is_a_community() -> None:
    (row,) = build(["a"], {("a", "a"): 2})
    assert (row.level, row.parent, row.children, row.members) == (0, "", (), ("a",))
    assert [member.entity for member in members(row)] == ["a"]


def test_small_communities_make_many_levels() -> None:
    path = dict.fromkeys(zip(range(100, 179), range(101, 180), strict=True), 1)
    weights = {(str(first), str(second)): weight for (first, second), weight in path.items()}
    rows = build([str(number) for number in range(100, 180)], weights, max_size=2)
    assert deepest_level(rows) >= 2


def triangle_pairs(*names: str) -> dict[tuple[str, str], int]:
    return {(first, second): 1 for name in names for first, second in combinations([f"{name}{i}" for i in range(3)], 2)}


def test_a_new_entity_joins_those_it_is_tied_to_most() -> None:
    weights = triangle_pairs("a", "b")
    old = build([f"{name}{i}" for name in "ab" for i in range(3)], weights)
    nodes = [*leaf_of_entity(old), "new", "next", "far"]
    new_leaf = leaf_of_entity(build(nodes, {**weights, ("a0", "new"): 1, ("b0", "new"): 3, ("new", "next"): 1}, old))
    assert new_leaf["new"] == new_leaf["next"] == new_leaf["b0"]  # "next" is related to "new" only
    assert new_leaf["far"] not in leaf_of_entity(old).values()


def test_what_no_old_entity_is_tied_to_makes_communities_of_its_own() -> None:
    weights = triangle_pairs("a")
    old = build([f"a{i}" for i in range(3)], weights)
    more = triangle_pairs("a", "b", "c")
    new = build(sorted({end for pair in more for end in pair}), more, old)
    assert sorted(row.members for row in new) == [tuple(f"{name}{i}" for i in range(3)) for name in "abc"]
    assert {row.level for row in new} == {0}


def test_a_leaf_that_grew_is_split_and_keeps_its_id() -> None:
    weights = triangle_pairs("a")
    (leaf,) = build([f"a{i}" for i in range(3)], weights, max_size=3)
    more = {**triangle_pairs("a", "b"), ("a0", "b0"): 1}
    top, *parts = sorted(build([f"{n}{i}" for n in "ab" for i in range(3)], more, [leaf], 3), key=lambda r: r.level)
    assert (top.id, top.level, top.members) == (leaf.id, 0, ())
    assert sorted(part.members for part in parts) == [("a0", "a1", "a2"), ("b0", "b1", "b2")]
    assert {(part.level, part.parent) for part in parts} == {(1, leaf.id)}


def test_a_large_leaf_that_did_not_grow_stays() -> None:
    """`max_size` is smaller now: a fresh start would split the leaf."""
    weights = {**triangle_pairs("a", "b"), ("a0", "b0"): 1}
    nodes = [f"{name}{i}" for name in "ab" for i in range(3)]
    whole = Community(id="w", level=0, parent="", children=(), members=tuple(nodes))
    assert build(nodes, weights, [whole], max_size=3) == [whole]


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
    """The first member left and others joined; now it returns alone."""
    (old,) = build(["a"], {})
    without = Community(id=old.id, level=0, parent="", children=(), members=("b",))
    new = build("ab", {}, [without])
    assert len({row.id for row in new}) == 2
    assert leaf_of_entity(new)["b"] == old.id
    assert build("ab", {}, new) == new


def test_few_new_entities_are_looked_up_and_many_read_alike() -> None:
    """Many unrelated new entities change how relations are read, but no assignment."""
    rng = random.Random(0)
    nodes = [f"n{number:03}" for number in range(200)]
    weights = {tuple(sorted(rng.sample(nodes, 2))): 1 for _ in range(400)}
    pairs = {(first, second): weight for (first, second), weight in weights.items()}
    old = build(nodes[:190], inner_pairs(nodes[:190], pairs))
    few = leaf_of_entity(build(nodes, pairs, old))
    many = leaf_of_entity(build([*nodes, *(f"z{number:03}" for number in range(200))], pairs, old))
    assert {node: many[node] for node in nodes[:190]} == {node: few[node] for node in nodes[:190]}
    assert {node: many[node] for node in nodes} == few


@pytest.mark.parametrize("strength", [None, 5.0])
def test_modularity_of_a_fresh_start_is_that_of_now(strength: float | None) -> None:
    weights = {**triangle_pairs("a", "b", "c"), ("a0", "b0"): 1, ("b1", "c1"): 1}
    nodes = sorted({end for pair in weights for end in pair})
    entities, relations = make_tables(nodes, weights, strength)
    fresh_table = table(Community, communities(entities, relations, table(Community, []), NO_IMPORTS, max_size=2))
    current, fresh_start = community_modularity(entities, relations, fresh_table)
    assert current == fresh_start > 0.3
    single = table(Community, [Community(id="all", level=0, parent="", children=(), members=tuple(nodes))])
    assert abs(community_modularity(entities, relations, single)[0]) < 1e-9


def mentions(document: Document) -> Iterable[Mention]:
    """Return one mention per word."""
    return [Mention(text=word, entity=hash_parts(word), name=word, type="") for word in document.text.split()]


def ties(document: Document) -> Iterable[RelationMention]:
    """Yield one relation mention per pair of words in a document."""
    for pair in combinations(sorted({hash_parts(word) for word in document.text.split()}), 2):
        yield RelationMention(relation=relation_id(*pair), source=pair[0], target=pair[1], names=pair)


def entities(mentions: Group[Mention]) -> Entity:
    name = mentions[0].name
    return Entity(name=name, type="", forms=(name,), types=(), mentions=len(mentions), tokens=0)


def relations(ties: Group[RelationMention]) -> Relation:
    first = ties[0]
    return Relation(
        source=first.source,
        target=first.target,
        names=first.names,
        keywords=(),
        weight=len(ties),
        strength=None,
        tokens=0,
    )


def imported_communities(document: Document) -> Iterable[ImportedCommunity]:
    return []


STEPS: list[Step] = [mentions, ties, entities, relations, imported_communities, communities, members]


def test_in_an_index_documents_come_and_go(tmp_path: Path) -> None:
    index = Small(tmp_path)
    texts = {"a": "ada bo cy", "b": "dee eve flo", "c": "gil hal ida", "d": "cy dee"}
    index.build(STEPS, texts)
    first = index.rows("communities")
    index.build(STEPS, {**texts, "e": "ada new", "f": "jo kit"})
    more = index.rows("communities")
    assert len(index.rows("members")) == len(index.rows("entities")) == 12
    assert len({*more} - {*first}) == 2  # one leaf grows; the two unrelated entities form their own
    index.build(STEPS, {**texts, "e": "ada new", "f": "jo kit"}, code="2")
    assert index.rows("communities") == more
    index.build(STEPS, texts)
    assert index.rows("communities") == first
    index.build(STEPS, {})
    assert index.rows("communities") == index.rows("members") == []


PRINTS = """
from tests.index.test_communities import NODES, build
import random
rng = random.Random(3)
tied = {tuple(sorted(rng.sample(NODES, 2))): 1 + i % 3 for i in range(60)}
old = build(NODES[:20], {p: w for p, w in tied.items() if max(p) < "n20"}, max_size=3)
print(old, build(NODES, tied, old, max_size=3))
"""


def test_another_hash_seed_changes_nothing() -> None:
    outputs = set()
    for seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        outputs.add(subprocess.run([sys.executable, "-c", PRINTS], env=env, capture_output=True, check=True).stdout)
    assert len(outputs) == 1
    assert b"Community" in outputs.pop()
