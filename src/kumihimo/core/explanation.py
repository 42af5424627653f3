"""evidence -> Explanation: why it was found and where it is, as data that a process can hand on."""

from __future__ import annotations

from dataclasses import dataclass

from kumihimo.core.spans import Span


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words of the question that a text has, as the question writes them.

    text: one word, or several if the text has them in a row. terms: their subject terms. is_name: whether capital
    letters mark a name. places: where it is in the text, in words; empty if only the title has it.
    """

    text: str
    terms: frozenset[str]
    is_name: bool
    places: frozenset[int]


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


@dataclass(frozen=True, slots=True)
class Reason:
    """The reason for a piece of evidence.

    phrases: names first, then the most telling ones; if it continues a better piece, only what that one lacks.
    document_terms: the words of the question that name its document. verbatim: whether it is a sentence of a document
    that stands for one part of them.
    """

    phrases: tuple[Phrase, ...] = ()
    document_terms: tuple[str, ...] = ()
    link: PassageLink | None = None
    verbatim: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(phrase.text for phrase in self.phrases)


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why evidence was found, and where it is.

    part: start and end of the part of its text with most words of the question. spans: the places of this part in the
    documents.
    """

    reason: Reason
    part: tuple[int, int]
    spans: tuple[Span, ...]
