"""batches and their requests -> what waits, in a file that several processes share."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kumihimo.core.usage import Usage
from kumihimo.storage.batch_log import BatchLog, LoggedBatch, WaitingRequest
from kumihimo.storage.response_cache import ResponseCache

ONE = LoggedBatch("one", "http://server/v1", 1, (2.0, None, 8.0))
TWO = LoggedBatch("two", "http://server/v1", 2, (None, None, None))
KEYS = [bytes([n]) * 16 for n in range(4)]


def waits(key: bytes) -> WaitingRequest:
    return WaitingRequest(key, "mentions", "m", 30)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache.db"


@pytest.fixture
def log(path: Path) -> Iterator[BatchLog]:
    with closing(BatchLog(path)) as log:
        yield log


def test_nothing_waits_and_nothing_is_created_at_first(log: BatchLog, path: Path) -> None:
    assert (log.batches(), log.waiting(), path.exists()) == ([], [], False)
    with closing(ResponseCache(path)) as cache:
        assert not cache.is_waiting(KEYS[0])
    assert not path.exists()


def test_a_request_waits_for_one_batch_only(log: BatchLog, path: Path) -> None:
    with closing(ResponseCache(path)) as cache:
        cache.put_many([(KEYS[0], b"3")])
        assert log.add(ONE, map(waits, KEYS[:2])) == [KEYS[1]]  # the first has a reply
        assert log.add(TWO, map(waits, KEYS[:3])) == [KEYS[2]]
        assert log.add(LoggedBatch("three", "", 3, ()), map(waits, KEYS[:3])) == []
        assert [cache.is_waiting(key) for key in KEYS] == [False, True, True, False]
    assert log.batches() == [ONE, TWO]
    log.set_id("one", "batch_1")
    assert log.batches()[0] == ONE._replace(id="batch_1")
    assert (log.waiting("two"), len(log.waiting())) == ([waits(KEYS[2])], 2)


def test_a_batch_is_finished_once(log: BatchLog, path: Path) -> None:
    log.add(ONE, map(waits, KEYS[:2]))
    spent = {("mentions", "m"): (Usage(1, 7, 0, 2, 0.5, 0.0), 30)}
    for _ in range(2):
        log.finish("one", [(KEYS[0], b"9")], spent)
    assert (log.batches(), log.waiting()) == ([], [])
    with closing(ResponseCache(path)) as cache:
        assert cache.get_many(KEYS) == {KEYS[0]: b"9"}
        ((kind, scope, model, usage, size),) = cache.usage()
        assert (kind, scope, model, size, usage.calls, usage.cost) == ("spent", "mentions", "m", 30, 1, 0.5)


def test_a_cache_of_an_earlier_version_gets_the_tables(log: BatchLog, path: Path) -> None:
    log.add(ONE, [waits(KEYS[0])])
    with closing(sqlite3.connect(path)) as db:
        db.executescript("DROP TABLE batches; DROP TABLE waiting")
    assert (log.batches(), log.waiting()) == ([], [])
    with closing(ResponseCache(path)) as cache:
        assert not cache.is_waiting(KEYS[0])
    assert log.add(ONE, [waits(KEYS[0])]) == [KEYS[0]]


def test_a_repair_keeps_what_waits(log: BatchLog, path: Path) -> None:
    with closing(ResponseCache(path)) as cache:
        cache.put_many([(f"{n:016}".encode(), b"5" * 900) for n in range(300)])
    log.add(ONE, map(waits, KEYS[:3]))
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = bytearray(path.read_bytes())
    content[-4096 * 20 : -4096 * 18] = bytes(4096 * 2)
    path.write_bytes(content)
    with closing(ResponseCache(path)) as cache:
        assert cache.check(lambda value: isinstance(value, bytes), repair=True)
    assert (log.batches(), len(log.waiting())) == ([ONE], 3)


def test_a_claim_names_the_keys_that_no_other_process_has(log: BatchLog, path: Path) -> None:
    with closing(BatchLog(path)) as other, log.claim(KEYS[:2]) as mine, other.claim(KEYS) as theirs:
        assert mine == set(KEYS[:2])
        assert theirs == set(KEYS[2:])
