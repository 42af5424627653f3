"""words and a terminal -> `kumi`, forked from a process that has imported it: a new one takes .5 CPU s to begin.

As a program: for each request, fork and run the command on the terminal that comes with it.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).parents[1]
COMMANDS = ("ask_commands", "care_commands", "graph_commands", "index_commands", "report_commands", "serve_commands")
LIBRARIES = (
    *(f"kumihimo.cli.{name}" for name in ("main", *COMMANDS)),
    "numpy",
    "pydantic",
    "rich.markup",
    "rich.progress",
    "rich.table",
    "scipy.sparse",
)


class ForkedKumi(NamedTuple):
    """A command that runs, with as much of `subprocess.Popen` as the tests need."""

    pid: int
    replies: socket.socket

    def poll(self) -> bool:
        """Return whether it has ended."""
        return bool(select.select([self.replies], [], [], 0)[0])

    def kill(self) -> None:
        if not self.poll():
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        """Wait for its end; return its exit code. Call it once."""
        return int(_read_line(self.replies))


def run_on_terminal(words: Sequence[str], folder: Path, terminal: int, environment: Mapping[str, str]) -> ForkedKumi:
    """Start `kumi` with these words, its streams on a terminal. One command runs at a time."""
    requests = _forking_process()
    request = {"words": list(words), "folder": str(folder), "environment": dict(environment)}
    socket.send_fds(requests, [json.dumps(request).encode() + b"\n"], [terminal])
    return ForkedKumi(int(_read_line(requests)), requests)


@cache
def _forking_process() -> socket.socket:
    """Start the process that forks; return the socket for requests."""
    ours, theirs = socket.socketpair()
    process = subprocess.Popen([sys.executable, "-m", "tests.forked_kumi"], cwd=REPOSITORY, stdin=theirs.fileno())
    theirs.close()

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def _read_line(peer: socket.socket, data: bytes = b"") -> bytes:
    while not data.endswith(b"\n"):
        piece = peer.recv(1 << 16)
        if not piece:
            raise EOFError
        data += piece
    return data


def main() -> None:
    for name in LIBRARIES:
        __import__(name)
    del sys.modules["kumihimo.cli.main"]  # it looks at the terminal when it is imported
    requests = socket.socket(fileno=os.dup(0))
    while True:
        data, terminals, _, _ = socket.recv_fds(requests, 1 << 16, 1)
        if not data:
            return None
        request = json.loads(_read_line(requests, data))
        if not (pid := os.fork()):
            requests.close()
            return run_kumi_on(terminals[0], **request)
        os.close(terminals[0])
        requests.sendall(b"%d\n" % pid)
        _, status = os.waitpid(pid, 0)
        requests.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))


def run_kumi_on(terminal: int, words: Sequence[str], folder: str, environment: Mapping[str, str]) -> None:
    """Run the command as a new process would."""
    for stream in range(3):
        os.dup2(terminal, stream)
    os.close(terminal)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["kumi", *words]
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 (as long as the process)
    sys.stdout, sys.stderr = (open(n, "w", encoding="utf-8", closefd=False) for n in (1, 2))  # noqa: SIM115
    from kumihimo.cli.entry import run_kumi

    run_kumi()


if __name__ == "__main__":
    main()
