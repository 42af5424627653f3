"""values -> rows: every noun of the house, one frozen dataclass each, and the digests that name them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import ClassVar

NOT_READ = "not_read"  # in a document's metadata: what of it could not be read, a sentence each
Reference = tuple[str, str]  # (table, id): ids are unique within a table, not over tables


def digest(*parts: str) -> str:
    """The id of whatever `parts` name: 20 hex digits, the same on every machine.

    The parts are digested as Python writes a tuple of them, so that no two lists of parts are alike:

    >>> digest("AB", "C") == digest("A", "BC")
    False
    >>> digest("AB", "C")
    '4bbc395d71529a87b3de'
    """
    return blake2b(ascii(parts).encode("ascii"), digest_size=10).hexdigest()


def storable(text: str) -> str:
    """The text with each half of a surrogate pair, which no file can hold, replaced by U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@dataclass(frozen=True, slots=True)
class Record:
    """One immutable row of a table.

    A step leaves `id` empty: the engine names a row after its maker (`doc`, `doc.00003`,
    `doc.00003.00007`), so that a row's sources can be read off its id. Only steps over whole
    tables choose ids, which then hold neither `.` nor `/`.
    """

    GROUP: ClassVar[str] = ""  # the column whose value, a digest, is the id of the row a group makes
    INDEX: ClassVar[tuple[str | tuple[str, ...], ...]] = ()  # what `Table.where` may ask
    WAVE: ClassVar[str] = ""  # an integer column: a step over these rows that reads its own table runs highest first
    BIG: ClassVar[bool] = False  # rows of over about 500 bytes: stored apart from their key
    FOUND: ClassVar[bool] = True  # whether words and meaning find these rows, where a method searches

    id: str = field(default="", kw_only=True)
    text: str = field(default="", kw_only=True)

    @property
    def found_by(self) -> str:
        """The text by which words and meaning find this row; empty: they do not."""
        return self.text

    def made_of(self) -> tuple[Reference, ...]:
        """The rows this one was made of, where its id does not tell: a table step's rows say so here."""
        return ()

    def cites(self) -> tuple[Reference, ...]:
        """Of what it was made of, the rows that its text refers to, if it refers to any."""
        return ()


@dataclass(frozen=True, slots=True)
class Document(Record):
    """One text of a source: a file, a row of a file. Its id is the digest of its uri.

    uri: the source's name and the path within it, `notes/harbour.md`, `reports.jsonl#r-17`.
    modified: ISO 8601, UTC, or empty where the source does not say.
    places: where each page, slide, sheet or chapter begins, and what it is called, in order: (0, "p. 1").
    body: where the text proper begins, after front matter, whose values are in the metadata.
    """

    BIG: ClassVar[bool] = True
    INDEX: ClassVar[tuple[str | tuple[str, ...], ...]] = ("file",)

    uri: str
    file: str  # the uri of the file that holds it
    title: str
    media_type: str
    metadata: Mapping[str, object] = field(default_factory=dict)
    modified: str = ""
    places: tuple[tuple[int, str], ...] = ()
    body: int = 0


@dataclass(frozen=True, slots=True)
class Chunk(Record):
    """A stretch of one document, cut at sentence ends: `document.text[start:end] == chunk.text`."""

    BIG: ClassVar[bool] = True

    title: str  # the document's
    start: int  # characters from the document's beginning
    end: int
    tokens: int

    @property
    def document(self) -> str:
        """The id of the document it stands in."""
        return self.id.partition(".")[0]

    @property
    def ordinal(self) -> int:
        """Its place among the document's chunks, from 0."""
        return int(self.id.rpartition(".")[2])

    @property
    def found_by(self) -> str:
        return f"{self.title}\n{self.text}" if self.title else self.text


# -- the entity graph: what single chunks say ...


@dataclass(frozen=True, slots=True)
class Mention(Record):
    """What one chunk says of one entity; the text: a description, or the sentence that names it."""

    GROUP: ClassVar[str] = "entity"
    FOUND: ClassVar[bool] = False

    entity: str  # digest of the name's key
    name: str  # as the chunk writes it
    type: str  # empty where nobody says


@dataclass(frozen=True, slots=True)
class Tie(Record):
    """What one chunk says of a pair of entities; the text: a description, or the sentence that names both.

    source, target: entities, the smaller id first. names: of both, in that order. keywords: themes of the relation.
    strength: 1 to 10, as a model judged it; None: nobody judged, they were named together.
    """

    GROUP: ClassVar[str] = "relation"
    FOUND: ClassVar[bool] = False

    relation: str
    source: str
    target: str
    names: tuple[str, ...]
    keywords: tuple[str, ...] = ()
    strength: float | None = None


@dataclass(frozen=True, slots=True)
class Assertion(Record):
    """A claim of one chunk about an entity; the text: a description of it.

    object: an entity, or empty. names: of both. status: TRUE, FALSE, SUSPECTED. start, end: ISO 8601, or empty.
    quote: the words of the chunk that say so.
    """

    GROUP: ClassVar[str] = "claim"
    FOUND: ClassVar[bool] = False

    claim: str  # digest of subject, object and type
    subject: str
    object: str
    names: tuple[str, ...]
    type: str
    status: str
    start: str
    end: str
    quote: str


# ... and what all chunks together say


@dataclass(frozen=True, slots=True)
class Entity(Record):
    """All that is said of one thing; the text: its description.

    name: the form used most. forms, types: all that are used, those used most first. mentions: how many there are.
    tokens: of the text.
    """

    name: str
    type: str
    forms: tuple[str, ...]
    types: tuple[str, ...]
    mentions: int
    tokens: int

    @property
    def found_by(self) -> str:
        return f"{self.name}\n{self.text}" if self.text else self.name


