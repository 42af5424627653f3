"""who, when, where ... -> passages: those that say most of the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from math import log2
from typing import Literal

from kumihimo.core.digests import hash_parts
from kumihimo.core.records import SlotFiller
from kumihimo.core.table import Table

SlotWeighting = Literal["count", "rare"]


def rank_by_slots(
    asked: Iterable[tuple[str, str]], frames: Table[SlotFiller], *, weights: SlotWeighting = "count"
) -> list[tuple[str, float]]:
    """The passages that say what is asked, each with the number of slots in which it does, most first, then by id.

    asked: slots, each with a name as frames have it; of a slot that is asked several times one match is enough, the
    best (江上・福田, section 3.2.3, Listing 2). But: what the listing sorts by, its text counts; here it is the number.
    weights: `rare` adds up, in place of ones, less for what many passages say: of a value that n say, 1 / log2(1 + n).
    """
    slots = {hash_parts(slot, name): slot for slot, name in asked}
    matched: dict[str, dict[str, float]] = defaultdict(dict)
    for value, ids in frames.ids_grouped("value", slots).items():
        passages = dict.fromkeys(id.rpartition(".")[0] for id in ids)
        weight = 1 / log2(1 + len(passages)) if weights == "rare" and passages else 1.0
        slot = slots[value]
        for passage in passages:
            matched[passage][slot] = max(matched[passage].get(slot, 0.0), weight)
    found = [(passage, sum(said.values())) for passage, said in matched.items()]
    return sorted(found, key=lambda pair: (-pair[1], pair[0]))
