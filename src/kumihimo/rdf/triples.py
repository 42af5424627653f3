"""tables -> RDF triples: a resource for each row, as docs/vocabulary.md describes."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from typing import Any
from urllib.parse import quote

from pyoxigraph import Literal, NamedNode, Quad

from kumihimo.core import digests, records
from kumihimo.core.table import Table
from kumihimo.index.pdtb_senses import PDTB_ONTOLOGY, DiscourseSense

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDFS = "http://www.w3.org/2000/01/rdf-schema#"
XSD = "http://www.w3.org/2001/XMLSchema#"
PROV = "http://www.w3.org/ns/prov#"
PDTB = PDTB_ONTOLOGY
KUMI = "http://example.org/kumihimo#"  # a reserved domain: no registration needed

TYPE, LABEL, BROADER = NamedNode(f"{RDF}type"), NamedNode(f"{RDFS}label"), NamedNode(f"{RDFS}subClassOf")
DERIVED_FROM = NamedNode(f"{PROV}wasDerivedFrom")
ARG1, ARG2, SENSE = (NamedNode(PDTB + name) for name in ("hasArg1", "hasArg2", "hasSense"))

# Tables with row IRIs under their own name; passages have IRIs under the base.
ROW_TABLES = (
    "documents",
    "chunks",
    "links",
    "entities",
    "relations",
    "claims",
    "communities",
    "reports",
    "questions",
    "summaries",
)

_MAX_VALUE_CHARS = 200  # longer values have a digest in their IRI
_DATE, _TIME = NamedNode(f"{XSD}date"), NamedNode(f"{XSD}dateTime")
_LANGUAGE_TAG = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z]{4})?(-([A-Za-z]{2}|\d{3}))?")
_UNRESERVED = re.compile(r"[A-Za-z0-9-]*")  # needs no escape in an IRI
_KANA, _HANGUL = re.compile("[ぁ-ヺー-ヿ]"), re.compile("[가-힣]")
_HAN, _LATIN = re.compile("[㐀-鿿]"), re.compile("[A-Za-z]")

Tables = Mapping[str, Table[Any]]


@cache
def kumi_term(name: str) -> NamedNode:
    """Return a class or property of the Kumihimo vocabulary."""
    return NamedNode(KUMI + name)


def prefix_map(base: str) -> dict[str, str]:
    """Return the IRI prefixes for queries and files."""
    standard = {"rdf": RDF, "rdfs": RDFS, "xsd": XSD, "prov": PROV, "pdtb": PDTB, "kumi": KUMI}
    return {**standard, "ex": base, **{name: f"{base}{name}/" for name in (*ROW_TABLES, "value", "field")}}


@dataclass
class RdfContext:
    """Lookups and state while tables become triples."""

    tables: Tables
    base: str
    senses: list[DiscourseSense]
    labelled_ids: set[str] = field(default_factory=set)  # resources that have a label already
    passage_position: tuple[str, int] = ("", 0)  # current document, and its passages so far

    @cached_property
    def languages(self) -> dict[str, str]:
        """Return the languages of documents that declare one, by id."""
        languages = {}
        if "documents" in self.tables:
            for id, metadata in self.tables["documents"].columns("id", "metadata"):
                language = json.loads(metadata).get("language")
                if isinstance(language, str) and _LANGUAGE_TAG.fullmatch(language):
                    languages[id] = language
        return languages

    @cached_property
    def community_documents(self) -> dict[str, frozenset[str]]:
        """Return the documents that mention entities of each community."""
        if "communities" not in self.tables or "mentions" not in self.tables:
            return {}
        documents_by_entity = defaultdict[str, set[str]](set)
        for id, entity in self.tables["mentions"].columns("id", "entity"):
            documents_by_entity[entity].add(id.partition(".")[0])
        documents: dict[str, frozenset[str]] = {}
        for community in sorted(self.tables["communities"], key=lambda c: (-c.level, c.id)):
            own = (documents_by_entity[entity] for entity in community.members)
            documents[community.id] = frozenset().union(*own, *(documents[child] for child in community.children))
        return documents

    def row_iri(self, table: str, id: str) -> NamedNode:
        """Return the IRI of a row.

        The IRI of a passage is its id alone, as in the paper. `-` replaces `.`: the library's query parser allows one
        dot in a name, and an id may contain two.
        """
        return _make_iri(f"{self.base}{'' if table == 'passages' else f'{table}/'}", id.replace(".", "-"))

    def value_iri(self, name: str) -> NamedNode:
        """Return the IRI of a slot value: its text, or its digest."""
        return _make_iri(f"{self.base}value/", name if len(name) <= _MAX_VALUE_CHARS else digests.hash_parts(name))

    def slot_iri(self, name: str) -> NamedNode:
        """Return the property of a 5W1H slot."""
        return _make_iri(self.base, name)

    def field_iri(self, name: str) -> NamedNode:
        """Return the property of a metadata field."""
        return _make_iri(f"{self.base}field/", name)

    def source_iris(self, id: str, *, chunk: str = "") -> list[NamedNode]:
        """Return the IRIs of the row's document and the chunk."""
        document = [self.row_iri("documents", id.partition(".")[0])]
        return [self.row_iri("chunks", chunk), *document] if chunk else document

    def text_literal(self, text: str, id: str = "") -> Literal | None:
        """Return a literal with the language of its script or document."""
        if not text:
            return None
        language = language_of(text) or self.languages.get(id.partition(".")[0], "")
        return Literal(text, language=language) if language else Literal(text)

    def text_literals(self, texts: Iterable[str]) -> list[Literal | None]:
        """Return the literals of texts that belong to no single document."""
        return [self.text_literal(text) for text in texts]

    def community_document_iris(self, id: str) -> list[NamedNode]:
        """Return the documents that mention entities of a community."""
        return [self.row_iri("documents", document) for document in sorted(self.community_documents.get(id, ()))]


