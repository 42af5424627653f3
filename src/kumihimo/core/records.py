"""values -> rows: every noun of the house, one frozen dataclass each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

NOT_READ = "not_read"  # in a document's metadata: what of it could not be read, a sentence each
Reference = tuple[str, str]  # (table, id): ids are unique within a table, not over tables


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
    SEARCHABLE: ClassVar[bool] = True  # whether words and meaning find these rows, where a method searches

    id: str = field(default="", kw_only=True)
    text: str = field(default="", kw_only=True)

    @property
    def index_text(self) -> str:
        """The text by which words and meaning find this row; empty: they do not."""
        return self.text

    @property
    def prompt_text(self) -> str:
        """What a model is told of it: with its name, its title, its ends, as it is found."""
        return self.index_text or self.text

    def parents(self) -> tuple[Reference, ...]:
        """The rows this one was made of, where its id does not tell: a table step's rows say so here."""
        return ()

    def citations(self) -> tuple[Reference, ...]:
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
    def index_text(self) -> str:
        return f"{self.title}\n{self.text}" if self.title else self.text


# -- the entity graph: what single chunks say, then what all say together


@dataclass(frozen=True, slots=True)
class Mention(Record):
    """What one chunk says of one entity; the text: a description, or the sentence that names it."""

    GROUP: ClassVar[str] = "entity"
    SEARCHABLE: ClassVar[bool] = False

    entity: str  # digest of the name's key
    name: str  # as the chunk writes it
    type: str  # empty where nobody says


@dataclass(frozen=True, slots=True)
class RelationMention(Record):
    """What one chunk says of a pair of entities; the text: a description, or the sentence that names both.

    source, target: entities, the smaller id first. names: of both, in that order. keywords: themes of the relation.
    strength: 1 to 10, as a model judged it; None: nobody judged, they were named together.
    """

    GROUP: ClassVar[str] = "relation"
    SEARCHABLE: ClassVar[bool] = False

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
    SEARCHABLE: ClassVar[bool] = False

    claim: str  # digest of subject, object and type
    subject: str
    object: str
    names: tuple[str, ...]
    type: str
    status: str
    start: str
    end: str
    quote: str


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
    def index_text(self) -> str:
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
    def index_text(self) -> str:
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
    SEARCHABLE: ClassVar[bool] = False

    level: int
    parent: str  # empty on level 0
    children: tuple[str, ...]
    members: tuple[str, ...]  # entities; of a leaf only

    def parents(self) -> tuple[Reference, ...]:
        table, ids = ("communities", self.children) if self.children else ("entities", self.members)
        return tuple((table, id) for id in ids)


@dataclass(frozen=True, slots=True)
class Member(Record):
    """That an entity belongs to a leaf of the communities."""

    INDEX: ClassVar[tuple[str | tuple[str, ...], ...]] = ("entity",)
    SEARCHABLE: ClassVar[bool] = False

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

    def citations(self) -> tuple[Reference, ...]:
        return tuple(dict.fromkeys((table, id) for table, _, id in self.data))


# -- meta knowledge: what documents answer (MK-RAG, arXiv:2408.09017)


@dataclass(frozen=True, slots=True)
class Metadata(Record):
    """What one document says to one field of metadata; the text: its values, a line each."""

    INDEX: ClassVar[tuple[str | tuple[str, ...], ...]] = ("document", "field")
    SEARCHABLE: ClassVar[bool] = False

    document: str
    field: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Question(Record):
    """A question that a document answers; the text: the question, which makes sense without the document."""

    BIG: ClassVar[bool] = True

    answer: str
    title: str  # the document's
    tokens: int  # of both

    @property
    def prompt_text(self) -> str:
        return "\n".join(filter(None, [self.title, self.text, self.answer]))


@dataclass(frozen=True, slots=True)
class Tag(Record):
    """That a question belongs to a document with these values of metadata; the text: the question."""

    GROUP: ClassVar[str] = "summary"
    SEARCHABLE: ClassVar[bool] = False

    summary: str  # digest of the label
    label: str  # `field = value`; of a combination several, ` x ` between them


@dataclass(frozen=True, slots=True)
class Summary(Record):
    """The concepts in the questions that share a label, an MK Summary; the text: all of it."""

    INDEX: ClassVar[tuple[str | tuple[str, ...], ...]] = ("label",)

    label: str
    questions: int  # how many
    tokens: int

    @property
    def index_text(self) -> str:
        return f"{self.label}\n{self.text}"


# -- the chunk knowledge graph: 5W1H and discourse (江上・福田)


@dataclass(frozen=True, slots=True)
class Passage(Record):
    """A piece of a chunk, about 50 tokens, cut at sentence ends; what the paper calls a chunk.

    start, end: in characters of the document; what chunks share is in the first of them.
    """

    INDEX: ClassVar[tuple[str | tuple[str, ...], ...]] = ("chunk",)

    chunk: str
    start: int
    end: int
    tokens: int


@dataclass(frozen=True, slots=True)
class SlotFiller(Record):
    """That one passage says who, when, where, what, why, how, or its predicate; the text: in these words."""

    GROUP: ClassVar[str] = "value"
    SEARCHABLE: ClassVar[bool] = False

    value: str  # digest of slot and name
    slot: str
    name: str  # the words, normalised: the same for all that mean the same
    passage: str


@dataclass(frozen=True, slots=True)
class SlotValue(Record):
    """One thing that passages say in one slot; the text: its name, normalised. frames: how many say it."""

    slot: str
    forms: tuple[str, ...]  # as passages write it, those used most first
    frames: int


@dataclass(frozen=True, slots=True)
class DiscourseRelation(Record):
    """A discourse relation of two passages; the text: the label of its sense, a class of the PDTB."""

    INDEX: ClassVar[tuple[str | tuple[str, ...], ...]] = ("first", "second", "text")
    SEARCHABLE: ClassVar[bool] = False

    first: str  # the passage that is Arg1
    second: str  # Arg2
    confidence: float | None  # 0 to 1, as a model judged it, or a rule is sure of itself; None: nobody has judged


@dataclass(frozen=True, slots=True)
class KeyPoint(Record):
    """A statement that a method read out of rows of the index while it searched; it stands in no table.

    verbatim: whether it is a sentence of a document, not a model's words.
    """

    sources: tuple[Reference, ...]
    tokens: int
    verbatim: bool = False

    def parents(self) -> tuple[Reference, ...]:
        return self.sources
