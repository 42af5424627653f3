"""a call + jobs -> results in the order of the jobs: the only threads of the project."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from typing import TypeVar

from kumihimo.core.task import Pool
from kumihimo.llm.protocols import TokenCallback

A = TypeVar("A")
B = TypeVar("B")


def map_concurrent(call: Callable[[A], B], jobs: Iterable[A], workers: int) -> Iterator[B]:
    """What `call` gives for each job, in their order; at most four jobs a worker are held at once.

    What is under way is waited for, since it is paid for; unless somebody presses Ctrl-C.
    """
    if workers == 1:
        yield from map(call, jobs)
        return
    executor = ThreadPoolExecutor(workers)
    pending: deque[Future[B]] = deque()
    patient = True
    try:
        for job in jobs:
            pending.append(executor.submit(call, job))
            if len(pending) >= 4 * workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    except KeyboardInterrupt:
        patient = False
        raise
    finally:
        executor.shutdown(wait=patient, cancel_futures=True)


def iterate_tokens(call: Callable[[TokenCallback], A]) -> Generator[str, None, A]:
    """The pieces that `call` tells, as it tells them; then what it gives."""
    pieces: SimpleQueue[str | None] = SimpleQueue()
    with ThreadPoolExecutor(1) as executor:
        given = executor.submit(call, pieces.put)
        given.add_done_callback(lambda _: pieces.put(None))
        yield from iter(pieces.get, None)
        return given.result()


def thread_pool(workers: int) -> Pool:
    """The pool of so many threads."""
    return partial(map_concurrent, workers=workers)
