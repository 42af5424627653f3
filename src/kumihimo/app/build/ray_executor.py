"""jobs of a build -> results of a Ray cluster, which schedules them, retries them and replaces lost machines."""

import pickle
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from time import perf_counter
from typing import Any, TypeVar

from kumihimo.app.opened.catalogue import installed_catalogue
from kumihimo.connections import join_ray, load_ray
from kumihimo.core.cancel import CancelToken, check_cancelled
from kumihimo.core.errors import Cancelled, StepError
from kumihimo.core.executors import BuildExecutor, WorkerContext, WorkSpec
from kumihimo.core.wiring import Port
from kumihimo.llm.local_embedder import LocalTokenizer

B = TypeVar("B")
_WORTH = 1.0  # seconds of work that this process does before it uses the cluster: about what it costs to start
_MIN_JOB = 0.002  # seconds of a job that is worth sending
_MEASURED = 2  # jobs of a kind that show what one costs; the first one loads models and modules
_AHEAD = 128  # jobs that the cluster may have


@dataclass(slots=True)
class JobCost:
    """The cost of jobs of one kind in this process. seconds: without those of the first job."""

    jobs: int = 0
    seconds: float = 0.0

    def add(self, seconds: float) -> None:
        self.seconds += seconds if self.jobs else 0.0
        self.jobs += 1

    def is_worth_sending(self) -> bool:
        """Return whether a job costs more than sending it."""
        return self.jobs >= _MEASURED and self.seconds / max(self.jobs - 1, 1) >= _MIN_JOB


class RayExecutor(BuildExecutor):
    """Runs jobs in this process for the first second, then as tasks of a Ray cluster.

    Only work that can travel counts, and jobs that are too small to be sent stay here. cluster: ray://HOST:PORT;
    empty: that of this machine, or a new one. workers: the most jobs that run there at once; 0: no limit. Each machine
    needs this version of the package.
    """

    def __init__(self, cluster: str = "", workers: int = 0, cancel: CancelToken | None = None) -> None:
        self._ray, self._cluster, self._cancel = load_ray(), cluster, cancel
        self.ahead = workers or _AHEAD
        self._costs: defaultdict[str, JobCost] = defaultdict(JobCost)
        self._seconds = 0.0  # of jobs that could have been sent
        self._owns_cluster = False
        self._run: Any = None

    def submit(self, fn: Callable[..., B], /, *args: Any, **kwargs: Any) -> Future[B]:
        check_cancelled(self._cancel)
        spec: WorkSpec[Any, B] | None = getattr(fn, "spec", None)
        if spec is None:
            return super().submit(fn, *args, **kwargs)
        cost = self._costs[spec.name]
        if self._seconds >= _WORTH and cost.is_worth_sending():
            return self._send(spec, *args)
        start = perf_counter()
        future = super().submit(fn, *args)
        seconds = perf_counter() - start
        cost.add(seconds)
        self._seconds += seconds if cost.is_worth_sending() else 0.0
        return future

    def _send(self, spec: WorkSpec[Any, B], job: Any) -> Future[B]:
        """Return the future of a task of the cluster."""
        if self._run is None:
            self._owns_cluster = join_ray(self._cluster)
            self._run = self._ray.remote(run_job)
        outcome: Future[B] = Future()

        def finish(task: Future[B]) -> None:
            error, errors = task.exception(), self._ray.exceptions
            if isinstance(error, errors.RayTaskError):  # raised by the work
                error.cause.__cause__, error = error, error.cause
            elif isinstance(error, errors.RayError):  # Ray has repeated the task three times
                error = StepError(
                    f"processes of Ray have ended in the same part of a build ({spec.name} of {spec.describe(job)}): "
                    "it may need more memory, or `kumi index --executor inline` shows why"
                )
            with suppress(InvalidStateError):  # cancelled
                outcome.set_exception(error) if error else outcome.set_result(task.result())

        def stop() -> None:
            with suppress(InvalidStateError):  # finished
                outcome.set_exception(Cancelled("cancelled"))

        if self._cancel:
            forget = self._cancel.on_cancel(stop)
            outcome.add_done_callback(lambda _: forget())
        self._run.remote(pickle.dumps(spec), job).future().add_done_callback(finish)
        return outcome

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002 (as `Executor`)
        """Leave the cluster, unless the caller was in it before."""
        if self._owns_cluster:
            self._owns_cluster = False
            self._ray.shutdown()


@cache
def _open_worker() -> WorkerContext:
    """Return the context of this worker: no index is opened."""
    catalogue = installed_catalogue()
    ports: dict[str, Port] = {"tokenizer": LocalTokenizer()}
    return WorkerContext(catalogue, ports | ({"recognizer": catalogue.recognizer} if catalogue.recognizer else {}))


@lru_cache(maxsize=8)
def _open_work(spec: bytes) -> Callable[[Any], Any]:
    opened: WorkSpec[Any, Any] = pickle.loads(spec)
    return opened.open(_open_worker())


def run_job(spec: bytes, job: Any) -> Any:
    """Return the result of a job, in a worker."""
    return _open_work(spec)(job)
