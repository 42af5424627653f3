"""documents -> toy tables: records and steps of every shape, small enough for thousands of runs.

They cover shapes that no real step uses yet. Prompts hold texts only, in the order of their content. The steps stand in
four families; the steps of a family read each other's tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Literal

from kumihimo.core.context import Context, Evidence
from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import ItemFailed
from kumihimo.core.records import Chunk, Document, Record, Reference
from kumihimo.core.signature import collect_signatures
from kumihimo.core.table import Group, Table
from kumihimo.llm.concurrency import map_concurrent
from kumihimo.llm.protocols import LLM
from kumihimo.search.protocols import KeywordSearch, VectorSearch

IndexColumns = tuple[str | tuple[str, ...], ...]

# -- words: no model, and a row step, group step and table step after each other


@dataclass(frozen=True, slots=True)
class Word(Record):
    GROUP: ClassVar[str] = "name"
    INDEX: ClassVar[IndexColumns] = ("number",)
    name: str = ""
    number: int = 0


@dataclass(frozen=True, slots=True)
class Longer(Record):
    """A word with a different second column."""

    GROUP: ClassVar[str] = "name"
    name: str
    length: int


@dataclass(frozen=True, slots=True)
class Entry(Record):
    count: int = 0


@dataclass(frozen=True, slots=True)
class Title(Record):
    pass


@dataclass(frozen=True, slots=True)
class Letter(Record):
    INDEX: ClassVar[IndexColumns] = ("capital", "share")
    capital: bool = False
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class Total(Record):
    pass


@dataclass(frozen=True, slots=True)
class Gloss(Record):
    pass


@dataclass(frozen=True, slots=True)
class Volume(Record):
    """A set of entries, which it names as its sources."""

    SOURCES: ClassVar[Mapping[str, str]] = {"members": "entries"}
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Loose(Record):
    """A row that names no parents."""


def words(document: Document) -> Iterable[Word]:
    """Yield each word."""
    for i, word in enumerate(document.text.split()):
        yield Word(text=word, name=hash_parts(word), number=i)


def titles(document: Document) -> Title | None:
    """Return the first line, if any."""
    return Title(text=document.text.splitlines()[0]) if document.text else None


def entries(members: Group[Word]) -> Entry:
    """Return an entry for all uses of a word."""
    return Entry(text=members[0].text, count=len(members))


def letters(entry: Entry) -> Iterable[Letter]:
    """Return the letters of an entry."""
    return [Letter(text=letter) for letter in entry.text]


def totals(entries: Table[Entry]) -> Iterable[Total]:
    """Return the number of words of each length."""
    lengths = Counter(len(entry.text) for entry in entries)
    return [Total(id=f"of{length}", text=str(n)) for length, n in lengths.items()]


def chunks(document: Document) -> Iterable[Chunk]:
    """Yield each line."""
    start = 0
    for line in document.text.splitlines(keepends=True):
        yield Chunk(title="", start=start, end=start + len(line), tokens=1, text=line.strip())
        start += len(line)


def chunk_words(chunk: Chunk) -> Iterable[Word]:
    """Return each word of a chunk; stands in for `words`."""
    return [Word(text=word, name=hash_parts(word)) for word in chunk.text.split()]


def glosses(entry: Entry) -> Gloss | None:
    """Return a row with the id of an entry."""
    return Gloss(text=entry.text)


def volumes(entries: Table[Entry]) -> Iterable[Volume]:
    """Return one set of all entries."""
    return [Volume(id="all", members=tuple(entry.id for entry in entries))]


def loose(entries: Table[Entry]) -> Iterable[Loose]:
    """Return a row that names no parents."""
    return [Loose(id="one")]


# -- parts: a tree whose reports are written from the leaves up


@dataclass(frozen=True, slots=True)
class Part(Record):
    """A part of a document.

    Its uri is the uri of its parent and one letter more.
    """

    INDEX: ClassVar[IndexColumns] = ("parent",)
    WAVE: ClassVar[str] = "depth"
    parent: str = ""
    depth: int = 0


@dataclass(frozen=True, slots=True)
class PartReport(Record):
    pass


def parts(documents: Table[Document]) -> Iterable[Part]:
    """Return each document as a part, below its parent's uri."""
    return [Part(id=f"p{d.uri}", text=d.text, parent=f"p{d.uri[:-1]}", depth=len(d.uri)) for d in documents]


def part_reports(part: Part, parts: Table[Part], part_reports: Table[PartReport], llm: LLM) -> PartReport:
    """Return a report on a part and the reports on its children."""
    below = [part_reports[child.id].text for child in parts.where(parent=part.id) if part_reports.get(child.id)]
    return PartReport(text=llm(" ".join([part.text, *below])))