@lru_cache(1 << 14)  # adjacent rows repeat names
def _make_iri(base: str, name: str) -> NamedNode:
    return NamedNode(base + (name if _UNRESERVED.fullmatch(name) else quote(name, safe="")))


def language_of(text: str) -> str:
    """Return the language that a text's script identifies, else empty.

    Kana means Japanese, hangul Korean.

    >>> [language_of(text) for text in ("組紐を送る", "組紐", "Cord, 組紐 (くみひも) in Japanese", "한국어", "cord")]
    ['ja', '', '', 'ko', '']
    """
    if text.isascii():
        return ""
    kana, hangul = len(_KANA.findall(text)), len(_HANGUL.findall(text))
    if not kana and not hangul:
        return ""
    latin = len(_LATIN.findall(text))
    if hangul > max(kana, latin):
        return "ko"
    return "ja" if kana and kana + len(_HAN.findall(text)) > latin else ""


def iterate_terms(value: object) -> Iterator[NamedNode | Literal]:
    """Yield values as RDF terms.

    The library serialises the terms, so no text can break the syntax.
    """
    if isinstance(value, NamedNode | Literal):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from iterate_terms(item)
    elif isinstance(value, str | int | float) and value != "":
        yield Literal(value)


def date_literal(text: str) -> Literal | None:
    """Return a date, date-time or plain literal."""
    if re.fullmatch(r"\d{4}-\d\d-\d\d", text):
        return Literal(text, datatype=_DATE)
    if re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?", text):
        return Literal(text, datatype=_TIME)
    return Literal(text) if text else None


PropertyValue = tuple[NamedNode, object]  # a property; its value is None, a term, a text, a number, or a list of these
Resource = tuple[NamedNode, list[PropertyValue]]


def table_triples(tables: Tables, senses: Iterable[DiscourseSense], base: str) -> Iterator[Quad]:
    """Yield all triples of the tables in id order, senses first.

    Each triple is in the default graph. base: the beginning of row IRIs.
    """
    world = RdfContext(tables, base, list(senses))
    for subject, properties in _iterate_resources(world):
        for name, value in properties:
            if isinstance(value, NamedNode | Literal):  # the usual case
                yield Quad(subject, name, value)
            else:
                yield from (Quad(subject, name, term) for term in iterate_terms(value))


def _iterate_resources(world: RdfContext) -> Iterator[Resource]:
    for sense in world.senses:
        parents = [NamedNode(PDTB + parent) for parent in sense.parents]
        yield NamedNode(PDTB + sense.name), [(LABEL, sense.label), (BROADER, parents)]
    for name, describe in _DESCRIBERS.items():
        for record in world.tables.get(name, ()):
            yield from describe(world, record)
    for name, (column, table) in _MENTION_TABLES.items():
        if name in world.tables:
            yield from _describe_sources(world, name, column, table)


def _resource(
    iri: NamedNode, kind: str | NamedNode, label: object = None, /, derived_from: object = (), **properties: object
) -> Resource:
    """Return a resource; its class and properties are in the Kumihimo vocabulary.

    kind: the class, by name or as a term of another vocabulary.
    """
    own = [(kumi_term(name), value) for name, value in properties.items()]
    kind = kumi_term(kind) if isinstance(kind, str) else kind
    return iri, [(TYPE, kind), (LABEL, label), *own, (DERIVED_FROM, derived_from)]


def _describe_document(world: RdfContext, d: records.Document) -> Iterator[Resource]:
    iri, label, modified = world.row_iri("documents", d.id), d.title or d.uri, date_literal(d.modified)
    properties = {"uri": d.uri, "file": d.file, "mediaType": d.media_type, "modified": modified}
    yield _resource(iri, "Document", world.text_literal(label, d.id), **properties)
    yield iri, [(world.field_iri(name), value) for name, value in d.metadata.items() if name != records.NOT_READ]


def _describe_chunk(world: RdfContext, c: records.Chunk) -> Iterator[Resource]:
    properties = {"text": world.text_literal(c.text, c.id), "order": c.ordinal, **_span_properties(c)}
    yield _resource(world.row_iri("chunks", c.id), "Chunk", derived_from=world.source_iris(c.id), **properties)


