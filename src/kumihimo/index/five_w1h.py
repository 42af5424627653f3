"""a text -> who, when, where, what, why, how, predicate, as a model or the rules read them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kumihimo.core.errors import MalformedReply
from kumihimo.llm.prompts import render_prompt
from kumihimo.llm.protocols import LLM, Messages
from kumihimo.text.lemmas import SLOTS, normalise_value

if TYPE_CHECKING:
    from kumihimo.llm.structured import Reply

PROMPT = Path(__file__).with_name("frames.md")
MAX_SLOT_VALUES = 16  # values of one slot
MAX_SLOT_CHARS = 200  # characters: what is longer is no value but a copy of the text

_EMPTY_WORDS = frozenset(
    """none n/a na null nil unknown unspecified unclear - -- not+mentioned not+specified not+stated not+given なし 無し
    該当なし 記載なし 不明 无 無 未提及 不詳 不详""".replace("+", " ").split()
) | {"not mentioned", "not specified", "not stated", "not given", "not applicable"}
_TEXT_SEPARATOR = re.compile(r"\s*[;；\n]\s*")
_NAME_SEPARATOR = re.compile(r"\s*(?:[,;、，；\n])\s*")  # where a slot holds no commas of its own
_SLOT_LINE = re.compile(rf"^\W*({'|'.join(SLOTS)})\W*[:：][ \t]*(.+)$", re.M | re.I)
_EDGE_CHARS = " \t\r\n\"'`.。*"


class SlotText(NamedTuple):
    """What a text says in one slot: in its own words, and normalised."""

    slot: str
    text: str
    name: str


def extract_slots(text: str, llm: LLM | None, *, language: str = "", paper: bool = False) -> list[SlotText]:
    """What a text says, each once, in the order of the slots. Raises ItemFailed."""
    if llm is None:
        from kumihimo.index.rules import srl  # here: reading a graph needs none of the rules

        return normalise_slots(srl.find_slots(text), paper=paper)
    return normalise_slots(llm(slot_messages(text, language), parse=parse_slots_reply), paper=paper)


def slot_messages(text: str, language: str = "") -> Messages:
    """What a model is asked (江上・福田, appendix A, Listing 3, in words of our own)."""
    said = f"\n- Write in {language.strip()}." if language.strip() else ""
    return render_prompt(PROMPT, text=text, language=said)


def normalise_slots(slots: Iterable[tuple[str, str]], *, paper: bool = False) -> list[SlotText]:
    """Values with their names; of those with one name in one slot the first."""
    found: dict[tuple[str, str], SlotText] = {}
    for slot, text in slots:
        if named := normalise_value(slot, text, paper=paper):
            found.setdefault((slot, named), SlotText(slot, text, named))
    return sorted(found.values(), key=lambda one: SLOTS.index(one.slot))


def parse_slots_reply(reply: Reply) -> list[tuple[str, str]]:
    """The values of each slot. Raises Malformed where the reply has none of the slots.

    >>> from kumihimo.llm.structured import Reply
    >>> read(Reply('{"Who": ["Ada", "Bo"], "when": "none", "what": null, "predicate": "met; left"}'))
    [('who', 'Ada'), ('who', 'Bo'), ('predicate', 'met'), ('predicate', 'left')]
    >>> read(Reply("Who: Ada\\nWhen: none"))
    [('who', 'Ada')]
    """
    slots = _read_slots(reply)
    if not slots:
        raise MalformedReply(f"The reply has to be one JSON object with the keys {', '.join(SLOTS)}.")
    return [(slot, value) for slot in SLOTS for value in _slot_texts(slot, slots.get(slot))]


def _read_slots(reply: Reply) -> Mapping[str, object]:
    """What is said of each slot, whatever else is said."""
    from kumihimo.llm.structured import reply_form

    try:
        said = reply_form(dict[str, object]).parse(reply)
    except MalformedReply:
        if not _SLOT_LINE.search(reply.text):
            raise
        said = dict(_SLOT_LINE.findall(reply.text))
    plain = {key.strip(" *_?").lower(): value for key, value in said.items()}
    return {slot: plain[slot] for slot in SLOTS if slot in plain}


def _slot_texts(slot: str, value: object) -> list[str]:
    """The texts of one slot, each once, those left out that say that there is none."""
    found = (
        text.strip(_EDGE_CHARS)
        for text in _iterate_texts(value, _NAME_SEPARATOR if slot in ("who", "predicate") else _TEXT_SEPARATOR)
    )
    kept = (text for text in found if text and text.casefold() not in _EMPTY_WORDS and len(text) <= MAX_SLOT_CHARS)
    return list(dict.fromkeys(kept))[:MAX_SLOT_VALUES]


def _iterate_texts(value: object, separator: re.Pattern[str], depth: int = 0) -> Iterator[str]:
    """The texts of a list, or a text that lists them; numbers as texts."""
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
