"""a folder, a count and a number -> a build that kills its process at its so many-th operation.

An operation is an SQL statement, some steps within one, or a file that is opened or removed. 0 kills nothing.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from kumihimo.llm.concurrency import thread_pool
from tests.laws.factories_history import World
from tests.laws.histories import LINES
from tests.stores import USE_POSTGRES

WORKERS = 8
VM_STEPS = 500  # of SQLite's virtual machine, which count as one operation


def documents(count: int) -> dict[str, str]:
    """Return the first `count` of a fixed list of documents."""
    lines = [[f"{LINES[(n + 3 * i) % len(LINES)]} on day {n}{i}" for i in range(4)] for n in range(count)]
    return {f"d{n:03}": "\n".join(texts) for n, texts in enumerate(lines)}


class OperationCounter:
    """A counter of the operations of this process, which ends it at one of them."""

    def __init__(self, kill_at: int) -> None:
        self.kill_at, self.numbers = kill_at, count(1)

    def add(self, *_: object) -> None:
        if next(self.numbers) == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def audit(self, event: str, _: tuple[Any, ...]) -> None:
        if event in ("open", "os.remove", "os.truncate"):
            self.add()

    def watch(self) -> None:
        """Count from now on, on connections yet to be opened."""
        connect = sqlite3.connect

        def connect_and_count(*arguments: Any, **options: Any) -> sqlite3.Connection:
            connection: sqlite3.Connection = connect(*arguments, **options)
            connection.set_trace_callback(self.add)
            connection.set_progress_handler(self.add, VM_STEPS)
            return connection

        sqlite3.connect = connect_and_count  # type: ignore[assignment]
        sys.addaudithook(self.audit)
        if USE_POSTGRES:
            self._watch_postgres()

    def _watch_postgres(self) -> None:
        from psycopg import Cursor

        def counted(function: Callable[..., Any]) -> Callable[..., Any]:
            def call(*arguments: Any, **options: Any) -> Any:
                self.add()
                return function(*arguments, **options)

            return call

        for name in ("execute", "executemany", "copy"):
            setattr(Cursor, name, counted(getattr(Cursor, name)))


def build_until_killed(folder: Path, size: int, kill_at: int) -> None:
    """Log each call before it, and write to a file how many operations there were."""
    operations = OperationCounter(kill_at)
    operations.watch()
    world = World(folder, pool=thread_pool(WORKERS))
    log = os.open(folder / "calls.log", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    answer = world.chat.answer

    def log_and_answer(prompt: str) -> str:
        os.write(log, f"{prompt!r}\n".encode())
        time.sleep(0.02)  # other calls are in flight
        return answer(prompt)

    world.chat.answer = log_and_answer
    world.build(documents(size))
    world.close()
    (folder / "operations").write_text(f"{next(operations.numbers) - 1}")
