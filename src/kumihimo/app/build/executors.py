"""settings -> Executor: runs the steps of a build in this process, in others, or on other machines with Ray."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from time import perf_counter
from typing import Generic, TypeVar

from kumihimo.app.opened.catalogue import installed_catalogue
from kumihimo.app.opened.open_index import OpenIndex
from kumihimo.app.settings.settings_registry import BuildingSettings
from kumihimo.core.cancel import CancelToken
from kumihimo.core.table import Rows
from kumihimo.core.task import Executor, RowsOf, Work, WorkSpec, inline
from kumihimo.core.wiring import Catalogue, Port
from kumihimo.llm.local_embedder import LocalTokenizer
from kumihimo.workers.fleet import Fleet, ObservedRows, Recruiter, describe_work

A = TypeVar("A")
B = TypeVar("B")
OPENER = f"{__name__}:open_workplace"
_WORTH = 1.0  # seconds of work that must be waiting before workers start: more than it costs to start them
_MEASURED = 2  # jobs of a kind that show what one costs
_MIN_WAITING = 2  # jobs: a single one is done here
_AHEAD = 32  # jobs that are looked at to know how much is waiting
_MIN_JOB = 0.002  # seconds of a job that is worth sending to another process
_MIN_LOOKUP = 0.00002  # seconds of a job for each of its lookups, which travel in groups


@dataclass(frozen=True, slots=True)
class BuildWorkplace:
    """The steps, readers and ports of a worker."""

    catalogue: Catalogue
    ports: Mapping[str, Port]


def open_workplace() -> BuildWorkplace:
    """Return the workplace of this process: no index is opened."""
    catalogue, tokenizer = installed_catalogue(), LocalTokenizer()
    tokenizer("words")  # loads it while there are no jobs
    ports: dict[str, Port] = {"tokenizer": tokenizer}
    return BuildWorkplace(catalogue, ports | ({"recognizer": catalogue.recognizer} if catalogue.recognizer else {}))


@contextmanager
def open_executor(
    index: OpenIndex, settings: BuildingSettings, cancel: CancelToken | None = None
) -> Iterator[Executor]:
    """Open the executor of a build; its workers end with the context.

    An index with functions passed to `Kumihimo.open` is built in this process: another one cannot have them. Raises
    SettingsError if Ray is not installed or not there.
    """
    if settings.executor == "inline" or index.address is None:
        yield inline
        return
    fleet = Fleet(_recruiter(settings), cancel)
    try:
        yield FleetExecutor(fleet)
    finally:
        fleet.close()


def _recruiter(settings: BuildingSettings) -> Recruiter:
    if settings.executor == "processes":
        from kumihimo.workers.job_process import ProcessRecruiter

        return ProcessRecruiter((settings.workers or _cores()) - 1, OPENER)
    from kumihimo.workers.ray_workers import RayRecruiter

    return RayRecruiter(settings.executor.partition("://")[2], settings.workers, OPENER)


def _cores() -> int:
    """Return the number of cores that this process may use."""
    available = getattr(os, "sched_getaffinity", None)  # on Linux
    return len(available(0)) if available else os.cpu_count() or 1


@dataclass(slots=True)
class JobCost:
    """The cost of jobs of one kind in this process.

    seconds: without those of the first job, which loads models and modules.
    """

    jobs: int = 0
    seconds: float = 0.0
    lookups: int = 0

    @property
    def each(self) -> float:
        """Return the seconds of a job."""
        return self.seconds / max(self.jobs - 1, 1)

    def is_measured(self) -> bool:
        return self.jobs >= _MEASURED

    def is_worth_sending(self) -> bool:
        """Return whether a job costs more than sending it.

        It is True until some jobs are measured.
        """
        return not self.is_measured() or self.each >= _MIN_JOB + self.lookups / max(self.jobs, 1) * _MIN_LOOKUP


@dataclass(frozen=True, slots=True)
class MeasuredWork(Generic[A, B]):
    """Work whose jobs in this process add to a cost."""

    work: Work[A, B]
    cost: JobCost

    def __call__(self, job: A, /) -> B:
        return self.with_rows(self.work.rows)(job)

    @property
    def spec(self) -> WorkSpec[A, B] | None:
        return self.work.spec

    def rows(self, table: str) -> Rows:
        return self.work.rows(table)

    def with_rows(self, rows: RowsOf) -> Callable[[A], B]:
        def measure(job: A) -> B:
            counted, start = CountedRows(rows), perf_counter()
            result = self.work.with_rows(counted)(job)
            self.cost.seconds += perf_counter() - start if self.cost.jobs else 0.0
            self.cost.jobs, self.cost.lookups = self.cost.jobs + 1, self.cost.lookups + counted.count
            return result

        return measure


class FleetExecutor:
    """Runs work in this process until it is worth having workers; then they do a part of it.

    Workers start when enough work of one kind is waiting, or large new files, whose text is work for later steps. This
    process goes on meanwhile. Work stays here if its jobs are too small to be sent, or look up too much for the little
    they do. Workers that are ready also get the first jobs of each kind, while this process measures what one costs.
    """

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self._costs: dict[str, JobCost] = {}

    def __call__(
        self, work: Work[A, B], jobs: Iterable[A], estimate: Callable[[A], float] | None = None, /
    ) -> Iterator[B]:
        if work.spec is None:
            yield from map(work, jobs)
            return
        cost = self._costs.setdefault(describe_work(work), JobCost())
        measured = MeasuredWork(work, cost)
        later = iter(jobs)
        waiting = deque(islice(later, _AHEAD))
        while waiting:
            if len(waiting) >= _MIN_WAITING and self.fleet.is_ready():
                yield from self.fleet.run(measured, chain(waiting, later), cost.is_worth_sending)
                return
            if cost.is_measured():
                seconds = cost.each * len(waiting)
            else:
                seconds = sum(map(estimate, waiting)) if estimate else 0.0
            if cost.is_worth_sending() and seconds >= _WORTH:
                self.fleet.start()
            yield measured(waiting.popleft())
            waiting.extend(islice(later, 1))


class CountedRows:
    """Rows of tables, and how many lookups there were."""

    def __init__(self, rows: RowsOf) -> None:
        self.count, self._rows = 0, rows

    def __call__(self, table: str) -> Rows:
        return ObservedRows(self._rows(table), self._add_one)

    def _add_one(self) -> None:
        self.count += 1
