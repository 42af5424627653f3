"""limits per minute -> the time of the next request."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from threading import Lock, Thread

import pytest

from kumihimo.llm.rate_limit import RateLimiter

LATE = 0.04  # seconds of delay on a busy machine


def run_threads(wait: Callable[[], None], threads: int) -> list[float]:
    """Return when each thread went on, in seconds from the start."""
    times: list[float] = []
    lock = Lock()
    started = time.monotonic()

    def go() -> None:
        wait()
        with lock:
            times.append(time.monotonic() - started)

    running = [Thread(target=go) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(10)
    assert not any(thread.is_alive() for thread in running)
    return sorted(times)


def duration(work: Callable[[], None]) -> float:
    started = time.monotonic()
    work()
    return time.monotonic() - started


def test_no_limits_mean_no_waiting() -> None:
    limiter = RateLimiter()
    assert run_threads(lambda: limiter.wait(10**9), 50)[-1] < 0.2


def test_requests_are_evenly_spaced_without_busy_waiting() -> None:
    limiter, cpu = RateLimiter(requests=1200), time.process_time()  # one every 50 ms
    times = run_threads(lambda: limiter.wait(0), 8)
    assert time.process_time() - cpu < 0.1
    assert times[0] < LATE
    for before, after in pairwise(times):
        assert after - before > 0.05 - LATE
    assert 0.35 <= times[-1] < 0.35 + LATE


def test_tokens_go_evenly_spaced_by_how_many_they_are() -> None:
    limiter = RateLimiter(tokens=60_000)  # one every millisecond
    sizes = [100, 50, 10, 0]
    times = []
    started = time.monotonic()
    for size in sizes:
        limiter.wait(size)
        times.append(time.monotonic() - started)
    for time_passed, expected in zip(times, [0, 0.1, 0.15, 0.16], strict=True):
        assert expected - 0.001 <= time_passed < expected + LATE


def test_the_tighter_limit_counts() -> None:
    limiter = RateLimiter(requests=600, tokens=600_000)  # 100 ms; 10 a ms
    limiter.wait(10)
    assert 0.09 < duration(lambda: limiter.wait(1500)) < 0.1 + LATE
    assert 0.14 < duration(lambda: limiter.wait(0)) < 0.15 + LATE


def test_a_pause_stops_all_requests() -> None:
    limiter = RateLimiter()
    limiter.pause(0.15)
    limiter.pause(0.01)  # a shorter pause does not end it
    times = run_threads(lambda: limiter.wait(0), 4)
    assert 0.14 < times[0] <= times[-1] < 0.15 + LATE
    assert duration(lambda: limiter.wait(0)) < LATE


def test_a_pause_holds_those_who_wait_already() -> None:
    limiter = RateLimiter(requests=600)
    limiter.wait(0)
    waiting = Thread(target=limiter.wait, args=(0,))
    started = time.monotonic()
    waiting.start()
    limiter.pause(0.2)
    waiting.join(10)
    assert 0.19 < time.monotonic() - started < 0.2 + LATE


@pytest.mark.parametrize(("guessed", "counted", "expected"), [(100, 150, 0.15), (100, 40, 0.04), (100, 0, 0.0)])
def test_a_wrong_guess_is_corrected(guessed: int, counted: int, expected: float) -> None:
    limiter = RateLimiter(tokens=60_000)
    limiter.wait(guessed)
    limiter.correct(guessed, counted)
    assert expected - 0.01 < duration(lambda: limiter.wait(0)) < expected + LATE


def test_unused_capacity_is_not_saved_up() -> None:
    limiter = RateLimiter(tokens=60_000)
    limiter.wait(100)
    limiter.correct(100, -10_000)
    limiter.wait(100)
    assert duration(lambda: limiter.wait(0)) > 0.09


def test_sleep_stops_one_request_only() -> None:
    limiter = RateLimiter()
    sleeping = Thread(target=limiter.sleep, args=(0.1,))
    sleeping.start()
    assert duration(lambda: limiter.wait(0)) < LATE
    assert 0.05 < duration(lambda: sleeping.join(10)) < 0.1 + LATE


def test_giving_up_wakes_waiting_requests() -> None:
    limiter = RateLimiter(requests=1)
    limiter.wait(0)
    waiting = [Thread(target=limiter.wait, args=(0,)) for _ in range(4)]
    waiting += [Thread(target=limiter.sleep, args=(60,)) for _ in range(4)]
    for thread in waiting:
        thread.start()
    limiter.pause(60)
    time.sleep(0.05)
    assert all(thread.is_alive() for thread in waiting)
    limiter.give_up()
    started = time.monotonic()
    for thread in waiting:
        thread.join(10)
    assert time.monotonic() - started < 0.2
    assert duration(lambda: limiter.wait(10**6)) < LATE


def test_after_resume_requests_wait_again() -> None:
    limiter = RateLimiter(requests=600)
    limiter.give_up()
    limiter.wait(0)
    limiter.resume()
    assert 0.05 < duration(lambda: limiter.wait(0)) < 0.1 + LATE
