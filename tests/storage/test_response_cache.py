"""everything that determines a reply -> the reply: requested once, and on disk before it is returned."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Event, Lock, Thread
from types import SimpleNamespace
from typing import Any

import pytest

from kumihimo.core.errors import IndexBusy, IndexUnavailable, ItemFailed
from kumihimo.core.usage import Usage
from kumihimo.storage.response_cache import ResponseCache, UsageEntry, cache_key
from tests.cache_files import path_of, writer_of
from tests.counters import wait_until


def replies_on_disk(path: Path) -> dict[bytes, bytes]:
    """Return the replies that another connection finds on disk."""
    connection = sqlite3.connect(path)
    replies = dict(connection.execute("SELECT key, value FROM replies").fetchall())
    connection.close()
    return replies


def fail_to_fetch() -> bytes:
    raise AssertionError("fetched again")


def run_threads(*calls: Callable[[], object]) -> None:
    threads = [Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)


REQUEST: dict[str, object] = {
    "model": "m",
    "messages": [{"role": "user", "content": "hi"}],
    "parameters": {"temperature": 0.0, "top_p": 1},
    "schema": None,
    "attempt": 0,
}


def test_a_key_is_the_same_for_equal_requests() -> None:
    turned = dict(reversed(REQUEST.items())) | {"parameters": {"top_p": 1, "temperature": 0.0}}
    assert cache_key(**turned) == cache_key(**REQUEST)
    assert len(cache_key(**REQUEST)) == 16


@pytest.mark.parametrize(
    "other",
    [
        {"model": "m2"},
        {"messages": [{"role": "system", "content": "hi"}]},
        {"messages": [{"role": "user", "content": "hi "}]},
        {"messages": [{"role": "user", "content": "hi"}, {"role": "user", "content": ""}]},
        {"parameters": {"temperature": 0.1, "top_p": 1}},
        {"parameters": {"temperature": 0.0}},
        {"parameters": {}},
        {"schema": {"type": "object"}},
        {"attempt": 1},
        {"model": "m\ud800"},
    ],
)
def test_a_key_depends_on_every_part(other: dict[str, object]) -> None:
    assert cache_key(**REQUEST | other) != cache_key(**REQUEST)


def test_a_key_tells_names_from_values() -> None:
    keys = [
        cache_key(a="b"),
        cache_key(b="a"),
        cache_key(a="", b=""),
        cache_key(a=["b"]),
        cache_key(a="1"),
        cache_key(a=1),
        cache_key(a=None),
        cache_key(),
        cache_key(a="港"),
    ]
    assert len(set(keys)) == len(keys)


def test_a_reply_is_fetched_once(tmp_path: Path) -> None:
    cache = ResponseCache(tmp_path / "cache.db")
    assert cache.get_or_fetch(b"k", lambda: b"v") == b"v"
    assert cache.get_or_fetch(b"k", fail_to_fetch) == b"v"
    assert (cache.hits, cache.misses) == (1, 1)
    cache.close()
    again = ResponseCache(tmp_path / "cache.db")
    assert again.get_or_fetch(b"k", fail_to_fetch) == b"v"
    again.close()


def test_an_empty_reply_is_cached(tmp_path: Path) -> None:
    cache = ResponseCache(tmp_path / "cache.db")
    assert cache.get_or_fetch(b"", lambda: b"") == b""
    assert cache.get_or_fetch(b"", fail_to_fetch) == b""
    cache.close()


def test_a_reply_is_on_disk_when_it_is_returned(tmp_path: Path) -> None:
    cache = ResponseCache(tmp_path / "deep" / "cache.db")
    missing: list[bytes] = []

    def request_all(n: int) -> None:
        for i in range(20):
            k = b"%d %d" % (n, i)
            if cache.get_or_fetch(k, partial(bytes, k)) != replies_on_disk(path_of(cache)).get(k):
                missing.append(k)

    run_threads(*[partial(request_all, n) for n in range(4)])
    assert missing == []
    assert len(replies_on_disk(path_of(cache))) == 80
    cache.close()


def test_equal_requests_in_flight_are_one(tmp_path: Path) -> None:
    cache = ResponseCache(tmp_path / "cache.db")
    calls: list[int] = []
    replies: list[bytes] = []

    def fetch() -> bytes:
        calls.append(1)
        wait_until(lambda: cache.hits == 7)  # the others wait for this one
        return b"v"

    run_threads(*[lambda: replies.append(cache.get_or_fetch(b"k", fetch))] * 8)
    assert calls == [1]
    assert replies == [b"v"] * 8
    assert (cache.hits, cache.misses) == (7, 1)
    cache.close()


def test_other_requests_do_not_wait_for_one_in_flight(tmp_path: Path) -> None:
    cache = ResponseCache(tmp_path / "cache.db")
    cache.get_or_fetch(b"known", lambda: b"v")
    asking, release = Event(), Event()

    def slow() -> bytes:
        asking.set()
        assert release.wait(60)
        return b"slow"

    thread = Thread(target=lambda: cache.get_or_fetch(b"slow", slow))
    thread.start()
    assert asking.wait(60)
    assert cache.get_or_fetch(b"known", fail_to_fetch) == b"v"
    assert cache.get_or_fetch(b"new", lambda: b"n") == b"n"
    release.set()
    thread.join(60)
    assert replies_on_disk(path_of(cache))[b"slow"] == b"slow"
    cache.close()


def test_a_failure_reaches_all_waiting_threads_and_is_not_cached(tmp_path: Path) -> None:
    cache = ResponseCache(tmp_path / "cache.db")
    asking, release = Event(), Event()
    failures: list[str] = []

    def fails() -> bytes:
        asking.set()
        assert release.wait(60)
        raise ItemFailed("no answer")

    def request() -> None:
        try:
            cache.get_or_fetch(b"k", fails)
        except ItemFailed as failure:
            failures.append(str(failure))

    threads = [Thread(target=request) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert asking.wait(60)
    wait_until(lambda: cache.hits == 3)  # the other three wait
    release.set()
    for thread in threads:
        thread.join(60)
    assert failures == ["no answer"] * 4
    assert replies_on_disk(path_of(cache)) == {}
    assert cache.get_or_fetch(b"k", lambda: b"v") == b"v"
    cache.close()


def test_a_reply_that_another_thread_could_not_write_is_not_returned(tmp_path: Path) -> None:

    cache = ResponseCache(tmp_path / "cache.db")
    writer_of(cache).execute("PRAGMA busy_timeout = 0")
    other = sqlite3.connect(path_of(cache), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    returned: list[bytes] = []
    refused: list[bytes] = []
    lock = Lock()

    def request(k: bytes) -> None:
        try:
            cache.get_or_fetch(k, lambda: k)
        except IndexUnavailable:
            with lock:
                refused.append(k)
        else:
            with lock:
                returned.append(k)

    threads = [Thread(target=request, args=(k,)) for k in (b"a", b"b")]
    with cache._write_lock:  # both wait to write
        for thread in threads:
            thread.start()
        wait_until(lambda: len(cache._unwritten) == 2)
    for thread in threads:
        thread.join(60)
    other.execute("COMMIT")
    other.close()
    assert len(refused) + len(returned) == 2
    assert set(returned) <= replies_on_disk(path_of(cache)).keys()
    cache.close()


def test_equal_requests_of_two_caches_are_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first, second = ResponseCache(tmp_path / "cache.db"), ResponseCache(tmp_path / "cache.db")
    replies: list[bytes] = []
    thread = Thread(target=lambda: replies.append(second.get_or_fetch(b"k", fail_to_fetch)))

    def fetch() -> bytes:
        thread.start()
        wait_until(lambda: "waiting for a reply" in caplog.text)
        return b"v"

    with caplog.at_level("INFO", logger="kumihimo"):
        assert first.get_or_fetch(b"k", fetch) == b"v"
    thread.join(60)
    assert replies == [b"v"]
    assert (first.misses, second.hits, second.misses) == (1, 1, 0)
    first.close()
    second.close()


def test_another_cache_fetches_what_the_first_could_not(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first, second = ResponseCache(tmp_path / "cache.db"), ResponseCache(tmp_path / "cache.db")
    replies: list[dict[bytes, bytes]] = []
    fetch_both = lambda keys: dict.fromkeys(keys, b"v")  # noqa: E731
    thread = Thread(target=lambda: replies.append(second.get_or_fetch_many([b"k", b"l"], fetch_both)))

    def fail() -> bytes:
        thread.start()
        wait_until(lambda: "waiting for a reply" in caplog.text)
        raise ItemFailed("no answer")

    with caplog.at_level("INFO", logger="kumihimo"), pytest.raises(ItemFailed, match="no answer"):
        first.get_or_fetch(b"k", fail)
    thread.join(60)
    assert replies == [{b"k": b"v", b"l": b"v"}]
    first.close()
    second.close()


def test_a_dry_run_waits_for_nothing_and_writes_nothing(tmp_path: Path) -> None:
    path, dry_path = tmp_path / "cache.db", tmp_path / "new" / "cache.db"
    building, planning = ResponseCache(path), ResponseCache(path)

    def refuse() -> bytes:
        raise ItemFailed("not asked")

    def plan_meanwhile() -> bytes:
        for cache in (planning, ResponseCache(dry_path)):
            with pytest.raises(ItemFailed, match="not asked"):
                cache.get_or_fetch(b"k", refuse, dry_run=True)
            cache.close()
        return b"v"

    building.get_or_fetch(b"k", plan_meanwhile)
    building.close()
    assert not dry_path.parent.exists()


def test_put_many_stores_replies_for_get_many(tmp_path: Path) -> None:
    cache = ResponseCache(tmp_path / "cache.db")
    cache.put_many(iter([(b"a", b"1"), (b"b", b"2")]))
    assert replies_on_disk(path_of(cache)) == {b"a": b"1", b"b": b"2"}
    assert cache.get_many([b"a", b"z", b"b"]) == {b"a": b"1", b"b": b"2"}
    assert cache.get_many([]) == {}
    assert (cache.hits, cache.misses) == (2, 2)
    assert cache.get_or_fetch(b"a", fail_to_fetch) == b"1"
    cache.close()


def test_a_cached_reply_is_not_overwritten(tmp_path: Path) -> None:
    cache = ResponseCache(tmp_path / "cache.db")
    cache.put_many([(b"a", b"1")])
    cache.put_many([(b"a", b"2")])
    assert cache.get_or_fetch(b"a", fail_to_fetch) == b"1"
    cache.close()


def test_two_caches_share_a_file(tmp_path: Path) -> None:
    first, second = ResponseCache(tmp_path / "cache.db"), ResponseCache(tmp_path / "cache.db")
    first.get_or_fetch(b"a", lambda: b"1")
    assert second.get_or_fetch(b"a", fail_to_fetch) == b"1"
    run_threads(
        lambda: [first.get_or_fetch(b"one %d" % i, lambda: b"v") for i in range(30)],
        lambda: [second.get_or_fetch(b"two %d" % i, lambda: b"v") for i in range(30)],
    )
    assert first.size() == second.size() == (61, 61)
    second.prune({b"a"})
    assert first.get_many([b"a", b"one 1"]) == {b"a": b"1"}
    first.close()
    second.close()


def test_two_processes_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "cache.db"
    script = f"""
