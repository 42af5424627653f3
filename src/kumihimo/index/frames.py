"""a chunk's passages -> frames: 5W1H slots and predicates."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from kumihimo.core import settings, table
from kumihimo.core.errors import MalformedReply
from kumihimo.core.records import Chunk, Passage, SlotFiller
from kumihimo.index.batched_calls import collect_rows
from kumihimo.index.chunk_background import Description, document_date, readable_title
from kumihimo.llm.prompts import number_sources, render_prompt, require_complete_text
from kumihimo.llm.protocols import LLM, Messages, Reply
from kumihimo.text.lemmas import SLOTS, normalise_value

PROMPT = Path(__file__).with_suffix(".md")
MAX_SLOT_VALUES = 16  # per slot
MAX_SLOT_CHARS = 200  # a longer text is a copy of the input, not a value

_EMPTY_WORDS = frozenset(
    """none n/a na null nil unknown unspecified unclear - -- not+mentioned not+specified not+stated not+given なし 無し
    該当なし 記載なし 不明 无 無 未提及 不詳 不详""".replace("+", " ").split()
) | {"not mentioned", "not specified", "not stated", "not given", "not applicable"}
_TEXT_SEPARATOR = re.compile(r"(?:(?<!\s)\s+)?[;；\n]\s*")
_NAME_SEPARATOR = re.compile(r"(?:(?<!\s)\s+)?[,;、，；\n]\s*")  # for slots whose values contain no comma
_PASSAGE = re.compile(r"\W*(?:passage\W*)?(\d{1,5})\W*", re.I)  # the line above the slots of a passage
_SLOT = re.compile(rf"\W*({'|'.join(SLOTS)})\W{{0,9}}[:：](.*)", re.I)
_EDGE_CHARS = " \t\r\n\"'`.。*"


Slots = list[tuple[str, str]]  # slot, text


class SlotText(NamedTuple):
    """A slot filler: its original text and its normalised name."""

    slot: str
    text: str
    name: str


def frames(
    chunk: Chunk,
    passages: table.Table[Passage],
    descriptions: table.Table[Description],
    llm: LLM | None,
    *,
    language: settings.Line = "",
    batch: settings.Batch = 32,
    paper: bool = False,
) -> Iterable[SlotFiller]:
    """Extract the 5W1H slots and predicates of a chunk's passages.

    (江上・福田, section 3.1.2.) One call reads up to `batch` passages. Texts with the same name are one value: width,
    case, articles, plurals, particles, verb endings and date formats do not count. paper: one passage in a call, and
    only case and English lemmas do not count, as in the paper.
    But: a slot may have several values. Without a model there are none.
    """
    title, date = readable_title(chunk.title), document_date(descriptions.get(chunk.document))

    if llm is None:
        return ()

    def fill_slots(batch: Sequence[Passage]) -> Iterator[SlotFiller]:
        slots_by_passage = find_slots([passage.text for passage in batch], llm, language, title=title, date=date)
        for passage, slots in zip(batch, slots_by_passage, strict=True):
            for slot, text, name in normalise_slots(slots, paper=paper):
                yield SlotFiller(slot, name, passage.ordinal, text=text)

    return collect_rows(fill_slots, passages.where(made_from=chunk.id), 1 if paper else batch)


def find_slots(texts: Sequence[str], llm: LLM, language: str = "", **document: str) -> list[Slots]:
    """Return the slots of each text.

    Raise ItemFailed if the model fails. document: as of `slot_messages`.
    """
    messages = slot_messages(texts, language, **document)
    slots: list[Slots] = llm(messages, parse=partial(parse_slots_reply, count=len(texts)))
    return slots


def slot_messages(texts: Sequence[str], language: str = "", *, title: str = "", date: str = "") -> Messages:
    """Return the messages for some texts.

    (江上・福田, appendix A, Listing 3, reworded.) title, date: of their document.
    """
    language_rule = f"\nWrite in {language.strip()}." if language.strip() else ""
    return render_prompt(PROMPT, passages=number_sources(texts), title=title, date=date, language=language_rule)


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
    >>> parse_slots_reply(Reply("[1]\nWho: Ada, Bo\nwhen: none\npredicate: met; left\n[2]"), 2)
    [[('who', 'Ada'), ('who', 'Bo'), ('predicate', 'met'), ('predicate', 'left')], []]
    >>> parse_slots_reply(Reply("who: none\npredicate: none"))
    [[]]
    """
    by_passage: dict[int, Slots] = {}
    number = 1 if count == 1 else 0  # of the passage; 0: none
    for line in require_complete_text(reply).splitlines():
        if heading := _PASSAGE.fullmatch(line):
            number = int(heading[1])
            by_passage.setdefault(number, [])
        elif match := _SLOT.fullmatch(line):
            slot = match[1].lower()
            by_passage.setdefault(number, []).extend((slot, text) for text in _slot_texts(slot, match[2]))
    if count == 1 and 1 not in by_passage:
        raise MalformedReply("The reply has no lines such as `who: Ada`, and no [1] alone.")
    if missing := [f"[{n}]" for n in range(1, count + 1) if n not in by_passage]:
        raise MalformedReply(f"The reply lacks {', '.join(missing)}: each is a line above those of its passage.")
    return [sorted(dict.fromkeys(by_passage[n]), key=lambda pair: SLOTS.index(pair[0])) for n in range(1, count + 1)]


def _slot_texts(slot: str, value: str) -> list[str]:
    """Return the texts of one slot, each once, without empty answers."""
    separator = _NAME_SEPARATOR if slot in ("who", "predicate") else _TEXT_SEPARATOR
    texts = (text.strip(_EDGE_CHARS) for text in separator.split(value))
    usable = (text for text in texts if text and text.casefold() not in _EMPTY_WORDS and len(text) <= MAX_SLOT_CHARS)
    return list(dict.fromkeys(usable))[:MAX_SLOT_VALUES]
