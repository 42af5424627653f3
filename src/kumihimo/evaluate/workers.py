"""Jobs -> results in order, from concurrent calls that report their progress; failures by kind."""

from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Literal, TypeVar

from kumihimo.core.errors import ItemFailed, UnparsableReply
from kumihimo.core.task import Progress, ProgressEvent
from kumihimo.llm.concurrency import map_concurrent

A = TypeVar("A")
B = TypeVar("B")


def map_with_progress(
    process: Callable[[A], B], jobs: Iterable[A], workers: int, label: str, progress: Progress | None, total: int = 0
) -> Iterator[B]:
    """Yield the result of each job in order, and report the progress.

    total: the number of jobs if they have no length.
    """
    total = len(jobs) if isinstance(jobs, Sized) else total
    for done, result in enumerate(map_concurrent(process, jobs, workers), 1):
        if progress:
            progress(ProgressEvent(label, done, total))
        yield result


def classify_failure(failure: ItemFailed) -> Literal["invalid", "failed"]:
    """Return `invalid` for an unreadable reply, `failed` for a missing one."""
    return "invalid" if isinstance(failure, UnparsableReply) else "failed"
