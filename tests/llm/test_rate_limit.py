"""Limits of a minute -> when the next request may go."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from threading import Lock, Thread

import pytest

from kumihimo.llm.rate_limit import RateLimiter

LATE = 0.04  # seconds that a machine with much to do may be late


def at_once(wait: Callable[[], None], threads: int) -> list[float]:
    """When each of them went, in seconds from the beginning."""
    went: list[float] = []
    lock = Lock()
    began = time.monotonic()

    def go() -> None:
        wait()
        with lock:
            went.append(time.monotonic() - began)

    running = [Thread(target=go) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(10)
    assert not any(thread.is_alive() for thread in running)
    return sorted(went)


def taken(work: Callable[[], None]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


def test_without_limits_nobody_waits() -> None:
    pace = RateLimiter()
    assert at_once(lambda: pace.wait(10**9), 50)[-1] < 0.2


def test_requests_go_evenly_spaced_and_nobody_spins() -> None:
    pace, cpu = RateLimiter(requests=1200), time.process_time()  # one every 50 ms
    went = at_once(lambda: pace.wait(0), 8)
    assert time.process_time() - cpu < 0.1
    assert went[0] < LATE
    for before, after in pairwise(went):
        assert after - before > 0.05 - LATE
    assert 0.35 <= went[-1] < 0.35 + LATE


def test_tokens_go_evenly_spaced_by_how_many_they_are() -> None:
    pace = RateLimiter(tokens=60_000)  # one every millisecond
    sizes = [100, 50, 10, 0]
    went = []
    began = time.monotonic()
    for size in sizes:
        pace.wait(size)
        went.append(time.monotonic() - began)
    for at, expected in zip(went, [0, 0.1, 0.15, 0.16], strict=True):
        assert expected - 0.001 <= at < expected + LATE


def test_the_tighter_limit_counts() -> None:
    pace = RateLimiter(requests=600, tokens=600_000)  # 100 ms; 10 a ms
    pace.wait(10)
    assert 0.09 < taken(lambda: pace.wait(1500)) < 0.1 + LATE
    assert 0.14 < taken(lambda: pace.wait(0)) < 0.15 + LATE


def test_a_pause_holds_all() -> None:
    pace = RateLimiter()
    pace.pause(0.15)
    pace.pause(0.01)  # a shorter one does not end it
    went = at_once(lambda: pace.wait(0), 4)
    assert 0.14 < went[0] <= went[-1] < 0.15 + LATE
    assert taken(lambda: pace.wait(0)) < LATE


def test_a_pause_holds_those_who_wait_already() -> None:
    pace = RateLimiter(requests=600)
    pace.wait(0)
    waiting = Thread(target=pace.wait, args=(0,))
    began = time.monotonic()
    waiting.start()
    pace.pause(0.2)
    waiting.join(10)
    assert 0.19 < time.monotonic() - began < 0.2 + LATE


@pytest.mark.parametrize(("guessed", "counted", "waited"), [(100, 150, 0.15), (100, 40, 0.04), (100, 0, 0.0)])
def test_a_wrong_guess_is_made_up_for(guessed: int, counted: int, waited: float) -> None:
    pace = RateLimiter(tokens=60_000)
    pace.wait(guessed)
    pace.correct(guessed, counted)
    assert waited - 0.01 < taken(lambda: pace.wait(0)) < waited + LATE


def test_what_was_not_used_is_not_saved_up() -> None:
    pace = RateLimiter(tokens=60_000)
    pace.wait(100)
    pace.correct(100, -10_000)
    pace.wait(100)
    assert taken(lambda: pace.wait(0)) > 0.09


def test_one_may_sleep_alone() -> None:
    pace = RateLimiter()
    sleeping = Thread(target=pace.sleep, args=(0.1,))
    sleeping.start()
    assert taken(lambda: pace.wait(0)) < LATE
    assert 0.05 < taken(lambda: sleeping.join(10)) < 0.1 + LATE


def test_giving_up_wakes_whoever_waits() -> None:
    pace = RateLimiter(requests=1)
    pace.wait(0)
    waiting = [Thread(target=pace.wait, args=(0,)) for _ in range(4)]
    waiting += [Thread(target=pace.sleep, args=(60,)) for _ in range(4)]
    for thread in waiting:
        thread.start()
    pace.pause(60)
    time.sleep(0.05)
    assert all(thread.is_alive() for thread in waiting)
    pace.give_up()
    began = time.monotonic()
    for thread in waiting:
        thread.join(10)
    assert time.monotonic() - began < 0.2
    assert taken(lambda: pace.wait(10**6)) < LATE


def test_whoever_is_given_another_chance_waits_as_before() -> None:
    pace = RateLimiter(requests=600)
    pace.give_up()
    pace.wait(0)
    pace.resume()
    assert 0.05 < taken(lambda: pace.wait(0)) < 0.1 + LATE
