"""a folder -> index.db: one build at a time, one snapshot per reader, formats old and new."""

from __future__ import annotations

import ast
import inspect
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kumihimo.core.errors import IndexBusy, IndexDamaged, IndexUnavailable, NewerFormat, StorageError
from kumihimo.core.redaction import register_secret
from kumihimo.search.protocols import VectorReader, VectorStore
from kumihimo.storage import Store, database
from kumihimo.storage.cache_database import CacheDatabase, Locks, SharedTables
from kumihimo.storage.database import Database, SqlRows
from kumihimo.storage.ledger import sum_rows
from kumihimo.storage.session import Connection
from kumihimo.storage.sqlite import store as module
from kumihimo.storage.sqlite.connection import SqliteConnection
from kumihimo.storage.sqlite.store import FORMAT, SqliteStore
from tests.stores import OPEN_STORES


def fill(store: SqliteStore, *texts: str) -> None:
    with store.write_transaction() as db:
        db.run("CREATE TABLE IF NOT EXISTS t (id TEXT PRIMARY KEY, text TEXT, n INTEGER) WITHOUT ROWID")
        db.run("DELETE FROM t")
        db.many("INSERT INTO t VALUES (?, ?, ?)", ((f"{i:05d}", text, len(text)) for i, text in enumerate(texts)))


def texts(store: SqliteStore) -> list[str]:
    with store.read_transaction() as db:
        return [text for (text,) in db.all("SELECT text FROM t ORDER BY id")]


def execute_sql(folder: Path, sql: str) -> None:
    """Change the file without the store."""
    connection = sqlite3.connect(folder / "index.db", isolation_level=None)
    connection.execute(sql)
    connection.close()


def test_a_build_creates_the_folder_and_keeps_it_out_of_git(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "a" / ".kumi")
    fill(store, "one")
    assert texts(store) == ["one"]
    assert (tmp_path / "a" / ".kumi" / ".gitignore").read_text() == "*\n"
    store.close()


@pytest.mark.parametrize("open_store", OPEN_STORES)
def test_what_fails_without_a_remedy_is_an_error_of_the_store(
    open_store: Callable[[Path], Any], tmp_path: Path
) -> None:
    error = pytest.raises(StorageError, match="missing")
    with closing(open_store(tmp_path)) as store, error, store.write_transaction() as db:
        db.run("SELECT * FROM missing")


def test_a_missing_index_names_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(IndexUnavailable) as refused, SqliteStore(tmp_path).read_transaction():
        pass
    assert str(refused.value) == f"there is no index in {tmp_path}: make one with `kumi index PATH`"
    assert list(tmp_path.iterdir()) == []


