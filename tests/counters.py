"""work -> counts of what it did: lines of our code, SQL statements, characters; no clock."""

from __future__ import annotations

import signal
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import kumihimo
from kumihimo.core.context import Tokenizer

SOURCE = f"{Path(kumihimo.__file__).parent}/"
PATIENCE = 60.0  # seconds; only for work that never ends


def count_lines(work: Callable[[], object], folder: str = SOURCE) -> int:
    """Return how many lines of our Python code the work executes.

    Loops inside C code, such as those of regular expressions, count as one.
    folder: count lines of files under it.
    """
    counts = Counter[str]()

    def count(frame: FrameType, event: str, _: Any) -> Any:
        counts[event] += 1
        return count

    def enter(frame: FrameType, event: str, _: Any) -> Any:
        return count if frame.f_code.co_filename.startswith(folder) else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        work()
    finally:
        sys.settrace(before)
    return counts["line"]


def check_linear(work: Callable[[str], object], piece: str, size: int = 500_000) -> None:
    """Fail if the work on a long text grows faster than the text.

    Our lines are counted. Quadratic C code does not finish on a text of `size` characters: half the text would allow a
    quarter of the time.
    """
    few, many = (count_lines(partial(work, piece * times)) for times in (250, 1000))
    assert many < 5 * few
    with stop_endless_work(PATIENCE / 4):
        work((piece * size)[:size])


class CountingTokenizer:
    """A tokenizer that counts the characters it is given."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer, self.fingerprint, self.characters = tokenizer, tokenizer.fingerprint, 0

    def __call__(self, text: str) -> Sequence[int]:
        self.characters += len(text)
        return self.tokenizer(text)


@contextmanager
def trace_statements(connection: sqlite3.Connection) -> Iterator[list[str]]:
    """Collect the SQL statements that run on this connection."""
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    try:
        yield statements
    finally:
        connection.set_trace_callback(None)


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until the condition holds. Fail if it never does."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it never happens"
        time.sleep(0.001)


def has_ended(pid: int) -> bool:
    """Return whether a process has ended, on Linux."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").split()[2] == "Z"
    return True


@contextmanager
def stop_endless_work(seconds: float | None = None) -> Iterator[None]:
    """Fail after so many seconds of CPU time, by default a minute: the work never ends.

    Give it an input for which quadratic work takes many minutes.
    """
    seconds, stopped = PATIENCE if seconds is None else seconds, list[int]()

    def stop(signum: int, frame: FrameType | None) -> None:
        stopped.append(signum)
        raise AssertionError("endless work is stopped")

    previous = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds, 1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)
    assert not stopped, f"not finished after {seconds:g} s of CPU time"  # the work may have caught the error
