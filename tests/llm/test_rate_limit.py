"""limits per minute -> the time of the next request, on a clock that the tests move."""

from __future__ import annotations

from threading import Event, Thread

import pytest

from kumihimo.core.errors import ItemFailed
from kumihimo.core.usage import Usage
from kumihimo.llm import rate_limit
from kumihimo.llm.protocols import ChatRequest, Reply
from kumihimo.llm.rate_limit import RateLimiter, rate_limited
from tests.counters import wait_until
from tests.fake_clock import FakeClock, clock as clock


def send_at(clock: FakeClock, limiter: RateLimiter, tokens: int) -> float:
    """Send a request; return when it goes."""
    limiter.wait(tokens)
    return round(clock.now, 6)


def test_no_limits_mean_no_waiting(clock: FakeClock) -> None:
    limiter = RateLimiter()
    for _ in range(50):
        limiter.wait(10**9)
    assert clock.waits == []


def test_requests_at_one_moment_are_evenly_spaced_and_wait_once_each(clock: FakeClock) -> None:
    limiter, clock.moves = RateLimiter(requests=1200), False  # one every 50 ms
    for _ in range(8):
        limiter.wait(0)
    assert clock.waits == [0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35]


def test_tokens_go_evenly_spaced_by_how_many_they_are(clock: FakeClock) -> None:
    limiter = RateLimiter(tokens=60_000)  # one every millisecond
    assert [send_at(clock, limiter, size) for size in (100, 50, 10, 0)] == [0, 0.1, 0.15, 0.16]


def test_the_tighter_limit_counts(clock: FakeClock) -> None:
    limiter = RateLimiter(requests=600, tokens=600_000)  # 100 ms; 10 a ms
    assert [send_at(clock, limiter, size) for size in (10, 1500, 0)] == [0, 0.1, 0.25]


def test_a_pause_stops_all_requests(clock: FakeClock) -> None:
    limiter, clock.moves = RateLimiter(), False
    limiter.pause(0.15)
    limiter.pause(0.01)  # a shorter pause does not end it
    for _ in range(4):
        limiter.wait(0)
    assert clock.waits == [0.15] * 4
    clock.now = 0.15
    limiter.wait(0)
    assert len(clock.waits) == 4


def test_a_pause_holds_those_who_wait_already(clock: FakeClock) -> None:
    limiter = RateLimiter(requests=600)
    limiter.wait(0)
    clock.on_wait = lambda: limiter.pause(0.2) if len(clock.waits) == 1 else None
    assert send_at(clock, limiter, 0) == 0.2
    assert clock.waits == [0.1, 0.1]


@pytest.mark.parametrize(("guessed", "counted", "expected"), [(100, 150, 0.15), (100, 40, 0.04), (100, 0, 0.0)])
def test_a_wrong_guess_is_corrected(clock: FakeClock, guessed: int, counted: int, expected: float) -> None:
    limiter = RateLimiter(tokens=60_000)
    limiter.wait(guessed)
    limiter.correct(guessed, counted)
    assert send_at(clock, limiter, 0) == expected


def test_unused_capacity_is_not_saved_up(clock: FakeClock) -> None:
    limiter = RateLimiter(tokens=60_000)
    limiter.wait(100)
    limiter.correct(100, -10_000)
    limiter.wait(100)
    assert send_at(clock, limiter, 0) == 0.1


def test_sleep_stops_one_request_only(clock: FakeClock) -> None:
    limiter, clock.moves = RateLimiter(), False
    limiter.stopped.wait(0.1)
    limiter.wait(0)
    assert clock.waits == [0.1]


def test_after_resume_requests_wait_again(clock: FakeClock) -> None:
    limiter = RateLimiter(requests=600)
    limiter.stopped.set()
    limiter.wait(0)
    limiter.stopped.clear()
    limiter.wait(0)
    assert clock.waits == [0.1]
    limiter.stopped.set()
    limiter.wait(0)
    assert clock.waits == [0.1]


class CountingEvent(Event):
    """An event that counts the threads that came to wait for it."""

    waiting = 0

    def wait(self, timeout: float | None = None) -> bool:
        self.waiting += 1
        return super().wait(timeout)


def test_giving_up_wakes_waiting_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    event = CountingEvent()
    monkeypatch.setattr(rate_limit, "Event", lambda: event)
    limiter = RateLimiter(requests=1)
    limiter.wait(0)
    limiter.pause(3600)
    waiting = [Thread(target=limiter.wait, args=(0,), daemon=True) for _ in range(4)]
    waiting += [Thread(target=limiter.stopped.wait, args=(3600,), daemon=True) for _ in range(4)]
    for thread in waiting:
        thread.start()
    wait_until(lambda: event.waiting == 8)
    assert all(thread.is_alive() for thread in waiting)
    limiter.stopped.set()
    for thread in waiting:
        thread.join(60)
    assert not any(thread.is_alive() for thread in waiting)
    limiter.wait(10**6)  # at once


# -- the wrapper of one request


def test_a_request_waits_and_its_guessed_tokens_are_corrected(clock: FakeClock) -> None:
    limiter = RateLimiter(tokens=60_000)  # one every millisecond
    send = rate_limited(lambda _: Reply("At ten.", usage=Usage(1, 30, 0, 20)), limiter)
    request = ChatRequest([{"role": "user", "content": "x" * 400}])  # 100 tokens by the guess
    assert send(request).text == "At ten."
    assert send_at(clock, limiter, 0) == 0.05


def test_a_request_holds_a_slot_only_while_it_is_in_flight() -> None:
    limiter, free = RateLimiter(in_flight=1), list[bool]()

    def send(request: ChatRequest) -> Reply:
        free.append(limiter.slots.acquire(blocking=False))
        raise ItemFailed("no")

    for _ in range(2):
        with pytest.raises(ItemFailed):
            rate_limited(send, limiter)(ChatRequest([]))
    assert free == [False, False]
    assert limiter.slots.acquire(blocking=False)
