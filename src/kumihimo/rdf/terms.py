"""texts, ids, numbers -> the terms of RDF: what IRIs are made of, and in which language a text is."""

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
KUMI = "http://example.org/kumihimo#"  # under a name that is reserved: nobody can own it, and none had to be registered

TYPE, LABEL, BROADER = NamedNode(f"{RDF}type"), NamedNode(f"{RDFS}label"), NamedNode(f"{RDFS}subClassOf")
DERIVED_FROM = NamedNode(f"{PROV}wasDerivedFrom")
ARG1, ARG2, SENSE = (NamedNode(PDTB + name) for name in ("hasArg1", "hasArg2", "hasSense"))

# Tables whose rows have IRIs of their own, but for passages.
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

_MAX_VALUE_CHARS = 200  # characters of a value whose IRI spells it
_DATE, _TIME = NamedNode(f"{XSD}date"), NamedNode(f"{XSD}dateTime")
_LANGUAGE_TAG = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z]{4})?(-([A-Za-z]{2}|\d{3}))?")
_UNRESERVED = re.compile(r"[A-Za-z0-9-]*")  # what is spelled alike in an IRI, as most ids are
_KANA, _HANGUL = re.compile("[ぁ-ヺー-ヿ]"), re.compile("[가-힣]")
_HAN, _LATIN = re.compile("[㐀-鿿]"), re.compile("[A-Za-z]")

Tables = Mapping[str, Table[Any]]


@cache
def kumi_term(name: str) -> NamedNode:
    """A class or a property of our own vocabulary."""
    return NamedNode(KUMI + name)


def prefix_map(base: str) -> dict[str, str]:
    """The names that queries and files may use for the beginnings of IRIs."""
    others = {"rdf": RDF, "rdfs": RDFS, "xsd": XSD, "prov": PROV, "pdtb": PDTB, "kumi": KUMI}
    return {**others, "ex": base, **{name: f"{base}{name}/" for name in (*ROW_TABLES, "value", "field")}}


class SenseClass(Protocol):
    """A class of discourse relations: its name in the ontology, and the names of those it is a kind of."""

    @property
    def name(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def parents(self) -> tuple[str, ...]: ...


@dataclass
class RdfContext:
    """What is known while the tables are read."""

    tables: Tables
    base: str
    senses: list[SenseClass]
    languages: dict[str, str] = field(init=False)
    labelled_ids: set[str] = field(default_factory=set)  # values that have been given their label
    passage_position: tuple[str, int] = ("", 0)  # the document whose passages are read, and how many there have been
    community_documents: dict[str, frozenset[str]] = field(init=False)

    def __post_init__(self) -> None:
        self.languages = _document_languages(self.tables)
        self.community_documents = _community_documents(self.tables)

    def row_iri(self, table: str, id: str) -> NamedNode:
        """The IRI of a row. That of a passage is its id alone, as in the paper.

        With `-` for `.`: the library's parser of queries takes one dot in a name, and ids may hold two.
        """
        return _make_iri(f"{self.base}{'' if table == 'passages' else f'{table}/'}", id.replace(".", "-"))

    def value_iri(self, name: str) -> NamedNode:
        """The IRI of what is said in a slot: its text, or the digest of one that is long."""
        return _make_iri(f"{self.base}value/", name if len(name) <= _MAX_VALUE_CHARS else hash_parts(name))

    def slot_iri(self, name: str) -> NamedNode:
        """The property that says who, when, where ..."""
        return _make_iri(self.base, name)

    def field_iri(self, name: str) -> NamedNode:
        """The property that says a field of metadata."""
        return _make_iri(f"{self.base}field/", name)

    def source_iris(self, id: str, *, chunk: str = "") -> list[NamedNode]:
        """The document of a row, by its id, and the chunk."""
        found = [self.row_iri("documents", id.partition(".")[0])]
        return [self.row_iri("chunks", chunk), *found] if chunk else found

    def text_literal(self, text: str, id: str = "") -> Literal | None:
        """With its language, where its script or the document of that row's id tells."""
        if not text:
            return None
        language = language_of(text) or self.languages.get(id.partition(".")[0], "")
        return Literal(text, language=language) if language else Literal(text)


@lru_cache(1 << 14)  # rows that are neighbours name the same
def _make_iri(beginning: str, name: str) -> NamedNode:
    return NamedNode(beginning + (name if _UNRESERVED.fullmatch(name) else quote(name, safe="")))


def language_of(text: str) -> str:
    """The language that the script of a text tells: kana are Japanese, hangul Korean; of all others nothing.

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
    """Of documents whose metadata name it: by their ids."""
    found = {}
    if "documents" in tables:
        for id, metadata in tables["documents"].columns("id", "metadata"):
            said = json.loads(metadata).get("language")
            if isinstance(said, str) and _LANGUAGE_TAG.fullmatch(said):
                found[id] = said
    return found


def _community_documents(tables: Tables) -> dict[str, frozenset[str]]:
    """Of each community the documents that speak of its entities."""
    if "communities" not in tables or "mentions" not in tables:
        return {}
    of = defaultdict[str, set[str]](set)
    for id, entity in tables["mentions"].columns("id", "entity"):
        of[entity].add(id.partition(".")[0])
    found: dict[str, frozenset[str]] = {}
    for community in sorted(tables["communities"], key=lambda c: (-c.level, c.id)):
        parts = [found[child] for child in community.children] + [of[entity] for entity in community.members]
        found[community.id] = frozenset().union(*parts)
    return found


def iterate_terms(value: object) -> Iterator[NamedNode | Literal]:
    """No text is ever made part of a line: the library writes terms, whatever stands in them."""
    if isinstance(value, NamedNode | Literal):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from iterate_terms(part)
    elif isinstance(value, str | int | float) and value != "":
        yield Literal(value)


def date_literal(text: str) -> Literal | None:
    """A date, a time, or whatever else it is."""
    if re.fullmatch(r"\d{4}-\d\d-\d\d", text):
        return Literal(text, datatype=_DATE)
    if re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?", text):
        return Literal(text, datatype=_TIME)
    return Literal(text) if text else None
