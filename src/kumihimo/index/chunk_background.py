"""a chunk and its document -> what a reader of the chunk alone would miss: title, date, sentence before, full names."""

import re
from dataclasses import dataclass

from kumihimo.core.records import Chunk
from kumihimo.core.table import Table
from kumihimo.index.document_description import Description, document_date
from kumihimo.index.name_records import NameMerges
from kumihimo.text.repetition import contains_phrase
from kumihimo.text.sentences import collapse_spaces, split_sentences

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
