"""passages -> frames, values: 5W1H slots and predicates, and their values across passages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kumihimo.core.digests import hash_parts
from kumihimo.core.records import Passage, SlotFiller, SlotValue
from kumihimo.core.table import Group
from kumihimo.index.five_w1h import extract_slots
from kumihimo.llm.protocols import LLM


def frames(passage: Passage, llm: LLM | None, *, language: str = "", paper: bool = False) -> Iterable[SlotFiller]:
    """Extract the 5W1H slots and predicate of a passage (江上・福田, section 3.1.2).

    Texts with the same name share one value: width, case, articles, plurals, particles, verb endings and date formats
    do not count. paper: only case and English lemmas do not count, as in the paper.
    But: a slot may have several values; without a model the rules fill the slots (`rules/srl.py`).
    """

    for slot, text, name in extract_slots(passage.text, llm, language=language, paper=paper):
        yield SlotFiller(value=hash_parts(slot, name), slot=slot, name=name, passage=passage.id, text=text)


def values(frames: Group[SlotFiller]) -> SlotValue:
    """Merge equal slot fillers of all passages (江上・福田, section 3.1.1)."""
    form_counts = Counter(frame.text for frame in frames)
    ranked = sorted(form_counts, key=lambda form: (-form_counts[form], form))
    return SlotValue(slot=frames[0].slot, forms=tuple(ranked), frames=len(frames), text=frames[0].name)
