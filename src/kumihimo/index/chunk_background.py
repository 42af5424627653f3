"""a chunk and its document -> what a reader of the chunk alone would miss: title, date, sentence before, full names."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from kumihimo.core.records import Chunk, Record
from kumihimo.core.table import Table
from kumihimo.index.name_records import NameMerges
from kumihimo.text.dates import date_forms
from kumihimo.text.repetition import contains_phrase
from kumihimo.text.sentences import collapse_spaces, split_sentences


@dataclass(frozen=True, slots=True)
class Description(Record):
    """The names and dates that describe a document; text: the names, a line each.

    The id is that of the document. dates: ISO 8601, possibly shortened.
    """

    SEARCHED_BY: ClassVar[tuple[str, ...]] = ("words",)

    dates: tuple[str, ...]

    @property
    def index_text(self) -> str:
        terms = dict.fromkeys(term for date in self.dates for term in date_terms(date))
        return " ".join([self.text, *terms])


def date_terms(date: str, *, is_question: bool = False) -> list[str]:
    """Return the words of a date in the keyword index.

    A date of a question shares one with a date of a document if either is a part of the other.

    >>> set(date_terms("2023-09-28")) & set(date_terms("--09", is_question=True))
    {'part09'}
    >>> set(date_terms("2023")) & set(date_terms("2023-09", is_question=True))
    {'whole2023'}
    """
    own, of_parts = ("part", "whole") if is_question else ("whole", "part")
    return [word.replace("-", "") for word in (*(f"{of_parts}{form}" for form in date_forms(date)), f"{own}{date}")]


def document_date(description: Description | None) -> str:
    """Return the most precise date of a document that has a year."""
    dates = [date for date in description.dates if date[:1].isdigit()] if description else []
    return max(dates, key=len, default="")


_MAX_BEFORE_CHARS = 400  # of the text in which the last sentence is looked for
_MAX_NAMES = 20
# One word of ASCII without a run of four letters, with a digit, and with an underscore or six digits.
_FILE_STEM = re.compile(r"(?!.*[A-Za-z]{4})(?=.*\d)(?=.*_|(?:.*\d){6})[!-~]+")


@dataclass(frozen=True, slots=True)
class ChunkBackground:
    """The facts about a chunk that its document gives; each may be empty.

    date: of the document, ISO 8601, possibly shortened. before: the sentence before the chunk. known_names: full names
    that the chunk shortens, as `Name (short form)`, a line each.
    """

    title: str = ""
    date: str = ""
    before: str = ""
    known_names: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """A chunk as a model reads it.

    chunk: what it reads: of the last two chunks of a document, both, if the last one mostly repeats the other. own: the
    chunk that it is read for. tail: the last chunk, if it is read with the one before.
    """

    chunk: Chunk
    own: Chunk
    tail: Chunk | None = None

    def holds(self, names: Sequence[str]) -> bool:
        """Return whether a record with these names is of the own chunk."""
        if not self.tail:
            return True
        is_in_own, is_in_tail = (all(contains_phrase(c.text, name) for name in names) for c in (self.own, self.tail))
        return is_in_own or (self.own is not self.tail and not is_in_tail)


def find_reading(chunk: Chunk, chunks: Table[Chunk]) -> Reading:
    """Return what a model reads for a chunk."""
    ids = [f"{chunk.document}.{chunk.ordinal + step:05}" for step in (-1, 1, 2)]
    before, after, later = map(chunks.get_many(ids).get, ids)
    body, tail = (chunk, after) if after else (before, chunk)
    if not body or later or tail.end - body.end > body.end - tail.start:
        return Reading(chunk, chunk)
    text = body.text + tail.text[body.end - tail.start :]
    return Reading(replace(body, end=tail.end, text=text), chunk, tail)


def read_background(
    chunk: Chunk, chunks: Table[Chunk], merges: Table[NameMerges], descriptions: Table[Description]
) -> ChunkBackground:
    """Return the background of a chunk, from its own document only."""
    previous = chunks.get(f"{chunk.document}.{chunk.ordinal - 1:05}") if chunk.ordinal else None
    before = previous.text[: max(chunk.start - previous.start, 0)] if previous else ""
    row = merges.get(chunk.document)
    return ChunkBackground(
        title=readable_title(chunk.title),
        date=document_date(descriptions.get(chunk.document)),
        before=_last_sentence(before),
        known_names="\n".join(_full_names(chunk.text, row)[:_MAX_NAMES]) if row else "",
    )


def readable_title(title: str) -> str:
    """Return the title; empty for a code, such as IMG_2045.

    >>> [readable_title(title) for title in ("0079_0506c070", "IMG_2045", "COVID-19", "The tide station")]
    ['', '', 'COVID-19', 'The tide station']
    """
    return "" if _FILE_STEM.fullmatch(title) else title


def _last_sentence(text: str) -> str:
    """Return the last sentence of a text, on one line.

    >>> _last_sentence("The ferry was late. It left at ten.\\n\\n")
    'It left at ten.'
    """
    end = text.rstrip()[-_MAX_BEFORE_CHARS:]
    spans = list(split_sentences(end))
    return collapse_spaces(end[slice(*spans[-1])]) if spans else ""


def _full_names(text: str, row: NameMerges) -> list[str]:
    """Return the names that the text has only in a short form."""
    pairs = ((name, form) for form, name, _ in row.merges if form != name)
    return sorted({f"{name} ({form})" for name, form in pairs if contains_phrase(text, form) and name not in text})
