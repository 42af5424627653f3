"""what determines a reply -> the reply: asked once, on disk before it is given, kept while it is used."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Event, Lock, Thread

import pytest

from kumihimo.core.errors import IndexUnavailable, ItemFailed
from kumihimo.core.usage import Usage
from kumihimo.storage.sqlite.response_cache import ResponseCache, UsageEntry, cache_key


def held(path: Path) -> dict[bytes, bytes]:
    """What another connection finds on disk."""
    connection = sqlite3.connect(path)
    found = dict(connection.execute("SELECT key, value FROM replies").fetchall())
    connection.close()
    return found


def never() -> bytes:
    raise AssertionError("asked again")


def together(*calls: Callable[[], object]) -> None:
    threads = [Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not any(thread.is_alive() for thread in threads)


ASKED: dict[str, object] = {
    "model": "m",
    "messages": [{"role": "user", "content": "hi"}],
    "parameters": {"temperature": 0.0, "top_p": 1},
    "schema": None,
    "attempt": 0,
}


def test_a_key_is_the_same_for_equal_requests() -> None:
    turned = dict(reversed(ASKED.items())) | {"parameters": {"top_p": 1, "temperature": 0.0}}
    assert cache_key(**turned) == cache_key(**ASKED)
    assert len(cache_key(**ASKED)) == 16


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
    assert cache_key(**ASKED | other) != cache_key(**ASKED)


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


def test_a_reply_is_asked_for_once(tmp_path: Path) -> None:
    memo = ResponseCache(tmp_path / "cache.db")
    assert memo.get_or_fetch(b"k", lambda: b"v") == b"v"
    assert memo.get_or_fetch(b"k", never) == b"v"
    assert (memo.hits, memo.misses) == (1, 1)
    memo.close()
    again = ResponseCache(tmp_path / "cache.db")
    assert again.get_or_fetch(b"k", never) == b"v"
    again.close()


def test_a_reply_of_no_bytes_is_a_reply(tmp_path: Path) -> None:
    memo = ResponseCache(tmp_path / "cache.db")
    assert memo.get_or_fetch(b"", lambda: b"") == b""
    assert memo.get_or_fetch(b"", never) == b""
    memo.close()


def test_a_reply_is_on_disk_when_it_is_given(tmp_path: Path) -> None:
    memo = ResponseCache(tmp_path / "deep" / "cache.db")
    wrong: list[bytes] = []

    def ask(n: int) -> None:
        for i in range(20):
            k = b"%d %d" % (n, i)
            if memo.get_or_fetch(k, partial(bytes, k)) != held(memo.path).get(k):
                wrong.append(k)

    together(*[partial(ask, n) for n in range(4)])
    assert wrong == []
    assert len(held(memo.path)) == 80
    memo.close()


def test_equal_requests_in_flight_are_one(tmp_path: Path) -> None:
    memo = ResponseCache(tmp_path / "cache.db")
    calls: list[int] = []
    replies: list[bytes] = []

    def ask() -> bytes:
        calls.append(1)
        time.sleep(0.1)
        return b"v"

    together(*[lambda: replies.append(memo.get_or_fetch(b"k", ask))] * 8)
    assert calls == [1]
    assert replies == [b"v"] * 8
    assert (memo.hits, memo.misses) == (7, 1)
    memo.close()


def test_other_requests_do_not_wait_for_one_in_flight(tmp_path: Path) -> None:
    memo = ResponseCache(tmp_path / "cache.db")
    memo.get_or_fetch(b"known", lambda: b"v")
    asking, release = Event(), Event()

    def slow() -> bytes:
        asking.set()
        assert release.wait(10)
        return b"slow"

    thread = Thread(target=lambda: memo.get_or_fetch(b"slow", slow))
    thread.start()
    assert asking.wait(10)
    assert memo.get_or_fetch(b"known", never) == b"v"
    assert memo.get_or_fetch(b"new", lambda: b"n") == b"n"
    release.set()
    thread.join(10)
    assert held(memo.path)[b"slow"] == b"slow"
    memo.close()


def test_a_failure_reaches_all_who_wait_and_is_not_remembered(tmp_path: Path) -> None:
    memo = ResponseCache(tmp_path / "cache.db")
    asking, release = Event(), Event()
    failures: list[str] = []

    def fails() -> bytes:
        asking.set()
        assert release.wait(10)
        raise ItemFailed("no answer")

    def ask() -> None:
        try:
            memo.get_or_fetch(b"k", fails)
        except ItemFailed as failure:
            failures.append(str(failure))

    threads = [Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert asking.wait(10)
    while memo.hits < 3:  # the other three wait
        time.sleep(0.01)
    release.set()
    for thread in threads:
        thread.join(10)
    assert failures == ["no answer"] * 4
    assert held(memo.path) == {}
    assert memo.get_or_fetch(b"k", lambda: b"v") == b"v"
    memo.close()


def test_a_reply_that_another_thread_could_not_write_is_not_given(tmp_path: Path) -> None:

    memo = ResponseCache(tmp_path / "cache.db")
    memo._writer.execute("PRAGMA busy_timeout = 0")
    other = sqlite3.connect(memo.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    given: list[bytes] = []
    refused: list[bytes] = []
    lock = Lock()

    def ask(k: bytes) -> None:
        try:
            memo.get_or_fetch(k, lambda: k)
        except sqlite3.OperationalError:
            with lock:
                refused.append(k)
        else:
            with lock:
                given.append(k)

    threads = [Thread(target=ask, args=(k,)) for k in (b"a", b"b")]
    with memo._write_lock:  # both wait to write
        for thread in threads:
            thread.start()
        while len(memo._unwritten) < 2:
            time.sleep(0.01)
    for thread in threads:
        thread.join(10)
    other.execute("COMMIT")
    other.close()
    assert len(refused) + len(given) == 2
    assert set(given) <= held(memo.path).keys()
    memo.close()


def test_known_gives_those_that_are_and_keep_makes_them_so(tmp_path: Path) -> None:
    memo = ResponseCache(tmp_path / "cache.db")
    memo.put_many(iter([(b"a", b"1"), (b"b", b"2")]))
    assert held(memo.path) == {b"a": b"1", b"b": b"2"}
    assert memo.get_many([b"a", b"z", b"b"]) == {b"a": b"1", b"b": b"2"}
    assert memo.get_many([]) == {}
    assert (memo.hits, memo.misses) == (2, 2)
    assert memo.get_or_fetch(b"a", never) == b"1"
    memo.close()


def test_what_is_remembered_is_not_written_over(tmp_path: Path) -> None:
    memo = ResponseCache(tmp_path / "cache.db")
    memo.put_many([(b"a", b"1")])
    memo.put_many([(b"a", b"2")])
    assert memo.get_or_fetch(b"a", never) == b"1"
    memo.close()


def test_two_memos_share_a_file(tmp_path: Path) -> None:
    one, two = ResponseCache(tmp_path / "cache.db"), ResponseCache(tmp_path / "cache.db")
    one.get_or_fetch(b"a", lambda: b"1")
    assert two.get_or_fetch(b"a", never) == b"1"
    together(
        lambda: [one.get_or_fetch(b"one %d" % i, lambda: b"v") for i in range(30)],
        lambda: [two.get_or_fetch(b"two %d" % i, lambda: b"v") for i in range(30)],
    )
    assert one.size() == two.size() == (61, 61)
    two.prune({b"a"})
    assert one.get_many([b"a", b"one 1"]) == {b"a": b"1"}
    one.close()
    two.close()


def test_two_processes_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "cache.db"
    said = f"""
