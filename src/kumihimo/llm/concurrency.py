"""a call + jobs -> results in the order of the jobs; a call -> its result, unless cancelled: threads of model calls."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from threading import Event, Thread
from typing import TypeVar

from kumihimo.core.cancel import CancelToken
from kumihimo.core.task import Pool, Progress, ProgressEvent
from kumihimo.llm.protocols import TokenCallback

A = TypeVar("A")
B = TypeVar("B")


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
            pending.append(executor.submit(copy_context().run, call, job))
            if len(pending) >= 4 * workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    except KeyboardInterrupt:
        wait_for_running = False
        raise
    finally:
        executor.shutdown(wait=wait_for_running, cancel_futures=True)


def map_with_progress(
    call: Callable[[A], B], jobs: Iterable[A], workers: int, label: str, progress: Progress | None, total: int = 0
) -> Iterator[B]:
    """Yield the result of each job in order, and report the progress.

    total: the number of jobs if they have no length.
    """
    total = len(jobs) if isinstance(jobs, Sized) else total
    for done, result in enumerate(map_concurrent(call, jobs, workers), 1):
        if progress:
            progress(ProgressEvent(label, done, total))
        yield result


def iterate_tokens(call: Callable[[TokenCallback], A], cancel: CancelToken) -> Generator[str, None, A]:
    """Yield the tokens `call` receives; return the result of `call`.

    A generator that is closed cancels the call.
    """
    tokens: SimpleQueue[str | None] = SimpleQueue()
    with ThreadPoolExecutor(1) as executor:
        future = executor.submit(copy_context().run, call, tokens.put)
        future.add_done_callback(lambda _: tokens.put(None))
        try:
            yield from iter(tokens.get, None)
        except GeneratorExit:
            cancel.cancel("nobody reads the answer any more")
            raise
        return future.result()


def run_cancellable(call: Callable[[], A], cancel: CancelToken | None) -> A:
    """Return the result of a call; raise Cancelled as soon as cancelled.

    The call runs to its end in a thread of its own, so that a reply which is paid for is charged and cached. Without a
    token it runs in this thread.
    """
    if cancel is None:
        return call()
    cancel.check()
    outcome: Future[A] = Future()
    has_news = Event()

    def run() -> None:
        try:
            result = call()
        except BaseException as error:  # noqa: BLE001 (the caller raises it)
            outcome.set_exception(error)
        else:
            outcome.set_result(result)
        has_news.set()

    forget = cancel.on_cancel(has_news.set)
    try:
        Thread(target=copy_context().run, args=(run,), name="kumihimo-request", daemon=True).start()
        has_news.wait()
    finally:
        forget()
    if not outcome.done():
        cancel.check()
    return outcome.result()


def thread_pool(workers: int) -> Pool:
    """Return a pool of this many threads."""
    return partial(map_concurrent, workers=workers)
