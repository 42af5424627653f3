"""values -> rows: the record classes, frozen dataclasses."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

NOT_READ = "not_read"  # key in a document's metadata: a sentence for each part that could not be read
Reference = tuple[str, str]  # (table, id): ids are unique within a table only


@dataclass(frozen=True, slots=True)
class Record:
    """An immutable row of a table.

    A step leaves `id` empty: the engine derives it from the id of the source row (`doc`, `doc.00003`,
    `doc.00003.00007`), which shows its sources. Only whole-table steps choose ids, without `.` and `/`.
    """

    GROUP: ClassVar[str] = ""  # the column that groups rows; its value, a hash, is the id of the merged row
    INDEX: ClassVar[tuple[str | tuple[str, ...], ...]] = ()  # columns, or tuples of columns, for `Table.where`
    WAVE: ClassVar[str] = ""  # an integer column: a step that reads its own table runs the highest values first
    BIG: ClassVar[bool] = False  # rows over about 500 bytes: stored apart from their key
    SHARED_TEXT: ClassVar[bool] = False  # whether other rows often have lines of the text: each is stored once
    TEXT_SQL: ClassVar[str] = ""  # how SQL makes `derived_text` of the columns: such a text is not stored
    SEARCHED_BY: ClassVar[tuple[str, ...]] = ("words", "vectors")  # the searches that find these rows
    FORWARD_INDEX: ClassVar[bool] = False  # whether methods read the tokens of these rows
    SOURCES: ClassVar[Mapping[str, str]] = {}  # of a whole-table step: columns of ids, and their tables
    EVIDENCE: ClassVar[str] = ""  # a column of (document, ...) each: documents that the row rests on, too

    id: str = field(default="", kw_only=True)
    text: str = field(default="", kw_only=True)

    @property
    def index_text(self) -> str:
        """Return the text for keyword and vector search; empty: not searchable."""
        return self.text

    @property
    def prompt_text(self) -> str:
        """Return the text for prompts, with the name or title."""
        return self.index_text or self.text

    def parents(self) -> tuple[Reference, ...]:
        """Return the source rows, if the id does not show them."""
        return tuple((table, id) for column, table in self.SOURCES.items() for id in getattr(self, column))

    def citations(self) -> tuple[Reference, ...]:
        """Return the source rows cited in the text, if any."""
        return ()


@dataclass(frozen=True, slots=True)
class Document(Record):
    """A text of a source: a file or a row of one.

    The id is the hash of the uri. uri: source name and path, `notes/harbour.md`, `reports.jsonl#r-17`. modified: ISO
    8601, UTC, or empty. places: start and name of each page, slide, sheet or chapter: (0, "p. 1"). body: start of the
    text after the front matter, whose values are in the metadata. imported: what another system made of it, as JSON.
    """

    BIG: ClassVar[bool] = True
    INDEX: ClassVar[tuple[str | tuple[str, ...], ...]] = ("file",)
    SHARED_TEXT: ClassVar[bool] = True

    uri: str
    file: str  # uri of its file
    title: str
    media_type: str
    metadata: Mapping[str, object] = field(default_factory=dict)
    modified: str = ""
    places: tuple[tuple[int, str], ...] = ()
    body: int = 0
    imported: str = ""
    fields: Mapping[str, object] = field(default_factory=dict)  # author, date, date_source, language, kind: if known


@dataclass(frozen=True, slots=True)
class Chunk(Record):
    """A part of a document, split at sentence ends; `document.text[start:end] == chunk.text`."""

    SHARED_TEXT: ClassVar[bool] = True
    FORWARD_INDEX: ClassVar[bool] = True

    title: str  # of the document
    start: int  # in characters of the document
    end: int
    tokens: int

    @property
    def document(self) -> str:
        """Return the id of its document."""
        return self.id.partition(".")[0]

    @property
    def ordinal(self) -> int:
        """Return its position among the chunks of the document, from 0."""
        return int(self.id.rpartition(".")[2])

    @property
    def index_text(self) -> str:
        return f"{self.title}\n{self.text}" if self.title else self.text


@dataclass(frozen=True, slots=True)
class Mention(Record):
    """A mention of an entity in a chunk; text: a description, or the sentence with the name."""

    GROUP: ClassVar[str] = "entity"
    SHARED_TEXT: ClassVar[bool] = True
    SEARCHED_BY: ClassVar[tuple[str, ...]] = ()

    entity: str  # hash of the name's key
    name: str  # as written in the chunk
    type: str  # empty if unknown


@dataclass(frozen=True, slots=True)
class RelationMention(Record):
    """A mention of a relation between two entities in a chunk.

    text: a description, or the sentence with both names. source, target: entities, the smaller id first. names: of
    both, in that order. keywords: themes of the relation. strength: 1 to 10, by a model; None: they occur together.
    """

    GROUP: ClassVar[str] = "relation"
    SHARED_TEXT: ClassVar[bool] = True
    SEARCHED_BY: ClassVar[tuple[str, ...]] = ()

    relation: str
    source: str
    target: str
    names: tuple[str, ...]
    keywords: tuple[str, ...] = ()
    strength: float | None = None


@dataclass(frozen=True, slots=True)
class Assertion(Record):
    """A claim of a chunk about an entity; text: its description.

    object: an entity, or empty. names: of subject and object. status: TRUE, FALSE, SUSPECTED. start, end: ISO 8601, or
    empty. quote: the words of the chunk that support it.
    """

    GROUP: ClassVar[str] = "claim"
    SEARCHED_BY: ClassVar[tuple[str, ...]] = ()

    claim: str  # hash of subject, object and type
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
    """An entity, merged from its mentions.

    text: its description. name: the most frequent form. forms, types: all, most frequent first. mentions: how many.
    tokens: of the text.
    """

    SHARED_TEXT: ClassVar[bool] = True

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
    """A relation of two entities, merged from its mentions.

    text: its description. id: hash of both entities, the smaller first. weight: the number of mentions. strength: their
    mean; None: not judged, the entities occur together.
    """

    INDEX: ClassVar[tuple[str | tuple[str, ...], ...]] = ("source", "target")
    SHARED_TEXT: ClassVar[bool] = True

    source: str
    target: str
    names: tuple[str, ...]
    keywords: tuple[str, ...]
    weight: int
    strength: float | None
    tokens: int

    @property
    def index_text(self) -> str:
        """Return keywords, names and text (LightRAG, arXiv:2410.05779)."""
        if self.strength is None and not self.keywords:  # no model judged it: search finds its sentences in the chunks
            return ""
        return "\n".join(filter(None, [", ".join(self.keywords), " – ".join(self.names), self.text]))


@dataclass(frozen=True, slots=True)
class Claim(Record):
    """A claim, merged by subject, object and type; text: its descriptions."""

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
    """A community of connected entities, with children or, as a leaf, with members."""

    WAVE: ClassVar[str] = "level"
    INDEX: ClassVar[tuple[str | tuple[str, ...], ...]] = ("level",)
    BIG: ClassVar[bool] = True
    SEARCHED_BY: ClassVar[tuple[str, ...]] = ()
    SOURCES: ClassVar[Mapping[str, str]] = {"children": "communities", "members": "entities"}

    level: int  # 0 has the largest
    parent: str  # empty on level 0
    children: tuple[str, ...]
    members: tuple[str, ...]  # entities, for leaves only


@dataclass(frozen=True, slots=True)
class Member(Record):
    """The membership of an entity in a leaf community."""

    INDEX: ClassVar[tuple[str | tuple[str, ...], ...]] = ("entity",)
    SEARCHED_BY: ClassVar[tuple[str, ...]] = ()

    entity: str


@dataclass(frozen=True, slots=True)
class Report(Record):
    """A report on a community; text: the whole of it, in Markdown.

    rating: 0 to 10. findings: (summary, explanation) each. dropped: references to no row. elements: tokens of all
    element summaries.
    """

    BIG: ClassVar[bool] = True
    EVIDENCE: ClassVar[str] = "evidence"
    TEXT_SQL: ClassVar[str] = (
        "'# ' || title || CASE summary WHEN '' THEN '' ELSE char(10, 10) || summary END || ifnull((SELECT"
        " group_concat(char(10, 10) || '## ' || heading || CASE part WHEN '' THEN '' ELSE char(10, 10) || part END, '')"
        " FROM (SELECT json_extract(value, '$[0]') AS heading, json_extract(value, '$[1]') AS part"
        " FROM json_each(findings) ORDER BY key)), '')"
    )

    title: str
    summary: str
    rating: float
    reason: str
    findings: tuple[tuple[str, str], ...]
    sources: tuple[tuple[Reference, ...], ...]  # of the summary, then of each finding
    dropped: int
    level: int
    elements: int
    tokens: int
    written_with: str = ""  # hash of the model and the prompt; empty: no model wrote it
    evidence: tuple[tuple[str, int, str], ...] = ()  # document, number of its rows, their digest
    added: tuple[str, ...] = ()  # documents of the evidence that came after the text

    @property
    def derived_text(self) -> str:
        """Return the Markdown of title, summary and findings."""
        parts = [self.summary, *(part for heading, text in self.findings for part in (f"## {heading}", text))]
        return "\n\n".join([f"# {self.title}", *filter(None, parts)])

    def citations(self) -> tuple[Reference, ...]:
        return tuple(dict.fromkeys(source for sources in self.sources for source in sources))


# -- meta knowledge: questions that documents answer (MK-RAG, arXiv:2408.09017)


@dataclass(frozen=True, slots=True)
class Metadata(Record):
    """The values of one metadata field of a document; text: the values, a line each."""

    INDEX: ClassVar[tuple[str | tuple[str, ...], ...]] = ("document", "field")
    SEARCHED_BY: ClassVar[tuple[str, ...]] = ()

    document: str
    field: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Question(Record):
    """A question that a document answers; text: the question, clear without the document."""

    BIG: ClassVar[bool] = True

    answer: str
    title: str  # of the document
    tokens: int  # of question and answer

    @property
    def prompt_text(self) -> str:
        return "\n".join(filter(None, [self.title, self.text, self.answer]))


@dataclass(frozen=True, slots=True)
class Tag(Record):
    """The label of a question, from the metadata of its document; text: the question."""

    GROUP: ClassVar[str] = "summary"
    SEARCHED_BY: ClassVar[tuple[str, ...]] = ()

    summary: str  # hash of the label
    label: str  # `field = value`; several of them joined by ` x `


@dataclass(frozen=True, slots=True)
class Summary(Record):
    """A summary of all questions with a label: an MK Summary; text: the concepts in these questions."""

    INDEX: ClassVar[tuple[str | tuple[str, ...], ...]] = ("label",)

    label: str
    questions: int  # their number
    tokens: int

    @property
    def index_text(self) -> str:
        return f"{self.label}\n{self.text}"


# -- the chunk knowledge graph: 5W1H and discourse (江上・福田)
@dataclass(frozen=True, slots=True)
class Passage(Record):
    """A part of a chunk, about 50 tokens, split at sentence ends.

    The paper calls it a chunk. start, end: in characters of the document. Text of two chunks belongs to the first.
    """

    INDEX: ClassVar[tuple[str | tuple[str, ...], ...]] = ("made_from",)

    start: int
    end: int
    tokens: int

    @property
    def chunk(self) -> str:
        """Return the id of its chunk."""
        return self.id.rpartition(".")[0]

    @property
    def ordinal(self) -> int:
        """Return its position among the passages of the chunk, from 0."""
        return int(self.id.rpartition(".")[2])


@dataclass(frozen=True, slots=True)
class SlotFiller(Record):
    """A filler of a 5W1H or predicate slot in a passage; text: its words."""

    INDEX: ClassVar[tuple[str | tuple[str, ...], ...]] = ("name",)
    SEARCHED_BY: ClassVar[tuple[str, ...]] = ()

    slot: str
    name: str  # the normalised words, equal for equal meanings
    ordinal: int  # of its passage in the chunk

    @property
    def passage(self) -> str:
        """Return the id of its passage."""
        return f"{self.id.rpartition('.')[0]}.{self.ordinal:05}"


@dataclass(frozen=True, slots=True)
class DiscourseRelation(Record):
    """A discourse relation between two passages; text: the label of its sense, a class of the PDTB."""

    INDEX: ClassVar[tuple[str | tuple[str, ...], ...]] = ("first", "second")
    SEARCHED_BY: ClassVar[tuple[str, ...]] = ()

    first: str  # id of the passage in the role of Arg1
    second: str  # id of the passage in the role of Arg2
    confidence: float | None  # 0 to 1, from a model or a rule; None: not judged
