"""entities and their neighbours -> pairs of different words that may mean one thing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import pytest

from kumihimo.core.records import Entity
from kumihimo.index.entity_resolution import find_meaning_pairs, find_similar_entities
from kumihimo.llm.local_embedder import LocalEmbedder
from tests.factories_graph_text import entity, id

FED = entity("Fed", "organization", text="The central bank raised its interest rate.", mentions=5)
RESERVE = entity("Federal Reserve", "organization", text="The central bank kept the interest rate.", mentions=3)
POWELL, RATE = entity("Powell", text="The chair."), entity("Interest rate", "concept", text="A price.")
NEIGHBOURS = (
    ("Fed", "Powell"),
    ("Fed", "Interest rate"),
    ("Federal Reserve", "Powell"),
    ("Federal Reserve", "Interest rate"),
)


def neighbours_of(pairs: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    neighbours: defaultdict[str, set[str]] = defaultdict(set)
    for one, other in pairs:
        neighbours[id(one)].add(id(other))
        neighbours[id(other)].add(id(one))
    return neighbours


def find(*entities: Entity, ties: Iterable[tuple[str, str]] = NEIGHBOURS) -> set[frozenset[str]]:
    pairs = find_meaning_pairs(entities, neighbours_of(ties), LocalEmbedder(), ())
    return {frozenset((entities[pair.first].name, entities[pair.second].name)) for pair in pairs}


def test_names_of_the_same_meaning_with_neighbours_in_common_are_a_pair() -> None:
    assert find(FED, RESERVE, POWELL, RATE) == {frozenset(("Fed", "Federal Reserve"))}


def test_without_a_common_neighbour_they_are_none() -> None:
    assert find(FED, RESERVE, POWELL, RATE, ties=NEIGHBOURS[:2]) == set()


def test_related_entities_are_none() -> None:
    assert find(FED, RESERVE, POWELL, RATE, ties=(*NEIGHBOURS, ("Fed", "Federal Reserve"))) == set()


@pytest.mark.parametrize(
    "other",
    [
        entity("Federal Reserve", "place", text=RESERVE.text),
        entity("Federal Reserve", "organization", text=FED.text),  # they stand in one sentence
        entity("Federal Reserve 2", "organization", text=RESERVE.text),
        entity("FEDS", "organization", text=RESERVE.text),
    ],
)
def test_what_keeps_two_apart(other: Entity) -> None:
    ties = [(other.name if one == "Federal Reserve" else one, near) for one, near in NEIGHBOURS]
    assert find(FED, other, POWELL, RATE, ties=ties) == set()


def test_derived_words_are_not_proposed() -> None:
    ties = [(name, near) for name in ("Egypt", "Egyptian", "東京", "東京人") for near in ("Powell", "Interest rate")]
    others = (entity(name, "place", text=f"{name} is near.") for name in ("Egypt", "Egyptian", "東京", "東京人"))
    assert find(*others, POWELL, RATE, ties=ties) == set()


def test_an_abbreviation_of_characters_is_proposed() -> None:
    ties = [(name, near) for name in ("日銀", "日本銀行") for near in ("Powell", "Interest rate")]
    bank = (
        entity("日銀", "organization", text="金利を上げた。"),
        entity("日本銀行", "organization", text="金利を据え置いた。"),
    )
    assert find(*bank, POWELL, RATE, ties=ties) == {frozenset(("日銀", "日本銀行"))}


def test_such_a_pair_is_listed_with_its_reasons_below_the_automatic_score() -> None:
    [pair] = find_similar_entities((FED, RESERVE, POWELL, RATE), neighbours_of(NEIGHBOURS), LocalEmbedder())
    assert (pair.alias_line, pair.is_spelled) == ("Fed = Federal Reserve", False)
    assert [reason.split()[0] for reason in pair.reasons] == ["names", "meaning", "2"]
    assert pair.score < 0.9
