"""texts, ids, numbers -> RDF terms: IRIs, and literals with their language."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any, Protocol
from urllib.parse import quote

from pyoxigraph import Literal, NamedNode

from kumihimo.core.digests import hash_parts
from kumihimo.core.table import Table

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDFS = "http://www.w3.org/2000/01/rdf-schema#"
XSD = "http://www.w3.org/2001/XMLSchema#"
PROV = "http://www.w3.org/ns/prov#"
PDTB = "http://purl.org/olia/discourse/discourse.PDTB.owl#"
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


class SenseClass(Protocol):
    """A class of discourse relations, with its parents in the ontology."""

    @property
    def name(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def parents(self) -> tuple[str, ...]: ...


@dataclass
class RdfContext:
    """Lookups and state while tables become triples."""

    tables: Tables
    base: str
    senses: list[SenseClass]
    languages: dict[str, str] = field(init=False)
    labelled_ids: set[str] = field(default_factory=set)  # resources that have a label already
    passage_position: tuple[str, int] = ("", 0)  # current document, and its passages so far
    community_documents: dict[str, frozenset[str]] = field(init=False)

    def __post_init__(self) -> None:
        self.languages = _document_languages(self.tables)
        self.community_documents = _community_documents(self.tables)

    def row_iri(self, table: str, id: str) -> NamedNode:
        """Return the IRI of a row.

        The IRI of a passage is its id alone, as in the paper. `-` replaces `.`: the library's query parser allows one
        dot in a name, and an id may contain two.
        """
        return _make_iri(f"{self.base}{'' if table == 'passages' else f'{table}/'}", id.replace(".", "-"))

    def value_iri(self, name: str) -> NamedNode:
        """Return the IRI of a slot value: its text, or its digest."""
        return _make_iri(f"{self.base}value/", name if len(name) <= _MAX_VALUE_CHARS else hash_parts(name))

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


def _document_languages(tables: Tables) -> dict[str, str]:
    """Return the languages of documents that declare one, by id."""
    languages = {}
    if "documents" in tables:
        for id, metadata in tables["documents"].columns("id", "metadata"):
            language = json.loads(metadata).get("language")
            if isinstance(language, str) and _LANGUAGE_TAG.fullmatch(language):
                languages[id] = language
    return languages


def _community_documents(tables: Tables) -> dict[str, frozenset[str]]:
    """Return the documents that mention entities of each community."""
    if "communities" not in tables or "mentions" not in tables:
        return {}
    documents_by_entity = defaultdict[str, set[str]](set)
    for id, entity in tables["mentions"].columns("id", "entity"):
        documents_by_entity[entity].add(id.partition(".")[0])
    documents: dict[str, frozenset[str]] = {}
    for community in sorted(tables["communities"], key=lambda c: (-c.level, c.id)):
        sets = [documents[child] for child in community.children] + [
            documents_by_entity[entity] for entity in community.members
        ]
        documents[community.id] = frozenset().union(*sets)
    return documents


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
