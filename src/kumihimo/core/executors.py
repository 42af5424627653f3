"""work + jobs -> results in the order of the jobs, by any `concurrent.futures.Executor`."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from kumihimo.core.wiring import Catalogue, Port

A = TypeVar("A")
B = TypeVar("B")
A_contra = TypeVar("A_contra", contravariant=True)
B_co = TypeVar("B_co", covariant=True)


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """The steps, readers and ports of a worker. The ports ask no server."""

    catalogue: Catalogue
    ports: Mapping[str, Port]


class WorkSpec(Protocol[A_contra, B_co]):
    """A description of work that can be pickled; a worker opens it. name: of the kind of work."""

    @property
    def name(self) -> str: ...
    def open(self, context: WorkerContext) -> Callable[[A_contra], B_co]: ...
    def describe(self, job: A_contra) -> str:
        """Return what a job is about, for an error."""
        ...


class Work(Protocol[A_contra, B_co]):
    """A function of jobs. spec: opens it in a worker; None: only this process can call it."""

    def __call__(self, job: A_contra, /) -> B_co: ...
    @property
    def spec(self) -> WorkSpec[A_contra, B_co] | None: ...


@dataclass(frozen=True, slots=True)
class SharedWork(Generic[A, B]):
    """A function of this process, and the spec of the same one in a worker."""

    call: Callable[[A], B]
    spec: WorkSpec[A, B]

    def __call__(self, job: A, /) -> B:
        return self.call(job)


class BuildExecutor(Executor):
    """An executor that runs each job in this thread when it is submitted.

    ahead: the jobs that may be submitted before the oldest one is done.
    """

    ahead = 1

    def submit(self, fn: Callable[..., B], /, *args: Any, **kwargs: Any) -> Future[B]:
        future: Future[B] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 (the caller raises it)
            future.set_exception(error)
        return future


inline = BuildExecutor()


def run_jobs(executor: BuildExecutor, work: Work[A, B], jobs: Iterable[A]) -> Iterator[B]:
    """Yield the result of each job, in the order of the jobs."""
    pending = deque[Future[B]]()
    try:
        for job in jobs:
            pending.append(executor.submit(work, job))
            while pending and (pending[0].done() or len(pending) >= executor.ahead):
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()
