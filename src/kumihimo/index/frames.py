"""passages -> frames, values: who, when, where, what, why, how, predicate, and who says the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kumihimo.core.digests import hash_parts
from kumihimo.core.records import Passage, SlotFiller, SlotValue
from kumihimo.core.table import Group
from kumihimo.llm.protocols import LLM


def frames(passage: Passage, llm: LLM | None, *, language: str = "", paper: bool = False) -> Iterable[SlotFiller]:
    """What a passage says of who, when, where, what, why and how, and its predicate (江上・福田, section 3.1.2).

    Values are the same whose names are: width, case, articles, plurals, particles, endings of verbs and the ways to
    write a date do not count. paper: only case and English lemmas do not, as in the paper.
    But: a slot may have several values, and without a model it has what the rules find (`rules/five.py`).
    """
    from kumihimo.index.five_w1h import extract_slots  # here: reading a graph asks nothing

    for slot, text, name in extract_slots(passage.text, llm, language=language, paper=paper):
        yield SlotFiller(value=hash_parts(slot, name), slot=slot, name=name, passage=passage.id, text=text)


def values(frames: Group[SlotFiller]) -> SlotValue:
    """All that passages say of one thing in one slot (江上・福田, section 3.1.1)."""
    forms = Counter(frame.text for frame in frames)
    ranked = sorted(forms, key=lambda form: (-forms[form], form))
    return SlotValue(slot=frames[0].slot, forms=tuple(ranked), frames=len(frames), text=frames[0].name)
