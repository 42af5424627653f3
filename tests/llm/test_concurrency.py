"""a call + jobs -> results in the order of the jobs, by a pool of threads; prices -> cost."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event, Lock, Semaphore

import pytest

from kumihimo.core.cancel import CancelToken, locked
from kumihimo.core.errors import Cancelled, ItemFailed
from kumihimo.core.task import Job, StepResult
from kumihimo.llm import concurrency
from kumihimo.llm.concurrency import thread_pool
from kumihimo.llm.protocols import Prices
from tests.counters import wait_until


def results_of(key: str) -> list[StepResult]:
    return [StepResult(key, [], b"", None)]


def jobs(n: int) -> Iterator[Job]:
    for i in range(n):
        yield [(f"{i:03d}", [])]


def test_results_come_in_the_order_of_the_jobs() -> None:
    later = Event()

    def call(job: Job) -> list[StepResult]:
        key = job[0][0]
        if key == "000":
            assert later.wait(60)
        if key == "005":
            later.set()
        return results_of(key)

    assert [m.key for ms in thread_pool(2)(call, jobs(20)) for m in ms] == [f"{i:03d}" for i in range(20)]


def test_as_many_run_at_once_as_there_are_workers() -> None:
    meeting = Barrier(4, timeout=60)  # breaks where fewer than four come

    def call(job: Job) -> list[StepResult]:
        meeting.wait()
        return results_of(job[0][0])

    assert len(list(thread_pool(4)(call, jobs(8)))) == 8


def test_at_most_four_jobs_per_worker_wait() -> None:
    taken_jobs: list[int] = []

    def counted_jobs() -> Iterator[Job]:
        for i, job in enumerate(jobs(100)):
            taken_jobs.append(i)
            yield job

    results = thread_pool(2)(lambda job: results_of(job[0][0]), counted_jobs())
    next(results)
    assert len(taken_jobs) == 8
    assert len(list(results)) == 99


@pytest.fixture
def cancelled(monkeypatch: pytest.MonkeyPatch) -> Event:
    """Return an event that is set once a pool has cancelled the waiting jobs."""
    event = Event()

    class Executor(ThreadPoolExecutor):
        def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
            super().shutdown(wait=False, cancel_futures=cancel_futures)
            event.set()
            super().shutdown(wait=wait)

    monkeypatch.setattr(concurrency, "ThreadPoolExecutor", Executor)
    return event


def test_the_first_failure_stops_the_waiting_jobs(cancelled: Event) -> None:
    started: list[str] = []

    def call(job: Job) -> list[StepResult]:
        started.append(job[0][0])
        if job[0][0] == "000":
            raise ItemFailed("no answer")
        assert cancelled.wait(60)
        return results_of(job[0][0])

    with pytest.raises(ItemFailed, match="no answer"):
        list(thread_pool(2)(call, jobs(100)))
    assert len(started) <= 3


def test_one_worker_stops_at_the_first_failure() -> None:
    started: list[str] = []

    def call(job: Job) -> list[StepResult]:
        started.append(job[0][0])
        raise ItemFailed("no answer")

    with pytest.raises(ItemFailed, match="no answer"):
        list(thread_pool(1)(call, jobs(100)))
    assert started == ["000"]


def test_nothing_to_do() -> None:
    assert list(thread_pool(3)(lambda job: results_of("a"), iter([]))) == []


def test_a_consumer_that_stops_waits_for_the_jobs_in_flight_only(cancelled: Event) -> None:
    started, done = list[str](), list[str]()

    def call(job: Job) -> list[StepResult]:
        key = job[0][0]
        started.append(key)
        assert key == "000" or cancelled.wait(60)
        done.append(key)
        return results_of(key)

    results = thread_pool(2)(call, jobs(20))
    next(results)
    wait_until(lambda: len(started) == 3)
    results.close()  # type: ignore[attr-defined]
    assert sorted(done) == ["000", "001", "002"]  # started jobs finish: they are paid for


def test_cached_tokens_have_their_own_price() -> None:
    prices = Prices(prompt=1.0, cached=0.1, completion=4.0)
    assert prices.cost(1000, 0, 0) == 0.001
    assert prices.cost(1000, 1000, 0) == 0.0001
    assert prices.cost(1000, 500, 250) == 0.00155
    assert Prices().cost(10**9, 5, 10**9) == 0.0


def test_a_token_ends_the_wait_for_a_lock() -> None:
    lock, token = Lock(), CancelToken()
    token.cancel()
    with lock, pytest.raises(Cancelled), locked(lock, token.check):
        pass
    with locked(lock, token.check), locked(Semaphore(), None):
        assert lock.locked()
    assert not lock.locked()