import sys
from functools import partial
from pathlib import Path
from kumihimo.storage.response_cache import ResponseCache
cache = ResponseCache(Path({str(path)!r}))
mine = sys.argv[1].encode()
print("ready", flush=True)
input()
for i in range(50):
    assert cache.get_or_fetch(b"shared %d" % i, lambda: b"same") == b"same"
    assert cache.get_or_fetch(mine + b" %d" % i, lambda: mine) == mine
cache.close()
"""
    processes = [
        subprocess.Popen([sys.executable, "-c", script, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for name in "ab"
    ]
    for process in processes:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        process.communicate(timeout=60)
        assert process.returncode == 0
    cache = ResponseCache(path)
    assert cache.size()[0] == 150
    assert cache.totals()["hits"] + cache.totals()["misses"] == 200
    assert cache.totals()["misses"] >= 150
    cache.close()


def test_a_killed_process_keeps_its_replies(tmp_path: Path) -> None:
    path = tmp_path / "cache.db"
    script = f"""
import os, signal
from functools import partial
from pathlib import Path
from kumihimo.storage.response_cache import ResponseCache
cache = ResponseCache(Path({str(path)!r}))
cache.get_or_fetch(b"a", lambda: b"1")
os.kill(os.getpid(), signal.SIGKILL)
"""
    process = subprocess.run([sys.executable, "-c", script], check=False)
    assert process.returncode == -9
    cache = ResponseCache(path)
    assert cache.get_or_fetch(b"a", fail_to_fetch) == b"1"
    cache.close()


def test_pruning_keeps_used_replies(tmp_path: Path) -> None:
    cache = ResponseCache(tmp_path / "cache.db")
    cache.put_many([(b"%d" % i, b"secret %d" % i + b"." * 1000) for i in range(200)])
    cache.used_keys = set()
    cache.get_or_fetch(b"1", fail_to_fetch)
    cache.get_or_fetch(b"new", lambda: b"n")
    cache.get_many([b"2", b"unknown"])
    assert cache.used_keys == {b"1", b"2", b"new"}
    before = path_of(cache).stat().st_size + path_of(cache).with_name("cache.db-wal").stat().st_size
    assert cache.prune(cache.used_keys) == 198
    assert replies_on_disk(path_of(cache)).keys() == {b"1", b"2", b"new"}
    assert path_of(cache).stat().st_size < before / 4
    assert cache.prune(cache.used_keys) == 0
    cache.close()
    assert b"secret 77" not in b"".join(file.read_bytes() for file in tmp_path.iterdir())


def test_replies_that_another_process_reads_are_not_erased_yet(tmp_path: Path) -> None:
    cache = ResponseCache(tmp_path / "cache.db")
    cache.put_many([(b"k", b"secret 77")])
    writer_of(cache).execute("PRAGMA busy_timeout = 0")
    other = sqlite3.connect(path_of(cache), isolation_level=None)
    other.execute("BEGIN")
    other.execute("SELECT count(*) FROM replies").fetchall()
    with pytest.raises(IndexBusy, match="end that process, then run `kumi cache prune`"):
        cache.prune(set())
    other.close()
    assert b"secret 77" in b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert cache.prune(set()) == 0
    assert b"secret 77" not in b"".join(file.read_bytes() for file in tmp_path.iterdir())
    cache.close()


def test_stored_replies_count_as_used(tmp_path: Path) -> None:

    cache = ResponseCache(tmp_path / "cache.db")
    cache.used_keys = set()
    cache.put_many([(b"a", b"1")])
    assert cache.used_keys == {b"a"}
    cache.close()


def test_counts_survive(tmp_path: Path) -> None:
    for nth in range(1, 4):
        cache = ResponseCache(tmp_path / "cache.db")
        cache.get_or_fetch(b"k", lambda: b"v")
        cache.get_or_fetch(b"k", lambda: b"v")
        assert cache.totals() == {"hits": 2 * nth - 1, "misses": 1}
        cache.close()
    assert ResponseCache(tmp_path / "cache.db").totals() == {"hits": 5, "misses": 1}


def test_size_counts_the_replies(tmp_path: Path) -> None:
    cache = ResponseCache(tmp_path / "cache.db")
    assert cache.size() == (0, 0)
    cache.put_many([(b"a", b"123"), (b"b", "港".encode())])
    assert cache.size() == (2, 6)
    cache.close()


def test_a_file_that_is_no_cache_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "cache.db"
    path.write_text("a letter to my aunt, long enough to be read as a header of something else " * 20)
    before = path.read_bytes()
    for use in (ResponseCache.size, ResponseCache.usage, lambda cache: cache.put_many([(b"k", b"v")])):
        with pytest.raises(IndexUnavailable, match=rf"^{path} is damaged, or no cache: `kumi check --repair` keeps"):
            use(ResponseCache(path))
    assert path.read_bytes() == before


# -- usage


def usage_on_disk(path: Path) -> list[tuple[object, ...]]:
    """Return the usage rows that another connection finds.

    Their columns are kind, scope, model, calls, prompt tokens and bytes.
    """
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT kind, scope, model, calls, prompt_tokens, bytes FROM usage").fetchall()
    connection.close()
    return rows


def test_usage_is_written_with_the_reply(tmp_path: Path) -> None:
    cache = ResponseCache(tmp_path / "cache.db")

    def fetch() -> bytes:
        cache.record_usage("spent", "gists", "m", Usage(1, 30), 100)
        return b"v"

    cache.record_usage("saved", "gists", "m", Usage(2, 60), 0)
    assert not path_of(cache).exists()
    cache.get_or_fetch(b"k", fetch)
    assert usage_on_disk(path_of(cache)) == [("saved", "gists", "m", 2, 60, 0), ("spent", "gists", "m", 1, 30, 100)]
    cache.close()


def test_usage_is_added_up_and_survives(tmp_path: Path) -> None:
    first, second = Usage(1, 30, 10, 5, 0.5, 1.5), Usage(2, 3, 0, 4, 0.25, 0.5)
    for usage in (first, second):
        cache = ResponseCache(tmp_path / "cache.db")
        cache.record_usage("spent", "gists", "m", usage, 100)
        cache.record_usage("spent", "gists", "other", Usage(1), 7)
        cache.record_usage("saved", "gists", "m", usage, 0)
        cache.close()
    cache = ResponseCache(tmp_path / "cache.db")
    cache.record_usage("spent", "gists", "m", first, 1)
    assert cache.usage() == [
        UsageEntry("saved", "gists", "m", first + second, 0),
        UsageEntry("spent", "gists", "m", first + second + first, 201),
        UsageEntry("spent", "gists", "other", Usage(2), 14),
    ]
    assert cache.usage() == cache.usage()
    cache.close()


def test_no_usage_is_an_empty_list(tmp_path: Path) -> None:
    cache = ResponseCache(tmp_path / "cache.db")
    assert cache.usage() == []
    cache.close()


def test_two_caches_add_up_their_usage(tmp_path: Path) -> None:
    caches = [ResponseCache(tmp_path / "cache.db") for _ in range(2)]

    def record(cache: ResponseCache, nth: int) -> None:
        for i in range(30):
            cache.record_usage("spent", "gists", "m", Usage(1, 10), 5)
            cache.put_many([(b"%d %d" % (nth, i), b"v")])

    run_threads(*[partial(record, cache, nth) for nth, cache in enumerate(caches)])
    assert caches[0].usage() == caches[1].usage() == [UsageEntry("spent", "gists", "m", Usage(60, 600), 300)]
    for cache in caches:
        cache.close()


def test_replies_that_could_not_be_written_are_written_later(tmp_path: Path) -> None:
    cache = ResponseCache(tmp_path / "cache.db")
    writer_of(cache).execute("PRAGMA busy_timeout = 0")
    other = sqlite3.connect(path_of(cache), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    cache.record_usage("spent", "gists", "m", Usage(1, 30), 100)
    for write in (lambda: cache.put_many([(b"k", b"v")]), lambda: cache.usage()):
        with pytest.raises(IndexUnavailable, match="is in use by another process"):
            write()
    other.execute("COMMIT")
    other.close()
    cache.record_usage("spent", "gists", "m", Usage(1, 3), 10)
    assert cache.usage() == [UsageEntry("spent", "gists", "m", Usage(2, 33), 110)]
    cache.put_many([(b"l", b"w")])
    assert replies_on_disk(path_of(cache)) == {b"k": b"v", b"l": b"w"}
    cache.close()


def test_usage_that_could_not_be_added_is_not_lost(tmp_path: Path) -> None:
    cache = ResponseCache(tmp_path / "cache.db")
    writer_of(cache).execute("ALTER TABLE usage RENAME TO away")
    cache.record_usage("spent", "gists", "m", Usage(1, 30), 100)
    with pytest.raises(IndexUnavailable, match="no such table"):
        cache.put_many([(b"k", b"v")])
    assert replies_on_disk(path_of(cache)) == {}
    writer_of(cache).execute("ALTER TABLE away RENAME TO usage")
    cache.put_many([(b"l", b"w")])
    assert replies_on_disk(path_of(cache)) == {b"k": b"v", b"l": b"w"}
    assert cache.usage() == [UsageEntry("spent", "gists", "m", Usage(1, 30), 100)]
    cache.close()


def test_pruning_keeps_the_usage(tmp_path: Path) -> None:
    cache = ResponseCache(tmp_path / "cache.db")
    cache.record_usage("spent", "gists", "m", Usage(1), 5)
    cache.put_many([(b"k", b"v")])
    assert cache.prune(set()) == 1
    assert cache.usage() == [UsageEntry("spent", "gists", "m", Usage(1), 5)]
    cache.close()


# -- damage, full disks, and reading without writing


def parse_number(value: bytes) -> int:
    return int(value)


def is_number(value: object) -> bool:
    return isinstance(value, bytes) and value.isdigit()


def file_states(folder: Path) -> dict[str, tuple[int, int]]:
    return {path.name: (path.stat().st_size, path.stat().st_mtime_ns) for path in folder.iterdir()}


@pytest.fixture
def numbers(tmp_path: Path) -> ResponseCache:
    """A cache of 300 replies and a little usage, on pages that a test can damage."""
    cache = ResponseCache(tmp_path / "cache.db")
    cache.record_usage("spent", "gists", "m", Usage(1, 30), 100)
    cache.put_many([(b"key %012d" % i, b"%0200d" % i) for i in range(300)])
    cache.close()
    return cache


def set_value(path: Path, key: bytes, value: object) -> None:
    other = sqlite3.connect(path)
    with other:
        other.execute("UPDATE replies SET value = ? WHERE key = ?", (value, key))
    other.close()


def zero_page(path: Path, number: int) -> None:
    with path.open("r+b") as file:
        file.seek((number - 1) * 4096)
        file.write(bytes(4096))


@pytest.mark.parametrize("damage", [b"", b"12x", "12", 12])
def test_a_damaged_reply_is_fetched_again_and_replaced(
    tmp_path: Path, damage: object, caplog: pytest.LogCaptureFixture
) -> None:
    cache, fetched = ResponseCache(tmp_path / "cache.db"), list[int]()
    cache.put_many([(b"a", b"1"), (b"b", b"2")])
    set_value(path_of(cache), b"a", damage)

    def fetch() -> bytes:
        fetched.append(1)
        return b"3"

    def parse(value: bytes) -> int:
        if not isinstance(value, bytes):
            raise TypeError(value)
        return int(value)

    assert cache.get_many([b"a", b"b"], parse) == {b"b": 2}
    assert [cache.get_or_fetch(b"a", fetch, parse) for _ in range(3)] == [3, 3, 3]
    assert replies_on_disk(path_of(cache)) == {b"a": b"3", b"b": b"2"}
    assert (fetched, caplog.text.count("a damaged reply")) == ([1], 1)
    cache.close()


def test_a_damaged_reply_stays_until_there_is_another(tmp_path: Path) -> None:
    cache = ResponseCache(tmp_path / "cache.db")
    cache.put_many([(b"a", b"12x")])

    def fail() -> bytes:
        raise ItemFailed("no answer")

    with pytest.raises(ItemFailed):
        cache.get_or_fetch(b"a", fail, parse_number)
    assert replies_on_disk(path_of(cache)) == {b"a": b"12x"}
    cache.close()


def test_a_damaged_page_is_blamed_on_the_cache(numbers: ResponseCache) -> None:
    for number in range(2, path_of(numbers).stat().st_size // 4096 + 1):
        zero_page(path_of(numbers), number)
    for use in (
        lambda cache: cache.get_many([b"key %012d" % 1]),
        lambda cache: cache.get_or_fetch(b"key %012d" % 1, fail_to_fetch),
        lambda cache: cache.put_many([(b"new", b"1")]),
        lambda cache: cache.prune(set()),
        ResponseCache.size,
        ResponseCache.usage,
        ResponseCache.totals,
    ):
        cache = ResponseCache(path_of(numbers))
        with pytest.raises(IndexUnavailable, match=rf"^{path_of(numbers)} is damaged: `kumi check --repair` keeps the"):
            use(cache)
        cache.database.close()


def test_a_full_disk_is_the_cause_only_if_it_is_full(tmp_path: Path) -> None:
    cache = ResponseCache(tmp_path / "cache.db")
    cache.put_many([(b"a", b"1")])
    writer_of(cache).execute("PRAGMA max_page_count = 8")
    with pytest.raises(IndexUnavailable, match=r"cache\.db cannot be written, since the disk is full: make room"):
        cache.put_many([(b"b", bytes(100_000))])
    writer_of(cache).execute("PRAGMA max_page_count = 1000")
    cache.close()
    assert replies_on_disk(path_of(cache)).keys() == {b"a", b"b"}
    cache = ResponseCache(tmp_path / "cache.db")
    writer_of(cache).execute("PRAGMA query_only = 1")
    with pytest.raises(IndexUnavailable, match=r"cache\.db cannot be written: name another cache with --cache FILE$"):
        cache.put_many([(b"c", b"1")])
    writer_of(cache).execute("PRAGMA query_only = 0")
    cache.close()


def test_a_full_disk_is_found_before_a_reply_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = ResponseCache(tmp_path / "cache.db")
    full = SimpleNamespace(free=1000)
    monkeypatch.setattr("kumihimo.storage.sqlite.cache_file.disk_usage", lambda path: full)
    fetched: list[bytes] = []

    def fetch() -> bytes:
        fetched.append(b"1")
        return b"1"

    with pytest.raises(IndexUnavailable, match=r"the disk of .*cache\.db is full, so no model was asked: make room"):
        cache.get_or_fetch(b"a", fetch)
    assert fetched == []
    full.free = 10**9
    assert cache.get_or_fetch(b"a", fetch) == b"1"
    full.free = 1000
    assert cache.get_or_fetch(b"a", fetch) == b"1", "what is cached costs nothing"
    cache.close()


def test_reading_changes_no_file(numbers: ResponseCache) -> None:
    before = file_states(path_of(numbers).parent)
    cache = ResponseCache(path_of(numbers))
    assert (cache.size(), cache.totals(), len(cache.usage())) == ((300, 60_000), {"hits": 0, "misses": 300}, 1)
    assert cache.get_many([b"unknown"]) == {}
    assert cache.check(is_number) == []
    cache.close()
    assert file_states(path_of(numbers).parent) == before


def test_reading_creates_no_file(tmp_path: Path) -> None:
    cache = ResponseCache(tmp_path / "none" / "cache.db")
    assert (cache.size(), cache.totals(), cache.usage()) == ((0, 0), {"hits": 0, "misses": 0}, [])
    assert (cache.get_many([b"k"]), cache.check(is_number, repair=True)) == ({}, [])
    cache.close()
    assert list(tmp_path.iterdir()) == []


def test_a_read_only_folder_is_read(numbers: ResponseCache, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite itself must not lock: root may write everywhere, so the system would not refuse it."""
    connections: list[str] = []
    connect = sqlite3.connect

    def record_address(address: str, **options: Any) -> sqlite3.Connection:
        connections.append(address.partition("?")[2])
        connection: sqlite3.Connection = connect(address, **options)
        return connection

    monkeypatch.setattr(sqlite3, "connect", record_address)
    monkeypatch.setattr("os.access", lambda path, mode: False)
    cache = ResponseCache(path_of(numbers))
    assert cache.get_or_fetch(b"key %012d" % 7, fail_to_fetch, parse_number) == 7
    cache.record_usage("saved", "gists", "m", Usage(1, 30), 0)
    assert (cache.size()[0], len(cache.usage()), cache.totals()["hits"]) == (300, 1, 1)
    cache.close()  # the hit is not counted there
    assert connections == ["immutable=1"]


