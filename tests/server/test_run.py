"""A server begins only where it is safe, and ends with all its processes."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path

import pytest

from kumihimo import Kumihimo
from kumihimo.app.upkeep.keys import create_key, list_keys
from kumihimo.core.errors import SettingsError
from kumihimo.server.run import check_keys, forward_logs, limit_connections
from kumihimo.server.settings import ServerSettings
from kumihimo.server.workspace import Workspace, open_workspace
from tests.cli_runner import kumi
from tests.counters import has_ended, wait_until
from tests.server.clients import GUARDED, LOCAL

COMMAND = "import sys; from kumihimo.cli.entry import run_kumi; sys.exit(run_kumi())"
Started = tuple["subprocess.Popen[str]", str]


@contextmanager
def started(*words: str) -> Iterator[Started]:
    """A process of Python, and the first line that it prints."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-W", "ignore", *words], text=True, **pipes) as process:  # type: ignore[call-overload]
        try:
            yield process, process.stdout.readline()
        finally:
            process.kill()


def connect(address: str) -> HTTPConnection:
    return HTTPConnection(address.partition("//")[2].split()[0].rstrip("/"), timeout=30)


@contextmanager
def unfinished(address: str) -> Iterator[None]:
    """A request that the server answers once it has its body, which does not come."""
    client = connect(address)
    with socket.create_connection((client.host, client.port)) as connection:
        head = b"POST /api/v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        connection.sendall(head + b"Content-Length: 100\r\nExpect: 100-continue\r\n\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 100")
        yield


# -- the end


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends no such signals")
@pytest.mark.parametrize(
    ("sent", "code", "message"), [(signal.SIGINT, 130, "kumi: stopped\n"), (signal.SIGTERM, 0, "")]
)
def test_one_signal_ends_a_server_without_a_traceback(
    harbour_folder: Path, sent: signal.Signals, code: int, message: str
) -> None:
    command = ("-c", COMMAND, "serve", "--no-browser", "--port", "0", "--index", str(harbour_folder))
    with started(*command) as (process, line), closing(connect(line.partition("listens on ")[2])) as client:
        client.request("GET", "/health")
        assert client.getresponse().read()
        process.send_signal(sent)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (code, message)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the states of processes are in /proc")
def test_a_second_signal_ends_a_server_and_its_builds_at_once(harbour_folder: Path) -> None:
    with started("-m", "tests.server.serve_process", str(harbour_folder)) as (process, address):
        assert process.stdout
        assert process.stdout.readline() == "browser: 200\n"  # it was opened once the server listened
        with closing(connect(address)) as client, unfinished(address):
            client.request("POST", "/api/v1/builds", b"{}", {"Content-Type": "application/json"})
            build = json.loads(client.getresponse().read())["id"]
            client.request("GET", f"/api/v1/builds/{build}/events")
            events = client.getresponse()
            pid = next(json.loads(line[6:])["done"] for line in events if b'"step": "names"' in line)
            process.send_signal(signal.SIGTERM)
            assert b'"cancelled"' in events.read()  # followers of a build do not hold it up
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (128 + signal.SIGTERM, "")
    wait_until(lambda: has_ended(pid))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the states of processes are in /proc")
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGHUP, signal.SIGTERM])
def test_a_build_ends_with_its_server(harbour_folder: Path, sent: signal.Signals) -> None:
    before = index_state(harbour_folder)
    with started("-m", "tests.server.serve_process", str(harbour_folder)) as (process, address):
        with closing(connect(address)) as client:
            client.request("POST", "/api/v1/builds", b"{}", {"Content-Type": "application/json"})
            build = json.loads(client.getresponse().read())["id"]
            client.request("GET", f"/api/v1/builds/{build}/events")
            events = client.getresponse()
            pid = next(json.loads(line[6:])["done"] for line in events if b'"step": "names"' in line)
            process.send_signal(sent)
        process.wait(timeout=60)
        wait_until(lambda: has_ended(pid))
    assert index_state(harbour_folder) == before


def index_state(folder: Path) -> list[object]:
    """The documents of an index, and its methods."""
    with Kumihimo.open(folder) as kumi:
        return [kumi.status().rows, kumi.status().methods]


def test_processes_end_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kumihimo.server.builds.HANDLER", "tests.server.build_handlers:hang")

    async def play() -> tuple[str, list[int]]:
        workspace = open_workspace([folder], ServerSettings(workers=1))
        (served,) = workspace.indexes.values()
        await served.questions.retrieve("Where is the ferry?")
        job = served.builds.index([])
        pids = [*served.questions.pids]
        async for event in served.builds.events(job.id):
            if event.name == "progress":
                pids.append(int(event.data["done"]))
                workspace.kill()
        await workspace.aclose()
        return served.builds.jobs[0].state, pids

    state, pids = asyncio.run(play())
    assert (state, len(pids)) == ("failed", 2)
    wait_until(lambda: all(map(has_ended, pids)))


