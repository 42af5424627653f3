"""question + evidence -> reasons for each item: matched words, continued passages, feature scores."""

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


_NO_WORDS_TEXT = "says it in other words, or covers a related subject"
_VERBATIM_TEXT = "is typical of one part of the documents"


@dataclass(frozen=True, slots=True)
class Reason:
    """The reason for a piece of evidence.

    words: question words that it matches; if it continues a better item, only the words that this one lacks.
    feature_scores: contributions to its score, largest first, if the method gives them. linked_span: a passage with a
    common entity. continues: whether that passage ranks higher. entity, name: the common entity, by id and as written
    here. fallback_text: the reason if no word matches.
    """

    words: tuple[str, ...]
    feature_scores: tuple[tuple[str, float], ...] = ()
    linked_span: Span | None = None
    continues: bool = False
    entity: str = ""
    name: str = ""
    fallback_text: str = _NO_WORDS_TEXT

    def describe(self, place: str = "") -> str:
        """Return the reason in one line.

        place: the name of the linked passage.

        >>> linked_span = Span("", "notes/a.md", 0, 9, "")
        >>> reason = Reason(("tidal gate",), linked_span=linked_span, continues=True, name="Sabine Orrell")
        >>> reason.describe("notes/a.md")
        'adds “tidal gate” to notes/a.md through Sabine Orrell'
        """
        words = ", ".join(f"“{word}”" for word in self.words)
        if self.continues:
            return f"{f'adds {words} to' if words else 'continues'} {place} through {self.name}"
        says = f"says {words}" if words else self.fallback_text
        return f"{says}; linked to {place} through {self.name}" if self.linked_span else says


def explain_evidence(snapshot: Snapshot, question: str, context: Context) -> list[Reason]:
    """Return a reason for each piece of evidence, in order."""
    ranks = {item.reference: rank for rank, item in enumerate(context)}
    return [_explain_item(snapshot, question, item, ranks) for item in context]


def _explain_item(snapshot: Snapshot, question: str, item: Evidence, ranks: Mapping[Reference, int]) -> Reason:
    terms = frozenset(subject_terms(item.record.index_text or item.text))
    if isinstance(item.record, KeyPoint) and item.record.verbatim:
        return Reason(matched_words(question, terms), item.feature_scores, fallback_text=_VERBATIM_TEXT)
    if not item.via:
        return Reason(matched_words(question, terms), item.feature_scores)
    passage, entity = item.via
    continues = ranks.get(("chunks", passage), -1) < ranks[item.reference]
    known_terms = (
        frozenset(subject_terms(snapshot.table("chunks")[passage].index_text)) if continues else frozenset[str]()
    )
    (linked_span,) = snapshot.trace(("chunks", passage))
    name = _mention_name(snapshot, item.record.id, entity)
    return Reason(
        matched_words(question, terms, known_terms), item.feature_scores, linked_span, continues, entity, name
    )


def matched_words(question: str, terms: frozenset[str], excluded: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """Return the question words that a text contains, as written there.

    Adjacent words are joined; words with only `excluded` terms are left out.

    >>> matched_words("Who mended the old stone pier?", frozenset(subject_terms("They mended a pier of stone")))
    ('mended', 'stone pier')
    """
    phrases: list[str] = []
    last_end = -1
    normalized = normalize("NFKC", question)
    for piece in re.finditer(_PIECE_PATTERN, normalized):
        piece_terms = set(subject_terms(piece[0]))
        if not piece_terms or not piece_terms <= terms or piece_terms <= excluded:
            continue
        if phrases and last_end >= 0 and not normalized[last_end : piece.start()].strip():
            phrases[-1] += normalized[last_end : piece.end()]
        else:
            phrases.append(piece[0])
        last_end = piece.end()
    return tuple(dict.fromkeys(phrases))


def _mention_name(snapshot: Snapshot, chunk: str, entity: str) -> str:
    mentions: Table[Mention] = snapshot.table("mentions")
    chunk_mentions = mentions.get_many(mentions.child_values([chunk], "id")[chunk])
    return next(mention.name for mention in chunk_mentions.values() if mention.entity == entity)
