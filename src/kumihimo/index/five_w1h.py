"""a text -> its 5W1H slots and predicate, from a model or from rules."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from kumihimo.core.errors import MalformedReply
from kumihimo.index.rules import srl
from kumihimo.llm.prompts import render_prompt
from kumihimo.llm.protocols import LLM, Messages
from kumihimo.llm.structured import Reply, reply_form
from kumihimo.text.lemmas import SLOTS, normalise_value

PROMPT = Path(__file__).with_name("frames.md")
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


def extract_slots(text: str, llm: LLM | None, *, language: str = "", paper: bool = False) -> list[SlotText]:
    """Extract the slots of a text, each value once, in slot order.

    Raise ItemFailed if the model fails.
    """
    if llm is None:
        return normalise_slots(srl.find_slots(text), paper=paper)
    return normalise_slots(llm(slot_messages(text, language), parse=parse_slots_reply), paper=paper)


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

    >>> from kumihimo.llm.structured import Reply
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
    texts = (
        text.strip(_EDGE_CHARS)
        for text in _iterate_texts(value, _NAME_SEPARATOR if slot in ("who", "predicate") else _TEXT_SEPARATOR)
    )
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
