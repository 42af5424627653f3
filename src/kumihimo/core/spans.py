"""characters of a document -> Span, Citation: a text and its location."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kumihimo.core.digests import hash_parts

IMPORT_SUFFIX = ".textunits"  # of a document of another system, after the name that it has there


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a document: `[start, end)` in characters.

    place: the location within the file, `p. 3`, `slide 4`, `line 23`. title, metadata: of the document. Empty if
    unknown.
    """

    chunk: str  # id of the chunk
    uri: str
    start: int
    end: int
    text: str
    place: str = ""
    title: str = ""
    metadata: Mapping[str, object] = field(default_factory=dict, compare=False, repr=False)

    @property
    def document(self) -> str:
        """Return the id of the document; empty without one."""
        return hash_parts(self.uri) if self.uri else ""

    @property
    def location(self) -> str:
        """Return the file, and the page, slide, sheet or line."""
        file = self.uri.removesuffix(IMPORT_SUFFIX)
        return f"{file}, {self.place}" if self.place else file

    def to_place(self) -> dict[str, Any]:
        """Return where the span is, as JSON has it."""
        names = ("document", "chunk", "title", "uri", "place", "location", "start", "end")
        return {name: getattr(self, name) for name in names}

    def to_dict(self) -> dict[str, Any]:
        """Return the place, the text and the metadata, as JSON has them."""
        return {**self.to_place(), "text": self.text, "metadata": dict(self.metadata)}


def describe_place(places: Sequence[tuple[int, str]], start: int, end: int) -> str:
    """Return the page, slide or sheet of `[start, end)`.

    >>> [describe_place([(0, "p. 1"), (90, "p. 2"), (200, "p. 3")], *span) for span in ((5, 80), (95, 210), (90, 200))]
    ['p. 1', 'p. 2–3', 'p. 2']
    >>> describe_place([(0, "sheet Costs"), (50, "sheet Staff")], 0, 60)
    'sheet Costs – sheet Staff'
    """
    starts = [place_start for place_start, _ in places]
    first, last = (places[max(bisect_right(starts, position) - 1, 0)][1] for position in (start, max(end - 1, start)))
    kind, _, number = last.rpartition(" ")
    if first == last or not (first and last):
        return first or last
    return f"{first}–{number}" if number.isdecimal() and first.startswith(f"{kind} ") else f"{first} – {last}"


@dataclass(frozen=True, slots=True)
class Citation:
    """The n-th source of an answer, with the words quoted.

    The words are as they were when the answer was given.
    """

    n: int
    span: Span

    def to_dict(self) -> dict[str, Any]:
        """Return the number and the span, as JSON has them."""
        return {"n": self.n, **self.span.to_dict()}


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
class Reason:
    """The reason for a piece of evidence.

    text: the reason as a sentence. phrases: names first, then the most telling ones; if it continues a better piece,
    only what that one lacks. document_terms: the words of the question that name its document. verbatim: whether it is
    a sentence of a document that stands for one part of them.

    linked: the passage that it shares a name with, if any. rank: that of this passage among the evidence, from 1; 0 if
    it is not there. continues: whether it ranks higher. subject: the title of its document, its heading, or the name.
    entity, name: what both mention, by id and as written here.
    """

    phrases: tuple[Phrase, ...] = ()
    document_terms: tuple[str, ...] = ()
    verbatim: bool = False
    text: str = ""
    linked: Span | None = None
    rank: int = 0
    continues: bool = False
    subject: str = ""
    entity: str = ""
    name: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(phrase.text for phrase in self.phrases)

    def to_link(self) -> dict[str, Any] | None:
        """Return the linked passage as JSON has it."""
        if not self.linked:
            return None
        names = ("rank", "continues", "entity", "name")
        return {**self.linked.to_place(), **{name: getattr(self, name) for name in names}}


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why evidence was found, and what to show of it.

    snippet: the part of its text with most words of the question, on one line. marks: start and end of these words in
    it. spans: the places of this part in the documents.
    """

    reason: Reason
    snippet: str
    marks: tuple[tuple[int, int], ...]
    spans: tuple[Span, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as JSON has it."""
        return {
            "snippet": self.snippet,
            "marks": list(map(list, self.marks)),
            "spans": [span.to_place() for span in self.spans],
            "reason": self.reason.text,
            "words": list(self.reason.words),
            "via": self.reason.to_link(),
        }
