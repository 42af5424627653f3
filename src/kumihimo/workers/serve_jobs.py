"""a connection to a build -> jobs done, until it ends: the part of a worker in a `Fleet`."""

import pickle
import traceback
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from greenlet import getcurrent, greenlet

from kumihimo.core.errors import KumiError

A = TypeVar("A")
B = TypeVar("B")
_MAX_FOUND = 10_000  # cached lookups

Lookup = tuple[str, str, tuple[Any, ...]]  # table, method, arguments


class _Item(greenlet):
    """An item of a job; when it waits for a row, the next one begins."""


class RemoteTables:
    """The tables of the process of the build; recent lookups are cached.

    It takes 0.2 ms to ask the other process, mostly to wake it. So `run_each` collects lookups: when an item waits for
    a row, the next one begins, and when all of them wait, one message asks for all their rows.
    """

    def __init__(self, ask: Callable[[list[Lookup]], list[Any]]) -> None:
        self._ask = ask
        self._found: dict[Lookup, Any] = {}
        self._missing: dict[Lookup, None] = {}  # in order, each once

    def __call__(self, table: str) -> Any:
        return _RemoteRows(self, table)

    def run_each(self, call: Callable[[A], B], items: Iterable[A]) -> list[B]:
        self._forget()
        results: dict[int, B] = {}

        def run(number: int, item: A) -> None:
            results[number] = call(item)

        running = [_Item(partial(run, number, item)) for number, item in enumerate(items)]
        while running:
            for each in running:
                each.switch()
            running = [each for each in running if not each.dead]
            self._fetch()
        return [results[number] for number in sorted(results)]

    def look_up(self, table: str, method: str, arguments: tuple[Any, ...]) -> Any:
        lookup = (table, method, tuple(tuple(each) if isinstance(each, list) else each for each in arguments))
        while lookup not in self._found:
            self._missing[lookup] = None
            item = getcurrent()
            if isinstance(item, _Item) and item.parent:
                item.parent.switch()
            else:
                self._fetch()
        return self._found[lookup]

    def _fetch(self) -> None:
        missing = [*self._missing]
        self._missing.clear()
        if missing:
            self._found.update(zip(missing, self._ask(missing), strict=True))

    def _forget(self) -> None:
        self._missing.clear()
        if len(self._found) >= _MAX_FOUND:
            self._found.clear()


class _RemoteRows:
    """The rows of one of these tables."""

    def __init__(self, tables: RemoteTables, table: str) -> None:
        self._tables, self._table = tables, table

    def __getattr__(self, method: str) -> Callable[..., Any]:
        return lambda *arguments: self._tables.look_up(self._table, method, arguments)


def serve_jobs(connection: Connection, workplace: Any) -> None:
    """Do the jobs that come over a connection, until it ends."""
    server = _Server(connection, workplace)
    Thread(target=server.read_messages, name="kumihimo-messages", daemon=True).start()
    with suppress(OSError):  # the build has ended
        server.serve()


class _JobDropped(BaseException):
    """The build has done the job itself; no step catches it."""


class _RunningJob(greenlet):
    """A job of a run; when it waits for rows, the next one begins."""

    def __init__(self, run: Callable[..., None], run_id: int, number: int) -> None:
        super().__init__(run)
        self.place = run_id, number


class _Server:
    """A worker with a connection.

    works: its work, by run. asking: the jobs that wait for rows, in the order of their messages.
    """

    def __init__(self, connection: Connection, workplace: Any) -> None:
        self._connection, self._workplace = connection, workplace
        self._messages = SimpleQueue[tuple[Any, ...]]()
        self._dropped: set[tuple[int, int]] = set()
        self._works: dict[int, Callable[[Any], Any]] = {}
        self._asking = deque[_RunningJob]()

    def read_messages(self) -> None:
        """Read all messages at once.

        If two processes write to each other and neither reads, both wait for ever.
        """
        with suppress(EOFError, OSError):
            while True:
                match message := self._connection.recv():
                    case "drop", run_id, number:
                        self._dropped.add((run_id, number))
                        continue
                    case "job", run_id, number, _:  # it may come back from another worker, which was lost
                        self._dropped.discard((run_id, number))
                self._messages.put(message)
        self._messages.put(("end",))

    def serve(self) -> None:
        while True:
            match self._messages.get():
                case "rows", answers:
                    self._asking.popleft().switch(answers)
                case "job", run_id, number, job:
                    _RunningJob(self._do, run_id, number).switch(run_id, number, job)
                case "work", run_id, spec:
                    self._works[run_id] = self._open(run_id, spec)
                case "forget", run_id:
                    del self._works[run_id]
                case _:
                    return

    def _open(self, run_id: int, spec: bytes) -> Callable[[Any], Any]:
        tables = RemoteTables(lambda lookups: self._ask(run_id, lookups))
        call: Callable[[Any], Any] = pickle.loads(spec).open(self._workplace, tables)
        return call

    def _ask(self, run_id: int, lookups: list[Lookup]) -> list[Any]:
        job = getcurrent()
        assert isinstance(job, _RunningJob)
        assert job.parent
        self._connection.send(("rows", run_id, lookups))
        self._asking.append(job)
        answers: list[Any] | None = job.parent.switch()
        if answers is None or job.place in self._dropped:
            raise _JobDropped
        return answers

    def _do(self, run_id: int, number: int, job: Any) -> None:
        """Do a job and send its result, unless it was dropped."""
        if (run_id, number) not in self._dropped:
            with suppress(_JobDropped):
                self._connection.send(self._answer(run_id, number, job))

    def _answer(self, run_id: int, number: int, job: Any) -> tuple[Any, ...]:
        """Return the message with the result of a job, or its error."""
        try:
            return "done", run_id, number, self._works[run_id](job)
        except KumiError as error:
            return "error", error
        except Exception as error:  # noqa: BLE001 (the build raises it)
            return "error", RuntimeError(f"{type(error).__name__}: {error}\n{traceback.format_exc()}")
