"""PostgreSQL -> what SQLite gives: tables, rankings, citations; and what only a server has: roles, lost connections."""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from kumihimo.app.facade import Kumihimo
from kumihimo.app.upkeep import keys
from kumihimo.app.upkeep.copy_index import copy_index
from kumihimo.core.errors import IndexBusy, IndexChanged, IndexUnavailable, SettingsError
from kumihimo.core.usage import Usage
from kumihimo.storage.place import IndexPlace
from kumihimo.storage.response_cache import ResponseCache
from tests.fake_server import FakeServer
from tests.stores import NEEDS_POSTGRES, postgres_place

pytestmark = NEEDS_POSTGRES

EXAMPLES = Path(__file__).parents[2] / "examples"
METHODS = ["bm25", "naive", "braid", "local", "light", "global", "discourse"]
QUESTIONS = ("Who repaired the Long Arm?", "What are the main themes?", "組紐を送ったのは誰ですか")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with some of the examples."""
    monkeypatch.chdir(tmp_path)
    documents = tmp_path / "notes"
    documents.mkdir()
    for path in sorted(EXAMPLES.glob("*.*"))[:9]:
        shutil.copy(path, documents)
    return tmp_path


@pytest.fixture
def place(tmp_path: Path) -> IndexPlace:
    return postgres_place(tmp_path / ".kumi.test")


@pytest.fixture
def kumi(home: Path, place: IndexPlace) -> Iterator[Kumihimo]:
    """An index of the documents in PostgreSQL."""
    with Kumihimo.open(place) as opened:
        opened.index(home / "notes", methods=["bm25", "naive"])
        yield opened


def contents(kumi: Kumihimo, methods: list[str]) -> dict[str, Any]:
    """Return all rows, rankings and citations of an index."""
    found: dict[str, Any] = {}
    with kumi.snapshot() as snapshot:
        db = snapshot.db
        for (table,) in db.all("SELECT step FROM steps ORDER BY step"):
            found[table] = [row for page in db.rows(table).pages() for row in page]
        found["failed"] = db.failures()
    for question in QUESTIONS:
        for method in methods:
            context = kumi.retrieve(question, method)
            found[f"{method}: {question}"] = [(item.table, item.record.id, item.score) for item in context]
        found[question] = [citation.span for citation in kumi.ask(question).citations]
    return found


def test_both_stores_have_the_same_tables_rankings_and_citations(home: Path, place: IndexPlace) -> None:
    with Kumihimo.open(home / ".kumi") as sqlite, Kumihimo.open(place) as postgres:

        def build(*paths: Path) -> None:
            counts = [
                (built.new, built.changed, built.removed, built.written)
                for built in (each.index(*paths, methods=METHODS) for each in (sqlite, postgres))
            ]
            assert counts[0] == counts[1]
            assert contents(sqlite, METHODS) == contents(postgres, METHODS)

        build(home / "notes")
        changed, removed = sorted((home / "notes").iterdir())[:2]
        changed.write_text(
            "Sabine Orrell mended the Long Arm with Amos Garrow.\n" + changed.read_text("utf-8"), "utf-8"
        )
        removed.unlink()
        shutil.copy(sorted(EXAMPLES.glob("*.*"))[10], home / "notes")
        build()
        assert sqlite.check().problems == postgres.check().problems == ()


def test_an_index_is_copied_there_and_back(home: Path, place: IndexPlace) -> None:
    with Kumihimo.open(home / ".kumi") as kumi:
        kumi.index(home / "notes", methods=["bm25", "naive", "braid", "global"])  # the questions need all their tables
        kumi.cache.put_many([(b"key", b"1")])
        kumi.cache.record_usage("spent", "answer", "m", Usage(1, 10), 5)
        before = contents(kumi, ["bm25", "naive", "braid"])
    assert copy_index(home / ".kumi", place).replies == 1
    copy_index(place, home / "back.kumi")
    for copied in (place, home / "back.kumi"):
        with Kumihimo.open(copied) as kumi:
            assert contents(kumi, ["bm25", "naive", "braid"]) == before
            assert (kumi.index().written, kumi.check().problems) == ({}, ())
            assert [entry.usage.prompt_tokens for entry in kumi.spent()] == [10]
    with pytest.raises(IndexUnavailable, match=r"there is an index in .* already"):
        copy_index(home / ".kumi", place)


def test_a_reader_is_not_blocked_and_keeps_its_build(kumi: Kumihimo, home: Path, place: IndexPlace) -> None:
    question = "Who repaired the Long Arm?"
    before = [item.record.id for item in kumi.retrieve(question, "bm25")]
    with kumi.snapshot() as snapshot, Kumihimo.open(place) as builder:
        assert len(snapshot.table("chunks")) > 0
        shutil.rmtree(home / "notes")
        (home / "notes").mkdir()
        (home / "notes" / "new.txt").write_text("The Long Arm was repaired.", "utf-8")
        builder.index(rebuild=True)
        assert [item.record.id for item in snapshot.retrieve(question, "bm25")] == before
    assert [item.record.id for item in kumi.retrieve(question, "bm25")] != before
    with kumi.snapshot() as snapshot:
        assert len(snapshot.table("documents")) == 1


def test_a_table_of_an_old_build_that_is_gone_is_a_changed_index(kumi: Kumihimo, place: IndexPlace) -> None:
    with kumi.store.read_transaction() as old:
        assert old.has("chunks")
        with Kumihimo.open(place) as builder:
            builder.index(rebuild=True)
            builder.index()  # drops the tables of the first build
        with pytest.raises(IndexChanged, match="ask again"):
            old.rows("documents").count()


def test_one_build_runs_at_a_time(kumi: Kumihimo, place: IndexPlace) -> None:
    with kumi.store.write_transaction(), Kumihimo.open(place) as other:
        with pytest.raises(IndexBusy, match="another build is running on postgresql"):
            other.index()
        assert other.retrieve("the Long Arm", "bm25")
    kumi.index()


def kill_at(moment: str, step: str) -> None:
    if step == moment:
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("moment", ["documents", "chunks", "words of chunks"])
def test_a_killed_build_changes_nothing(kumi: Kumihimo, home: Path, place: IndexPlace, moment: str) -> None:
    before = contents(kumi, ["bm25"])
    (home / "notes" / "new.txt").write_text("Bea Orrell bought a ferry.\n" * 50, "utf-8")
    kumi.close()
    child = os.fork()
    if child == 0:  # pragma: no cover (it is killed)
        with suppress(BaseException), Kumihimo.open(place) as builder:
            builder.index(
                rebuild=True,
                progress=lambda event: os.kill(os.getpid(), signal.SIGKILL) if event.step == moment else None,
            )
        os._exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert contents(kumi, ["bm25"]) == before
    assert kumi.index(wait=True).new == 1


@pytest.mark.parametrize("is_building", [False, True], ids=["reading", "building"])
def test_a_lost_connection_loses_nothing(kumi: Kumihimo, is_building: bool) -> None:
    before = contents(kumi, ["bm25"])
    open_transaction: Callable[[], Any] = kumi.store.write_transaction if is_building else kumi.store.read_transaction
    with suppress(IndexUnavailable), open_transaction() as db:
        (process,) = db.all("SELECT pg_backend_pid()")[0]
        if is_building:
            db.set_meta("methods", ["none"])
        with kumi.store.read_transaction() as other:
            other.all("SELECT pg_terminate_backend(?)", process)
        with pytest.raises(IndexUnavailable, match="run the same command again"):
            db.all("SELECT 1")
    assert contents(kumi, ["bm25"]) == before


def test_a_reply_is_paid_for_once_by_all_processes(place: IndexPlace) -> None:
    calls: list[int] = []
    with ThreadPoolExecutor(4) as threads, closing(ResponseCache(place.open_cache())) as first:
        caches = [first, *(ResponseCache(place.open_cache()) for _ in range(3))]
        barrier = Barrier(4)

        def fetch() -> bytes:
            calls.append(1)
            return b"7"

        def ask(cache: ResponseCache) -> bytes:
            barrier.wait()
            reply: bytes = cache.get_or_fetch(b"k" * 16, fetch)
            return reply

        assert list(threads.map(ask, caches)) == [b"7"] * 4
        assert (len(calls), first.size()) == (1, (1, 1))
        for cache in caches[1:]:
            cache.close()


@pytest.mark.parametrize("repeats", [1, 20])  # few rows are inserted, many are copied
def test_any_text_is_kept(home: Path, place: IndexPlace, repeats: int) -> None:
    texts = ["a\0b", "\ufdd0 and \ufdd00\0", "🙂 'quoted' \\ %s ?", "港\t\r\n"]
    with Kumihimo.open(place) as kumi, kumi.store.write_transaction() as db:
        text, blob = db.types["TEXT"], db.types["BLOB"]
        db.create_table("notes", f"id {text}, data {blob}")
        db.insert("notes", ("id", "data"), [(each, each.encode()) for each in texts * repeats])
        assert [(each, data) for each, data in db.all(f"SELECT id, data FROM {db.relation('notes')}")] == [
            (each, each.encode()) for each in texts * repeats
        ]
        assert len(db.all(f"SELECT id FROM {db.relation('notes')} WHERE id = ?", texts[0])) == repeats
        assert len(db.all_in(f"SELECT id FROM {db.relation('notes')} WHERE id", texts[:2])) == 2 * repeats


def read_statements(section: str) -> list[str]:
    """Return the SQL of a section of the page on PostgreSQL."""
    page = (Path(__file__).parents[2] / "docs" / "postgresql.md").read_text("utf-8")
    text = page.partition(f"## {section}\n")[2].partition("\n## ")[0]
    block = text.partition("```sql\n")[2].partition("```")[0]
    return [*filter(None, map(str.strip, block.split(";"))), *re.findall(r"`(GRANT [^`]*)`", text)]


def test_one_role_builds_and_another_asks(home: Path, place: IndexPlace, server: FakeServer) -> None:
    psycopg = pytest.importorskip("psycopg")
    *statements, store_replies, count_usage = read_statements("Roles")
    with psycopg.connect(place.database, autocommit=True) as database:
        database.execute("CREATE EXTENSION IF NOT EXISTS vector")
        for statement in statements:
            with suppress(psycopg.errors.DuplicateObject):  # the roles belong to the whole server
                database.execute(statement.replace("harbour", place.schema))
        builder, reader = (in_role(place, role) for role in ("kumi_builder", "kumi_reader"))
        with Kumihimo.open(builder) as building:
            building.index(home / "notes", methods=["bm25", "naive"])
            building.index(methods=["local"])  # creates tables that were not there
        with Kumihimo.open(reader) as reading:
            assert reading.ask(QUESTIONS[0], method="local").citations
            assert reading.store.is_read_only()
            with pytest.raises(IndexUnavailable, match="or GRANT it"):
                reading.index()
        chat = {"model": "m", "base_url": server.url}
        with Kumihimo.open(reader, settings={"chat": chat}) as asking:
            with pytest.raises(IndexUnavailable, match="or GRANT it"):
                asking.ask(QUESTIONS[0], method="local")
            database.execute(store_replies.replace("harbour", place.schema))
            assert asking.ask(QUESTIONS[0], method="local").usage.calls == 1
            assert asking.ask(QUESTIONS[0], method="local").usage.calls == 0
        id, _ = keys.create_key([builder], "reader", name="Ana")
        database.execute(count_usage.replace("harbour", place.schema))
        with Kumihimo.open(reader) as serving, closing(keys.IndexKeys.of(serving.opened).store) as store:
            reservation = store.reserve(id, "2026-01-01", Usage(1, 100), "one", lambda *_: True)
            assert reservation
            store.settle(reservation, Usage(1, 10))
            assert store.usage(id, "2026-01-01") == Usage(1, 10)


def in_role(place: IndexPlace, role: str) -> IndexPlace:
    return replace(place, database=place.database.replace("postgres:@", f"{role}:@"))


def traces(place: IndexPlace, word: str) -> list[str]:
    """Return the tables, statistics and files of the schema that have a word."""
    psycopg = pytest.importorskip("psycopg")
    found: list[str] = []
    with psycopg.connect(place.database, autocommit=True) as database:
        (folder,) = database.execute("SHOW data_directory").fetchone()
        tables = database.execute(
            "SELECT oid::regclass::text, oid FROM pg_class WHERE relnamespace = %s::regnamespace AND relkind = 'r'",
            [place.schema],
        ).fetchall()
        for name, _ in tables:
            texts = [str(value) for row in database.execute(f"SELECT t::text FROM {name} t") for value in row]
            found += [name for text in texts if word in text.casefold() or word.encode().hex() in text]
        statistics = "SELECT tablename || pg_stats::text FROM pg_stats WHERE schemaname = %s"
        found += [text[:60] for (text,) in database.execute(statistics, [place.schema]) if word in text.casefold()]
        database.execute("CHECKPOINT")
        query = """SELECT pg_relation_filepath(c.oid) FROM pg_class t
            JOIN pg_class c ON c.oid IN (t.oid, t.reltoastrelid)
            OR c.oid IN (SELECT indexrelid FROM pg_index WHERE indrelid IN (t.oid, t.reltoastrelid))
            WHERE t.oid = ANY(%s)"""
        paths = [path for (path,) in database.execute(query, [[oid for _, oid in tables]])]
    return found + [path for path in paths if word.encode() in Path(folder, path).read_bytes().lower()]


def column_types(place: IndexPlace) -> set[tuple[Any, ...]]:
    """Return the tables of the schema with their columns, types, collations and constraints."""
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(place.database) as database:
        query = """SELECT relname, attname, format_type(atttypid, atttypmod), attcollation, attnotnull
            FROM pg_attribute JOIN pg_class c ON c.oid = attrelid
            WHERE relnamespace = %s::regnamespace AND attnum > 0"""
        return {*database.execute(query, [place.schema]).fetchall()}


def test_what_is_forgotten_is_in_no_table_statistic_or_file(home: Path, place: IndexPlace) -> None:
    (home / "notes" / "diary.md").write_text("# Quixotry\n\nOswald Zugzwang buried the bell at Vraxholt.\n", "utf-8")
    with Kumihimo.open(place) as kumi:
        kumi.index(home / "notes", methods=["bm25", "naive"])
        kumi.cache.put_many([(b"k" * 16, b"Oswald Zugzwang did.")])
        with kumi.store.write_transaction() as transaction:
            transaction.run("ANALYZE")
        assert traces(place, "zugzwang")
        kumi.remove("notes/diary.md", forget=True)
        assert traces(place, "zugzwang") == []
        assert kumi.check().problems == ()
        assert traces(place, "repaired")
        columns = column_types(place)
        kumi.remove("notes", forget=True)  # the last documents
        assert traces(place, "repaired") == []
        assert column_types(place) == columns


@pytest.mark.parametrize("table", ["chunks", "documents"])  # the reader has or has not read the texts
def test_a_reader_of_an_earlier_state_stops_the_forgetting(
    kumi: Kumihimo, home: Path, place: IndexPlace, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    monkeypatch.setattr("kumihimo.storage.postgres.store._REWRITE_SECONDS", 1)
    file = next((home / "notes").iterdir())
    with Kumihimo.open(place) as reader, reader.snapshot() as snapshot:
        assert next(iter(snapshot.table(table)))
        with pytest.raises(IndexBusy, match="run `kumi remove --forget`"):
            kumi.remove(f"notes/{file.name}", forget=True)
    kumi.remove(forget=True)
    assert kumi.check().problems == ()


@pytest.mark.parametrize(
    ("failure", "error", "message"),
    [
        ("LockNotAvailable", IndexBusy, "another process uses .* run `kumi remove --forget`"),
        ("AdminShutdown", IndexUnavailable, "run the same command again when the server is well"),
        ("InsufficientPrivilege", IndexUnavailable, "or GRANT it"),
    ],
)
def test_tables_that_cannot_be_rewritten_name_the_remedy(
    kumi: Kumihimo, monkeypatch: pytest.MonkeyPatch, failure: str, error: type[Exception], message: str
) -> None:
    errors = pytest.importorskip("psycopg.errors")

    def fail(*_: object) -> None:
        raise getattr(errors, failure)("no")

    monkeypatch.setattr("kumihimo.storage.postgres.connection.rewrite_table", fail)
    with pytest.raises(error, match=message):
        kumi.store.rewrite()


def test_many_vectors_are_found_by_their_index(kumi: Kumihimo, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exact = contents(kumi, ["naive"])
    with kumi.snapshot() as snapshot:
        best = next(iter(snapshot.retrieve("the Long Arm", "naive")))
        file = snapshot.table("documents")[best.record.id.partition(".")[0]].uri
        hidden = kumi.retrieve("the Long Arm", "naive", filter=f'uri != "{file}"')
    monkeypatch.setattr("kumihimo.search.postgres_vectors.MIN_INDEXED", 5)
    (home / "notes" / "new.txt").write_text("Bea Orrell bought a ferry.", "utf-8")
    kumi.index()
    with kumi.snapshot() as snapshot:
        assert snapshot.db.has("vectors_chunks_near")
    (home / "notes" / "new.txt").unlink()
    kumi.index()
    assert contents(kumi, ["naive"]) == exact
    again = kumi.retrieve("the Long Arm", "naive", filter=f'uri != "{file}"')
    assert [(item.record.id, item.score) for item in again] == [(item.record.id, item.score) for item in hidden]
    assert kumi.check().problems == ()


def test_vectors_too_long_for_an_index_are_compared_one_by_one(
    kumi: Kumihimo, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = contents(kumi, ["naive"])
    monkeypatch.setattr("kumihimo.search.postgres_vectors.MIN_INDEXED", 5)
    monkeypatch.setattr("kumihimo.search.postgres_vectors._MAX_DIMENSIONS", 100)  # the built-in ones have 256
    kumi.index(rebuild=True)
    with kumi.snapshot() as snapshot:
        assert not snapshot.db.has("vectors_chunks_near")
    assert contents(kumi, ["naive"]) == exact


def test_keys_are_in_the_schema(place: IndexPlace, home: Path) -> None:
    id, token = keys.create_key([place], "reader", name="Ana")
    assert [key.name for key in keys.list_keys(place)] == ["Ana"]
    with Kumihimo.open(place) as kumi, closing(keys.IndexKeys.of(kumi.opened).store) as store:
        found = store.find(keys.token_digest(token))
        assert found
        for estimate, prompt in ((100, 10), (200, 5)):
            reservation = store.reserve(id, "2026-01-01", Usage(1, estimate), "one", lambda *_: True)
            assert reservation
            assert store.usage(id, "2026-01-01").prompt_tokens >= estimate
            store.settle(reservation, Usage(1, prompt))
        assert store.usage(id, "2026-01-01") == Usage(2, 15)
    assert keys.revoke_key(place, id)
    assert not keys.has_index(place)


def test_an_address_that_is_wrong_names_the_remedy(place: IndexPlace, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="small letters, digits and _"):
        IndexPlace.at("postgresql://db/notes?schema=Harbour-Office")
    with pytest.raises(SettingsError, match=r"'mysql://db/notes' is no address: write it like \./FOLDER, p"):
        IndexPlace.at("mysql://db/notes")
    away = IndexPlace(tmp_path, "postgresql://ada:secret@127.0.0.1:9/notes", "harbour")
    with pytest.raises(IndexUnavailable, match=r"postgresql://127\.0\.0\.1:9/notes\?schema=harbour cannot be") as error:
        Kumihimo.open(away).retrieve("x", "bm25")
    assert "secret" not in str(error.value)
    with Kumihimo.open(place) as kumi, pytest.raises(IndexUnavailable, match="there is no index in postgresql"):
        kumi.retrieve("x", "bm25")


def test_a_plan_leaves_no_index(home: Path, place: IndexPlace) -> None:
    with Kumihimo.open(place) as kumi:
        kumi.plan(home / "notes")
        assert not kumi.store.exists()
