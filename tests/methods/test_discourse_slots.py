"""slots and names -> passages by matching slots: Listing 2 by hand."""

from __future__ import annotations

from kumihimo.core.records import SlotFiller
from kumihimo.core.table import Table
from kumihimo.methods.discourse import rank_by_slots
from tests.factories_tables import hide_rows, table

SLOTS = {
    "d.00000.00000": [("who", "ada"), ("who", "bo"), ("predicate", "meet"), ("where", "oban")],
    "d.00000.00001": [("who", "ada"), ("predicate", "meet")],
    "d.00001.00000": [("who", "cy"), ("predicate", "meet")],
    "e.00000.00000": [("what", "ada")],
}


def frames() -> Table[SlotFiller]:
    return table(
        SlotFiller,
        [
            SlotFiller(*slot, int(passage[-5:]), id=f"{passage[:-6]}.{n:05}", text=slot[1])
            for passage, slots in SLOTS.items()
            for n, slot in enumerate(slots, 10 * int(passage[-5:]))
        ],
    )


def test_passages_rank_by_matching_slots() -> None:
    slots = [("who", "ada"), ("predicate", "meet"), ("where", "oban")]
    assert rank_by_slots(slots, frames()) == [("d.00000.00000", 3), ("d.00000.00001", 2), ("d.00001.00000", 1)]


def test_a_slot_that_matches_twice_counts_once() -> None:
    assert rank_by_slots([("who", "ada"), ("who", "bo")], frames()) == [("d.00000.00000", 1), ("d.00000.00001", 1)]


def test_a_name_counts_in_its_own_slot_only() -> None:
    assert rank_by_slots([("what", "ada")], frames()) == [("e.00000.00000", 1)]
    assert rank_by_slots([("how", "ada")], frames()) == []
    assert rank_by_slots([], frames()) == []


def test_filtered_passages_are_not_found() -> None:
    filtered = hide_rows(frames(), lambda id: id.startswith("d.00001"))
    assert rank_by_slots([("predicate", "meet")], filtered) == [("d.00001.00000", 1)]
