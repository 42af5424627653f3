"""A child process answers many requests, and ends at a limit."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace

import pytest

from kumihimo import workers
from kumihimo.core.redaction import register_secret
from kumihimo.workers import Worker, WorkerStopped, __main__
from tests.counters import has_ended, wait_until

MEMORY = 500 << 20
ROOT = Path(__file__).parents[2]


@pytest.fixture
def make_worker() -> Iterator[Callable[[str], Worker]]:
    started: list[Worker] = []

    def make(handler: str) -> Worker:
        started.append(Worker(f"tests.workers.handlers:{handler}", memory=MEMORY))
        return started[-1]

    yield make
    for worker in started:
        worker.close()


def test_replies_are_values_and_output_of_libraries_is_not_among_them(make_worker: Callable[[str], Worker]) -> None:
    worker = make_worker("echo")
    values: list[object] = ["a\nb", "𠮷\u2028", "\ud800", {"n": 1.5}, None, [], 2**70]
    assert list(worker.ask(values, seconds=60)) == values
    assert list(worker.ask([], seconds=60)) == []
    assert worker.requests == 2


def test_one_process_serves_all_requests_until_one_fails(make_worker: Callable[[str], Worker]) -> None:
    worker = make_worker("misbehave")
    first, second = (next(iter(worker.ask("", seconds=60))), next(iter(worker.ask("", seconds=60))))
    assert first != second, "a request that is not read to its end stops the process"
    ids = {id for _ in range(3) for id in worker.ask("", seconds=60)}
    assert len(ids) == 1
    with pytest.raises(WorkerStopped):
        list(worker.ask("raise", seconds=60))
    assert worker.requests == 0
    assert ids.isdisjoint(worker.ask("", seconds=60))


@pytest.mark.parametrize(
    ("request_text", "reason", "detail"),
    [
        ("memory", "memory", "memory"),
        ("crash", "crash", "Segmentation fault"),
        ("abort for memory", "memory", "memory"),
        ("exit", "crash", "exit status 3"),
        ("raise", "error", "ValueError: no such thing"),
    ],
)
def test_the_reason_of_a_stop_follows_the_replies(
    request_text: str, reason: str, detail: str, make_worker: Callable[[str], Worker]
) -> None:
    replies = make_worker("misbehave").ask(request_text, seconds=60)
    assert next(replies)
    with pytest.raises(WorkerStopped, match=detail) as stop:
        next(replies)
    assert stop.value.reason == reason


@pytest.mark.skipif(sys.platform != "linux", reason="other systems may not limit processor time")
def test_processor_time_is_limited_by_request(make_worker: Callable[[str], Worker]) -> None:
    worker = make_worker("misbehave")
    list(worker.ask("", seconds=60, cpu_seconds=1))
    replies = worker.ask("spin", seconds=60, cpu_seconds=1)
    next(replies)
    with pytest.raises(WorkerStopped) as stop:
        next(replies)
    assert stop.value.reason == "time"


def test_time_by_the_clock_is_limited(make_worker: Callable[[str], Worker], monkeypatch: pytest.MonkeyPatch) -> None:
    class FakeTimer:
        def __init__(self, seconds: float, stop: Callable[[], None]) -> None:
            self.stop = stop

        def start(self) -> None:
            self.stop()

        def cancel(self) -> None: ...

    monkeypatch.setattr(workers, "Timer", FakeTimer)
    with pytest.raises(WorkerStopped) as stop:
        list(make_worker("misbehave").ask("spin", seconds=60))
    assert stop.value.reason == "clock"


def test_the_child_has_no_secrets_and_the_same_imports(
    make_worker: Callable[[str], Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    register_secret("a key in use")
    environment = {
        **dict.fromkeys(("OPENAI_API_KEY", "HF_TOKEN", "DB_PASSWORD", "PLAIN_THING"), "secret"),
        "OTHER_NAME": "a key in use",
        "SOME_URL": "http://me:password@host/v1",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.syspath_prepend("")
    values, imports = make_worker("environment").ask(list(environment), seconds=60)
    assert values == [None, None, None, "secret", None, None]
    paths, is_safe = imports
    assert is_safe
    assert str(os.getcwd()) in paths  # noqa: PTH109
    assert "" not in paths


def test_without_a_python_to_start_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(Exception, match="cannot start Python"):
        list(Worker("x:y", memory=MEMORY).ask(None, seconds=1))


def test_each_request_may_print_as_much(make_worker: Callable[[str], Worker]) -> None:
    worker = make_worker("print_errors")
    assert [list(worker.ask(600_000, seconds=60)) for _ in range(3)] == [[True]] * 3
    with pytest.raises(WorkerStopped, match="File too large"):
        list(worker.ask(2_000_000, seconds=60))


def test_a_limit_of_the_system_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    limits: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (50, 90))
    monkeypatch.setattr(resource, "setrlimit", lambda kind, pair: limits.append(pair))
    for value in (20, 100, resource.RLIM_INFINITY):
        __main__._set_limit(0, value)
    assert limits == [(20, 90), (90, 90), (90, 90)]


def test_a_handler_that_does_not_exist_stops_at_once() -> None:
    with Worker("tests.workers.handlers:nothing", memory=MEMORY) as worker, pytest.raises(WorkerStopped) as stop:
        list(worker.ask(None, seconds=60))
    assert stop.value.reason == "crash"


def test_a_trusted_child_has_the_keys_and_may_write_large_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    with Worker("tests.workers.handlers:environment", memory=0, with_secrets=True) as worker:
        values, _ = worker.ask(["OPENAI_API_KEY"], seconds=60)
    assert values == ["secret"]
    with Worker("tests.workers.handlers:print_errors", memory=0, max_file=0) as worker:
        assert list(worker.ask(2_000_000)) == [True]


def test_another_thread_stops_a_request_and_all_later_ones(make_worker: Callable[[str], Worker]) -> None:
    worker = make_worker("misbehave")
    replies = worker.ask("spin")
    next(replies)
    thread = Thread(target=worker.stop)
    thread.start()
    with pytest.raises(WorkerStopped) as stop:
        next(replies)
    thread.join()
    assert stop.value.reason == "crash"
    with pytest.raises(WorkerStopped):
        list(worker.ask("spin"))


@pytest.mark.parametrize("status", [0, 1])
def test_an_exit_is_no_limit_where_the_system_has_no_such_signal(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(signal, "SIGXCPU", raising=False)  # as on Windows
    stop = workers._stop_error("lost", "", status, False, "")
    assert (stop.reason, str(stop)) == ("crash", f"exit status {status}")


def test_without_limits_of_the_system_requests_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(__main__, "resource", None)  # as on Windows
    replies, lines = io.BytesIO(), io.BytesIO(b'{"request": [1, 2], "cpu_seconds": 5, "memory": 9}\n')
    monkeypatch.setattr(sys, "argv", ["workers", "tests.workers.handlers:echo", "1000"])
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=lines))
    monkeypatch.setattr(os, "dup", lambda file: file)
    monkeypatch.setattr(os, "dup2", lambda file, other: other)
    monkeypatch.setattr(os, "fdopen", lambda file, mode: replies)
    ended = Event()
    monkeypatch.setattr(os, "_exit", lambda _: ended.set())
    __main__.main()
    assert ended.wait(60)
    assert replies.getvalue() == b'["reply", 1]\n["reply", 2]\n["end", null]\n'


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the states of processes are in /proc")
def test_a_process_ends_with_its_parent_in_the_middle_of_a_request() -> None:
    command = [sys.executable, "-c", "from tests.workers.handlers import ask_and_wait; ask_and_wait()"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as parent:
        assert parent.stdout
        pid = int(parent.stdout.readline())
        parent.kill()
    wait_until(lambda: has_ended(pid))


def test_a_request_that_was_cut_off_ends_the_process() -> None:
    command = [sys.executable, "-m", "kumihimo.workers", "tests.workers.handlers:echo", "0", "0"]
    ran = subprocess.run(command, input=b'{"cpu_seconds": 0, "request": ["a', cwd=ROOT, timeout=60, capture_output=True)
    assert (ran.returncode, ran.stdout) == (0, b"")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends no such signals")
def test_ctrl_c_is_for_the_parent(make_worker: Callable[[str], Worker]) -> None:
    worker = make_worker("echo")
    assert list(worker.ask([1])) == [1]
    assert worker._process
    worker._process.send_signal(signal.SIGINT)
    assert list(worker.ask([2])) == [2]
