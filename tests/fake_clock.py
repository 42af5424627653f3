"""a rate limiter -> its waits, in seconds, on a clock that the tests move."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kumihimo.llm import rate_limit, retry, transport, wait_notes


class FakeClock:
    """A clock that stands still unless somebody waits. It stands for the event of a rate limiter."""

    def __init__(self) -> None:
        self.now = 0.0
        self.moves = True  # a wait moves the clock
        self.waits: list[float] = []
        self.on_wait: Callable[[], object] = lambda: None  # called before each wait
        self.stopped = False

    def wait(self, seconds: float) -> bool:
        if self.stopped:
            return True
        self.waits.append(round(seconds, 6))
        self.on_wait()
        self.now += seconds * self.moves
        return self.stopped

    def set(self) -> None:
        self.stopped = True

    def clear(self) -> None:
        self.stopped = False


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """Return the clock of all rate limiters made from now on."""
    clock = FakeClock()
    for module in (rate_limit, retry, transport, wait_notes):
        monkeypatch.setattr(module, "monotonic", lambda: clock.now)
    monkeypatch.setattr(rate_limit, "Event", lambda: clock)
    monkeypatch.setattr(retry, "random", lambda: 0.5)
    return clock
