"""a request -> replies: handlers that the tests of workers run in a child process."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from threading import Event
from typing import Any


def echo(request: Any) -> Iterator[Any]:
    """Yield each item of the request; print what a library might print."""
    print("noise")
    os.write(1, b"noise\n")
    yield from request


def environment(names: list[str]) -> Iterator[Any]:
    """Yield the values of these variables, and the imports."""
    yield [os.environ.get(name) for name in names]
    yield [sys.path, sys.flags.safe_path]


def print_errors(size: int) -> Iterator[Any]:
    """Print as many bytes as an error."""
    while size:
        size -= os.write(2, b"x" * size)
    yield True


def misbehave(request: str) -> Iterator[Any]:
    """Yield a reply; then do what the request names."""
    yield os.getpid()
    if request == "memory":
        yield len(bytearray(1 << 40))
    if request == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if request.startswith("abort"):
        os.write(2, b"memory allocation of 9 bytes failed")
        os.abort()
    if request == "exit":
        os._exit(3)
    if request == "raise":
        raise ValueError("no such thing")
    while request == "spin":
        pass


def ask_and_wait() -> None:
    """Print the id of a process in the middle of a request, and wait."""
    from kumihimo.workers import Worker

    print(next(Worker("tests.workers.handlers:misbehave", memory=0).ask("spin")), flush=True)
    Event().wait()