def test_a_reader_sees_one_build_throughout(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    fill(store, "old")
    with store.read_transaction() as early:
        with store.write_transaction() as db:
            db.run("UPDATE t SET text = 'new'")
            db.run("CREATE TABLE more (id TEXT)")
            assert early.one("SELECT text FROM t") == ("old",)
            with store.read_transaction() as meanwhile:
                assert meanwhile.one("SELECT text FROM t") == ("old",)
                assert not meanwhile.has("more")
        assert early.one("SELECT text FROM t") == ("old",)
        assert not early.has("more")
        with store.read_transaction() as late:
            assert late.one("SELECT text FROM t") == ("new",)
            assert late.has("more")
        assert early.one("SELECT text FROM t") == ("old",)
    assert texts(store) == ["new"]
    store.close()


def test_the_snapshot_is_fixed_before_the_first_query(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    fill(store, "old")
    with store.read_transaction() as early:
        fill(store, "new")
        assert early.one("SELECT text FROM t") == ("old",)
    store.close()


def test_a_reader_writes_nothing(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    fill(store, "one")
    with store.read_transaction() as db, pytest.raises(IndexUnavailable, match="cannot be written"):
        db.run("DELETE FROM t")
    assert texts(store) == ["one"]
    store.close()


def test_a_reader_that_fails_gives_its_connection_back(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    fill(store, "old")
    with pytest.raises(ZeroDivisionError), store.read_transaction():
        raise ZeroDivisionError
    fill(store, "new")
    assert texts(store) == ["new"]
    store.close()


def test_a_build_that_fails_leaves_the_index_as_it_was(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    fill(store, "old")

    def broken(failure: type[BaseException]) -> None:
        with store.write_transaction() as db:
            db.run("DELETE FROM t")
            db.run("CREATE TABLE more (id TEXT)")
            db.set_meta("methods", ["naive"])
            raise failure

    for failure in (ValueError, KeyboardInterrupt):
        with pytest.raises(failure):
            broken(failure)
    assert texts(store) == ["old"]
    with store.read_transaction() as db:
        assert not db.has("more")
        assert db.meta("methods") is None
    fill(store, "new")
    assert texts(store) == ["new"]
    store.close()


def test_a_first_build_that_fails_leaves_no_index_to_read(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    with pytest.raises(ValueError, match="early"), store.write_transaction():
        raise ValueError("early")
    with (
        pytest.raises(IndexUnavailable, match=f"^the first build of {tmp_path} is not finished"),
        store.read_transaction(),
    ):
        pass
    fill(store, "one")
    assert texts(store) == ["one"]
    store.close()


def test_a_second_builder_gets_an_error_and_does_not_try_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "time", SimpleNamespace(sleep=lambda _: pytest.fail("it tries again")))
    store, second = SqliteStore(tmp_path), SqliteStore(tmp_path)
    with store.write_transaction(), pytest.raises(IndexBusy) as refused, second.write_transaction():
        pass
    assert str(refused.value) == (f"another build is running on {tmp_path}: wait for it with `--wait`, or stop it")
    fill(second, "one")
    assert texts(second) == ["one"]
    second.close()


def test_a_second_builder_may_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, second = SqliteStore(tmp_path), SqliteStore(tmp_path)
    fill(store, "old")
    attempts: list[float] = []
    first_build = store.write_transaction()

    def sleep(seconds: float) -> None:
        """End the first build during the second wait."""
        attempts.append(seconds)
        if len(attempts) == 2:
            first_build.__exit__(None, None, None)

    monkeypatch.setattr(module, "time", SimpleNamespace(sleep=sleep))
    first_build.__enter__().run("UPDATE t SET text = 'new'")
    with second.write_transaction(wait=True) as db:
        assert db.one("SELECT text FROM t") == ("new",)
    assert len(attempts) == 2


def test_a_builder_in_another_process_is_noticed(tmp_path: Path) -> None:
    script = f"""
from pathlib import Path
from kumihimo.storage.sqlite.store import SqliteStore
with SqliteStore(Path({str(tmp_path)!r})).write_transaction():
    print("building", flush=True)
    input()
"""
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "building\n"
        with pytest.raises(IndexBusy), SqliteStore(tmp_path).write_transaction():
            pass
        process.kill()
    store = SqliteStore(tmp_path)
    fill(store, "one")  # the killed process holds no lock
    assert texts(store) == ["one"]
    store.close()


def test_two_first_builds_at_once(tmp_path: Path) -> None:

    connection = sqlite3.connect(tmp_path / "index.db", isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")  # as another build does just before it turns the log on
    with pytest.raises(IndexBusy), SqliteStore(tmp_path).write_transaction():
        pass
    connection.close()


def test_a_newer_format_names_the_remedy(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    fill(store, "one")
    execute_sql(tmp_path, "PRAGMA user_version = 7")
    message = (
        f"the index in {tmp_path} has format 7, this version reads up to 4: "
        "upgrade with `pip install -U kumihimo`, or name a new index with `--index`"
    )
    with pytest.raises(NewerFormat) as reading, store.read_transaction():
        pass
    with pytest.raises(NewerFormat) as building, store.write_transaction():
        pass
    assert str(reading.value) == str(building.value) == message


def test_a_newer_format_is_noticed_by_a_reader_that_has_read_before(tmp_path: Path) -> None:

    store = SqliteStore(tmp_path)
    fill(store, "one")
    assert texts(store) == ["one"]
    execute_sql(tmp_path, "PRAGMA user_version = 7")
    with pytest.raises(NewerFormat), store.read_transaction():
        pass
    store.close()


def test_an_index_that_was_moved_away_is_not_read_any_more(tmp_path: Path) -> None:

    store, second = SqliteStore(tmp_path), SqliteStore(tmp_path)
    fill(store, "old")
    assert texts(store) == ["old"]
    (tmp_path / "index.db").rename(tmp_path / "index.old")
    for path in tmp_path.glob("index.db-*"):
        path.unlink()
    fill(second, "new")
    assert texts(store) == ["new"]
    store.close()


def test_an_older_format_is_refused_and_named(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    fill(store, "one")
    set_format(tmp_path, FORMAT - 1)
    for transaction in (store.read_transaction, store.write_transaction):
        with pytest.raises(IndexUnavailable) as refused, transaction():
            pass
        assert str(refused.value) == (
            f"the index in {tmp_path} was built by an older version: run `kumi index --rebuild`; "
            "cached replies of models are kept"
        )
    store.close()


def test_a_rebuild_keeps_sources_methods_and_communities(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    with store.write_transaction() as db:
        db.run("CREATE TABLE t (text TEXT)")
        db.run("CREATE TABLE communities (id TEXT)")
        db.run("INSERT INTO communities VALUES ('c')")
        db.run("INSERT INTO steps VALUES ('communities', 'print', 'shape'), ('t', 'print', 'shape')")
        for name in ("sources", "methods", "models", "words_t"):
            db.set_meta(name, [name])
    set_format(tmp_path, FORMAT - 1)
    with store.write_transaction(rebuild=True) as db:
        assert not db.has("t")
        assert db.all("SELECT * FROM communities") == [("c",)]
        assert db.all("SELECT * FROM steps") == [("communities", None, "shape")]
        assert [db.meta(name) for name in ("sources", "methods", "models", "words_t")] == [
            ["sources"],
            ["methods"],
            ["models"],
            None,
        ]
    with store.read_transaction() as db:
        assert db.one("PRAGMA user_version") == (FORMAT,)
    store.close()


def test_a_rebuild_that_fails_changes_nothing(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    fill(store, "one")
    with pytest.raises(ValueError, match="half way"), store.write_transaction(rebuild=True):
        raise ValueError("half way")
    assert texts(store) == ["one"]
    store.close()


def set_format(folder: Path, version: int) -> None:
    with closing(sqlite3.connect(folder / "index.db")) as connection:
        connection.execute(f"PRAGMA user_version = {version}")


def test_a_file_that_is_no_database_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "index.db"
    path.write_text("a letter to my aunt, long enough to be read as a header of something else " * 20)
    before = path.read_bytes()
    message = rf"^{path} is no index \(.*\): move it away and run `kumi index PATH` again$"
    for transaction in (SqliteStore(tmp_path).read_transaction, SqliteStore(tmp_path).write_transaction):
        with pytest.raises(IndexUnavailable, match=message), transaction():
            pass
    assert path.read_bytes() == before


def test_a_folder_that_cannot_hold_an_index_says_so(tmp_path: Path) -> None:

    (tmp_path / "notes.txt").write_text("notes")
    (tmp_path / "k" / "index.db").mkdir(parents=True)
    for folder in (tmp_path / "notes.txt", tmp_path / "k"):
        with pytest.raises(IndexUnavailable), SqliteStore(folder).write_transaction():
            pass


def test_the_log_is_empty_after_a_build(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    log = tmp_path / "index.db-wal"

    def log_size() -> int:
        return log.stat().st_size if log.exists() else 0

    fill(store, *["x" * 1000] * 1000)
    assert log_size() == 0
    connection = sqlite3.connect(tmp_path / "index.db")  # another connection keeps the log open without reading
    assert connection.execute("SELECT count(*) FROM t").fetchall() == [(1000,)]
    fill(store, *["y" * 1000] * 1000)
    assert log.exists()
    assert log_size() == 0
    connection.close()
    with store.read_transaction():
        fill(store, *["z" * 1000] * 1000)
        assert log_size() > 0
    fill(store, "one")
    assert log_size() == 0
    store.close()


def test_facts_about_the_index_are_stored(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    with store.write_transaction() as db:
        assert db.meta("methods", ["bm25"]) == ["bm25"]
        db.set_meta("methods", ["naive", "港"])
        db.set_meta("methods", {"b": 1, "a": None})
    with store.read_transaction() as db:
        assert db.meta("methods") == {"a": None, "b": 1}
    store.close()


def test_rows_are_read_in_pages_without_a_live_cursor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "PAGE_ROWS", 2)
    store = SqliteStore(tmp_path)
    fill(store, "one", "two", "three", "four", "five")
    with store.write_transaction() as db:
        rows = SqlRows(db, "t")
        sizes: list[int] = []
        for page in rows.pages():
            sizes.append(len(page))
            db.run("DELETE FROM t WHERE id = ?", page[0][0])  # an open cursor would fail here
        assert sizes == [2, 2, 1]
        assert [row for page in rows.pages("n", "text") for row in page] == [(3, "two"), (4, "four")]
        assert rows.count() == 2
        assert rows.get_many(["00001", "00000"]) == [("00001", "two", 3)]
        assert rows.where(("n", "text"), (4, "four")) == [("00003", "four", 4)]
        assert rows.where(("n",), (5,)) == []
    store.close()


def test_a_lookup_of_none_finds_rows_with_null(tmp_path: Path) -> None:

    store = SqliteStore(tmp_path)
    with store.write_transaction() as db:
        db.run("CREATE TABLE t (id TEXT PRIMARY KEY, text TEXT, parent TEXT)")
        db.many("INSERT INTO t VALUES (?, ?, ?)", [("a", "", None), ("b", "", "a")])
        assert SqlRows(db, "t").where(("parent",), (None,)) == [("a", "", None)]


def test_ids_grouped_and_child_values(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    with store.write_transaction() as db:
        db.run("CREATE TABLE t (id TEXT PRIMARY KEY, text TEXT, entity TEXT) WITHOUT ROWID")
        rows = [("b.00000.00001", "x"), ("b.00000.00000", "y"), ("b.00001.00000", "x"), ("b.000001", "x"), ("b0", "x")]
        db.many("INSERT INTO t VALUES (?, '', ?)", rows)
    with store.read_transaction() as db:
        table = SqlRows(db, "t")
        pairs_of_x = [("x", id) for id in ("b.00000.00001", "b.000001", "b.00001.00000", "b0")]
        assert table.ids_grouped("entity", ["y", "x"]) == [*pairs_of_x, ("y", "b.00000.00000")]
        assert table.ids_grouped("entity", ["y", "x", "z"], 2) == [("y", "b.00000.00000"), *pairs_of_x[:2]]
        assert table.child_values(["b.00001", "b.00000", "c"], "entity") == {
            "b.00001": ["x"],
            "b.00000": ["y", "x"],
            "c": [],
        }
        assert table.child_values(["b"], "id") == {"b": [row[0] for row in sorted(rows) if row[0] != "b0"]}


def test_many_threads_read_at_once(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    fill(store, *map(str, range(100)))
    counts: list[int] = []

    def read() -> None:
        for _ in range(20):
            with store.read_transaction() as db:
                counts.append(len(db.all("SELECT * FROM t")))

    threads = [Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [100] * 80
    store.close()


def test_keys_in_errors_are_hidden(tmp_path: Path) -> None:
    register_secret("sk-abcdef123456")
    store = SqliteStore(tmp_path)
    with store.write_transaction() as db:
        db.record_failures("t", [("a", "Incorrect API key provided: sk-abcdef123456"), ("b", None)])
        assert db.failures() == (("t", "a", "Incorrect API key provided: [hidden]"),)
    assert b"sk-abcdef" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


def zero_first_page_of_table(folder: Path) -> None:
    """Write zeros over the root page of the table `t`."""
    with closing(sqlite3.connect(folder / "index.db")) as connection:
        ((page,),) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 't'")
    with (folder / "index.db").open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(bytes(4096))


def test_damage_names_the_file_and_the_remedy(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    fill(store, "one")
    store.close()
    zero_first_page_of_table(tmp_path)
    message = (
        f"{tmp_path / 'index.db'} is damaged (database disk image is malformed): "
        "run `kumi check --repair`, or put your back-up in its place"
    )
    with pytest.raises(IndexDamaged) as reading, store.read_transaction() as db:
        db.all("SELECT * FROM t")
    with pytest.raises(IndexDamaged) as writing, store.write_transaction() as db:
        db.many("INSERT INTO t VALUES (?, ?, ?)", [("x", "", 1)])
    assert str(reading.value) == str(writing.value) == message


def test_damage_in_another_file_is_not_blamed_on_the_index(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    fill(store, "one")
    (tmp_path / "other.db").write_bytes(b"no database " * 100)

    def read_other() -> None:
        with closing(sqlite3.connect(tmp_path / "other.db")) as other:
            other.execute("SELECT * FROM sqlite_master")

    with pytest.raises(sqlite3.DatabaseError), store.write_transaction():
        read_other()
    with pytest.raises(sqlite3.DatabaseError), store.read_transaction():
        read_other()
    assert texts(store) == ["one"]
    store.close()


def test_text_that_is_deleted_is_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = module._connect

    def connect_without_deletion(*args: Any, **options: Any) -> SqliteConnection:
        """Connect as a SQLite does that was compiled without SECURE_DELETE."""
        connection = connect(*args, **options)
        connection.run("PRAGMA secure_delete = OFF")
        return connection

    monkeypatch.setattr(module, "_connect", connect_without_deletion)
    store = SqliteStore(tmp_path)
    fill(store, *["the secret place"] * 2000)
    assert b"the secret place" in (tmp_path / "index.db").read_bytes()
    fill(store, "one")
    assert b"the secret place" not in (tmp_path / "index.db").read_bytes()
    store.close()


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SqliteStore(tmp_path)
    fill(store, "one")
    store.close()
    (tmp_path / "index.db-wal").mkdir()  # SQLite cannot open its log
    for transaction in (store.read_transaction, store.write_transaction):
        with pytest.raises(IndexUnavailable, match=f"^{tmp_path / 'index.db'} cannot be opened: check"), transaction():
            pass


def test_a_folder_that_is_read_only_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SqliteStore(tmp_path)
    fill(store, "one")
    store.close()
    monkeypatch.setattr("kumihimo.storage.sqlite.connection.os.access", lambda *_: False)
    before = sorted(tmp_path.iterdir())
    assert texts(store) == ["one"]
    assert sorted(tmp_path.iterdir()) == before, "neither a log nor its index"


def test_a_database_of_something_else_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "index.db"
    with closing(sqlite3.connect(path)) as foreign:
        foreign.execute("CREATE TABLE t (x)")
        foreign.commit()
    before = path.read_bytes()
    for open_store in (SqliteStore(tmp_path).read_transaction, SqliteStore(tmp_path).write_transaction):
        with (
            pytest.raises(IndexUnavailable, match=r"index\.db is a database of something else: name another"),
            open_store(),
        ):
            pass
    assert path.read_bytes() == before


def test_the_checksum_of_a_row_is_that_of_what_is_stored() -> None:
    class Kind(StrEnum):
        A = "a"

    written = (Kind.A, np.float64(0.5), -0.0, float("nan"), True, 3, None)
    assert sum_rows([written]) == sum_rows([("a", 0.5, 0.0, None, 1, 3.0, None)])
    assert sum_rows([("a",), ("b",)]) == sum_rows([("b",), ("a",)]) != sum_rows([("a",), ("c",)])


def test_a_backend_has_few_operations() -> None:
    """They are what has no code in the protocols: a third backend would implement these."""
    protocols = (Store, Database, Connection, Locks, SharedTables, CacheDatabase, VectorStore, VectorReader)
    operations = [f"{protocol.__name__}.{name}" for protocol in protocols for name in members_without_code(protocol)]
    assert len(operations) <= 60, operations


def members_without_code(protocol: type) -> list[str]:
    (definition,) = ast.parse(inspect.getsource(protocol)).body
    assert isinstance(definition, ast.ClassDef)
    names = [
        node.name
        for node in definition.body
        if isinstance(node, ast.FunctionDef)
        and all(isinstance(getattr(n, "value", n), ast.Constant) for n in node.body)
    ]
    names += [ast.unparse(n.target) for n in definition.body if isinstance(n, ast.AnnAssign) and n.value is None]
    return names
