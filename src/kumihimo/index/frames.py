"""passages -> frames, values: 5W1H slots and predicates, and their values across passages."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import MalformedReply
from kumihimo.core.records import Passage, SlotFiller, SlotValue
from kumihimo.core.table import Group
from kumihimo.index.rules import srl
from kumihimo.llm.prompts import Reply, render_prompt, reply_form
from kumihimo.llm.protocols import LLM, Messages
from kumihimo.text.lemmas import SLOTS, normalise_value

PROMPT = Path(__file__).with_suffix(".md")
MAX_SLOT_VALUES = 16  # per slot
MAX_SLOT_CHARS = 200  # a longer text is a copy of the input, not a value

_EMPTY_WORDS = frozenset(
    """none n/a na null nil unknown unspecified unclear - -- not+mentioned not+specified not+stated not+given なし 無し
    該当なし 記載なし 不明 无 無 未提及 不詳 不详""".replace("+", " ").split()
) | {"not mentioned", "not specified", "not stated", "not given", "not applicable"}
_TEXT_SEPARATOR = re.compile(r"\s*[;；\n]\s*")
_NAME_SEPARATOR = re.compile(r"\s*(?:[,;、，；\n])\s*")  # for slots whose values contain no comma
_SLOT_LINE = re.compile(rf"^\W*({'|'.join(SLOTS)})\W*[:：][ \t]*(.+)$", re.M | re.I)
_EDGE_CHARS = " \t\r\n\"'`.。*"


class SlotText(NamedTuple):
    """A slot filler: its original text and its normalised name."""

    slot: str
    text: str
    name: str


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


def extract_slots(text: str, llm: LLM | None, *, language: str = "", paper: bool = False) -> list[SlotText]:
    """Extract the slots of a text, each value once, in slot order.

    Raise ItemFailed if the model fails.
    """
    slots = srl.find_slots(text) if llm is None else llm(slot_messages(text, language), parse=parse_slots_reply)
    return normalise_slots(slots, paper=paper)


def slot_messages(text: str, language: str = "") -> Messages:
    """Return the messages for one text.

    (江上・福田, appendix A, Listing 3, reworded.)
    """
    language_rule = f"\n- Write in {language.strip()}." if language.strip() else ""
    return render_prompt(PROMPT, text=text, language=language_rule)


def normalise_slots(slots: Iterable[tuple[str, str]], *, paper: bool = False) -> list[SlotText]:
    """Add names to slot texts; keep the first text of each name."""
    by_name: dict[tuple[str, str], SlotText] = {}
    for slot, text in slots:
        if value_name := normalise_value(slot, text, paper=paper):
            by_name.setdefault((slot, value_name), SlotText(slot, text, value_name))
    return sorted(by_name.values(), key=lambda filler: SLOTS.index(filler.slot))


def parse_slots_reply(reply: Reply) -> list[tuple[str, str]]:
    r"""Parse the values of each slot. Raise MalformedReply without a known slot.

    >>> from kumihimo.llm.prompts import Reply
    >>> parse_slots_reply(Reply('{"Who": ["Ada", "Bo"], "when": "none", "what": null, "predicate": "met; left"}'))
    [('who', 'Ada'), ('who', 'Bo'), ('predicate', 'met'), ('predicate', 'left')]
    >>> parse_slots_reply(Reply("Who: Ada\nWhen: none"))
    [('who', 'Ada')]
    """
    slots = _read_slots(reply)
    if not slots:
        raise MalformedReply(f"The reply has to be one JSON object with the keys {', '.join(SLOTS)}.")
    return [(slot, value) for slot in SLOTS for value in _slot_texts(slot, slots.get(slot))]


def _read_slots(reply: Reply) -> Mapping[str, object]:
    """Return the known slots of a reply: JSON or labelled lines."""

    try:
        values = reply_form(dict[str, object]).parse(reply)
    except MalformedReply:
        if not _SLOT_LINE.search(reply.text):
            raise
        values = dict(_SLOT_LINE.findall(reply.text))
    by_key = {key.strip(" *_?").lower(): value for key, value in values.items()}
    return {slot: by_key[slot] for slot in SLOTS if slot in by_key}


def _slot_texts(slot: str, value: object) -> list[str]:
    """Return the texts of one slot, each once, without empty answers."""
    separator = _NAME_SEPARATOR if slot in ("who", "predicate") else _TEXT_SEPARATOR
    texts = (text.strip(_EDGE_CHARS) for text in _iterate_texts(value, separator))
    usable = (text for text in texts if text and text.casefold() not in _EMPTY_WORDS and len(text) <= MAX_SLOT_CHARS)
    return list(dict.fromkeys(usable))[:MAX_SLOT_VALUES]


def _iterate_texts(value: object, separator: re.Pattern[str], depth: int = 0) -> Iterator[str]:
    """Yield the texts of a list, a delimited text or a number."""
    if isinstance(value, str):
        yield from separator.split(value) if depth == 0 else _TEXT_SEPARATOR.split(value)
    elif isinstance(value, bool) or value is None or depth > 3:
        return
    elif isinstance(value, int | float):
        yield str(value)
    else:
        parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        for part in parts:
            yield from _iterate_texts(part, separator, depth + 1)
