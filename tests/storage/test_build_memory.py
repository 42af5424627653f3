"""values of a build -> computed once, for all connections and threads, until the index changes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

import pytest

from kumihimo.core.cancel import CancelToken
from kumihimo.core.errors import Cancelled
from kumihimo.storage.database import BuildMemory
from kumihimo.storage.sqlite.store import SqliteStore


@dataclass
class Heavy:
    """A value with many rows."""

    weight: int


def keep(memory: BuildMemory, version: int, key: str, value: object = None) -> bool:
    """Ask for a value; return whether it had to be computed."""
    computed: list[str] = []

    def compute() -> object:
        computed.append(key)
        return value

    memory.get(version, key, compute, lambda: None)
    return bool(computed)


def test_values_are_computed_once() -> None:
    memory = BuildMemory()
    assert [keep(memory, 1, key) for key in ("a", "b", "a", "b")] == [True, True, False, False]


def test_the_last_two_builds_are_kept() -> None:
    memory = BuildMemory()
    assert [keep(memory, build, "a") for build in (1, 2, 1, 2, 3, 2, 1)] == [
        True,
        True,
        False,
        False,
        True,
        False,
        True,
    ]


def test_values_used_last_are_kept() -> None:
    memory = BuildMemory()
    for i in range(64):
        keep(memory, 1, str(i))
    assert not keep(memory, 1, "0")
    assert keep(memory, 1, "64")
    assert [keep(memory, 1, key) for key in ("0", "2", "1")] == [False, False, True]


def test_few_heavy_values_are_kept() -> None:
    memory = BuildMemory()
    for key in "abc":
        keep(memory, 1, key, Heavy(200_000))
    assert not keep(memory, 1, "c")  # makes room
    assert [keep(memory, 1, key, Heavy(1)) for key in "bca"] == [False, False, True]
    keep(memory, 1, "huge", Heavy(10**9))
    assert not keep(memory, 1, "huge")


def test_an_error_is_not_remembered() -> None:
    memory = BuildMemory()
    with pytest.raises(ZeroDivisionError):
        memory.get(1, "a", lambda: 1 // 0, lambda: None)
    assert memory.get(1, "a", lambda: 7, lambda: None) == 7


def test_a_thread_waits_for_the_value_of_another_one_unless_it_is_cancelled() -> None:
    memory, started, may_end = BuildMemory(), Event(), Event()
    values: list[int] = []

    def compute() -> int:
        started.set()
        assert may_end.wait(10)
        return 7

    def ask() -> None:
        values.append(memory.get(1, "a", compute, lambda: None))

    threads = [Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert started.wait(10)
    token = CancelToken()
    token.cancel()
    with pytest.raises(Cancelled):
        memory.get(1, "a", compute, token.check)
    may_end.set()
    for thread in threads:
        thread.join(10)
    assert values == [7, 7, 7]
    assert not keep(memory, 1, "a")


def test_connections_share_values_until_the_index_changes(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    computed: list[str] = []

    def compute(key: str) -> str:
        computed.append(key)
        return key

    def read(key: str) -> str:
        with store.read_transaction() as one, store.read_transaction() as other:
            assert one is not other
            return "".join(db.once_per_build(key, lambda: compute(key)) for db in (one, other))

    with store.write_transaction():
        pass
    assert [read("a"), read("a"), read("b")] == ["aa", "aa", "bb"]
    assert computed == ["a", "b"]
    with store.write_transaction() as db:
        db.set_meta("sources", {"notes": 1})
    assert read("a") == "aa"
    assert computed == ["a", "b", "a"]
    with store.write_transaction() as db:
        db.run("CREATE TABLE words (id TEXT)")  # a search index is made again
    assert read("a") == "aa"
    assert computed == ["a", "b", "a", "a"]
    store.close()