def _span_properties(piece: records.Chunk | records.Passage) -> dict[str, object]:
    return {"start": piece.start, "end": piece.end, "tokens": piece.tokens}


def _describe_passage(world: RdfContext, p: records.Passage) -> Iterator[Resource]:
    document = p.id.partition(".")[0]
    order = world.passage_position[1] if world.passage_position[0] == document else 0
    world.passage_position = (document, order + 1)
    iri, label = world.row_iri("passages", p.id), world.text_literal(p.text, p.id) or Literal("")
    sources = world.source_iris(p.id, chunk=p.chunk)
    yield _resource(iri, world.slot_iri("Chunk"), label, sources, order=order, **_span_properties(p))


def _describe_frame(world: RdfContext, f: records.SlotFiller) -> Iterator[Resource]:
    value = world.value_iri(f.name)
    yield world.row_iri("passages", f.passage), [(world.slot_iri(f.slot), value)]
    if f.name not in world.labelled_ids:
        world.labelled_ids.add(f.name)
        yield _resource(value, "Value", f.name)
    if (form := f"{f.name}\n{f.text}") not in world.labelled_ids:
        world.labelled_ids.add(form)
        yield value, [(kumi_term("form"), world.text_literal(f.text))]


def _describe_link(world: RdfContext, link: records.DiscourseRelation) -> Iterator[Resource]:
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


def _describe_entity(world: RdfContext, e: records.Entity) -> Iterator[Resource]:
    properties = {"type": e.types or e.type, "form": world.text_literals(e.forms), "text": world.text_literal(e.text)}
    iri, label = world.row_iri("entities", e.id), world.text_literal(e.name)
    yield _resource(iri, "Entity", label, **properties, mentions=e.mentions)


def _describe_relation(world: RdfContext, r: records.Relation) -> Iterator[Resource]:
    source, target = (world.row_iri("entities", id) for id in (r.source, r.target))
    yield _resource(
        world.row_iri("relations", r.id),
        "Relation",
        world.text_literal(" – ".join(r.names)),
        source=source,
        target=target,
        text=world.text_literal(r.text),
        keyword=world.text_literals(r.keywords),
        weight=r.weight,
        strength=r.strength,
    )
    yield source, [(kumi_term("related"), target)]


def _describe_claim(world: RdfContext, c: records.Claim) -> Iterator[Resource]:
    dates = {"from": date_literal(c.start), "until": date_literal(c.end)}
    yield _resource(
        world.row_iri("claims", c.id),
        "Claim",
        world.text_literal(" – ".join(filter(None, c.names))),
        subject=world.row_iri("entities", c.subject),
        object=world.row_iri("entities", c.object) if c.object else None,
        type=c.type,
        status=c.statuses,
        **dates,
        quote=world.text_literals(c.quotes),
        text=world.text_literal(c.text),
    )


def _describe_community(world: RdfContext, c: records.Community) -> Iterator[Resource]:
    parts = [world.row_iri("communities", id) for id in c.children]
    members = [world.row_iri("entities", id) for id in c.members]
    sources = [*parts, *members, *world.community_document_iris(c.id)]
    iri = world.row_iri("communities", c.id)
    yield _resource(iri, "Community", derived_from=sources, level=c.level, part=parts, member=members)


def _describe_report(world: RdfContext, r: records.Report) -> Iterator[Resource]:
    yield _resource(
        world.row_iri("reports", r.id),
        "Report",
        world.text_literal(r.title),
        [world.row_iri("communities", r.id), *world.community_document_iris(r.id)],
        summary=world.text_literal(r.summary),
        text=world.text_literal(r.text),
        rating=r.rating,
        level=r.level,
        cites=[world.row_iri(table, id) for table, id in r.citations()],
    )


def _describe_metadata(world: RdfContext, m: records.Metadata) -> Iterator[Resource]:
    yield world.row_iri("documents", m.document), [(world.field_iri(m.field), m.values)]


def _describe_question(world: RdfContext, q: records.Question) -> Iterator[Resource]:
    iri, label, answer = world.row_iri("questions", q.id), world.text_literal(q.text, q.id), q.answer
    yield _resource(iri, "Question", label, world.source_iris(q.id), answer=world.text_literal(answer, q.id))


def _describe_tag(world: RdfContext, t: records.Tag) -> Iterator[Resource]:
    summary, question = world.row_iri("summaries", t.summary), t.id.rpartition(".")[0]
    yield world.row_iri("questions", question), [(kumi_term("tag"), summary)]
    if t.summary not in world.labelled_ids:
        world.labelled_ids.add(t.summary)
        yield summary, [(LABEL, t.label)]


def _describe_summary(world: RdfContext, s: records.Summary) -> Iterator[Resource]:
    iri, text = world.row_iri("summaries", s.id), world.text_literal(s.text)
    yield _resource(iri, "Summary", s.label, text=text, questions=s.questions)


_DESCRIBERS: Mapping[str, Any] = {  # by table
    "documents": _describe_document,
    "chunks": _describe_chunk,
    "passages": _describe_passage,
    "frames": _describe_frame,
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
