"""Slots and names -> passages by the number of slots that match: Listing 2 by hand."""

from __future__ import annotations

from math import log2

from kumihimo.core.digests import hash_parts
from kumihimo.core.records import SlotFiller
from kumihimo.core.table import Table
from kumihimo.methods.shared.slot_search import rank_by_slots
from tests.factories_tables import table

SAID = {
    "d.00000.00000": [("who", "ada"), ("who", "bo"), ("predicate", "meet"), ("where", "oban")],
    "d.00000.00001": [("who", "ada"), ("predicate", "meet")],
    "d.00001.00000": [("who", "cy"), ("predicate", "meet")],
    "e.00000.00000": [("what", "ada")],
}


def held() -> Table[SlotFiller]:
    return table(
        SlotFiller,
        [
            SlotFiller(hash_parts(*said), *said, passage, id=f"{passage}.{n:05}", text=said[1])
            for passage, every in SAID.items()
            for n, said in enumerate(every)
        ],
    )


def test_passages_come_by_the_number_of_slots_they_match() -> None:
    asked = [("who", "ada"), ("predicate", "meet"), ("where", "oban")]
    assert rank_by_slots(asked, held()) == [("d.00000.00000", 3), ("d.00000.00001", 2), ("d.00001.00000", 1)]


def test_a_slot_that_matches_twice_counts_once() -> None:
    assert rank_by_slots([("who", "ada"), ("who", "bo")], held()) == [("d.00000.00000", 1), ("d.00000.00001", 1)]


def test_a_name_counts_in_its_own_slot_only() -> None:
    assert rank_by_slots([("what", "ada")], held()) == [("e.00000.00000", 1)]
    assert rank_by_slots([("how", "ada")], held()) == []
    assert rank_by_slots([], held()) == []


def test_what_many_say_counts_less() -> None:
    found = dict(rank_by_slots([("who", "cy"), ("predicate", "meet"), ("where", "oban")], held(), weights="rare"))
    assert found == {"d.00001.00000": 1 + 1 / log2(4), "d.00000.00000": 1 / log2(4) + 1, "d.00000.00001": 1 / log2(4)}


def test_passages_that_are_left_out_are_not_found() -> None:
    only = held().filtered(lambda id: id.startswith("d.00001"))
    assert rank_by_slots([("predicate", "meet")], only) == [("d.00001.00000", 1)]
