"""tables -> RDF triples: every row a resource, as docs/vocabulary.md describes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pyoxigraph import Literal, NamedNode, Quad

from kumihimo.core.records import (
    NOT_READ,
    Chunk,
    Claim,
    Community,
    Document,
    Entity,
    Frame,
    Link,
    Metadata,
    Passage,
    Question,
    Relation,
    Report,
    Summary,
    Tag,
    Value,
)
from kumihimo.rdf.terms import (
    BROADER,
    FIRST,
    FROM,
    LABEL,
    PDTB,
    SECOND,
    SENSE,
    TYPE,
    Sense,
    Tables,
    World,
    moment,
    ours,
    terms,
)

Said = tuple[NamedNode, object]  # a property, and what it says: nothing, a term, a text, a number, or several
About = tuple[NamedNode, list[Said]]


def triples(tables: Tables, senses: Iterable[Sense], base: str) -> Iterator[Quad]:
    """All that the tables say, those of them that there are, in the order of their ids; the senses first.

    As a store takes them, each in the graph that has no name. base: what the IRIs of rows begin with.
    """
    world = World(tables, base, senses := list(senses))
    for about, said in _everything(world, senses):
        for name, value in said:
            if isinstance(value, NamedNode | Literal):  # as most are
                yield Quad(about, name, value)
            else:
                yield from (Quad(about, name, term) for term in terms(value))


def _everything(world: World, senses: Iterable[Sense]) -> Iterator[About]:
    for sense in senses:
        parents = [NamedNode(PDTB + parent) for parent in sense.parents]
        yield NamedNode(PDTB + sense.name), [(LABEL, sense.label), (BROADER, parents)]
    for name, tell in _TELL.items():
        for record in world.tables.get(name, ()):
            yield from tell(world, record)
    for name, (column, table) in _TOLD_IN.items():
        if name in world.tables:
            yield from _derived(world, name, column, table)


# -- what is told of a row of each table


def _document(world: World, d: Document) -> Iterator[About]:
    about: list[Said] = [
        (TYPE, ours("Document")),
        (LABEL, world.text(d.title or d.uri, d.id)),
        (ours("uri"), d.uri),
        (ours("file"), d.file),
        (ours("mediaType"), d.media_type),
        (ours("modified"), moment(d.modified)),
    ]
    fields = [(world.field(name), value) for name, value in d.metadata.items() if name != NOT_READ]
    yield world.node("documents", d.id), [*about, *fields]


def _chunk(world: World, c: Chunk) -> Iterator[About]:
    about = [(TYPE, ours("Chunk")), (ours("text"), world.text(c.text, c.id)), (ours("order"), c.ordinal)]
    yield world.node("chunks", c.id), [*about, *_span(c), (FROM, world.sources(c.id))]


def _span(piece: Chunk | Passage) -> list[Said]:
    return [(ours("start"), piece.start), (ours("end"), piece.end), (ours("tokens"), piece.tokens)]


def _passage(world: World, p: Passage) -> Iterator[About]:
    document = p.id.partition(".")[0]
    order = world.place[1] if world.place[0] == document else 0
    world.place = (document, order + 1)
    about: list[Said] = [(TYPE, world.slot("Chunk")), (LABEL, world.text(p.text, p.id) or Literal(""))]
    yield (
        world.node("passages", p.id),
        [*about, (ours("order"), order), *_span(p), (FROM, world.sources(p.id, chunk=p.chunk))],
    )


def _frame(world: World, f: Frame) -> Iterator[About]:
    value = world.value(f.name)
    yield world.node("passages", f.passage), [(world.slot(f.slot), value)]
    if f.name not in world.labelled:
        world.labelled.add(f.name)
        yield value, [(TYPE, ours("Value")), (LABEL, f.name)]


def _value(world: World, v: Value) -> Iterator[About]:
    yield world.value(v.text), [(ours("form"), [world.text(form) for form in v.forms])]


def _link(world: World, link: Link) -> Iterator[About]:
    name = next((sense.name for sense in world.senses if sense.label == link.text), "")
    ends = [world.node("passages", id) for id in (link.first, link.second)]
    about: list[Said] = [
        (TYPE, ours("Link")),
        (FIRST, ends[0]),
        (SECOND, ends[1]),
        (SENSE, NamedNode(PDTB + name) if name and link.text else None),
        (ours("confidence"), link.confidence),
        (FROM, [*ends, *world.sources(link.id)]),
    ]
    yield world.node("links", link.id), about


def _entity(world: World, e: Entity) -> Iterator[About]:
    about: list[Said] = [
        (TYPE, ours("Entity")),
        (LABEL, world.text(e.name)),
        (ours("type"), e.types or e.type),
        (ours("form"), [world.text(form) for form in e.forms]),
        (ours("text"), world.text(e.text)),
        (ours("mentions"), e.mentions),
    ]
    yield world.node("entities", e.id), about


def _relation(world: World, r: Relation) -> Iterator[About]:
    ends = [world.node("entities", id) for id in (r.source, r.target)]
    about: list[Said] = [
        (TYPE, ours("Relation")),
        (LABEL, world.text(" – ".join(r.names))),
        (ours("source"), ends[0]),
        (ours("target"), ends[1]),
        (ours("text"), world.text(r.text)),
        (ours("keyword"), [world.text(word) for word in r.keywords]),
        (ours("weight"), r.weight),
        (ours("strength"), r.strength),
    ]
    yield world.node("relations", r.id), about
    yield ends[0], [(ours("related"), ends[1])]


def _claim(world: World, c: Claim) -> Iterator[About]:
    about: list[Said] = [
        (TYPE, ours("Claim")),
        (LABEL, world.text(" – ".join(filter(None, c.names)))),
        (ours("subject"), world.node("entities", c.subject)),
        (ours("object"), world.node("entities", c.object) if c.object else None),
        (ours("type"), c.type),
        (ours("status"), c.statuses),
        (ours("from"), moment(c.start)),
        (ours("until"), moment(c.end)),
        (ours("quote"), [world.text(quoted) for quoted in c.quotes]),
        (ours("text"), world.text(c.text)),
    ]
    yield world.node("claims", c.id), about


def _community(world: World, c: Community) -> Iterator[About]:
    parts = [world.node("communities", id) for id in c.children]
    members = [world.node("entities", id) for id in c.members]
    about: list[Said] = [(TYPE, ours("Community")), (ours("level"), c.level), (ours("part"), parts)]
    spoken = [world.node("documents", id) for id in sorted(world.documents.get(c.id, ()))]
    yield world.node("communities", c.id), [*about, (ours("member"), members), (FROM, [*parts, *members, *spoken])]


def _report(world: World, r: Report) -> Iterator[About]:
    about: list[Said] = [
        (TYPE, ours("Report")),
        (LABEL, world.text(r.title)),
        (ours("summary"), world.text(r.summary)),
        (ours("text"), world.text(r.text)),
        (ours("rating"), r.rating),
        (ours("level"), r.level),
        (ours("cites"), [world.node(table, id) for table, id in r.cites()]),
    ]
    spoken = [world.node("documents", id) for id in sorted(world.documents.get(r.id, ()))]
    yield world.node("reports", r.id), [*about, (FROM, [world.node("communities", r.id), *spoken])]


def _metadata(world: World, m: Metadata) -> Iterator[About]:
    yield world.node("documents", m.document), [(world.field(m.field), m.values)]


def _question(world: World, q: Question) -> Iterator[About]:
    about: list[Said] = [(TYPE, ours("Question")), (LABEL, world.text(q.text, q.id))]
    yield (
        world.node("questions", q.id),
        [*about, (ours("answer"), world.text(q.answer, q.id)), (FROM, world.sources(q.id))],
    )


def _tag(world: World, t: Tag) -> Iterator[About]:
    summary, question = world.node("summaries", t.summary), t.id.rpartition(".")[0]
    yield world.node("questions", question), [(ours("tag"), summary)]
    if t.summary not in world.labelled:
        world.labelled.add(t.summary)
        yield summary, [(LABEL, t.label)]


def _summary(world: World, s: Summary) -> Iterator[About]:
    about: list[Said] = [(TYPE, ours("Summary")), (LABEL, s.label), (ours("text"), world.text(s.text))]
    yield world.node("summaries", s.id), [*about, (ours("questions"), s.questions)]


_TELL: Mapping[str, Any] = {  # by table
    "documents": _document,
    "chunks": _chunk,
    "passages": _passage,
    "frames": _frame,
    "values": _value,
    "links": _link,
    "entities": _entity,
    "relations": _relation,
    "claims": _claim,
    "communities": _community,
    "reports": _report,
    "metadata": _metadata,
    "questions": _question,
    "tags": _tag,
    "summaries": _summary,
}
_TOLD_IN = {
    "mentions": ("entity", "entities"),
    "ties": ("relation", "relations"),
    "assertions": ("claim", "claims"),
}
TABLES = (*_TELL, *_TOLD_IN)


def _derived(world: World, table: str, column: str, of: str) -> Iterator[About]:
    """What is said in single chunks of an entity, a relation, a claim: it comes from these, and their documents."""
    document, known = "", set[str]()
    for id, key in world.tables[table].columns("id", column):
        chunk = id.rpartition(".")[0]
        if (now := id.partition(".")[0]) != document:
            document, known = now, set()
        sources = [world.node("chunks", chunk)] if key in known else world.sources(id, chunk=chunk)
        known.add(key)
        yield world.node(of, key), [(FROM, sources)]