def test_damaged_replies_are_found_and_deleted(numbers: ResponseCache) -> None:
    for i in (3, 250):
        set_value(path_of(numbers), b"key %012d" % i, b"\xff")
    cache = ResponseCache(path_of(numbers))
    assert cache.check(is_number) == ["2 replies cannot be read"]
    assert cache.size()[0] == 300
    assert cache.check(is_number, repair=True) == ["2 replies cannot be read"]
    assert (cache.check(is_number), cache.size()[0]) == ([], 298)
    cache.close()


def test_readable_replies_move_to_a_new_file(numbers: ResponseCache, caplog: pytest.LogCaptureFixture) -> None:
    """A page is zeroed, or the file is cut off."""
    path, undamaged = path_of(numbers), path_of(numbers).read_bytes()
    old_path = path.with_name("cache.db-damaged")
    pages, kept = len(undamaged) // 4096, list[int]()
    for number in (2, 3, pages // 2, pages, pages + 1):
        path.write_bytes(undamaged)
        if number > pages:
            path.write_bytes(undamaged[: len(undamaged) // 2])
        else:
            zero_page(path, number)
        damaged, cache = path.read_bytes(), ResponseCache(path)
        (message,) = cache.check(is_number)
        assert message.startswith("the file is damaged: ")
        assert cache.check(is_number, repair=True) == [message]
        assert (cache.check(is_number), old_path.read_bytes()) == ([], damaged)
        kept.append(cache.size()[0])
        if number == 2:  # the root of the table: all its rows are below it
            assert kept == [0]
        for key, value in replies_on_disk(path).items():
            assert int(value) == int(key[4:])
        cache.close()
        old_path.unlink()
    assert min(kept[1:-1]) > 270
    assert kept[-1] > 100
    assert (
        f"{path} is a new file with the {kept[-1]} replies that can be read; {old_path} is the old one" in caplog.text
    )


def test_a_repair_keeps_the_usage_and_an_earlier_damaged_file(numbers: ResponseCache) -> None:
    cache = ResponseCache(path_of(numbers))
    zero_page(path_of(numbers), 8)
    cache.check(is_number, repair=True)
    assert [entry.usage for entry in cache.usage()] == [Usage(1, 30)]
    assert cache.totals() == {"hits": 0, "misses": 300}
    cache.close()
    zero_page(path_of(numbers), 8)
    with pytest.raises(IndexUnavailable, match="holds an earlier damaged cache; move it away"):
        ResponseCache(path_of(numbers)).check(is_number, repair=True)


def test_other_databases_are_not_touched(tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "index.db")
    other.execute("CREATE TABLE chunks (id TEXT)")
    other.close()
    with pytest.raises(IndexUnavailable, match="is a database of something else"):
        ResponseCache(tmp_path / "index.db").size()
    with pytest.raises(IndexUnavailable, match="cannot be opened: name another cache"):
        ResponseCache(tmp_path).size()
    other = sqlite3.connect(tmp_path / "index.db")
    assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("chunks",)]
    other.close()


def test_a_repair_leaves_a_file_that_is_no_cache(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("my text", encoding="utf-8")
    with pytest.raises(IndexUnavailable, match=r"notes\.txt is no cache, so it stays as it is"):
        ResponseCache(path).check(lambda _: True, repair=True)
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]
    assert path.read_text(encoding="utf-8") == "my text"
