"""Handlers of the child process of a BuildQueue, which do what a test needs."""

import os
import signal
from collections.abc import Iterator
from threading import Event
from typing import Any


def play(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Do what the target of a removal names."""
    target = request["options"]["target"]
    yield {"progress": {"step": "names", "done": os.getpid()}}
    if target == "wait":
        Event().wait()
    if target == "crash":
        os.kill(os.getpid(), signal.SIGKILL)
    if target == "refuse":
        yield {"error": "SourceError", "message": "name a file that exists"}
    yield {"result": {"target": target}}


def hang(_: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Begin a build that does not end."""
    yield {"progress": {"step": "names", "done": os.getpid(), "share": 0.0}}
    Event().wait()
