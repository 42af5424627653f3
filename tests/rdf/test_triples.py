"""rows -> triples, and the listings of the paper over them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, strategies as st
from pyoxigraph import Literal, NamedNode, Quad, RdfFormat, Store, Triple, parse, serialize

from kumihimo.core.digests import hash_parts, replace_surrogates
from kumihimo.core.records import (
    Chunk,
    DiscourseRelation,
    Document,
    Metadata,
    Passage,
    Question,
    Record,
    SlotFiller,
    Summary,
    Tag,
)
from kumihimo.index.pdtb_senses import senses_by_name
from kumihimo.rdf import store as rdf
from kumihimo.rdf.triples import KUMI, PDTB, RDF_TABLES, RDFS, prefix_map, table_triples
from tests import factories_graphs, factories_tables

BASE = "http://example.org/"
DOCUMENT = "d" * 20
SLOTS = ("who", "predicate", "what", "when", "where", "why", "how")


def passage(n: int, text: str) -> Passage:
    chunk = f"{DOCUMENT}.{n // 2:05}"
    return Passage(id=f"{chunk}.{n % 2:05}", text=text, start=n * 50, end=n * 50 + len(text), tokens=9)


def frames(p: Passage, **slots: str) -> list[SlotFiller]:
    """`who="orrell/annie"`: two values of one slot."""
    given_values = [(slot, name) for slot, names in slots.items() for name in names.split("/")]
    return [
        SlotFiller(slot, name, p.ordinal, id=f"{p.chunk}.{p.ordinal * 50 + n:05}", text=name.upper())
        for n, (slot, name) in enumerate(given_values)
    ]


PASSAGES = [
    passage(0, "Orrell and Annie mended the breakwater in May."),
    passage(1, "Because the storm had broken it."),
    passage(2, "Annie sang in the loft."),
    passage(3, "In May the net was mended in the loft."),
]
ROWS: dict[str, list[Any]] = {
    "documents": [Document(id=DOCUMENT, uri="n/a.md", file="n/a.md", title="Notes", media_type="text/markdown")],
    "chunks": [
        Chunk(id=f"{DOCUMENT}.{n:05}", title="Notes", start=100 * n, end=100 * n + 99, tokens=20) for n in (0, 1)
    ],
    "passages": PASSAGES,
    "frames": [
        *frames(PASSAGES[0], who="orrell/annie", predicate="mend", what="breakwater", when="may"),
        *frames(PASSAGES[1], who="storm", predicate="break"),
        *frames(PASSAGES[2], who="annie", predicate="sing", where="loft"),
        *frames(PASSAGES[3], what="net", predicate="mend", when="may", where="loft"),
    ],
    "links": [
        DiscourseRelation(
            id=f"{DOCUMENT}.00000.00000", text="reason", first=PASSAGES[0].id, second=PASSAGES[1].id, confidence=0.5
        ),
        DiscourseRelation(
            id=f"{DOCUMENT}.00000.00001",
            text="conjunction",
            first=PASSAGES[1].id,
            second=PASSAGES[2].id,
            confidence=None,
        ),
        DiscourseRelation(
            id=f"{DOCUMENT}.00001.00000", text="result", first=PASSAGES[2].id, second=PASSAGES[0].id, confidence=None
        ),
    ],
}


def tables(rows: Mapping[str, Iterable[Record]]) -> dict[str, Any]:
    return {
        name: factories_tables.table(type(records[0]), records)
        for name, some in rows.items()
        if (records := list(some))
    }


def triples_of(rows: Mapping[str, Iterable[Record]]) -> list[Triple]:
    return [quad.triple for quad in table_triples(tables(rows), senses_by_name().values(), BASE)]


def open_store(results: Iterable[Triple], path: Path) -> Store:
    rdf.write_store(path, (Quad(*triple) for triple in results))
    return Store.read_only(str(path))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return open_store(triples_of(ROWS), tmp_path_factory.mktemp("hand") / "store")


def rows(store: Store, query: str) -> list[tuple[str, ...]]:
    results: Any = store.query(query, prefixes=prefix_map(BASE), base_iri=BASE)
    return [tuple(term.value if term else "" for term in row) for row in results]


def iri(p: Passage) -> str:
    return f"{BASE}{name(p)}"


def name(p: Passage) -> str:
    return p.id.replace(".", "-")


def numbers(results: list[tuple[str, ...]]) -> list[int]:
    """Return the positions of the passages in the rows."""
    return [[iri(p) for p in PASSAGES].index(row[0]) for row in results]


# -- Listing 1

LISTING_1 = """
PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>
PREFIX ex:   <http://example.org/>
PREFIX pdtb: <http://purl.org/olia/discourse/discourse.PDTB.owl#>
SELECT DISTINCT ?chunk ?text WHERE {
  { ?relation pdtb:hasArg1 ex:%s . ?relation pdtb:hasArg2 ?chunk . }
  UNION
  { ?relation pdtb:hasArg2 ex:%s . ?relation pdtb:hasArg1 ?chunk . }
  ?relation pdtb:hasSense ?sense .
  ?sense rdfs:subClassOf* ?sense2 .
  ?sense2 rdfs:label "%s" .
  ?chunk rdfs:label ?text .
} ORDER BY ?chunk
"""


@pytest.mark.parametrize(
    ("sense", "results"),
    [
        ("reason", [1]),  # the sense itself
        ("cause", [1, 2]),  # reason and result, in both directions
        ("contigency", [1, 2]),  # two levels up, in the spelling of the ontology
        ("condition", []),
        ("comparison", []),
        ("conjunction", []),
    ],
)
def test_listing_1_finds_a_sense_and_narrower_ones_in_both_directions(
    sense: str, results: list[int], store: Store
) -> None:
    got = rows(store, LISTING_1 % (name(PASSAGES[0]), name(PASSAGES[0]), sense))
    assert numbers(got) == results
    assert [text for _, text in got] == [PASSAGES[n].text for n in results]


def test_senses_follow_the_ontology(store: Store) -> None:
    up = rows(store, "SELECT ?label { pdtb:reason rdfs:subClassOf+ ?s . ?s rdfs:label ?label }")
    assert sorted(up) == [("cause",), ("contigency",)]
    assert rows(store, 'SELECT ?s { ?s rdfs:label "contra-expectation" }') == [(f"{PDTB}contraExpectation",)]


# -- Listing 2


def listing_2(wanted_slots: Mapping[str, str]) -> str:
    """Return Listing 2 as corrected.

    It has an OPTIONAL and a summand for each slot, and no passage without a match.
    """
    hits = " + ".join(f"IF(BOUND(?{slot}),1,0)" for slot in wanted_slots)
    optional = "\n".join(
        f"OPTIONAL {{ ?chunk ex:{s} ?{s} . FILTER(?{s} = value:{quote(v)}) }}" for s, v in wanted_slots.items()
    )
    bound = " || ".join(f"BOUND(?{slot})" for slot in wanted_slots)
    order = " ".join(f"DESC(?{slot})" for slot in SLOTS)
    return f"""SELECT ?chunk ?text (({hits}) AS ?hits) WHERE {{
      ?chunk rdf:type ex:Chunk .
      ?chunk rdfs:label ?text .
      {optional}
      FILTER({bound})
    }} ORDER BY DESC(?hits) {order} ?chunk"""


def cheaper(wanted_slots: Mapping[str, str]) -> str:
    pairs = " ".join(f"(ex:{slot} value:{quote(value)})" for slot, value in wanted_slots.items())
    return f"""SELECT ?chunk ?text (COUNT(DISTINCT ?slot) AS ?hits) WHERE {{
      VALUES (?slot ?value) {{ {pairs} }}
      ?chunk rdf:type ex:Chunk ; rdfs:label ?text ; ?slot ?value .
    }} GROUP BY ?chunk ?text ORDER BY DESC(?hits) ?chunk"""


@pytest.mark.parametrize(
    ("wanted_slots", "results"),
    [
        ({"who": "annie"}, [0, 2]),  # one of two values is enough
        ({"who": "annie", "when": "may"}, [0, 2, 3]),
        ({"predicate": "mend", "when": "may", "where": "loft"}, [3, 0, 2]),
        ({"who": "loft"}, []),  # a value of another slot
        ({"why": "nobody"}, []),
    ],
)
def test_listing_2_counts_the_slots_that_match(wanted_slots: dict[str, str], results: list[int], store: Store) -> None:
    assert numbers(rows(store, cheaper(wanted_slots))) == results
    assert rows(store, listing_2(wanted_slots)) == rows(store, cheaper(wanted_slots))


def test_both_forms_of_listing_2_give_the_same_order(tmp_path: Path) -> None:
    """Order among equal hits is excluded: the printed form sorts those by slot."""
    random, rows_made = Random(7), [passage(n, f"Passage {n}.") for n in range(40)]
    values = ["a", "b b", "組"]
    given_values = [
        f
        for p in rows_made
        for f in frames(p, **{s: "/".join(random.sample(values, random.choice((1, 2)))) for s in SLOTS})
    ]
    store = open_store(triples_of({**ROWS, "passages": rows_made, "frames": given_values}), tmp_path / "store")
    for slots in combinations(SLOTS, 3):
        wanted_slots = {slot: random.choice(values) for slot in slots}
        one, other = rows(store, listing_2(wanted_slots)), rows(store, cheaper(wanted_slots))
        assert sorted(one) == sorted(other)
        assert [hits for *_, hits in one] == [hits for *_, hits in other]
        first = one[: sum(hits == "3" for *_, hits in one)]  # all slots match: only the passage decides
        assert first == other[: len(first)]


# -- rows


def test_passages_have_their_place(store: Store) -> None:
    results = rows(
        store, "SELECT ?p ?o ?s ?e { ?p a ex:Chunk ; kumi:order ?o ; kumi:start ?s ; kumi:end ?e } ORDER BY ?o"
    )
    assert results == [(iri(p), str(n), str(p.start), str(p.end)) for n, p in enumerate(PASSAGES)]
    sources = rows(store, f"SELECT ?s {{ ex:{name(PASSAGES[3])} prov:wasDerivedFrom ?s }} ORDER BY ?s")
    assert sources == [(f"{BASE}chunks/{DOCUMENT}-00001",), (f"{BASE}documents/{DOCUMENT}",)]


def test_values_are_resources_shared_by_slots(store: Store) -> None:
    results = rows(store, 'SELECT ?slot ?p { ?p ?slot value:loft . value:loft rdfs:label "loft" } ORDER BY ?p')
    assert results == [(f"{BASE}where", iri(PASSAGES[n])) for n in (2, 3)]
    query_text = 'SELECT ?p { BIND(IRI(CONCAT(STR(value:), ENCODE_FOR_URI("storm"))) AS ?v) ?p ex:who ?v }'
    assert rows(store, query_text) == [(iri(PASSAGES[1]),)]


def test_metadata_questions_and_summaries(tmp_path: Path) -> None:
    given_values = {"language": "fr", "n": [1, True], "x": {}}
    document = Document(
        id=DOCUMENT, uri="a", file="a", title="A", media_type="text/plain", modified="2026-01-02", metadata=given_values
    )
    label = "field = nets"
    rows_made: dict[str, list[Any]] = {
        "documents": [document],
        "metadata": [
            Metadata(id=f"{DOCUMENT}.00000", document=DOCUMENT, field="research field", values=("nets", "ropes"))
        ],
        "questions": [Question(id=f"{DOCUMENT}.00000", text="Qui ?", answer="Annie.", title="A", tokens=3)],
        "tags": [Tag(id=f"{DOCUMENT}.00000.00000", text="Qui ?", summary=hash_parts(label), label=label)],
        "summaries": [Summary(id=hash_parts(label), text="Nets.", label=label, questions=1, tokens=2)],
        "frames": [
            SlotFiller("who", "annie", 0, id=f"{DOCUMENT}.00000.{n:05}", text=form)
            for n, form in enumerate(("Annie", "アニー", "Annie"))
        ],
    }
    store = open_store(triples_of(rows_made), tmp_path / "store")
    query_text = "SELECT ?v { ?d <field/research%20field> ?v ; kumi:uri 'a' } ORDER BY ?v"
    assert rows(store, query_text) == [("nets",), ("ropes",)]
    assert rows(store, "SELECT ?n { ?d field:n ?n }") in ([("1",), ("true",)], [("true",), ("1",)])
    query_text = "SELECT ?q (LANG(?q) AS ?l) ?a ?s { ?x rdfs:label ?q ; kumi:answer ?a ; kumi:tag [ kumi:text ?s ] }"
    assert rows(store, query_text) == [("Qui ?", "fr", "Annie.", "Nets.")]
    assert rows(store, "SELECT ?f { value:annie kumi:form ?f } ORDER BY LANG(?f)") == [("Annie",), ("アニー",)]
    assert rows(store, "SELECT ?d { ?d kumi:modified '2026-01-02'^^xsd:date }") == [(f"{BASE}documents/{DOCUMENT}",)]


def test_reports_have_their_sources(tmp_path: Path) -> None:
    rows_made = factories_graphs.made(60, 240)
    store = open_store(triples_of(rows_made), tmp_path / "store")
    deep = next(
        r
        for r in rows_made["reports"]
        if r.level == 0 and any(r.id == c.id and c.children for c in rows_made["communities"])
    )
    query_text = "SELECT DISTINCT ?x { reports:%s prov:wasDerivedFrom%s ?x . ?x a kumi:%s }"
    documents = rows(store, query_text % (deep.id, "", "Document"))
    assert documents
    assert sorted(documents) == sorted(rows(store, query_text % (deep.id, "+", "Document")))
    chunks = rows(store, query_text % (deep.id, "+", "Chunk"))
    assert {chunk.rpartition("/")[2].partition("-")[0] for (chunk,) in chunks} == {
        document.rpartition("/")[2] for (document,) in documents
    }
    citations = {f"{BASE}{table}/{id}" for table, id in deep.citations()}
    assert {c for (c,) in rows(store, f"SELECT ?c {{ reports:{deep.id} kumi:cites ?c }}")} == citations


def test_every_table_with_content_has_triples() -> None:
    from kumihimo.app.opened.catalogue import BUILT_IN

    assert set(BUILT_IN.record_types) - set(RDF_TABLES) == {
        "descriptions",  # from the title, uri and metadata of the document, which has triples
        "names",  # the mentions by rule have triples
        "merges",  # the ids of the mentions say them
        "members",  # communities list their members
        *("imported_units", "imported_descriptions", "imported_communities"),  # the rows made of them have triples
    }
    results = triples_of({**factories_graphs.made(60, 240), **ROWS})
    kinds = {t.object.value for t in results if t.predicate.value.endswith("#type") and isinstance(t.object, NamedNode)}
    assert {kind.removeprefix(KUMI) for kind in kinds if kind.startswith(KUMI)} == {
        *("Document", "Chunk", "Link", "Value", "Entity", "Relation", "Claim", "Community", "Report")
    }


def test_iris_do_not_depend_on_order_or_other_rows() -> None:
    again = {name: records[::-1] for name, records in ROWS.items()}
    assert set(map(str, triples_of(ROWS))) == set(map(str, triples_of(again)))
    fewer = {**ROWS, "passages": PASSAGES[1:], "frames": ROWS["frames"][5:]}
    order = f"<{KUMI}order>"
    assert {t for t in map(str, triples_of(fewer)) if order not in t} < set(map(str, triples_of(ROWS)))


def test_base_changes_row_iris_only() -> None:
    moved = [str(t.triple) for t in table_triples(tables(ROWS), senses_by_name().values(), "https://nets.example/kb#")]
    assert sorted(t.replace("https://nets.example/kb#", BASE) for t in moved) == sorted(map(str, triples_of(ROWS)))


# -- hostile texts

HOSTILE = [
    'He said "no".',
    "line\nline\r\n\tline",
    '" . <http://evil.example/s> <http://evil.example/p> "x" . #',
    "> . <http://evil.example/s> <http://evil.example/p> <http://evil.example/o",
    "\\u0022 \\ ' ''' \"\"\"",
    "👩‍👩‍👧 組紐 \u202e abc \ufeff",
    "\x00\x1b[31m\x7f\u2028\ufffe\uffff",
    "x" * 200_000,
    "%20/../#?{}|^`[]@:",
    " ",
]


def hostile(text: str) -> dict[str, list[Any]]:
    """Return rows with the text in every text column."""
    p = passage(0, text)
    doc = Document(
        id=DOCUMENT, uri=text, file=text, title=text, media_type=text, metadata={text: [text], "language": text}
    )
    return {
        "documents": [doc],
        "chunks": [Chunk(id=f"{DOCUMENT}.00000", text=text, title=text, start=0, end=1, tokens=1)],
        "passages": [p],
        "frames": [SlotFiller("who", text, p.ordinal, id=p.id, text=text)],
        "links": [DiscourseRelation(id=f"{DOCUMENT}.0", text=text, first=p.id, second=p.id, confidence=None)],
        "metadata": [Metadata(id=f"{DOCUMENT}.0", document=DOCUMENT, field=text, values=(text,))],
    }


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_no_text_breaks_or_injects_a_triple(text: str, tmp_path: Path) -> None:
    plain, results = triples_of(hostile("plain")), triples_of(hostile(text))
    assert len(results) in (len(plain), len(plain) - 2)  # " " counts as no title
    names = [part.value for t in results for part in t if isinstance(part, NamedNode)]
    assert [name for name in names if not re.fullmatch(r"http://[\w.%/#~-]+", name)] == []
    assert [name for name in names if "//evil" in name] == []
    for form in (RdfFormat.TURTLE, RdfFormat.N_TRIPLES):
        written = serialize(results, format=form, prefixes=prefix_map(BASE) if form == RdfFormat.TURTLE else None)
        assert [quad.triple for quad in parse(written, form)] == results
    store = open_store(results, tmp_path / "store")
    assert rows(store, f"SELECT ?text {{ ex:{name(PASSAGES[0])} rdfs:label ?text }}") == [(text,)]
    value = quote(text, safe="") if len(text) <= 200 else hash_parts(text)
    assert rows(store, f"SELECT ?p {{ ?p ex:who <value/{value}> }}") == [(iri(PASSAGES[0]),)]


@given(st.text(min_size=1, max_size=40).map(replace_surrogates))
def test_any_text_is_read_back_unchanged(text: str) -> None:
    results = triples_of(hostile(text))
    written = serialize(results, format=RdfFormat.N_TRIPLES)
    assert [quad.triple for quad in parse(written, RdfFormat.N_TRIPLES)] == results


# -- languages


@pytest.mark.parametrize(
    ("text", "given_values", "language"),
    [
        ("組紐を送る", "", "ja"),
        ("組紐を送る", "en", "ja"),
        ("組紐", "", None),
        ("组绳", "zh-Hans", "zh-hans"),
        ("나는 끈을 보냈다", "", "ko"),
        ("A cord", "", None),
        ("A cord", "en-GB", "en-gb"),
        ("A cord (くみひも), sent by sea", "en", "en"),
        ("A cord", 'en"@x', None),
        ("A cord", "English", None),
    ],
)
def test_language_is_set_only_if_certain(text: str, given_values: str, language: str | None) -> None:
    document = Document(id=DOCUMENT, uri="a", file="a", title="", media_type="", metadata={"language": given_values})
    chunk = Chunk(id=f"{DOCUMENT}.00000", text=text, title="", start=0, end=1, tokens=1)
    results = [
        t.object for t in triples_of({"documents": [document], "chunks": [chunk]}) if t.predicate.value == f"{KUMI}text"
    ]
    assert [term.language for term in results if isinstance(term, Literal)] == [language]


def test_lookup_labels_have_no_language(store: Store) -> None:
    assert rows(store, 'SELECT ?v { ?v a kumi:Value ; rdfs:label ?l FILTER(LANG(?l) != "") }') == []
    assert not [s for s in senses_by_name().values() if re.search("[^ -~]", s.label)]
    assert rows(store, f"SELECT ?l {{ ?s <{RDFS}subClassOf> ?o ; rdfs:label ?l FILTER(LANG(?l) != '') }}") == []
