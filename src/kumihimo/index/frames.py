"""a chunk's passages -> frames: 5W1H slots and predicates."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import make_dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from kumihimo.core.errors import MalformedReply
from kumihimo.core.records import Chunk, Passage, SlotFiller
from kumihimo.core.settings import Batch
from kumihimo.core.table import Table
from kumihimo.index.batched_calls import collect_rows
from kumihimo.llm.prompts import number_sources, render_prompt, reply_form
from kumihimo.llm.protocols import LLM, Messages, Reply
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
_NUMBER = re.compile(r"[0-9]{1,5}")
_EDGE_CHARS = " \t\r\n\"'`.。*"


Slots = list[tuple[str, str]]  # slot, text


class SlotText(NamedTuple):
    """A slot filler: its original text and its normalised name."""

    slot: str
    text: str
    name: str


def frames(
    chunk: Chunk,
    passages: Table[Passage],
    llm: LLM | None,
    *,
    language: str = "",
    batch: Batch = 32,
    paper: bool = False,
) -> Iterable[SlotFiller]:
    """Extract the 5W1H slots and predicates of a chunk's passages.

    (江上・福田, section 3.1.2.) One call reads up to `batch` passages. Texts with the same name are one value: width,
    case, articles, plurals, particles, verb endings and date formats do not count. paper: one passage in a call, and
    only case and English lemmas do not count, as in the paper.
    But: a slot may have several values. Without a model there are none.
    """

    if llm is None:
        return ()

    def fill_slots(batch: Sequence[Passage]) -> Iterator[SlotFiller]:
        slots_by_passage = find_slots([passage.text for passage in batch], llm, language)
        for passage, slots in zip(batch, slots_by_passage, strict=True):
            for slot, text, name in normalise_slots(slots, paper=paper):
                yield SlotFiller(slot, name, passage.ordinal, text=text)

    return collect_rows(fill_slots, passages.where(chunk=chunk.id), 1 if paper else batch)


def find_slots(texts: Sequence[str], llm: LLM, language: str = "") -> list[Slots]:
    """Return the slots of each text. Raise ItemFailed if the model fails."""
    parse = partial(parse_slots_reply, count=len(texts))
    slots: list[Slots] = llm(slot_messages(texts, language), schema=_reply_type(len(texts)), parse=parse)
    return slots


def slot_messages(texts: Sequence[str], language: str = "") -> Messages:
    """Return the messages for some texts.

    (江上・福田, appendix A, Listing 3, reworded.)
    """
    language_rule = f"\nWrite in {language.strip()}." if language.strip() else ""
    return render_prompt(PROMPT, passages=number_sources(texts), language=language_rule)


@cache
def _reply_type(count: int) -> type[Any]:
    """Return the reply form for a number of passages.

    Each passage has a field of its own name, so the model cannot skip one.
    """
    slots = make_dataclass("Slots", [(slot, list[str]) for slot in SLOTS], frozen=True)
    return make_dataclass("Passages", [(f"passage_{n}", slots) for n in range(1, count + 1)], frozen=True)


def normalise_slots(slots: Iterable[tuple[str, str]], *, paper: bool = False) -> list[SlotText]:
    """Add names to slot texts; keep the first text of each name."""
    by_name: dict[tuple[str, str], SlotText] = {}
    for slot, text in slots:
        if value_name := normalise_value(slot, text, paper=paper):
            by_name.setdefault((slot, value_name), SlotText(slot, text, value_name))
    return sorted(by_name.values(), key=lambda filler: SLOTS.index(filler.slot))


def parse_slots_reply(reply: Reply, count: int = 1) -> list[Slots]:
    r"""Parse the slots of each passage. Raise MalformedReply if one is missing.

    >>> from kumihimo.llm.prompts import Reply
    >>> parse_slots_reply(Reply('{"passage_1": {"Who": ["Ada", "Bo"], "when": "none", "predicate": "met; left"}}'))
    [[('who', 'Ada'), ('who', 'Bo'), ('predicate', 'met'), ('predicate', 'left')]]
    >>> parse_slots_reply(Reply('{"1": {"who": "Ada"}, "2": {"who": null}}'), 2)
    [[('who', 'Ada')], []]
    """
    value = reply_form(dict[str, object]).parse(reply)
    numbered = {int(match[0]): slots for key, slots in value.items() if (match := _NUMBER.search(key))}
    slots_by_passage = [_known_slots(numbered.get(n)) for n in range(1, count + 1)]
    if count == 1 and not numbered:
        slots_by_passage = [_known_slots(value)]
    if missing := [f"passage_{n}" for n, slots in enumerate(slots_by_passage, 1) if not slots]:
        raise MalformedReply(f"The reply lacks {', '.join(missing)}: each is an object with {', '.join(SLOTS)}.")
    return [
        [(slot, text) for slot in SLOTS for text in _slot_texts(slot, slots.get(slot))] for slots in slots_by_passage
    ]


def _known_slots(value: object) -> Mapping[str, object]:
    """Return the known slots of a passage in a reply."""
    by_key = {str(key).strip(" *_?").lower(): slot for key, slot in value.items()} if isinstance(value, dict) else {}
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
