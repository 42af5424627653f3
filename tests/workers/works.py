"""work for a fleet -> what its workers do in the tests."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kumihimo.core.errors import ItemFailed
from kumihimo.core.task import PureWork, RowsOf, Workplace


def open_nothing() -> None:
    """Return no workplace."""


@dataclass(frozen=True, slots=True)
class Spec:
    """Calls a function of this module by name."""

    name: str
    argument: Any = None

    def open(self, _: Workplace, rows: RowsOf) -> Callable[[Any], Any]:
        function = FUNCTIONS[self.name]
        return lambda job: function(job, self.argument, rows)


def work(name: str, argument: Any = None) -> PureWork[Any, Any]:
    """Return work that this process does by doubling, and others by a function."""
    return PureWork(lambda job: ("here", job), Spec(name, argument))


def tell_process(job: Any, _: Any, __: RowsOf) -> Any:
    time.sleep(0.01)
    return "there", job


def show_process(job: Any, _: Any, __: RowsOf) -> Any:
    """Return the id of this process."""
    time.sleep(0.02)
    return os.getpid(), job


def wait_for_file(job: int, path: str, _: RowsOf) -> Any:
    """Wait until a file exists."""
    for _try in range(6000):
        if Path(path).exists():
            return "there", job
        time.sleep(0.01)
    raise AssertionError(f"{path} was never written")


def return_bytes(job: bytes, _: Any, __: RowsOf) -> Any:
    return "there", job


def end_once(job: int, folder: str, _: RowsOf) -> Any:
    """End this process at one job, the first time."""
    time.sleep(0.01)
    if job == 5 and not (mark := Path(folder, "ended")).exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "there", job


def end_always(_: Any, __: Any, ___: RowsOf) -> Any:
    os._exit(7)


def fail(_: Any, __: Any, ___: RowsOf) -> Any:
    raise ItemFailed("it cannot be done")


def crash(_: Any, __: Any, ___: RowsOf) -> Any:
    raise ZeroDivisionError("no such number")


def look_up(job: str, _: Any, rows: RowsOf) -> Any:
    return "there", rows("notes").get_many([job])


_FUNCTIONS = (tell_process, show_process, wait_for_file, return_bytes, end_once, end_always, fail, crash, look_up)
FUNCTIONS: dict[str, Callable[[Any, Any, RowsOf], Any]] = {function.__name__: function for function in _FUNCTIONS}
