"""a connection to a build -> jobs done, until it ends: the part of a worker in a `Fleet`."""

from __future__ import annotations

import pickle
import traceback
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Thread
from typing import Any

from kumihimo.core.errors import KumiError

_MAX_FOUND = 10_000  # cached lookups of a table


class _RemoteRows:
    """The rows of a table in the process of the build. Recent lookups are cached."""

    def __init__(self, ask: Callable[..., Any]) -> None:
        self._ask = ask
        self._found: dict[tuple[Any, ...], Any] = {}

    def __getattr__(self, method: str) -> Callable[..., Any]:
        def look_up(*arguments: Any) -> Any:
            key = (method, *(tuple(each) if isinstance(each, list) else each for each in arguments))
            if key not in self._found:
                if len(self._found) >= _MAX_FOUND:
                    self._found.clear()
                self._found[key] = self._ask(method, arguments)
            return self._found[key]

        return look_up


def serve_jobs(connection: Connection, workplace: Any) -> None:
    """Do the jobs that come over a connection, until it ends."""
    messages = SimpleQueue[tuple[Any, ...]]()
    Thread(target=_read_messages, args=[connection, messages], name="kumihimo-messages", daemon=True).start()
    with suppress(_BuildEnded, OSError):
        _Server(connection, messages, workplace).serve()


def _read_messages(connection: Connection, messages: SimpleQueue[tuple[Any, ...]]) -> None:
    """Read all messages at once.

    If two processes write to each other and neither reads, both wait for ever.
    """
    with suppress(EOFError, OSError):
        while True:
            messages.put(connection.recv())
    messages.put(("end",))


class _BuildEnded(BaseException):
    """The other end has closed the connection; no step catches it."""


class _Server:
    """A worker with a connection. works: its work, by run."""

    def __init__(self, connection: Connection, messages: SimpleQueue[tuple[Any, ...]], workplace: Any) -> None:
        self._connection, self._messages, self._workplace = connection, messages, workplace
        self._waiting = deque[tuple[Any, ...]]()  # messages that came before the reply to a lookup
        self._works: dict[int, Callable[[Any], Any]] = {}

    def serve(self) -> None:
        while True:
            match self._waiting.popleft() if self._waiting else self._messages.get():
                case "work", run_id, spec:
                    self._works[run_id] = self._open(run_id, spec)
                case "job", run_id, number, job:
                    self._connection.send(self._answer(run_id, number, job))
                case "forget", run_id:
                    del self._works[run_id]
                case _:
                    return

    def _open(self, run_id: int, spec: bytes) -> Callable[[Any], Any]:
        tables: dict[str, Any] = {}

        def rows(table: str) -> Any:
            return tables.setdefault(table, _RemoteRows(lambda *question: self._ask("rows", run_id, table, *question)))

        call: Callable[[Any], Any] = pickle.loads(spec).open(self._workplace, rows)
        return call

    def _ask(self, *question: Any) -> Any:
        self._connection.send(question)
        while (message := self._messages.get())[0] != "rows":
            if message[0] == "end":
                raise _BuildEnded
            self._waiting.append(message)
        return message[1]

    def _answer(self, run_id: int, number: int, job: Any) -> tuple[Any, ...]:
        """Return the message with the result of a job, or its error."""
        try:
            return "done", run_id, number, self._works[run_id](job)
        except KumiError as error:
            return "error", error
        except Exception as error:  # noqa: BLE001 (the build raises it)
            return "error", RuntimeError(f"{type(error).__name__}: {error}\n{traceback.format_exc()}")
