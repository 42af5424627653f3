"""a call + jobs -> results in the order of the jobs: the thread pools for model calls."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue
from threading import Lock
from typing import TypeVar

from kumihimo.core.cancel import CancelToken
from kumihimo.core.task import Pool
from kumihimo.llm.protocols import TokenCallback

A = TypeVar("A")
B = TypeVar("B")
POLL_SECONDS = 0.05  # between two looks at a token, where a wait cannot be woken


def map_concurrent(call: Callable[[A], B], jobs: Iterable[A], workers: int) -> Iterator[B]:
    """Yield `call(job)` for each job, in order.

    At most four jobs per worker wait. Calls in flight are finished, since they are paid for; Ctrl-C does not wait for
    them.
    """
    if workers == 1:
        yield from map(call, jobs)
        return
    executor = ThreadPoolExecutor(workers)
    pending: deque[Future[B]] = deque()
    wait_for_running = True
    try:
        for job in jobs:
            pending.append(executor.submit(call, job))
            if len(pending) >= 4 * workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    except KeyboardInterrupt:
        wait_for_running = False
        raise
    finally:
        executor.shutdown(wait=wait_for_running, cancel_futures=True)


def iterate_tokens(call: Callable[[TokenCallback], A], cancel: CancelToken) -> Generator[str, None, A]:
    """Yield the tokens `call` receives; return the result of `call`.

    A generator that is closed cancels the call.
    """
    tokens: SimpleQueue[str | None] = SimpleQueue()
    with ThreadPoolExecutor(1) as executor:
        future = executor.submit(call, tokens.put)
        future.add_done_callback(lambda _: tokens.put(None))
        try:
            yield from iter(tokens.get, None)
        except GeneratorExit:
            cancel.cancel("nobody reads the answer any more")
            raise
        return future.result()


@contextmanager
def acquire_lock(lock: Lock, cancel: CancelToken | None) -> Iterator[None]:
    """Hold a lock; a token ends the wait for it."""
    while not lock.acquire(timeout=-1 if cancel is None else POLL_SECONDS):
        if cancel:
            cancel.check()
    try:
        yield
    finally:
        lock.release()


def thread_pool(workers: int) -> Pool:
    """Return a pool of this many threads."""
    return partial(map_concurrent, workers=workers)
