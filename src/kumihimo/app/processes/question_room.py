"""questions that need no model -> processes that answer them: the worker room."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from threading import Condition, Timer
from typing import IO, Any, Literal

from kumihimo.app.ask.query import Query
from kumihimo.app.opened.catalogue import uses_llm
from kumihimo.app.opened.open_index import IndexAddress, OpenIndex
from kumihimo.app.processes.fair_places import FairPlaces
from kumihimo.app.processes.question_process import Request
from kumihimo.core.cancel import CancelToken
from kumihimo.core.errors import Cancelled
from kumihimo.text.translation import message_language
from kumihimo.workers import ONE_THREAD, WorkerStopped, child_environment, python_command

_MODULE = "kumihimo.app.processes.question_process"
_CLOSED = "the index was closed"
_GRACE = 2.0  # seconds that a cancelled question has to end by itself


def needs_no_model(index: OpenIndex, query: Query, *, is_answer: bool) -> bool:
    """Return whether a query calls no chat model and no server.

    query: with its method. is_answer: an answer is written, not only evidence found.
    """
    signature, models = index.catalogue.methods.get(query.method), index.models
    if signature is None:
        return False  # the question names the error
    reranker = query.settings.get("reranker", index.settings.get(query.method, {}).get("reranker", "none"))
    if uses_llm(models, signature) or (is_answer and models.chat("answer")) or reranker != "none":
        return False
    return "vector_search" not in signature.ports or models.paid_embedder is None


class QuestionRoom:
    """Processes that answer questions about one index, each one at a time.

    Each starts with the first question for which the others have no time, and one more if a caller without one asks
    then. They map the same vector files, and have no keys in their environment. Call `run` from threads. A question
    that is cancelled and does not end in time ends with its process.
    """

    def __init__(self, address: IndexAddress, workers: int) -> None:
        self._places = FairPlaces(workers)
        self._processes = [_QuestionProcess(address) for _ in range(workers + 1)]
        self._idle = self._processes[::-1]  # the last one was used last: its memory is warm
        self._change = Condition()
        self._is_closed = False

    @property
    def pids(self) -> list[int]:
        """Return the ids of the processes that have started."""
        return [process.pid for process in self._processes if process.pid]

    def run(self, kind: Literal["answer", "search"], query: Query, key: str = "") -> Any:
        """Return what the facade returns for a query, and raise its errors.

        key: of the caller. Raises WorkerStopped if the process ends.
        """
        cancel = query.cancel or CancelToken()
        process = self._borrow(key, cancel)
        try:
            return process.run((kind, query.without_listeners(), message_language()), cancel)
        finally:
            self._give_back(key, process)

    def kill(self) -> None:
        """End the processes at once, from any thread."""
        for process in self._processes:
            process.kill()

    def close(self) -> None:
        """End the processes; questions in progress raise Cancelled."""
        with self._change:
            self._is_closed = True
            self._change.notify_all()
            idle, self._idle = self._idle, []
        self.kill()
        for process in idle:
            process.end()

    def _borrow(self, key: str, cancel: CancelToken) -> _QuestionProcess:
        """Wait for a process that is idle."""
        borrowed: list[_QuestionProcess] = []

        def begin() -> None:
            borrowed.append(self._idle.pop())

        forget = cancel.on_cancel(self._wake)
        try:
            with self._change:
                if self._is_closed:
                    raise Cancelled(_CLOSED)
                self._places.ask(key, begin)
                while not (borrowed or self._is_closed or cancel.is_cancelled):
                    self._change.wait()
                if borrowed:
                    return borrowed[0]
                self._places.withdraw(key, begin)
        finally:
            forget()
        cancel.check()
        raise Cancelled(_CLOSED)

    def _give_back(self, key: str, process: _QuestionProcess) -> None:
        with self._change:
            if not self._is_closed:
                self._idle.append(process)
                self._places.leave(key)
                self._change.notify_all()
                return
        process.end()

    def _wake(self) -> None:
        with self._change:
            self._change.notify_all()


class _QuestionProcess:
    """A process that starts with its first request, and again if it has ended."""

    def __init__(self, address: IndexAddress) -> None:
        self._address, self._number = address, 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Return the id of the process; 0: it has not started."""
        return self._process.pid if self._process else 0

    def run(self, request: Request, cancel: CancelToken) -> Any:
        """Return the result of a request. Raise its error, or WorkerStopped."""
        cancel.check()
        if self._process is None or self._process.poll() is not None:  # it has ended while it was idle
            self.end()
            self._process = self._start()
        process, self._number = self._process, self._number + 1
        number, killer = self._number, Timer(_GRACE, process.kill)
        killer.daemon = True

        def stop() -> None:
            with suppress(OSError):  # it has ended already
                _send(process, (number, None))
            killer.start()

        forget: Callable[[], None] = killer.cancel
        try:
            _send(process, (number, request))
            forget = cancel.on_cancel(stop)
            succeeded, value = pickle.load(_pipe(process.stdout))
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            status = self.end()
            cancel.check()
            raise _lost_error(status) from error
        finally:
            forget()
            killer.cancel()
        if not succeeded:
            raise value
        return value

    def kill(self) -> None:
        """End the process from any thread."""
        if self._process:
            self._process.kill()

    def end(self) -> int:
        """End the process, and return its exit status."""
        if self._process is None:
            return 0
        self._process.kill()
        with suppress(OSError):  # it may have ended before it read all
            _pipe(self._process.stdin).close()
        with self._process:  # closes the other pipe
            return self._process.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        environment = {**child_environment(os.environ), **ONE_THREAD}
        process = subprocess.Popen(
            python_command(_MODULE), env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        with suppress(OSError):  # then the first question finds out
            _send(process, self._address)
        return process


def _send(process: subprocess.Popen[bytes], value: object) -> None:
    """Write a value in one piece, since two threads may write."""
    stream = _pipe(process.stdin)
    stream.write(pickle.dumps(value))
    stream.flush()


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream
    return stream


def _lost_error(status: int) -> WorkerStopped:
    """Return the error for a question whose process ended before the answer."""
    reason = signal.strsignal(-status) if status < 0 else f"exit status {status}"
    remedy = "ask it again; if that happens each time, ask it with `workers=0`, and report it"
    return WorkerStopped("crash", f"the process that answered this question has ended ({reason}): {remedy}")
