"""A fleet of processes does jobs in order, and loses none with a worker."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from kumihimo.core.cancel import CancelToken
from kumihimo.core.errors import Cancelled, ItemFailed, StepError
from kumihimo.core.task import PureWork
from kumihimo.workers.fleet import THIS_MACHINE, Address, Fleet, Invitation
from kumihimo.workers.job_process import ProcessRecruiter
from tests.workers import works


@pytest.fixture
def cancel() -> CancelToken:
    return CancelToken()


@pytest.fixture
def fleet(cancel: CancelToken) -> Iterator[Fleet]:
    fleet = Fleet(ProcessRecruiter(2, "tests.workers.works:open_nothing"), cancel)
    fleet.start()
    wait_until_ready(fleet)
    yield fleet
    fleet.close()


def wait_until_ready(fleet: Fleet) -> None:
    for _ in range(3000):
        if fleet.is_ready():
            return
        time.sleep(0.01)
    pytest.fail("no worker has connected")


def slowly(seconds: float, name: str, argument: Any = None) -> PureWork[Any, Any]:
    """Return work that takes this process so long that the workers do most of it."""

    def do_here(job: Any) -> Any:
        time.sleep(seconds)
        return "here", job

    return PureWork(do_here, works.Spec(name, argument))


def jobs_of(results: Iterable[tuple[str, Any]]) -> list[Any]:
    return [job for _, job in results]


def test_results_come_in_the_order_of_the_jobs_from_here_and_there(fleet: Fleet) -> None:
    results = list(fleet.run(slowly(0.01, "tell_process"), range(200)))
    assert [job for _, job in results] == list(range(200))
    assert {place for place, _ in results} == {"here", "there"}


def test_a_fleet_does_several_kinds_of_work_one_inside_another(fleet: Fleet) -> None:
    outer = fleet.run(works.work("tell_process"), range(100))
    assert next(outer)[1] == 0
    assert jobs_of(fleet.run(works.work("return_bytes"), [b"a", b"b"] * 20)) == [b"a", b"b"] * 20
    assert jobs_of(outer) == list(range(1, 100))
    assert list(fleet.run(works.work("tell_process"), [])) == []


def test_this_process_takes_back_the_jobs_that_wait_elsewhere(fleet: Fleet, tmp_path: Path) -> None:
    released, here = tmp_path / "released", []

    def do_here(job: int) -> tuple[str, int]:
        here.append(job)
        if len(here) == 14:  # each worker has one job, which ends when all others are done
            released.touch()
        return "here", job

    work = PureWork(do_here, works.Spec("wait_for_file", str(released)))
    results = list(fleet.run(work, range(16)))
    assert [job for _, job in results] == list(range(16))
    assert {place for place, _ in results} == {"here", "there"}
    assert jobs_of(fleet.run(works.work("tell_process"), range(20))) == list(range(20)), "old results do no harm"


class StandIn:
    """Workers that the test plays: it reads their messages and answers them."""

    listens_on: Address | None = THIS_MACHINE

    def __init__(self) -> None:
        self.connections: list[Connection] = []

    def wanted(self) -> int:
        return 2

    def recruit(self, invitation: Invitation) -> StandIn:
        self.connections.append(invitation.accept())
        return self

    def has_ended(self) -> bool:
        return False

    def kill(self) -> None:
        """Do nothing: the connection is closed."""

    close = kill

    def do_all(self, worker: int) -> None:
        """Do all jobs that a worker has."""
        connection = self.connections[worker]
        while connection.poll():
            match connection.recv():
                case "job", run_id, number, job:
                    connection.send(("done", run_id, number, (worker, job)))


def test_an_idle_worker_gets_a_job_that_waits_at_a_busy_one() -> None:
    workers, here = StandIn(), list[int]()
    fleet = Fleet(workers)
    fleet.start()
    while len(fleet._selector.get_map()) < 2:
        wait_until_ready(fleet)

    def do_here(job: int) -> tuple[str, int]:
        here.append(job)
        for worker in [1] if job == 12 else [0, 1]:  # the first one is busy until the second has done its own jobs
            workers.do_all(worker)
        return "here", job

    results = []
    for result in fleet.run(PureWork(do_here, works.Spec("tell_process")), range(13)):
        results.append(result)
        workers.do_all(1)
    assert [job for _, job in results] == list(range(13))
    assert here == [12, 4]
    assert results[5] == (1, 5)
    fleet.close()


def test_work_that_is_not_shared_stays_in_this_process(fleet: Fleet) -> None:
    results = list(fleet.run(works.work("tell_process"), range(50), lambda: False))
    assert results == [("here", job) for job in range(50)]


def test_large_jobs_and_large_results_do_not_wait_for_each_other(fleet: Fleet) -> None:
    jobs = [bytes([number]) * 3_000_000 for number in range(24)]
    assert jobs_of(fleet.run(works.work("return_bytes"), jobs)) == jobs


def test_workers_look_up_rows_in_this_process(fleet: Fleet) -> None:
    class Notes:
        def get_many(self, ids: list[str]) -> list[tuple[str, int]]:
            return [(id, os.getpid()) for id in ids]

    class Looking(PureWork[Any, Any]):
        def rows(self, table: str) -> Any:
            assert table == "notes"
            return Notes()

    def do_here(job: str) -> Any:
        time.sleep(0.01)
        return "here", [(job, os.getpid())]

    work = Looking(do_here, works.Spec("look_up"))
    results = list(fleet.run(work, [f"n{number}" for number in range(60)]))
    assert jobs_of(results) == [[(f"n{number}", os.getpid())] for number in range(60)]
    assert "there" in {place for place, _ in results}


def test_the_jobs_of_a_worker_that_ends_run_again(fleet: Fleet, tmp_path: Path) -> None:
    pids = set(fleet.pids)
    assert jobs_of(fleet.run(slowly(0.03, "end_once", str(tmp_path)), range(60))) == list(range(60))
    if (tmp_path / "ended").exists():  # unless this process did that job
        assert set(fleet.pids) != pids, "another worker took its place"


def test_a_job_that_ends_every_worker_ends_the_build(fleet: Fleet) -> None:
    with pytest.raises(StepError, match=r"3 processes have ended in the same part of a build \(Spec\)"):
        list(fleet.run(slowly(0.1, "end_always"), range(600)))
    assert fleet.pids == []


def test_workers_that_cannot_start_end_the_build() -> None:
    fleet = Fleet(ProcessRecruiter(1, "tests.workers.works:no_such_function"))
    fleet.start()
    with pytest.raises(StepError, match="end before they begin"):
        list(fleet.run(slowly(0.01, "tell_process"), range(3000)))
    fleet.close()


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("fail", ItemFailed, "^it cannot be done$"),
        ("crash", RuntimeError, r"(?s)ZeroDivisionError: no such.*works\.py"),
    ],
)
def test_errors_of_workers_are_raised_here(fleet: Fleet, name: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        list(fleet.run(slowly(0.01, name), range(200)))
    assert fleet.pids == [], "all workers have ended"


def test_cancelling_ends_the_workers(fleet: Fleet, cancel: CancelToken) -> None:
    results = fleet.run(works.work("tell_process"), range(1000))
    next(results)
    pids = fleet.pids
    cancel.cancel("enough")
    with pytest.raises(Cancelled, match="enough"):
        list(results)
    assert pids
    assert fleet.pids == []


def test_a_caller_that_stops_early_ends_the_workers(fleet: Fleet) -> None:
    results = fleet.run(works.work("tell_process"), range(1000))
    next(results)
    del results
    assert fleet.pids == []
