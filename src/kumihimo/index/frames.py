"""passages -> frames, values: who, when, where, what, why, how, predicate, and who says the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kumihimo.core.digests import digest
from kumihimo.core.records import Frame, Passage, Value
from kumihimo.core.table import Group
from kumihimo.llm.protocols import Ask


def frames(passage: Passage, ask: Ask | None, *, language: str = "", paper: bool = False) -> Iterable[Frame]:
    """What a passage says of who, when, where, what, why and how, and its predicate (江上・福田, section 3.1.2).

    Values are the same whose names are: width, case, articles, plurals, particles, endings of verbs and the ways to
    write a date do not count. paper: only case and English lemmas do not, as in the paper.
    But: a slot may have several values, and without a model it has what the rules find (`rules/five.py`).
    """
    from kumihimo.index.five_w1h import framed  # here: reading a graph asks nothing

    for slot, text, name in framed(passage.text, ask, language=language, paper=paper):
        yield Frame(value=digest(slot, name), slot=slot, name=name, passage=passage.id, text=text)


def values(frames: Group[Frame]) -> Value:
    """All that passages say of one thing in one slot (江上・福田, section 3.1.1)."""
    forms = Counter(frame.text for frame in frames)
    ranked = sorted(forms, key=lambda form: (-forms[form], form))
    return Value(slot=frames[0].slot, forms=tuple(ranked), frames=len(frames), text=frames[0].name)