# -- the beginning


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (GUARDED, "no index has a key"),
        (replace(LOCAL, host="0.0.0.0"), "0.0.0.0 can be reached from other machines"),
        (replace(LOCAL, hosts=("localhost", "docs.example.org")), "docs.example.org can be reached"),
        (replace(LOCAL, proxies=("192.0.2.1/32",)), "can be reached from other machines"),
    ],
)
def test_a_server_that_needs_keys_does_not_start_without_one(
    tmp_path: Path, settings: ServerSettings, reason: str
) -> None:
    workspace = open_workspace([tmp_path / ".kumi"])
    try:
        with pytest.raises(SettingsError, match=reason) as failure:
            check_keys(workspace, settings)
        assert "kumi key new" in str(failure.value)
        check_keys(workspace, LOCAL)
        create_key([tmp_path / ".kumi"], "reader")
        check_keys(workspace, settings)
    finally:
        asyncio.run(workspace.aclose())


def test_the_audit_log_is_tried_before_the_first_request(workspace: Workspace, tmp_path: Path) -> None:
    from kumihimo.server.monitoring import RequestLog

    with pytest.raises(SettingsError, match=r"the audit log .* cannot be written"):
        RequestLog(replace(LOCAL, audit=tmp_path / "nowhere" / "audit.jsonl"))


@pytest.fixture
def _logs_as_before() -> Iterator[None]:
    logs = [logging.getLogger(name) for name in ("uvicorn", "uvicorn.error", "mcp", "asyncio", "python_multipart")]
    before = [(log, log.handlers, log.filters[:], log.level, log.propagate) for log in logs]
    logs[1].setLevel(logging.NOTSET)
    yield
    for log, handlers, filters, level, propagate in before:
        log.handlers, log.filters, log.propagate = handlers, filters, propagate
        log.setLevel(level)


@pytest.mark.usefixtures("_logs_as_before")
def test_errors_of_other_packages_go_into_our_log(monkeypatch: pytest.MonkeyPatch) -> None:
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    monkeypatch.setattr(handler, "emit", records.append)
    monkeypatch.setattr(logging.getLogger("kumihimo"), "handlers", [handler])
    forward_logs()
    log = logging.getLogger("uvicorn.error")
    log.warning("Invalid HTTP request received.")
    log.error("Cancel %s running task(s), timeout graceful shutdown exceeded", 2)
    log.error("Exception in ASGI application", exc_info=asyncio.CancelledError())
    log.error("Exception in ASGI application", exc_info=ValueError("x"))
    logging.getLogger("asyncio").error("Task exception was never retrieved")
    assert [record.getMessage() for record in records] == [
        "Exception in ASGI application",
        "Task exception was never retrieved",
    ]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
@pytest.mark.parametrize(
    ("limits", "places", "raised"),
    [
        ((1024, 1_048_576), 2000, 4000),
        ((1024, 1024), 512, 1024),
        ((100_000, 1_048_576), 2000, 100_000),
        ((1024, -1), 2000, 4000),
        ((-1, -1), 2000, -1),
    ],
)
def test_connections_leave_files_for_the_indexes(
    monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int], places: int, raised: int
) -> None:
    import resource

    now = [limits]
    monkeypatch.setattr(resource, "getrlimit", lambda _: now[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: now.append(limits))
    assert limit_connections(2000) == places
    assert now[-1][0] == raised


# -- the command line


def test_a_new_server_gets_its_first_key_before_its_documents(tmp_path: Path) -> None:
    ran = kumi(tmp_path, "key", "new", "--role", "admin", "--index", "new.kumi")
    assert (ran.returncode, ran.stdout.splitlines()[1][:5]) == (0, "kumi_")
    assert "There is no index in new.kumi yet" in ran.stderr
    assert [key.role for key in list_keys(tmp_path / "new.kumi")] == ["admin"]
    workspace = open_workspace([tmp_path / "new.kumi"])
    assert workspace.any_keys()
    asyncio.run(workspace.aclose())


def test_a_key_for_an_index_says_nothing_of_a_missing_one(folder: Path, tmp_path: Path) -> None:
    assert kumi(tmp_path, "key", "new", "--role", "reader", "--index", str(folder)).stderr == ""


def test_a_key_for_a_mistyped_folder_is_refused(tmp_path: Path) -> None:
    ran = kumi(tmp_path, "key", "new", "--role", "admin", "--index", "nowhere/new.kumi")
    assert ran.returncode == 2
    assert "there is no folder" in ran.stderr
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("address", ["*", "docs.example.org", "10.0.0.0/99"])
def test_a_proxy_is_an_address(tmp_path: Path, address: str) -> None:
    ran = kumi(tmp_path, "serve", "--no-browser", "--proxy", address)
    assert ran.returncode == 2
    assert "write an address such as 127.0.0.1" in ran.stderr
