"""statements in threads -> one transaction: released during an LLM call, stopped by its token, the log emptied."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import Event

import pytest

from kumihimo.core.cancel import CancelToken
from kumihimo.core.errors import Cancelled, IndexBusy, IndexChanged
from kumihimo.storage.sqlite.connection import Db, log_size
from kumihimo.storage.sqlite.store import SqliteStore

ENDLESS = "WITH RECURSIVE c (n) AS (SELECT started() UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path)
    fill(store, "old")
    yield store
    store.close()


def fill(store: SqliteStore, text: str) -> None:
    """Write a build of 500 rows, and the checksum that differs between builds."""
    with store.write_transaction() as db:
        db.run("CREATE TABLE IF NOT EXISTS t (text TEXT)")
        db.run("DELETE FROM t")
        db.many("INSERT INTO t VALUES (?)", ((text * 300,) for _ in range(500)))
        db.set_meta("sum_t", text)


def touch(store: SqliteStore) -> None:
    """Write a build that changes nothing."""
    with store.write_transaction() as db:
        db.set_meta("sum_t", db.meta("sum_t"))


@contextmanager
def ended_by(
    error: type[Exception], transaction: AbstractContextManager[Db], message: str | None = None
) -> Iterator[Db]:
    """Expect this error from a transaction."""
    with pytest.raises(error, match=message), transaction as db:
        yield db


def text(db: Db) -> str:
    return str(db.all("SELECT substr(text, 1, 3) FROM t LIMIT 1")[0][0])


# -- released during an LLM call


def test_a_released_transaction_holds_no_log_and_goes_on_where_nothing_has_changed(store: SqliteStore) -> None:
    with store.read_transaction() as db:
        assert text(db) == "old"
        with db.released():
            touch(store)
            assert log_size(store.path) == 0
        assert text(db) == "old"


def test_another_build_is_noticed_at_the_next_statement(store: SqliteStore) -> None:
    with ended_by(IndexChanged, store.read_transaction()) as db:
        with db.released():
            fill(store, "new")
            assert log_size(store.path) == 0
        text(db)
    with store.read_transaction() as db:
        assert text(db) == "new"


def test_a_transaction_that_reads_nothing_more_notices_nothing(store: SqliteStore) -> None:
    with store.read_transaction() as db, db.released():
        fill(store, "new")


def test_without_a_release_a_reader_sees_one_build(store: SqliteStore) -> None:
    with store.read_transaction() as db:
        fill(store, "new")
        assert text(db) == "old"


def test_a_statement_during_a_release_opens_the_transaction_for_itself_alone(store: SqliteStore) -> None:
    with store.read_transaction() as db:
        with db.released():
            assert text(db) == "old"
            db.connection.driver.create_function("read_inside", 0, lambda: text(db))
            assert db.one("SELECT read_inside()") == ("old",)  # inside of another statement
            db.once_per_build("key", lambda: text(db))
            touch(store)
            assert log_size(store.path) == 0
        assert db.session
        assert not db.session.is_open


def test_a_release_waits_for_no_statement_of_another_thread(store: SqliteStore) -> None:
    """The other thread releases the transaction itself when its statement has ended."""
    reading, speaking = Event(), Event()

    def wait() -> bool:
        reading.set()
        return speaking.wait(60)

    def read(db: Db) -> None:
        db.connection.driver.create_function("wait", 0, wait)
        assert db.one("SELECT wait() FROM t LIMIT 1") == (1,)

    with ThreadPoolExecutor(1) as pool, store.read_transaction() as db:
        reader = pool.submit(read, db)
        assert reading.wait(60)
        with db.released():
            assert db.session
            assert db.session.is_open
            speaking.set()
            reader.result(60)
            touch(store)
            assert log_size(store.path) == 0


def test_many_threads_read_while_others_speak(store: SqliteStore) -> None:
    barrier = threading.Barrier(8)

    def read_and_speak(db: Db) -> list[str]:
        barrier.wait(60)
        texts = []
        for _ in range(50):
            with db.released():
                texts.append(text(db))
            texts.append(text(db))
        return texts

    with ThreadPoolExecutor(8) as pool, store.read_transaction() as db:
        for result in [pool.submit(read_and_speak, db) for _ in range(8)]:
            assert result.result(60) == ["old"] * 100


def test_a_late_release_leaves_the_next_transaction_of_the_connection_alone(store: SqliteStore) -> None:
    with store.read_transaction() as db:
        text(db)
        late = db.released
    with store.read_transaction() as later:
        assert later is db
        session = later.session
        assert session
        with late():
            pass
    with store.read_transaction() as db:
        old = db.session
        assert old
    with store.read_transaction() as db, old.released():
        assert db.session
        assert db.session.is_open


# -- the log


def test_the_last_reader_of_the_earlier_state_empties_the_log(store: SqliteStore) -> None:
    early = store.read_transaction()
    early.__enter__()
    fill(store, "new")
    assert log_size(store.path) > 0
    between = store.read_transaction()  # reads the new state in the log
    assert text(between.__enter__()) == "new"
    early.__exit__(None, None, None)
    assert log_size(store.path) > 0
    with store.read_transaction() as late:  # reads the file alone, so that it keeps nobody waiting
        assert text(late) == "new"
        between.__exit__(None, None, None)
        assert log_size(store.path) == 0


def test_the_log_stays_bounded_while_questions_overlap(store: SqliteStore) -> None:
    """Eight readers, at any time four of them at work: each build adds to an empty log."""
    sizes = []
    readers = [store.read_transaction() for _ in range(8)]
    for reader in readers[:4]:
        text(reader.__enter__())
    for build in range(6):
        fill(store, f"{build:03}")
        for n in range(8):
            text(readers[(n + 4) % 8].__enter__())
            readers[n].__exit__(None, None, None)
            readers[n] = store.read_transaction()
        sizes.append(log_size(store.path))
    for reader in readers[:4]:
        reader.__exit__(None, None, None)
    assert sizes == [0] * 6


# -- cancelled


@pytest.mark.parametrize("writes", [False, True])
def test_a_token_stops_a_statement_that_never_ends(store: SqliteStore, writes: bool) -> None:
    token, started = CancelToken(), Event()
    transaction = store.write_transaction(cancel=token) if writes else store.read_transaction(token)
    with ThreadPoolExecutor(1) as pool, ended_by(Cancelled, transaction, "the client has left") as db:
        if writes:
            db.run("UPDATE t SET text = 'new'")
        db.connection.driver.create_function("started", 0, started.set)
        running = pool.submit(db.all, ENDLESS)
        assert started.wait(60)
        token.cancel("the client has left")
        with pytest.raises(Cancelled):
            running.result(60)
        db.all("SELECT 1")
    with store.read_transaction() as db:
        assert text(db) == "old"


def test_a_build_that_is_cancelled_at_its_end_is_rolled_back(store: SqliteStore) -> None:
    token = CancelToken()
    with ended_by(Cancelled, store.write_transaction(cancel=token)) as db:
        db.run("UPDATE t SET text = 'new'")
        token.cancel()
    with store.read_transaction() as db:
        assert text(db) == "old"


def test_a_build_that_has_ended_is_not_cancelled(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    token = CancelToken()
    with monkeypatch.context() as patch, store.write_transaction(cancel=token) as db:
        db.run("UPDATE t SET text = 'new'")
        patch.setattr(Db, "all", lambda *_: token.cancel())  # what follows the commit
    with store.read_transaction() as db:
        assert text(db) == "new"


def test_a_deadline_stops_a_long_statement(store: SqliteStore) -> None:
    with ended_by(Cancelled, store.read_transaction(CancelToken(0.05)), "raise the time limit") as db:
        db.connection.driver.create_function("started", 0, lambda: 0)
        db.all(ENDLESS)


def test_a_late_cancel_does_not_reach_the_next_question(store: SqliteStore) -> None:
    with store.read_transaction(CancelToken()) as first:
        session = first.session
        assert session
    with store.read_transaction() as second:
        assert second is first
        second.connection.driver.create_function("started", 0, session._interrupt)  # in the middle of a statement
        assert second.all("SELECT count(*), started() FROM t") == [(500, None)]


@pytest.mark.parametrize("wait", [False, True])
def test_a_wait_for_another_build_can_be_cancelled(store: SqliteStore, wait: bool) -> None:
    token, other = CancelToken(), SqliteStore(store.folder)
    token.cancel()
    with store.write_transaction(), pytest.raises(Cancelled), other.write_transaction(wait=wait, cancel=token):
        pass


def test_a_token_does_not_change_how_long_a_build_waits(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kumihimo.storage.sqlite.store._BUSY_TIMEOUT", 100)  # milliseconds
    with (
        store.write_transaction(),
        pytest.raises(IndexBusy),
        SqliteStore(store.folder).write_transaction(cancel=CancelToken()),
    ):
        pass
