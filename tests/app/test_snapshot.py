"""one read transaction -> evidence, answers and traces."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kumihimo import KumiError, Kumihimo, Span
from kumihimo.app.ask.query import Query
from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.opened.catalogue import BUILT_IN
from kumihimo.app.settings.settings_registry import SettingsRegistry
from kumihimo.core.context import Evidence, KeyPoint
from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import IndexUnavailable, SettingsError
from kumihimo.methods import METHODS
from kumihimo.storage.sqlite.connection import Db
from kumihimo.text.question import MAX_QUESTION_CHARS, ParsedQuestion
from tests import factories_office
from tests.counters import count_lines, trace_statements
from tests.fixtures_index import BUILT, RANKING, connected, fill
from tests.stores import NEEDS_FILES

GATE = "# Gate\n\nThe gate leaks.\n\nNobody mends it.\n"
FILES = {
    "gate.md": GATE,
    "ferry.txt": "The ferry leaves at nine.\nThe office opens at eight.\n",
    "page.html": "<html><head><title>Oats</title></head><body>\n\n<p>Oats grow here.</p></body></html>",
    "talks.jsonl": json.dumps({"id": "ada", "text": "The lamp was\nlit by Ada."}),
}


@pytest.fixture(scope="module")
def kumi(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kumihimo]:
    home = tmp_path_factory.mktemp("home")
    with Kumihimo.open(home / ".kumi") as kumi:
        connected(kumi).index(fill(home / "notes", FILES), methods=BUILT)
        yield kumi


@pytest.fixture
def snapshot(kumi: Kumihimo) -> Iterator[Snapshot]:
    with kumi.snapshot() as snapshot:
        yield snapshot


def chunk(uri: str) -> str:
    return f"{hash_parts(uri)}.00000"


def test_the_best_comes_first(snapshot: Snapshot) -> None:
    for name in BUILT:
        context = snapshot.retrieve("When does the ferry leave?", name)
        assert name not in RANKING or context.evidence[0].record.id == chunk("notes/ferry.txt")
        assert [e.score for e in context] == sorted((e.score for e in context), reverse=True)


def test_a_very_long_question_is_refused_before_it_is_searched(kumi: Kumihimo, snapshot: Snapshot) -> None:
    long = "a " * (MAX_QUESTION_CHARS // 2)
    assert snapshot.retrieve(long, "bm25").queries == ()
    for refuse in (snapshot.retrieve, snapshot.ask, lambda question: kumi.estimate_query_cost("bm25", question)):
        with pytest.raises(
            SettingsError, match=r"the question has 10,001 characters, and 10,000 is the limit: ask more"
        ):
            refuse(f"{long}b")


def test_the_same_question_finds_the_same(kumi: Kumihimo, snapshot: Snapshot) -> None:
    for name in BUILT:
        assert snapshot.retrieve("the lamp", name) == kumi.retrieve("the lamp", name)


def test_an_unknown_method_is_told_from_the_nearest(snapshot: Snapshot) -> None:
    assert BUILT_IN.method("bm25") is METHODS["bm25"]
    with pytest.raises(SettingsError, match="no method 'bm52'; did you mean 'bm25'"):
        snapshot.retrieve("ferry", "bm52")


@pytest.mark.parametrize("question", ["", "  ", "\n\t", "\u3000"])
def test_an_empty_question_is_refused(snapshot: Snapshot, question: str) -> None:
    with pytest.raises(SettingsError, match="write what you want to know"):
        snapshot.ask(question, "naive")


@pytest.mark.parametrize("name", BUILT)
@pytest.mark.parametrize(
    "question", ["???", "the", '" OR *', "ferry AND (gate", "NEAR(a b)", "a\0b", "🛶", "組", "x" * MAX_QUESTION_CHARS]
)
def test_any_question_may_be_asked(snapshot: Snapshot, name: str, question: str) -> None:
    answer = snapshot.ask(question, name)
    assert (answer.question, answer.method) == (question, name)
    assert answer.text or (answer.status, answer.parts) == ("nothing", ())


@pytest.mark.parametrize("name", BUILT)
@pytest.mark.parametrize("question", ["ferry \ud800", "\udfffferry", "fer\0ry ferry", "ferry\0"])
def test_half_a_character_and_null_may_be_asked(snapshot: Snapshot, name: str, question: str) -> None:
    assert snapshot.ask(question, name).citations or name == "global"  # the notes have no reports
    query = Query(ParsedQuestion(question), method=name, filter=f'title != "{question}"')
    assert snapshot.search(query).evidence or name == "global"


def test_settings_of_the_call_are_over_those_of_the_index(kumi: Kumihimo) -> None:
    few = Kumihimo(kumi.folder, {"bm25": {"k": 1}, "naive": {"k": 2, "words": False}})
    with few.snapshot() as snapshot:
        assert [len(snapshot.retrieve("the", name)) for name in ("bm25", "naive")] == [1, 2]
        assert len(snapshot.retrieve("the lamp", "naive", k="3")) == 3
        with pytest.raises(SettingsError, match="naive has no setting 'kk'; did you mean 'k'"):
            snapshot.retrieve("the lamp", "naive", kk=3)
        with pytest.raises(SettingsError, match=r"naive\.k is a whole number from 1 to 10,000, not 'three'"):
            snapshot.retrieve("the lamp", "naive", k="three")
    few.close()
    assert SettingsRegistry(BUILT_IN).own["naive"]["k"].default == 20


@pytest.mark.parametrize("name", RANKING)
def test_fewer_than_nothing_is_not_asked_for(snapshot: Snapshot, name: str) -> None:
    with pytest.raises(SettingsError, match=rf"^{name}\.k is a whole number from 1 to 10,000, not -1"):
        snapshot.retrieve("the lamp ferry", name, k=-1)


def test_a_budget_is_kept(snapshot: Snapshot) -> None:
    context = snapshot.retrieve("ferry gate lamp", "naive", budget=12)
    assert 0 < sum(e.tokens(snapshot.tokenizer) for e in context) <= 12
    assert len(context) < len(snapshot.retrieve("ferry gate lamp", "naive"))


def test_tables_are_read_by_name(snapshot: Snapshot) -> None:
    assert [len(snapshot.table(name)) for name in ("documents", "chunks")] == [4, 4]
    assert all(len(snapshot.table(name)) for name in ("mentions", "entities", "communities", "members"))
    with pytest.raises(SettingsError, match="no table 'chunk'; did you mean 'chunks'"):
        snapshot.table("chunk")
    with pytest.raises(KumiError, match="has no row 'nobody'"):
        snapshot.table("chunks")["nobody"]


@NEEDS_FILES
def test_a_table_that_is_not_built_yet(tmp_path: Path) -> None:
    with Kumihimo.open(tmp_path / ".kumi") as kumi:
        kumi.index(fill(tmp_path / "notes", FILES), methods=BUILT)
        with kumi.store.write_transaction() as db:
            db.run("DROP VIEW chunks")
        with (
            kumi.snapshot() as snapshot,
            pytest.raises(
                IndexUnavailable, match=rf"not built for bm25: `kumi index --methods {','.join(BUILT)}` does that$"
            ),
        ):
            snapshot.retrieve("ferry", "bm25")


def test_a_table_with_columns_of_an_earlier_version_names_the_remedy(tmp_path: Path) -> None:
    with Kumihimo.open(tmp_path / ".kumi") as kumi:
        kumi.index(fill(tmp_path / "notes", FILES))
        with kumi.store.write_transaction() as transaction:
            transaction.run("UPDATE steps SET shape = 'other' WHERE step = 'documents'")
        with pytest.raises(IndexUnavailable, match="an earlier version built the table documents: run `kumi index`"):
            kumi.ask("When does the ferry leave?")
        kumi.index()
        assert kumi.ask("When does the ferry leave?").citations


def test_a_chunk_stands_in_its_document(snapshot: Snapshot) -> None:
    id = chunk("notes/gate.md")
    expected = Span(id, "notes/gate.md", 0, len(GATE.rstrip()), GATE.rstrip(), "line 1", "Gate")
    assert list(snapshot.trace(("chunks", id))) == [expected]


def test_a_part_of_a_passage_has_a_place_of_its_own(snapshot: Snapshot) -> None:
    (item,) = snapshot.retrieve("Nobody mends it", "bm25", k=1)
    start = item.text.index("Nobody")
    (span,) = snapshot.trace_part(item, start, start + 6)
    assert (span.text, span.place, GATE[span.start : span.end]) == ("Nobody", "line 5", "Nobody")
    whole = list(snapshot.trace(item))
    point = Evidence("sayings", KeyPoint(id="1", text="Nobody ...", sources=(item.reference,), tokens=2), 1.0)
    assert list(snapshot.trace_part(point, 0, 6)) == whole != [span]


def test_a_document_stands_for_itself(snapshot: Snapshot) -> None:
    assert list(snapshot.trace(("documents", hash_parts("notes/gate.md")))) == [
        Span("", "notes/gate.md", 0, len(GATE), GATE, "line 1", "Gate")
    ]


def test_what_is_not_there_cannot_be_traced(snapshot: Snapshot) -> None:
    for reference in (("chunks", "nobody.00000"), ("dreams", "x"), ("documents", "")):
        with pytest.raises(KumiError):
            list(snapshot.trace(reference))


def test_a_row_is_found_by_id_table_or_uri(snapshot: Snapshot) -> None:
    id = chunk("notes/gate.md")
    assert [snapshot.find(name).reference for name in (id, f"chunks:{id}")] == [("chunks", id)] * 2
    document = ("documents", hash_parts("notes/talks.jsonl#ada"))
    names = ("notes/talks.jsonl#ada", document[1], f"documents:{document[1]}")
    assert [snapshot.find(name).reference for name in names] == [document] * 3
    for unknown in ("", "chunks:", f"documents:{id}", "notes", "notes/gate", "🛶"):
        with pytest.raises(SettingsError, match="`kumi retrieve QUESTION` shows ids"):
            snapshot.find(unknown)


def test_lines_are_told_where_the_text_is_the_file(snapshot: Snapshot) -> None:
    def line(uri: str, start: int) -> str:
        return snapshot.tracer.locate(Span("", uri, start, start + 1, "")).place

    assert [line("notes/gate.md", offset) for offset in (0, 6, 7, 8, len(GATE) - 2)] == [
        f"line {n}" for n in (1, 1, 2, 3, 5)
    ]
    assert line("notes/ferry.txt", 26) == "line 2"
    assert [line(uri, 5) for uri in ("notes/page.html", "notes/talks.jsonl#ada")] == ["", ""]


@NEEDS_FILES
def test_lines_of_a_long_file_are_counted_once(tmp_path: Path) -> None:
    line = "The gate leaks, and nobody mends it.\n"
    fill(tmp_path / "notes", {"a.txt": line * (2_000_000 // len(line))})
    settings = {"chunks": {"size": 20_000, "overlap": 0}}
    with Kumihimo.open(tmp_path / ".kumi", settings=settings) as kumi:
        kumi.index(tmp_path / "notes", methods=["bm25"])
        with kumi.snapshot() as snapshot:
            spans = [Span("", "notes/a.txt", n * 9999, n * 9999 + 5, "") for n in range(200)]
            db = snapshot.db
            assert isinstance(db, Db)
            with trace_statements(db.connection.driver) as statements:
                placed = [snapshot.tracer.locate(span).place for span in spans]
            assert sum('"text"' in statement for statement in statements) == 1
            assert count_lines(lambda: [snapshot.tracer.locate(span) for span in spans]) < 50 * len(spans)
    assert placed == [f"line {span.start // len(line) + 1}" for span in spans]


def test_what_was_read_in_part_is_told(tmp_path: Path) -> None:
    notes = fill(tmp_path / "notes", {"a.md": "---\ntitle: [unclosed\n---\nThe lamp.", "b.txt": "The ferry."})
    (notes / "c.eml").write_bytes(factories_office.letter(photo_heic=b"x", a_jpg=b"x", b_jpg=b"y"))
    messages = (
        "notes/a.md: its front matter, which is neither YAML nor TOML",
        "notes/c.eml: notes/c.eml#photo.heic: unsupported file type; 2 × .jpg: unsupported file type",
    )
    with Kumihimo.open(tmp_path / ".kumi") as kumi:
        assert kumi.index(notes).partial == messages
        assert kumi.index().partial == ()  # no file was read
        assert kumi.status().partial == messages
        fill(notes, {"a.md": "---\ntitle: Lamp\n---\nThe lamp."})
        kumi.index()
        assert kumi.status().partial == messages[1:]


def test_quotes_are_the_documents_words(snapshot: Snapshot) -> None:
    documents = {document.uri: document.text for document in snapshot.table("documents")}
    for name in BUILT:
        for question in (
            "When does the ferry leave?",
            "Who mends the gate?",
            "Who lit the lamp?",
            "Where do oats grow?",
        ):
            answer = snapshot.ask(question, name)
            assert [c.n for c in answer.citations] == list(range(1, len(answer.citations) + 1))
            assert answer.citations or name == "global"
            for span in (c.span for c in answer.citations):
                assert documents[span.uri][span.start : span.end] == span.text
                assert span.chunk in {source.chunk for e in answer.context for source in snapshot.trace(e)}


def test_evidence_knows_its_place(snapshot: Snapshot) -> None:
    documents = {document.uri: document for document in snapshot.table("documents")}
    for name in BUILT:
        for item in snapshot.retrieve("Who mends the gate, and who lit the lamp?", name):
            assert item.source == next(snapshot.trace(item))
            document = documents[item.uri]
            assert (item.document, item.source.title) == (document.id, document.title)
            assert document.text[item.start : item.end] == item.source.text
            if item.table in ("chunks", "passages"):
                assert item.source.text == item.text


def test_the_fields_of_a_document_come_with_its_passages(tmp_path: Path) -> None:
    notes = {"a.md": "---\nauthor: Ada\n---\nThe lamp is lit at dusk.", "b.md": "The ferry leaves at nine."}
    with Kumihimo.open(tmp_path / ".kumi") as kumi:
        kumi.index(fill(tmp_path / "notes", notes))
        found = kumi.retrieve("the lamp, the ferry", "bm25")
        assert {item.uri: item.metadata.get("author") for item in found} == {"notes/a.md": "Ada", "notes/b.md": None}
        (citation,) = kumi.ask("When is the lamp lit?", "bm25").citations
        assert citation.to_dict()["metadata"]["author"] == "Ada"


def test_asking_costs_nothing_but_time(snapshot: Snapshot) -> None:
    usage = snapshot.ask("When does the ferry leave?", "naive").usage
    assert (usage.calls, usage.prompt_tokens, usage.completion_tokens, usage.cost) == (0, 0, 0, 0.0)
    assert usage.seconds > 0


def test_a_reading_sees_one_build(tmp_path: Path) -> None:
    notes = fill(tmp_path / "notes", {"a.txt": "The lamp is lit."})
    with Kumihimo.open(tmp_path / ".kumi") as kumi:
        connected(kumi).index(notes, methods=BUILT)
        with kumi.snapshot() as before:
            kumi.index(fill(notes, {"a.txt": "The lamp is out.", "b.txt": "A second lamp."}))
            for name in BUILT:
                context = before.retrieve("the lamp", name)
                assert context or name not in RANKING
                assert {span.text for e in context for span in before.trace(e)} <= {"The lamp is lit."}
            with kumi.snapshot() as later:
                assert len(later.retrieve("the lamp", "bm25")) == 2
            assert before.ask("Is the lamp lit?", "naive").text == "The lamp is lit."


def test_a_passage_stands_where_it_stands_not_where_its_chunk_does(snapshot: Snapshot) -> None:
    context = snapshot.retrieve("When does the ferry leave?", "discourse")
    assert context
    for item in context:
        [span] = snapshot.trace(item)
        assert span.text == item.text == snapshot.table("passages")[item.record.id].text
        assert snapshot.table("chunks")[span.chunk].start <= span.start < span.end
