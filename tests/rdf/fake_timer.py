"""a number of lines -> the time of a SPARQL query is up once the worker has written them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kumihimo import workers


def stop_after_lines(monkeypatch: pytest.MonkeyPatch, lines: int) -> list[float]:
    """End the time of each query after so many lines of its reply.

    Return the list of the timeouts that were asked for.
    """
    timeouts: list[float] = []
    stop_functions: list[Callable[[], None]] = []
    exchange = workers._exchange

    class FakeTimer:
        def __init__(self, seconds: float, stop: Callable[[], None]) -> None:
            timeouts.append(seconds)
            stop_functions.append(stop)

        def start(self) -> None: ...
        def cancel(self) -> None: ...

    def exchange_some(process: Any, message: object) -> Iterator[Any]:
        for number, line in enumerate(exchange(process, message), 1):
            yield line
            if number == lines:
                stop_functions[-1]()

    monkeypatch.setattr(workers, "Timer", FakeTimer)
    monkeypatch.setattr(workers, "_exchange", exchange_some)
    return timeouts
