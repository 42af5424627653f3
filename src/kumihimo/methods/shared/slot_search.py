"""5W1H slots -> passages, by the number of matching slots."""

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
    pairs: Iterable[tuple[str, str]], frames: Table[SlotFiller], *, weights: SlotWeighting = "count"
) -> list[tuple[str, float]]:
    """Rank passages by the number of matching slots, then by id.

    pairs: slots with normalised names. If a slot is asked several times, its best match counts (江上・福田, section
    3.2.3, Listing 2). weights: `rare` counts 1 / log2(1 + n) for a value that n passages share, in place of 1.
    But: the listing sorts by similarity; here the number of matches decides, as in the text of the paper.
    """
    slots = {hash_parts(slot, name): slot for slot, name in pairs}
    weights_by_slot: dict[str, dict[str, float]] = defaultdict(dict)
    for value, ids in frames.ids_grouped("value", slots).items():
        passages = dict.fromkeys(id.rpartition(".")[0] for id in ids)
        weight = 1 / log2(1 + len(passages)) if weights == "rare" and passages else 1.0
        slot = slots[value]
        for passage in passages:
            weights_by_slot[passage][slot] = max(weights_by_slot[passage].get(slot, 0.0), weight)
    ranked = [(passage, sum(slot_weights.values())) for passage, slot_weights in weights_by_slot.items()]
    return sorted(ranked, key=lambda pair: (-pair[1], pair[0]))
