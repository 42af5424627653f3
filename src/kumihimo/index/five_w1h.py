"""a text -> who, when, where, what, why, how, predicate, as a model or the rules read them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kumihimo.core.errors import Malformed
from kumihimo.llm.prompts import prompt
from kumihimo.llm.protocols import Ask, Messages
from kumihimo.text.lemmas import SLOTS, name

if TYPE_CHECKING:
    from kumihimo.llm.structured import Reply

PROMPT = Path(__file__).with_name("frames.md")
MOST = 16  # values of one slot
LONGEST = 200  # characters: what is longer is no value but a copy of the text

_NONE = frozenset(
    """none n/a na null nil unknown unspecified unclear - -- not+mentioned not+specified not+stated not+given なし 無し
    該当なし 記載なし 不明 无 無 未提及 不詳 不详""".replace("+", " ").split()
) | {"not mentioned", "not specified", "not stated", "not given", "not applicable"}
_APART = re.compile(r"\s*[;；\n]\s*")
_LISTED = re.compile(r"\s*(?:[,;、，；\n])\s*")  # where a slot holds no commas of its own
_LINE = re.compile(rf"^\W*({'|'.join(SLOTS)})\W*[:：][ \t]*(.+)$", re.M | re.I)
_EDGES = " \t\r\n\"'`.。*"


class Said(NamedTuple):
    """What a text says in one slot: in its own words, and normalised."""

    slot: str
    text: str
    name: str


def framed(text: str, ask: Ask | None, *, language: str = "", paper: bool = False) -> list[Said]:
    """What a text says, each once, in the order of the slots. Raises ItemFailed."""
    if ask is None:
        from kumihimo.index.rules import srl  # here: reading a graph needs none of the rules

        return normalised(srl.slots(text), paper=paper)
    return normalised(ask(messages(text, language), read=read), paper=paper)


def messages(text: str, language: str = "") -> Messages:
    """What a model is asked (江上・福田, appendix A, Listing 3, in words of our own)."""
    said = f"\n- Write in {language.strip()}." if language.strip() else ""
    return prompt(PROMPT, text=text, language=said)


def normalised(said: Iterable[tuple[str, str]], *, paper: bool = False) -> list[Said]:
    """Values with their names; of those with one name in one slot the first."""
    found: dict[tuple[str, str], Said] = {}
    for slot, text in said:
        if named := name(slot, text, paper=paper):
            found.setdefault((slot, named), Said(slot, text, named))
    return sorted(found.values(), key=lambda one: SLOTS.index(one.slot))


def read(reply: Reply) -> list[tuple[str, str]]:
    """The values of each slot. Raises Malformed where the reply has none of the slots.

    >>> from kumihimo.llm.structured import Reply
    >>> read(Reply('{"Who": ["Ada", "Bo"], "when": "none", "what": null, "predicate": "met; left"}'))
    [('who', 'Ada'), ('who', 'Bo'), ('predicate', 'met'), ('predicate', 'left')]
    >>> read(Reply("Who: Ada\\nWhen: none"))
    [('who', 'Ada')]
    """
    slots = _slots(reply)
    if not slots:
        raise Malformed(f"The reply has to be one JSON object with the keys {', '.join(SLOTS)}.")
    return [(slot, value) for slot in SLOTS for value in _values(slot, slots.get(slot))]


def _slots(reply: Reply) -> Mapping[str, object]:
    """What is said of each slot, whatever else is said."""
    from kumihimo.llm.structured import form

    try:
        said = form(dict[str, object]).read(reply)
    except Malformed:
        if not _LINE.search(reply.text):
            raise
        said = dict(_LINE.findall(reply.text))
    plain = {key.strip(" *_?").lower(): value for key, value in said.items()}
    return {slot: plain[slot] for slot in SLOTS if slot in plain}


def _values(slot: str, said: object) -> list[str]:
    """The texts of one slot, each once, those left out that say that there is none."""
    found = (text.strip(_EDGES) for text in _texts(said, _LISTED if slot in ("who", "predicate") else _APART))
    kept = (text for text in found if text and text.casefold() not in _NONE and len(text) <= LONGEST)
    return list(dict.fromkeys(kept))[:MOST]


def _texts(said: object, apart: re.Pattern[str], depth: int = 0) -> Iterator[str]:
    """The texts of a list, or a text that lists them; numbers as texts."""
    if isinstance(said, str):
        yield from apart.split(said) if depth == 0 else _APART.split(said)
    elif isinstance(said, bool) or said is None or depth > 3:
        return
    elif isinstance(said, int | float):
        yield str(said)
    else:
        parts = said.values() if isinstance(said, dict) else said if isinstance(said, list) else ()
        for part in parts:
            yield from _texts(part, apart, depth + 1)
