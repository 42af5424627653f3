"""a question + its evidence -> why each piece was chosen: what it says of it, what it goes on from, through what."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from unicodedata import normalize

from kumihimo.app.snapshot import Snapshot
from kumihimo.core.context import Context, Evidence
from kumihimo.core.records import KeyPoint, Mention, Reference
from kumihimo.core.spans import Span
from kumihimo.core.table import Table
from kumihimo.text.tokens import subject_terms

_KATAKANA, _HIRAGANA, _KANJI = "\u30a0-\u30ff", "\u3040-\u309f", "々〆\u3400-\u9fff"
_PIECE_PATTERN = rf"[{_KATAKANA}]+|[{_KANJI}]+|[^\W{_KATAKANA}{_HIRAGANA}{_KANJI}]+"  # compiled on first use


_NO_WORDS_TEXT = "says it in other words, or speaks of something near it"
_VERBATIM_TEXT = "says what one part of the documents is about, more than others"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a piece of evidence was chosen.

    words: those of the question that it says; of one that goes on from a better one, that it says and the other does
    not. why: what each feature adds to its score, most first, where the method says so. tied: a passage that it hangs
    together with. goes_on: that stands before it. entity, name: what both mention, its id and as this one writes it.
    instead: what is told where it says none of the words.
    """

    words: tuple[str, ...]
    feature_scores: tuple[tuple[str, float], ...] = ()
    linked_span: Span | None = None
    continues: bool = False
    entity: str = ""
    name: str = ""
    fallback_text: str = _NO_WORDS_TEXT

    def describe(self, place: str = "") -> str:
        """In one line. where: how the passage is called that it is tied to.

        >>> tied = Span("", "notes/a.md", 0, 9, "")
        >>> Reason(("tidal gate",), tied=tied, goes_on=True, name="Sabine Orrell").told("notes/a.md")
        'adds “tidal gate” to notes/a.md through Sabine Orrell'
        """
        words = ", ".join(f"“{word}”" for word in self.words)
        if self.continues:
            return f"{f'adds {words} to' if words else 'goes on from'} {place} through {self.name}"
        says = f"says {words}" if words else self.fallback_text
        return f"{says}; tied to {place} through {self.name}" if self.linked_span else says


def explain_evidence(snapshot: Snapshot, question: str, context: Context) -> list[Reason]:
    """Of each piece of evidence, in order."""
    ranks = {item.reference: rank for rank, item in enumerate(context)}
    return [_explain_item(snapshot, question, item, ranks) for item in context]


def _explain_item(snapshot: Snapshot, question: str, item: Evidence, ranks: Mapping[Reference, int]) -> Reason:
    says = frozenset(subject_terms(item.record.index_text or item.text))
    if isinstance(item.record, KeyPoint) and item.record.verbatim:
        return Reason(matched_words(question, says), item.feature_scores, fallback_text=_VERBATIM_TEXT)
    if not item.via:
        return Reason(matched_words(question, says), item.feature_scores)
    passage, entity = item.via
    goes_on = ranks.get(("chunks", passage), -1) < ranks[item.reference]
    known = frozenset(subject_terms(snapshot.table("chunks")[passage].index_text)) if goes_on else frozenset[str]()
    (tied,) = snapshot.trace(("chunks", passage))
    name = _mention_name(snapshot, item.record.id, entity)
    return Reason(matched_words(question, says, known), item.feature_scores, tied, goes_on, entity, name)


def matched_words(question: str, says: frozenset[str], known: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """The words of a question that a text says, as they stand there, neighbours together; without those known already.

    >>> said("Who mended the old stone pier?", frozenset(subjects("They mended a pier of stone")))
    ('mended', 'stone pier')
    """
    found: list[str] = []
    end = -1
    plain = normalize("NFKC", question)
    for piece in re.finditer(_PIECE_PATTERN, plain):
        meant = set(subject_terms(piece[0]))
        if not meant or not meant <= says or meant <= known:
            continue
        if found and end >= 0 and not plain[end : piece.start()].strip():
            found[-1] += plain[end : piece.end()]
        else:
            found.append(piece[0])
        end = piece.end()
    return tuple(dict.fromkeys(found))


def _mention_name(snapshot: Snapshot, chunk: str, entity: str) -> str:
    mentions: Table[Mention] = snapshot.table("mentions")
    here = mentions.get_many(mentions.child_values([chunk], "id")[chunk])
    return next(mention.name for mention in here.values() if mention.entity == entity)
