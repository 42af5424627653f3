"""a question + its evidence -> why each piece was chosen: what it says of it, what it goes on from, through what."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from unicodedata import normalize

from kumihimo.app.snapshot import Reading
from kumihimo.core.context import Context, Evidence
from kumihimo.core.records import Mention, Point, Reference
from kumihimo.core.spans import Span
from kumihimo.core.table import Table
from kumihimo.text.tokens import subjects

_KATAKANA, _HIRAGANA, _KANJI = "\u30a0-\u30ff", "\u3040-\u309f", "々〆\u3400-\u9fff"
_PIECES = rf"[{_KATAKANA}]+|[{_KANJI}]+|[^\W{_KATAKANA}{_HIRAGANA}{_KANJI}]+"  # compiled on first use


_OTHERWISE = "says it in other words, or speaks of something near it"
_OF_ITS_PART = "says what one part of the documents is about, more than others"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a piece of evidence was chosen.

    words: those of the question that it says; of one that goes on from a better one, that it says and the other does
    not. why: what each feature adds to its score, most first, where the method says so. tied: a passage that it hangs
    together with. goes_on: that stands before it. entity, name: what both mention, its id and as this one writes it.
    instead: what is told where it says none of the words.
    """

    words: tuple[str, ...]
    why: tuple[tuple[str, float], ...] = ()
    tied: Span | None = None
    goes_on: bool = False
    entity: str = ""
    name: str = ""
    instead: str = _OTHERWISE

    def told(self, where: str = "") -> str:
        """In one line. where: how the passage is called that it is tied to.

        >>> tied = Span("", "notes/a.md", 0, 9, "")
        >>> Reason(("tidal gate",), tied=tied, goes_on=True, name="Sabine Orrell").told("notes/a.md")
        'adds “tidal gate” to notes/a.md through Sabine Orrell'
        """
        words = ", ".join(f"“{word}”" for word in self.words)
        if self.goes_on:
            return f"{f'adds {words} to' if words else 'goes on from'} {where} through {self.name}"
        says = f"says {words}" if words else self.instead
        return f"{says}; tied to {where} through {self.name}" if self.tied else says


def reasons(reading: Reading, question: str, context: Context) -> list[Reason]:
    """Of each piece of evidence, in order."""
    ranks = {item.reference: rank for rank, item in enumerate(context)}
    return [_reason(reading, question, item, ranks) for item in context]


def _reason(reading: Reading, question: str, item: Evidence, ranks: Mapping[Reference, int]) -> Reason:
    says = frozenset(subjects(item.record.found_by or item.text))
    if isinstance(item.record, Point) and item.record.verbatim:
        return Reason(said(question, says), item.why, instead=_OF_ITS_PART)
    if not item.path:
        return Reason(said(question, says), item.why)
    passage, entity = item.path
    goes_on = ranks.get(("chunks", passage), -1) < ranks[item.reference]
    known = frozenset(subjects(reading.table("chunks")[passage].found_by)) if goes_on else frozenset[str]()
    (tied,) = reading.trace(("chunks", passage))
    name = _name(reading, item.record.id, entity)
    return Reason(said(question, says, known), item.why, tied, goes_on, entity, name)


def said(question: str, says: frozenset[str], known: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """The words of a question that a text says, as they stand there, neighbours together; without those known already.

    >>> said("Who mended the old stone pier?", frozenset(subjects("They mended a pier of stone")))
    ('mended', 'stone pier')
    """
    found: list[str] = []
    end = -1
    plain = normalize("NFKC", question)
    for piece in re.finditer(_PIECES, plain):
        meant = set(subjects(piece[0]))
        if not meant or not meant <= says or meant <= known:
            continue
        if found and end >= 0 and not plain[end : piece.start()].strip():
            found[-1] += plain[end : piece.end()]
        else:
            found.append(piece[0])
        end = piece.end()
    return tuple(dict.fromkeys(found))


def _name(reading: Reading, chunk: str, entity: str) -> str:
    mentions: Table[Mention] = reading.table("mentions")
    here = mentions.some(mentions.under([chunk], "id")[chunk])
    return next(mention.name for mention in here.values() if mention.entity == entity)
