"""question + evidence -> a reason for each piece in words: what it names and says, which passage it continues."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kumihimo.app.question_phrases import NAME_ENDING, Phrase, find_phrases
from kumihimo.app.snapshot import Snapshot
from kumihimo.core.context import Context, Evidence, KeyPoint
from kumihimo.core.records import Chunk, Mention, Record, Reference
from kumihimo.core.spans import Span
from kumihimo.core.table import Table
from kumihimo.text.dates import list_dates
from kumihimo.text.name_keys import name_key
from kumihimo.text.sentences import shorten_line
from kumihimo.text.tokens import subject_terms
from kumihimo.text.translation import join_words, translate

_HEADING = re.compile(r"^#+ +(.+)$", re.M)
_WINDOW = 30  # words between two that are near each other
_MAX_PHRASES = 4
_MAX_PHRASE_CHARS, _MAX_SUBJECT_CHARS, _MAX_LIST_CHARS = 40, 40, 60
_NO_WORDS_TEXT = "has no word of the question; it may say it in other words"
_VERBATIM_TEXT = "is typical of one part of the documents"


@dataclass(frozen=True, slots=True)
class PassageLink:
    """The passage that a piece of evidence shares a name with.

    rank: among the evidence, from 1; 0 if it is not there. continues: whether it ranks higher. subject: the title of
    its document, its heading, or the name. entity, name: what both mention, by id and as written here.
    """

    span: Span
    rank: int
    continues: bool
    subject: str
    entity: str
    name: str

    @property
    def passage(self) -> str:
        """Return how a sentence refers to the passage."""
        return translate(f"passage {self.rank} on {self.subject}" if self.rank else f"a passage on {self.subject}")

    def describe(self, passage: str = "") -> str:
        """Return the link as a clause; passage: replaces the default reference."""
        same = name_key(self.name) == name_key(self.subject)
        passage = passage or self.passage
        if not self.continues:
            return translate(f"mentions {self.name}, as does {passage}")
        return translate(f"continues {passage}" if same else f"continues {passage} through {self.name}")


@dataclass(frozen=True, slots=True)
class Reason:
    """The reason for a piece of evidence.

    phrases: names first, then the most telling ones; if it continues a better piece, only what that one lacks.
    document_terms: the words of the question that name its document. fallback_text: the reason if there is no other.
    """

    phrases: tuple[Phrase, ...] = ()
    document_terms: tuple[str, ...] = ()
    link: PassageLink | None = None
    fallback_text: str = _NO_WORDS_TEXT

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(phrase.text for phrase in self.phrases)

    def describe(self, passage: str = "") -> str:
        """Return the reason as a sentence.

        passage: replaces the reference to the linked passage.

        >>> phrases = tuple(find_phrases("Did Kerrow cross the bar?", "Kerrow went over the bar."))
        >>> link = PassageLink(Span("", "a.md", 0, 9, ""), 2, True, "Tidal gates", "", "Sabine Orrell")
        >>> Reason(phrases, link=link).describe()
        'names Kerrow near “bar”; continues passage 2 on Tidal gates through Sabine Orrell'
        """
        named = frozenset(subject_terms(" ".join(self.document_terms)))
        phrases = [p for p in self.phrases if not (p.terms <= named or (p.is_name and p.terms & named))]
        clauses = [
            translate(_describe_document(self.document_terms)),
            translate(_describe_phrases([phrase for phrase in phrases if phrase.places])),
            "" if self.document_terms else translate(_describe_title([p for p in phrases if not p.places])),
            self.link.describe(passage) if self.link and self.link.continues else "",
        ]
        other = self.link.describe(passage) if self.link else self.fallback_text
        return "; ".join(filter(None, clauses)) or other


def _describe_document(terms: Sequence[str]) -> str:
    """Return the document that the question names as a clause.

    >>> _describe_document(["Nell Attery", "March 2023"])
    'is from a document of March 2023 that you name: Nell Attery'
    """
    dates = [term for term in terms if list_dates(term)]
    names = [shorten_line(re.sub(NAME_ENDING, "", term), _MAX_PHRASE_CHARS) for term in terms if term not in dates]
    of_dates = f" of {join_words(dates)}" if dates else ""
    that_you_name = f" that you name: {join_words(names[:_MAX_PHRASES])}" if names else ""
    return f"is from a document{of_dates}{that_you_name}" if terms else ""


def _describe_phrases(phrases: Sequence[Phrase]) -> str:
    """Return the most telling phrases as a clause."""
    shown = [phrase for i, phrase in enumerate(phrases[:_MAX_PHRASES]) if not i or _fits(phrases[: i + 1])]
    names = join_words([shorten_line(phrase.text, _MAX_PHRASE_CHARS) for phrase in shown if phrase.is_name])
    words = _quote([phrase for phrase in shown if not phrase.is_name])
    near = any(
        all(any(abs(place - other) <= _WINDOW for other in phrase.places) for phrase in shown[1:])
        for place in (shown[0].places if len(shown) > 1 else ())
    )
    if names and words:
        return f"names {names} near {words}" if near else f"names {names}; says {words}"
    together = " close together" if near else ""
    return f"names {names}{together}" if names else f"says {words}{together}" if words else ""


def _describe_title(phrases: Sequence[Phrase]) -> str:
    """Return phrases that only the title has as a clause."""
    return f"has {_quote(phrases[:2])} in its title" if phrases else ""


def _fits(phrases: Sequence[Phrase]) -> bool:
    return sum(min(len(phrase.text), _MAX_PHRASE_CHARS) for phrase in phrases) <= _MAX_LIST_CHARS


def _quote(phrases: Sequence[Phrase]) -> str:
    return join_words([f"“{shorten_line(phrase.text, _MAX_PHRASE_CHARS)}”" for phrase in phrases])


def explain_evidence(snapshot: Snapshot, question: str, context: Context) -> list[Reason]:
    """Return a reason for each piece of evidence, in order."""
    question = context.searched(question)
    phrases = [find_phrases(question, *_text_and_title(item.record)) for item in context]
    counts = Counter(term for row in phrases for term in frozenset[str]().union(*(p.terms for p in row)))
    ranks = {item.reference: rank for rank, item in enumerate(context, 1)}
    return [
        _explain_item(snapshot, question, item, sorted(row, key=lambda phrase: _telling_key(phrase, counts)), ranks)
        for item, row in zip(context, phrases, strict=True)
    ]


def _text_and_title(record: Record) -> tuple[str, str]:
    return (record.text, record.title) if isinstance(record, Chunk) else (record.prompt_text, "")


def _telling_key(phrase: Phrase, counts: Mapping[str, int]) -> tuple[bool, int]:
    """Return the sort key of a phrase.

    Names come first, then words that few pieces of evidence have.
    """
    return not phrase.is_name, min(counts[term] for term in phrase.terms)


def _explain_item(
    snapshot: Snapshot, question: str, item: Evidence, phrases: Sequence[Phrase], ranks: Mapping[Reference, int]
) -> Reason:
    link = _find_link(snapshot, item, ranks) if item.via else None
    known = frozenset[str]()
    if link and link.continues:
        linked_phrases = find_phrases(question, *_text_and_title(snapshot.table("chunks")[item.via[0]]))
        known = frozenset[str]().union(*(phrase.terms for phrase in linked_phrases))
    verbatim = isinstance(item.record, KeyPoint) and item.record.verbatim
    fallback_text = translate(_VERBATIM_TEXT if verbatim else _NO_WORDS_TEXT)
    new = tuple(phrase for phrase in phrases if not phrase.terms <= known)
    return Reason(new, item.document_terms, link, fallback_text)


def _find_link(snapshot: Snapshot, item: Evidence, ranks: Mapping[Reference, int]) -> PassageLink | None:
    """Return the link of a chunk to another passage.

    None if a build has removed the passage or the name since the search.
    """
    passage, entity = item.via
    linked: Chunk | None = snapshot.table("chunks").get(passage)
    mentions: Table[Mention] = snapshot.table("mentions")
    own_mentions = mentions.get_many(mentions.child_values([item.record.id], "id")[item.record.id])
    name = next((mention.name for mention in own_mentions.values() if mention.entity == entity), "")
    if linked is None or not name:
        return None
    (span,) = snapshot.trace(("chunks", passage))
    heading = _HEADING.search(linked.text)
    is_other = linked.document != item.record.id.partition(".")[0]
    subject = (linked.title if is_other else "") or (heading[1] if heading else name)
    rank = ranks.get(("chunks", passage), 0)
    return PassageLink(
        span, rank, 0 < rank < ranks[item.reference], shorten_line(subject, _MAX_SUBJECT_CHARS), entity, name
    )
