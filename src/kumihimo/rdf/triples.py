"""tables -> RDF triples: a resource for each row, as docs/vocabulary.md describes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pyoxigraph import Literal, NamedNode, Quad

from kumihimo.core.records import (
    NOT_READ,
    Chunk,
    Claim,
    Community,
    DiscourseRelation,
    Document,
    Entity,
    Metadata,
    Passage,
    Question,
    Relation,
    Report,
    SlotFiller,
    SlotValue,
    Summary,
    Tag,
)
from kumihimo.rdf.terms import (
    ARG1,
    ARG2,
    BROADER,
    DERIVED_FROM,
    LABEL,
    PDTB,
    SENSE,
    TYPE,
    RdfContext,
    SenseClass,
    Tables,
    date_literal,
    iterate_terms,
    kumi_term,
)

PropertyValue = tuple[NamedNode, object]  # a property; its value is None, a term, a text, a number, or a list of these
Resource = tuple[NamedNode, list[PropertyValue]]


def table_triples(tables: Tables, senses: Iterable[SenseClass], base: str) -> Iterator[Quad]:
    """Yield all triples of the tables in id order, senses first.

    Each triple is in the default graph. base: the beginning of row IRIs.
    """
    world = RdfContext(tables, base, senses := list(senses))
    for subject, properties in _iterate_resources(world, senses):
        for name, value in properties:
            if isinstance(value, NamedNode | Literal):  # the usual case
                yield Quad(subject, name, value)
            else:
                yield from (Quad(subject, name, term) for term in iterate_terms(value))


def _iterate_resources(world: RdfContext, senses: Iterable[SenseClass]) -> Iterator[Resource]:
    for sense in senses:
        parents = [NamedNode(PDTB + parent) for parent in sense.parents]
        yield NamedNode(PDTB + sense.name), [(LABEL, sense.label), (BROADER, parents)]
    for name, describe in _DESCRIBERS.items():
        for record in world.tables.get(name, ()):
            yield from describe(world, record)
    for name, (column, table) in _MENTION_TABLES.items():
        if name in world.tables:
            yield from _describe_sources(world, name, column, table)


# -- a function for each table


def _describe_document(world: RdfContext, d: Document) -> Iterator[Resource]:
    properties: list[PropertyValue] = [
        (TYPE, kumi_term("Document")),
        (LABEL, world.text_literal(d.title or d.uri, d.id)),
        (kumi_term("uri"), d.uri),
        (kumi_term("file"), d.file),
        (kumi_term("mediaType"), d.media_type),
        (kumi_term("modified"), date_literal(d.modified)),
    ]
    fields = [(world.field_iri(name), value) for name, value in d.metadata.items() if name != NOT_READ]
    yield world.row_iri("documents", d.id), [*properties, *fields]


def _describe_chunk(world: RdfContext, c: Chunk) -> Iterator[Resource]:
    properties = [
        (TYPE, kumi_term("Chunk")),
        (kumi_term("text"), world.text_literal(c.text, c.id)),
        (kumi_term("order"), c.ordinal),
    ]
    yield world.row_iri("chunks", c.id), [*properties, *_span_properties(c), (DERIVED_FROM, world.source_iris(c.id))]


def _span_properties(piece: Chunk | Passage) -> list[PropertyValue]:
    return [(kumi_term("start"), piece.start), (kumi_term("end"), piece.end), (kumi_term("tokens"), piece.tokens)]


def _describe_passage(world: RdfContext, p: Passage) -> Iterator[Resource]:
    document = p.id.partition(".")[0]
    order = world.passage_position[1] if world.passage_position[0] == document else 0
    world.passage_position = (document, order + 1)
    properties: list[PropertyValue] = [
        (TYPE, world.slot_iri("Chunk")),
        (LABEL, world.text_literal(p.text, p.id) or Literal("")),
    ]
    yield (
        world.row_iri("passages", p.id),
        [
            *properties,
            (kumi_term("order"), order),
            *_span_properties(p),
            (DERIVED_FROM, world.source_iris(p.id, chunk=p.chunk)),
        ],
    )


def _describe_frame(world: RdfContext, f: SlotFiller) -> Iterator[Resource]:
    value = world.value_iri(f.name)
    yield world.row_iri("passages", f.passage), [(world.slot_iri(f.slot), value)]
    if f.name not in world.labelled_ids:
        world.labelled_ids.add(f.name)
        yield value, [(TYPE, kumi_term("Value")), (LABEL, f.name)]


def _describe_value(world: RdfContext, v: SlotValue) -> Iterator[Resource]:
    yield world.value_iri(v.text), [(kumi_term("form"), [world.text_literal(form) for form in v.forms])]


def _describe_link(world: RdfContext, link: DiscourseRelation) -> Iterator[Resource]:
    name = next((sense.name for sense in world.senses if sense.label == link.text), "")
    ends = [world.row_iri("passages", id) for id in (link.first, link.second)]
    properties: list[PropertyValue] = [
        (TYPE, kumi_term("Link")),
        (ARG1, ends[0]),
        (ARG2, ends[1]),
        (SENSE, NamedNode(PDTB + name) if name and link.text else None),
        (kumi_term("confidence"), link.confidence),
        (DERIVED_FROM, [*ends, *world.source_iris(link.id)]),
    ]
    yield world.row_iri("links", link.id), properties


def _describe_entity(world: RdfContext, e: Entity) -> Iterator[Resource]:
    properties: list[PropertyValue] = [
        (TYPE, kumi_term("Entity")),
        (LABEL, world.text_literal(e.name)),
        (kumi_term("type"), e.types or e.type),
        (kumi_term("form"), [world.text_literal(form) for form in e.forms]),
        (kumi_term("text"), world.text_literal(e.text)),
        (kumi_term("mentions"), e.mentions),
    ]
    yield world.row_iri("entities", e.id), properties


def _describe_relation(world: RdfContext, r: Relation) -> Iterator[Resource]:
    ends = [world.row_iri("entities", id) for id in (r.source, r.target)]
    properties: list[PropertyValue] = [
        (TYPE, kumi_term("Relation")),
        (LABEL, world.text_literal(" – ".join(r.names))),
        (kumi_term("source"), ends[0]),
        (kumi_term("target"), ends[1]),
        (kumi_term("text"), world.text_literal(r.text)),
        (kumi_term("keyword"), [world.text_literal(word) for word in r.keywords]),
        (kumi_term("weight"), r.weight),
        (kumi_term("strength"), r.strength),
    ]
    yield world.row_iri("relations", r.id), properties
    yield ends[0], [(kumi_term("related"), ends[1])]


def _describe_claim(world: RdfContext, c: Claim) -> Iterator[Resource]:
    properties: list[PropertyValue] = [
        (TYPE, kumi_term("Claim")),
        (LABEL, world.text_literal(" – ".join(filter(None, c.names)))),
        (kumi_term("subject"), world.row_iri("entities", c.subject)),
        (kumi_term("object"), world.row_iri("entities", c.object) if c.object else None),
        (kumi_term("type"), c.type),
        (kumi_term("status"), c.statuses),
        (kumi_term("from"), date_literal(c.start)),
        (kumi_term("until"), date_literal(c.end)),
        (kumi_term("quote"), [world.text_literal(quote) for quote in c.quotes]),
        (kumi_term("text"), world.text_literal(c.text)),
    ]
    yield world.row_iri("claims", c.id), properties


def _describe_community(world: RdfContext, c: Community) -> Iterator[Resource]:
    parts = [world.row_iri("communities", id) for id in c.children]
    members = [world.row_iri("entities", id) for id in c.members]
    properties: list[PropertyValue] = [
        (TYPE, kumi_term("Community")),
        (kumi_term("level"), c.level),
        (kumi_term("part"), parts),
    ]
    documents = [world.row_iri("documents", id) for id in sorted(world.community_documents.get(c.id, ()))]
    yield (
        world.row_iri("communities", c.id),
        [*properties, (kumi_term("member"), members), (DERIVED_FROM, [*parts, *members, *documents])],
    )


def _describe_report(world: RdfContext, r: Report) -> Iterator[Resource]:
    properties: list[PropertyValue] = [
        (TYPE, kumi_term("Report")),
        (LABEL, world.text_literal(r.title)),
        (kumi_term("summary"), world.text_literal(r.summary)),
        (kumi_term("text"), world.text_literal(r.text)),
        (kumi_term("rating"), r.rating),
        (kumi_term("level"), r.level),
        (kumi_term("cites"), [world.row_iri(table, id) for table, id in r.citations()]),
    ]
    documents = [world.row_iri("documents", id) for id in sorted(world.community_documents.get(r.id, ()))]
    yield (
        world.row_iri("reports", r.id),
        [*properties, (DERIVED_FROM, [world.row_iri("communities", r.id), *documents])],
    )


def _describe_metadata(world: RdfContext, m: Metadata) -> Iterator[Resource]:
    yield world.row_iri("documents", m.document), [(world.field_iri(m.field), m.values)]


def _describe_question(world: RdfContext, q: Question) -> Iterator[Resource]:
    properties: list[PropertyValue] = [(TYPE, kumi_term("Question")), (LABEL, world.text_literal(q.text, q.id))]
    yield (
        world.row_iri("questions", q.id),
        [
            *properties,
            (kumi_term("answer"), world.text_literal(q.answer, q.id)),
            (DERIVED_FROM, world.source_iris(q.id)),
        ],
    )


def _describe_tag(world: RdfContext, t: Tag) -> Iterator[Resource]:
    summary, question = world.row_iri("summaries", t.summary), t.id.rpartition(".")[0]
    yield world.row_iri("questions", question), [(kumi_term("tag"), summary)]
    if t.summary not in world.labelled_ids:
        world.labelled_ids.add(t.summary)
        yield summary, [(LABEL, t.label)]


def _describe_summary(world: RdfContext, s: Summary) -> Iterator[Resource]:
    properties: list[PropertyValue] = [
        (TYPE, kumi_term("Summary")),
        (LABEL, s.label),
        (kumi_term("text"), world.text_literal(s.text)),
    ]
    yield world.row_iri("summaries", s.id), [*properties, (kumi_term("questions"), s.questions)]


_DESCRIBERS: Mapping[str, Any] = {  # by table
    "documents": _describe_document,
    "chunks": _describe_chunk,
    "passages": _describe_passage,
    "frames": _describe_frame,
    "values": _describe_value,
    "links": _describe_link,
    "entities": _describe_entity,
    "relations": _describe_relation,
    "claims": _describe_claim,
    "communities": _describe_community,
    "reports": _describe_report,
    "metadata": _describe_metadata,
    "questions": _describe_question,
    "tags": _describe_tag,
    "summaries": _describe_summary,
}
_MENTION_TABLES = {
    "mentions": ("entity", "entities"),
    "ties": ("relation", "relations"),
    "assertions": ("claim", "claims"),
}
RDF_TABLES = (*_DESCRIBERS, *_MENTION_TABLES)


def _describe_sources(world: RdfContext, table: str, column: str, target_table: str) -> Iterator[Resource]:
    """Yield the source chunks and documents of graph rows."""
    document, seen_keys = "", set[str]()
    for id, key in world.tables[table].columns("id", column):
        chunk = id.rpartition(".")[0]
        if (current := id.partition(".")[0]) != document:
            document, seen_keys = current, set()
        sources = [world.row_iri("chunks", chunk)] if key in seen_keys else world.source_iris(id, chunk=chunk)
        seen_keys.add(key)
        yield world.row_iri(target_table, key), [(DERIVED_FROM, sources)]