# -- lines: a small graph, with steps that keep a state
#    lines -> mentions, ties, links; -> entities, relations; -> shelves -> reports; -> communities -> digests


@dataclass(frozen=True, slots=True)
class Line(Record):
    number: int = 0


@dataclass(frozen=True, slots=True)
class Mention(Record):
    GROUP: ClassVar[str] = "entity"
    entity: str
    name: str


@dataclass(frozen=True, slots=True)
class Tie(Record):
    GROUP: ClassVar[str] = "relation"
    relation: str
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Link(Record):
    pass


@dataclass(frozen=True, slots=True)
class Entity(Record):
    name: str
    count: int


@dataclass(frozen=True, slots=True)
class Relation(Record):
    INDEX: ClassVar[IndexColumns] = ("source", ("source", "target"))
    source: str
    target: str
    weight: int


@dataclass(frozen=True, slots=True)
class Shelf(Record):
    """A set of entities whose ids share a prefix.

    This hierarchy depends on its members alone.
    """

    INDEX: ClassVar[IndexColumns] = ("parent",)
    WAVE: ClassVar[str] = "level"
    parent: str
    level: int
    members: tuple[str, ...]

    def parents(self) -> tuple[Reference, ...]:
        return tuple(("entities", member) for member in self.members)


@dataclass(frozen=True, slots=True)
class Report(Record):
    pass


@dataclass(frozen=True, slots=True)
class Community(Record):
    members: tuple[str, ...]

    def parents(self) -> tuple[Reference, ...]:
        return tuple(("entities", member) for member in self.members)


@dataclass(frozen=True, slots=True)
class Digest(Record):
    pass


def lines(document: Document, *, skip: int = 0) -> Iterable[Line]:
    """Return each line that is not empty."""
    texts = [line.strip() for line in document.text.splitlines() if line.strip()]
    return [Line(text=text, number=i) for i, text in enumerate(texts[skip:])]


def _names(line: Line, llm: LLM) -> list[str]:
    return llm(f"names: {line.text}").split()


def mentions(line: Line, llm: LLM) -> Iterable[Mention]:
    """Yield the names in a line."""
    for name in _names(line, llm):
        yield Mention(text=line.text, entity=hash_parts("entity", name), name=name)


def ties(line: Line, llm: LLM) -> Iterable[Tie]:
    """Yield names that follow each other.

    They come from the reply that `mentions` paid for.
    """
    names = _names(line, llm)
    for a, b in pairwise(names):
        source, target = hash_parts("entity", a), hash_parts("entity", b)
        yield Tie(text=line.text, relation=hash_parts("relation", source, target), source=source, target=target)


def entities(mentions: Group[Mention], llm: LLM, *, limit: int = 1) -> Entity:
    """Merge the texts of a name; beyond `limit` texts by a model."""
    texts = sorted({mention.text for mention in mentions})
    entity = Entity(text=" / ".join(texts), name=mentions[0].name, count=len(mentions))
    if len(texts) <= limit:
        return entity
    try:
        merged = llm("merge: " + " / ".join(texts))
    except ItemFailed as error:
        raise ItemFailed(str(error), fallback=[entity]) from error
    return Entity(text=merged, name=entity.name, count=entity.count)


def relations(ties: Group[Tie]) -> Relation:
    """Return the relation of a pair, with its first line.

    Members are ordered by id.
    """
    return Relation(text=ties[0].text, source=ties[0].source, target=ties[0].target, weight=len(ties))


def links(line: Line, lines: Table[Line], llm: LLM) -> Link | None:
    """Return how a line relates to the next one of its document.

    The prompt holds both lines.
    """
    maker, _, number = line.id.rpartition(".")
    following = lines.get(f"{maker}.{int(number) + 1:05d}")
    if following is None:
        return None
    return Link(text=llm(f"link: {line.text} -> {following.text}"))


def shelves(entities: Table[Entity], *, most: int = 1) -> Iterable[Shelf]:
    """Group entities by id prefix; split groups larger than `most`."""
    ids = [id for (id,) in entities.columns("id")]

    def split(prefix: str, parent: str, inside: list[str]) -> Iterable[Shelf]:
        leaf = len(inside) <= most or len(prefix) > 6
        yield Shelf(id=f"s{prefix}", parent=parent, level=len(prefix), members=tuple(inside) if leaf else ())
        if not leaf:
            for digit in sorted({id[len(prefix)] for id in inside}):
                longer = prefix + digit
                yield from split(longer, f"s{prefix}", [id for id in inside if id.startswith(longer)])

    return split("", "", ids) if ids else []


