"""Results come in the order of the jobs, whichever executor runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from kumihimo.core.errors import ItemFailed
from kumihimo.core.executors import BuildExecutor, SharedWork, inline, run_jobs


class Spec:
    name = "doubling"

    def open(self, _: object) -> Callable[[int], int]:
        return lambda job: 2 * job

    def describe(self, job: int) -> str:
        return str(job)


WORK = SharedWork(lambda job: 2 * job, Spec())


class Late(BuildExecutor):
    """Finishes the newest of its jobs first, when the oldest one is asked for."""

    ahead = 3

    def __init__(self) -> None:
        self.waiting: list[tuple[Future[Any], Callable[..., Any], Any]] = []
        self.most = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **_: Any) -> Future[Any]:
        executor = self

        class Lazy(Future[Any]):
            def result(self, timeout: float | None = None) -> Any:
                while not self.done():
                    future, function, job = executor.waiting.pop()
                    future.set_result(function(*job))
                return super().result(timeout)

        self.waiting.append((future := Lazy(), fn, args))
        self.most = max(self.most, len(self.waiting))
        return future


def numbers(taken: list[int]) -> Iterator[int]:
    for number in range(20):
        taken.append(number)
        yield number


def test_this_thread_runs_one_job_after_the_other() -> None:
    taken: list[int] = []
    results = run_jobs(inline, WORK, numbers(taken))
    assert (next(results), taken) == (0, [0])
    assert list(results) == [2 * number for number in range(1, 20)]


def test_jobs_that_end_in_another_order_keep_theirs() -> None:
    executor, taken = Late(), list[int]()
    assert list(run_jobs(executor, WORK, numbers(taken))) == [2 * number for number in range(20)]
    assert executor.most == 3


def test_an_error_stops_the_jobs_and_cancels_those_that_wait() -> None:
    def fail(job: int) -> int:
        raise ItemFailed(f"{job} cannot be done")

    executor = Waiting()
    results = run_jobs(executor, WORK, iter(range(20)))
    assert next(results) == 0
    results.close()  # type: ignore[attr-defined]
    assert [future.cancelled() for future in executor.futures] == [False, True, True]
    with pytest.raises(ItemFailed, match="0 cannot be done"):
        list(run_jobs(inline, SharedWork(fail, Spec()), iter(range(20))))


def test_nothing_to_do() -> None:
    assert list(run_jobs(inline, WORK, iter(()))) == []


class Waiting(BuildExecutor):
    """Does the first job, and no other."""

    ahead = 3

    def __init__(self) -> None:
        self.futures: list[Future[Any]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **_: Any) -> Future[Any]:
        self.futures.append(Future())
        if len(self.futures) == self.ahead:
            self.futures[0].set_result(fn(0))
        return self.futures[-1]
