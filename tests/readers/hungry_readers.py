"""a file -> pages: readers that tests run in a child process."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator

from kumihimo.core.wiring import reads
from kumihimo.readers.page import Page


@reads(".hungry", media_type="x/hungry")
def read_hungry(data: bytes, name: str) -> Iterator[Page]:
    """Do what the file says, and yield its text and the process."""
    verb, _, amount = data.decode().partition(" ")
    if verb == "memory":
        _ = bytearray(int(amount) << 20)
    if verb == "crash":
        os.abort()
    if verb == "spin":
        _reach_time_limit(int(amount))
    yield Page(text=f"{verb} {os.getpid()}")


def _reach_time_limit(seconds: int) -> None:
    """Check the limit of processor time, and end as the system ends a process that reaches it.

    `tests/workers` waits for it.
    """
    usage = resource.getrusage(resource.RUSAGE_SELF)
    left = resource.getrlimit(resource.RLIMIT_CPU)[0] - usage.ru_utime - usage.ru_stime
    assert seconds <= left <= seconds + 1
    os.kill(os.getpid(), signal.SIGXCPU)


def read_leaking(data: bytes, name: str, kept: list[bytearray] = []) -> Iterator[Page]:  # noqa: B006
    """Use more memory with each file, and never give it back."""
    kept.append(bytearray(150 << 20))
    yield Page(text=f"{len(kept)}")
