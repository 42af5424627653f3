"""documents -> toy tables: every shape of step, small enough for thousands of runs.

They cover shapes that no real step uses yet. Prompts hold texts only, in the order of their content.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import ItemFailed
from kumihimo.core.records import Document, Record, Reference
from kumihimo.core.signature import collect_signatures
from kumihimo.core.table import Group, Table
from kumihimo.llm.protocols import LLM

IndexColumns = tuple[str | tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Line(Record):
    number: int


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