def reports(
    shelf: Shelf,
    shelves: Table[Shelf],
    entities: Table[Entity],
    relations: Table[Relation],
    reports: Table[Report],
    llm: LLM,
) -> Report:
    """Return a report on a shelf.

    It covers its entities and their relations, or the reports of the shelves within.
    """
    parts: list[str] = []
    for member in shelf.members:
        entity = entities.get(member)
        parts += [entity.text] if entity else []
        parts += [relation.text for relation in relations.where(source=member)]
    for child in shelves.where(parent=shelf.id):
        report = reports.get(child.id)
        parts += [report.text] if report else ["(nothing)"]
    return Report(text=llm("report: " + " | ".join(sorted(parts))))


def communities(
    entities: Table[Entity], relations: Table[Relation], previous: Table[Community], *, most: int = 1
) -> Iterable[Community]:
    """Assign entities to groups that persist.

    A new entity joins a neighbour's group that has room, or starts one.
    """
    current = [id for (id,) in entities.columns("id")]
    groups = {c.id: [m for m in c.members if m in set(current)] for c in previous}
    group_of = {member: id for id, members in groups.items() for member in members}
    neighbours = {(r.source, r.target) for r in relations}
    for id in current:
        if id not in group_of:
            open_groups = sorted(
                group_of[b] for a, b in neighbours if a == id and b in group_of and len(groups[group_of[b]]) <= most
            )
            group_of[id] = open_groups[0] if open_groups else hash_parts("community", id)
            groups.setdefault(group_of[id], []).append(id)
    return [Community(id=id, members=tuple(sorted(members))) for id, members in sorted(groups.items()) if members]


def digests(community: Community, entities: Table[Entity], llm: LLM) -> Digest:
    """Return a summary of a community."""
    texts = sorted(entity.text for member in community.members if (entity := entities.get(member)))
    return Digest(text=llm("digest: " + " | ".join(texts)))


TOY_STEPS = collect_signatures(
    lines, mentions, ties, entities, relations, links, shelves, reports, communities, digests
)  # fmt: skip
STATEFUL = ("communities", "digests")  # steps with state: their rows depend on the history of the index


# -- gists: steps that ask a model about real chunks, and methods that read their rows


@dataclass(frozen=True, slots=True)
class Gist(Record):
    GROUP: ClassVar[str] = "theme"
    theme: str


@dataclass(frozen=True, slots=True)
class Theme(Record):
    pass


@dataclass(frozen=True, slots=True)
class About:
    """The form of a model's reply."""

    about: str


@dataclass(frozen=True, slots=True)
class Section(Record):
    WAVE: ClassVar[str] = "level"
    level: int


@dataclass(frozen=True, slots=True)
class Brief(Record):
    pass


def gists(chunk: Chunk, llm: LLM, *, words: int = 9) -> Gist:
    """Return what a chunk is about."""
    reply = llm(f"{chunk.text}\nThat in {words} words.", schema=About)
    return Gist(text=reply.about, theme=hash_parts(chunk.text[:1]))


def themes(gists: Group[Gist], llm: LLM) -> Theme:
    """Return what the chunks that begin with the same letter have in common."""
    return Theme(text=llm("\n".join(["What do these have in common?", *sorted(g.text for g in gists)])))


def told(
    question: str, themes: Table[Theme], gists: Table[Gist], keyword_search: KeywordSearch, *, k: int = 5
) -> Context:
    """Return gists and themes by keyword search."""
    return keyword_search(themes, question, k=k) + keyword_search(gists, question, k=k)


def meant(question: str, gists: Table[Gist], vector_search: VectorSearch, *, k: int = 5) -> Context:
    """Return gists by vector search."""
    return vector_search(gists, question, k=k)


def sections(chunk: Chunk) -> Section:
    """Return a chunk with its position in the document."""
    return Section(text=chunk.text, level=chunk.ordinal)


def briefs(
    section: Section,
    briefs: Table[Brief],
    llm: LLM | None,
    *,
    style: str = "plain",
    when: Literal["built", "asked"] = "built",
) -> Brief | None:
    """Return the text of a section with the brief of the next one."""
    if when == "asked":
        return None
    document, _, ordinal = section.id.rpartition(".")
    next_brief = briefs.get(f"{document}.{int(ordinal) + 1:05}")
    text = section.text + (f" / {next_brief.text}" if next_brief else "")
    if llm is None:
        return Brief(text=f"({text})")
    return Brief(text=llm(f"{style}: {text}"))


def briefs_method(
    question: str, sections: Table[Section], briefs: Table[Brief], *, depth: int = 9, times: int = 1
) -> Context:
    """Return the briefs of all sections to a depth, repeated `times`."""
    ids = [section.id for section in sections if section.level <= depth] * times
    rows_found = map_concurrent(briefs.get, ids, 4)
    return Context(tuple(Evidence("briefs", brief, 1.0) for brief in rows_found if brief))