@dataclass(frozen=True, slots=True)
class Relation(Record):
    """All that is said of one pair of entities; the text: its description.

    Its id is the digest of both ends, the smaller first. weight: how many ties it is made of. strength: their mean;
    None: they are named together, nobody has judged.
    """

    INDEX: ClassVar[tuple[str | tuple[str, ...], ...]] = ("source", "target")

    source: str
    target: str
    names: tuple[str, ...]
    keywords: tuple[str, ...]
    weight: int
    strength: float | None
    tokens: int

    @property
    def found_by(self) -> str:
        """Its themes and its ends, then what is said of it (LightRAG, arXiv:2410.05779).

        Nothing, where nobody has judged it: its sentences are found in the chunks.
        """
        if self.strength is None and not self.keywords:
            return ""
        return "\n".join(filter(None, [", ".join(self.keywords), " – ".join(self.names), self.text]))


@dataclass(frozen=True, slots=True)
class Claim(Record):
    """All that is claimed of one subject, object and type; the text: descriptions of it."""

    INDEX: ClassVar[tuple[str | tuple[str, ...], ...]] = ("subject", "object")

    subject: str
    object: str
    names: tuple[str, ...]
    type: str
    statuses: tuple[str, ...]
    start: str
    end: str
    quotes: tuple[str, ...]
    tokens: int


@dataclass(frozen=True, slots=True)
class Community(Record):
    """Entities that hang together. Level 0 holds the largest; one that is split has children, else it has members."""

    WAVE: ClassVar[str] = "level"
    INDEX: ClassVar[tuple[str | tuple[str, ...], ...]] = ("level",)
    BIG: ClassVar[bool] = True
    FOUND: ClassVar[bool] = False

    level: int
    parent: str  # empty on level 0
    children: tuple[str, ...]
    members: tuple[str, ...]  # entities; of a leaf only

    def made_of(self) -> tuple[Reference, ...]:
        table, ids = ("communities", self.children) if self.children else ("entities", self.members)
        return tuple((table, id) for id in ids)


@dataclass(frozen=True, slots=True)
class Member(Record):
    """That an entity belongs to a leaf of the communities."""

    INDEX: ClassVar[tuple[str | tuple[str, ...], ...]] = ("entity",)
    FOUND: ClassVar[bool] = False

    entity: str


@dataclass(frozen=True, slots=True)
class Report(Record):
    """What there is to say of a community; the text: all of it, in Markdown.

    rating: 0 to 10, how much it matters, with the reason. findings: (summary, explanation) each. data: what the text
    refers to, as in `[Data: Entities (5, 7)]`: (table, number in the text, id). dropped: references that pointed
    nowhere. elements: tokens of all element summaries of the community. extractive: of sentences, not by a model.
    """

    BIG: ClassVar[bool] = True

    title: str
    summary: str
    rating: float
    reason: str
    findings: tuple[tuple[str, str], ...]
    data: tuple[tuple[str, int, str], ...]
    dropped: int
    level: int
    elements: int
    tokens: int
    extractive: bool

    def cites(self) -> tuple[Reference, ...]:
        return tuple(dict.fromkeys((table, id) for table, _, id in self.data))


@dataclass(frozen=True, slots=True)
class Point(Record):
    """A statement that a method read out of rows of the index while it searched; it stands in no table.

    verbatim: whether it is a sentence of a document, not a model's words.
    """

    sources: tuple[Reference, ...]
    tokens: int
    verbatim: bool = False

    def made_of(self) -> tuple[Reference, ...]:
        return self.sources


@dataclass(frozen=True, slots=True)
class Usage:
    """What was spent.

    calls: requests that a server may charge for. prompt_tokens: of which cached_tokens were read from the server's
    cache. cost: in the currency of the prices that are set. seconds: of waiting.
    """

    calls: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.calls + other.calls,
            self.prompt_tokens + other.prompt_tokens,
            self.cached_tokens + other.cached_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cost + other.cost,
            self.seconds + other.seconds,
        )

    @property
    def tokens(self) -> int:
        """Those of prompts and replies together."""
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class Span:
    """Where a text stands: `[start, end)` in characters of the document at `uri`.

    place: as one looks it up in the file, `p. 3`, `slide 4`, `line 23`; empty where nothing tells.
    """

    chunk: str  # the chunk's id
    uri: str
    start: int
    end: int
    text: str
    place: str = ""


def place(places: Sequence[tuple[int, str]], start: int, end: int) -> str:
    """What `[start, end)` of a document stands on.

    >>> [place([(0, "p. 1"), (90, "p. 2"), (200, "p. 3")], *span) for span in ((5, 80), (95, 210), (90, 200))]
    ['p. 1', 'p. 2–3', 'p. 2']
    >>> place([(0, "sheet Costs"), (50, "sheet Staff")], 0, 60)
    'sheet Costs – sheet Staff'
    """
    begins = [begin for begin, _ in places]
    first, last = (places[max(bisect_right(begins, at) - 1, 0)][1] for at in (start, max(end - 1, start)))
    kind, _, number = last.rpartition(" ")
    if first == last or not (first and last):
        return first or last
    return f"{first}–{number}" if number.isdecimal() and first.startswith(f"{kind} ") else f"{first} – {last}"


@dataclass(frozen=True, slots=True)
class Citation:
    """The n-th source of an answer, with the words quoted as they stood when it was given."""

    n: int
    span: Span
