"""requests -> replies of a child process, which has limits: only a process can be stopped.

The child imports this module too, so it imports late what the parent alone needs.
"""

import json
import os
import re
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from threading import TIMEOUT_MAX, Event, Timer
from typing import IO, TYPE_CHECKING, Any, Literal, Self

from kumihimo.core.errors import KumiError

if TYPE_CHECKING:
    import subprocess

StopReason = Literal["memory", "time", "clock", "error", "crash"]
MAX_FILE_BYTES = 1 << 20  # of a file that a process without trust may write
_ERROR_BYTES = 4000  # read from the end of its standard error
_OUT_OF_MEMORY = re.compile("memory allocation|bad_alloc|out of memory|cannot allocate memory|MemoryError", re.I)
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"), "1")
_SECRET_NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")  # parts of names of variables


class WorkerStopped(KumiError):
    """A child process that ended before its last reply.

    reason: it reached the limit of memory, of processor time (`time`) or of the clock, its handler raised an error, or
    it crashed.
    """

    def __init__(self, reason: StopReason, detail: str | None = None) -> None:
        super().__init__(detail or reason)
        self.reason = reason


class Worker:
    """A child process that answers requests within limits.

    It starts with the first request and serves many. It has no variables of the environment that look like secrets.

    handler: `module:function`. The function gets each request and yields the replies; all are JSON values. memory: the
    bytes that the process may use, on systems that can limit it; 0: no limit. max_file: the bytes of a file that it may
    write, likewise. with_secrets: it gets these variables too, as it calls models. variables: more ones.
    """

    def __init__(
        self,
        handler: str,
        *,
        memory: int,
        max_file: int = MAX_FILE_BYTES,
        with_secrets: bool = False,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.handler, self.memory, self.max_file = handler, memory, max_file
        self.with_secrets, self.variables = with_secrets, variables or {}
        self.requests = 0  # answered by the present process
        self._stopped = Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None  # what the libraries of the process print when they end it

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, request: object, *, seconds: float = 0, cpu_seconds: int = 0, memory: int = 0) -> Iterator[Any]:
        """Yield the replies to a request.

        seconds: of the clock. cpu_seconds: of the processor, on systems that can limit it. 0: no limit. memory: if it
        is less for this request. Raises
        WorkerStopped after the replies so far where a limit is reached, or the process crashes.
        """
        process = self._process = self._process or self._start()
        if self._stopped.is_set():
            process.kill()
        assert self._errors
        self._errors.truncate(self._errors.seek(0))  # each request may print as much
        timed_out, is_complete, errors = Event(), False, ""
        message = {"request": request, "cpu_seconds": cpu_seconds, "memory": memory or self.memory}

        def stop() -> None:
            timed_out.set()
            process.kill()

        timer = Timer(seconds or TIMEOUT_MAX, stop)
        if seconds:
            timer.start()
        try:
            for kind, value in _exchange(process, message):
                if kind != "reply":
                    is_complete = kind == "end"
                    break
                yield value
            else:
                kind, value = "lost", ""
        finally:
            timer.cancel()
            if not is_complete:
                errors = self.close()
        if not is_complete:
            raise _stop_error(kind, value, process.returncode, timed_out.is_set(), errors)
        self.requests += 1

    @property
    def pid(self) -> int:
        """Return the id of the process; 0: it has not started."""
        return self._process.pid if self._process else 0

    def start(self) -> None:
        """Start the process, also in place of one that has ended."""
        if self._process and self._process.poll() is not None:
            self.close()
        self._process = self._process or self._start()

    def kill(self) -> None:
        """Kill the process from any thread.

        The request in progress raises WorkerStopped; the next one starts another process.
        """
        if process := self._process:
            process.kill()

    def stop(self) -> None:
        """Kill the process from another thread, for good.

        The request in progress, and each later one, raises WorkerStopped.
        """
        self._stopped.set()
        self.kill()

    def close(self) -> str:
        """End the process, and return its last errors.

        The next request starts another one.
        """
        process, errors, self._process, self._errors, self.requests = self._process, self._errors, None, None, 0
        if not process or not errors:
            return ""
        process.kill()
        assert process.stdin
        with suppress(OSError):  # it may have ended before it read all
            process.stdin.close()
        with process, errors:  # closes the other pipe
            process.wait()
            size = errors.seek(0, os.SEEK_END)
            errors.seek(max(0, size - _ERROR_BYTES))
            return errors.read().decode(errors="replace")

    def _start(self) -> "subprocess.Popen[bytes]":
        import subprocess
        from tempfile import TemporaryFile

        program = python_command("kumihimo.workers", self.handler, str(self.max_file))
        environment = {**child_environment(os.environ, with_secrets=self.with_secrets), **self.variables}
        pipe = subprocess.PIPE
        self._errors = TemporaryFile()  # noqa: SIM115 (closed with the process)
        return subprocess.Popen(program, env=environment, stdin=pipe, stdout=pipe, stderr=self._errors)


def python_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module in a child process."""
    if not sys.executable:
        raise KumiError("this program cannot start Python, which it needs for a part of its work: use a usual Python")
    return [sys.executable, "-P", "-m", module, *arguments]


def child_environment(environment: Mapping[str, str], *, with_secrets: bool = False) -> dict[str, str]:
    """Return the environment of a child process, with our import paths.

    Variables that look like secrets are left out, unless with_secrets is set.
    """
    from kumihimo.core.redaction import redact

    paths = os.pathsep.join(path or str(os.getcwd()) for path in sys.path)  # noqa: PTH109 (as Python itself)
    public = {
        name: value
        for name, value in environment.items()
        if with_secrets or (redact(value) == value and not any(word in name.upper() for word in _SECRET_NAMES))
    }
    return {**public, "PYTHONPATH": paths, "RUST_BACKTRACE": "0"}  # a trace would hide the reason


def _exchange(process: "subprocess.Popen[bytes]", message: object) -> Iterator[tuple[str, Any]]:
    """Send a message and yield (kind, value) of each reply line."""
    assert process.stdin
    assert process.stdout
    with suppress(OSError):
        process.stdin.write(json.dumps(message).encode("ascii") + b"\n")
        process.stdin.flush()
    for line in process.stdout:
        if line.endswith(b"\n"):
            kind, value = json.loads(line.decode("utf-8", "surrogatepass"))
            yield kind, value


def _stop_error(kind: str, detail: str, status: int, timed_out: bool, errors: str) -> WorkerStopped:
    """Return the error for a process that ended early.

    kind: of the last line, or `lost`. status: its exit status; a negative one is the number of a signal. errors: the
    last lines of its standard error.
    """
    if kind == "memory" or (kind == "lost" and _OUT_OF_MEMORY.search(errors)):
        return WorkerStopped("memory")
    if timed_out:
        return WorkerStopped("clock")
    if status < 0 and -status == getattr(signal, "SIGXCPU", 0):  # Windows has none
        return WorkerStopped("time")
    if kind == "error":
        return WorkerStopped("error", detail)
    return WorkerStopped("crash", signal.strsignal(-status) if status < 0 else f"exit status {status}")