import sys
from functools import partial
from pathlib import Path
from kumihimo.storage.sqlite.response_cache import ResponseCache
memo = ResponseCache(Path({str(path)!r}))
mine = sys.argv[1].encode()
print("ready", flush=True)
input()
for i in range(50):
    assert memo.get_or_fetch(b"shared %d" % i, lambda: b"same") == b"same"
    assert memo.get_or_fetch(mine + b" %d" % i, lambda: mine) == mine
memo.close()
"""
    processes = [
        subprocess.Popen([sys.executable, "-c", said, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
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
    memo = ResponseCache(path)
    assert memo.size()[0] == 150
    assert memo.totals()["hits"] + memo.totals()["misses"] == 200
    assert memo.totals()["misses"] >= 150
    memo.close()


def test_a_killed_process_keeps_what_it_was_given(tmp_path: Path) -> None:
    path = tmp_path / "cache.db"
    said = f"""
import os, signal
from functools import partial
from pathlib import Path
from kumihimo.storage.sqlite.response_cache import ResponseCache
memo = ResponseCache(Path({str(path)!r}))
memo.get_or_fetch(b"a", lambda: b"1")
os.kill(os.getpid(), signal.SIGKILL)
"""
    ran = subprocess.run([sys.executable, "-c", said], check=False)
    assert ran.returncode == -9
    memo = ResponseCache(path)
    assert memo.get_or_fetch(b"a", never) == b"1"
    memo.close()


def test_pruning_keeps_what_is_used(tmp_path: Path) -> None:
    memo = ResponseCache(tmp_path / "cache.db")
    memo.put_many([(b"%d" % i, b"secret %d" % i + b"." * 1000) for i in range(200)])
    memo.used_keys = set()
    memo.get_or_fetch(b"1", never)
    memo.get_or_fetch(b"new", lambda: b"n")
    memo.get_many([b"2", b"unknown"])
    assert memo.used_keys == {b"1", b"2", b"new"}
    before = memo.path.stat().st_size + memo.path.with_name("cache.db-wal").stat().st_size
    assert memo.prune(memo.used_keys) == 198
    assert held(memo.path).keys() == {b"1", b"2", b"new"}
    assert memo.path.stat().st_size < before / 4
    assert memo.prune(memo.used_keys) == 0
    memo.close()
    assert b"secret 77" not in b"".join(file.read_bytes() for file in tmp_path.iterdir())


def test_what_is_kept_while_it_is_asked_what_is_used_is_used(tmp_path: Path) -> None:

    memo = ResponseCache(tmp_path / "cache.db")
    memo.used_keys = set()
    memo.put_many([(b"a", b"1")])
    assert memo.used_keys == {b"a"}
    memo.close()


def test_counts_survive(tmp_path: Path) -> None:
    for nth in range(1, 4):
        memo = ResponseCache(tmp_path / "cache.db")
        memo.get_or_fetch(b"k", lambda: b"v")
        memo.get_or_fetch(b"k", lambda: b"v")
        assert memo.totals() == {"hits": 2 * nth - 1, "misses": 1}
        memo.close()
    assert ResponseCache(tmp_path / "cache.db").totals() == {"hits": 5, "misses": 1}


def test_its_size_is_that_of_the_replies(tmp_path: Path) -> None:
    memo = ResponseCache(tmp_path / "cache.db")
    assert memo.size() == (0, 0)
    memo.put_many([(b"a", b"123"), (b"b", "港".encode())])
    assert memo.size() == (2, 6)
    memo.close()


def test_a_file_that_is_no_memo_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "cache.db"
    path.write_text("a letter to my aunt, long enough to be read as a header of something else " * 20)
    before = path.read_bytes()
    with pytest.raises(
        IndexUnavailable, match=rf"^{path} cannot be used \(.*\): move it away; what it held is paid again$"
    ):
        ResponseCache(path)
    assert path.read_bytes() == before


# -- what was spent


def spent_on_disk(path: Path) -> list[tuple[object, ...]]:
    """What another connection finds: kind, scope, model, calls, tokens of the prompts, bytes."""
    connection = sqlite3.connect(path)
    found = connection.execute("SELECT kind, scope, model, calls, prompt_tokens, bytes FROM usage").fetchall()
    connection.close()
    return found


def test_what_was_spent_is_written_with_the_reply(tmp_path: Path) -> None:
    memo = ResponseCache(tmp_path / "cache.db")

    def ask() -> bytes:
        memo.record_usage("spent", "gists", "m", Usage(1, 30), 100)
        return b"v"

    memo.record_usage("saved", "gists", "m", Usage(2, 60), 0)
    assert spent_on_disk(memo.path) == []
    memo.get_or_fetch(b"k", ask)
    assert spent_on_disk(memo.path) == [("saved", "gists", "m", 2, 60, 0), ("spent", "gists", "m", 1, 30, 100)]
    memo.close()


def test_what_was_spent_is_added_up_and_survives(tmp_path: Path) -> None:
    first, second = Usage(1, 30, 10, 5, 0.5, 1.5), Usage(2, 3, 0, 4, 0.25, 0.5)
    for usage in (first, second):
        memo = ResponseCache(tmp_path / "cache.db")
        memo.record_usage("spent", "gists", "m", usage, 100)
        memo.record_usage("spent", "gists", "other", Usage(1), 7)
        memo.record_usage("saved", "gists", "m", usage, 0)
        memo.close()
    memo = ResponseCache(tmp_path / "cache.db")
    memo.record_usage("spent", "gists", "m", first, 1)
    assert memo.usage() == [
        UsageEntry("saved", "gists", "m", first + second, 0),
        UsageEntry("spent", "gists", "m", first + second + first, 201),
        UsageEntry("spent", "gists", "other", Usage(2), 14),
    ]
    assert memo.usage() == memo.usage()
    memo.close()


def test_nothing_spent_is_nothing_told(tmp_path: Path) -> None:
    memo = ResponseCache(tmp_path / "cache.db")
    assert memo.usage() == []
    memo.close()


def test_two_memos_add_up_what_they_spend(tmp_path: Path) -> None:
    memos = [ResponseCache(tmp_path / "cache.db") for _ in range(2)]

    def spend(memo: ResponseCache, nth: int) -> None:
        for i in range(30):
            memo.record_usage("spent", "gists", "m", Usage(1, 10), 5)
            memo.put_many([(b"%d %d" % (nth, i), b"v")])

    together(*[partial(spend, memo, nth) for nth, memo in enumerate(memos)])
    assert memos[0].usage() == memos[1].usage() == [UsageEntry("spent", "gists", "m", Usage(60, 600), 300)]
    for memo in memos:
        memo.close()


def test_what_could_not_be_written_once_is_written_later(tmp_path: Path) -> None:
    memo = ResponseCache(tmp_path / "cache.db")
    memo._writer.execute("PRAGMA busy_timeout = 0")
    other = sqlite3.connect(memo.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    memo.record_usage("spent", "gists", "m", Usage(1, 30), 100)
    for write in (lambda: memo.put_many([(b"k", b"v")]), lambda: memo.usage()):
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            write()
    other.execute("COMMIT")
    other.close()
    memo.record_usage("spent", "gists", "m", Usage(1, 3), 10)
    assert memo.usage() == [UsageEntry("spent", "gists", "m", Usage(2, 33), 110)]
    memo.put_many([(b"l", b"w")])
    assert held(memo.path) == {b"k": b"v", b"l": b"w"}
    memo.close()


def test_what_could_not_be_added_is_not_forgotten(tmp_path: Path) -> None:
    memo = ResponseCache(tmp_path / "cache.db")
    memo._writer.execute("ALTER TABLE usage RENAME TO away")
    memo.record_usage("spent", "gists", "m", Usage(1, 30), 100)
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        memo.put_many([(b"k", b"v")])
    assert held(memo.path) == {}
    memo._writer.execute("ALTER TABLE away RENAME TO usage")
    memo.put_many([(b"l", b"w")])
    assert held(memo.path) == {b"k": b"v", b"l": b"w"}
    assert memo.usage() == [UsageEntry("spent", "gists", "m", Usage(1, 30), 100)]
    memo.close()


def test_pruning_forgets_no_spending(tmp_path: Path) -> None:
    memo = ResponseCache(tmp_path / "cache.db")
    memo.record_usage("spent", "gists", "m", Usage(1), 5)
    memo.put_many([(b"k", b"v")])
    assert memo.prune(set()) == 1
    assert memo.usage() == [UsageEntry("spent", "gists", "m", Usage(1), 5)]
    memo.close()


def test_what_is_no_memo_is_left_alone(tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "index.db")
    other.execute("CREATE TABLE chunks (id TEXT)")
    other.close()
    with pytest.raises(IndexUnavailable, match="is a database of something else"):
        ResponseCache(tmp_path / "index.db")
    with pytest.raises(IndexUnavailable, match="cannot be opened: name another memo"):
        ResponseCache(tmp_path)
    other = sqlite3.connect(tmp_path / "index.db")
    assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("chunks",)]
    other.close()
