"""a caller who leaves -> Cancelled: the token that stops a question or a build."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Lock, RLock, Semaphore, Timer
from weakref import finalize, ref

from kumihimo.core.errors import Cancelled

POLL_SECONDS = 0.05  # between two looks at a token, where a wait cannot be woken


class CancelToken:
    """A signal to stop a command, shared by its threads.

    seconds: until the command is cancelled by itself; None: never.

    >>> token = CancelToken()
    >>> token.wait(0)
    False
    >>> token.cancel()
    >>> token.is_cancelled
    True
    """

    def __init__(self, seconds: float | None = None) -> None:
        self.reason = ""
        self._cancelled = Event()
        self._callbacks: dict[object, Callable[[], None]] = {}
        self._lock = Lock()
        if seconds is not None:
            timer = Timer(seconds, _end_time, [ref(self), seconds])
            timer.daemon = True
            timer.start()
            finalize(self, timer.cancel)

    @property
    def is_cancelled(self) -> bool:
        """Return whether the command is to stop."""
        return self._cancelled.is_set()

    def cancel(self, reason: str = "") -> None:
        """Stop the command, and run the callbacks once."""
        with self._lock:
            if self._cancelled.is_set():
                return
            self.reason = reason
            self._cancelled.set()
            callbacks = list(self._callbacks.values())
            self._callbacks.clear()
        for callback in callbacks:
            callback()

    def check(self) -> None:
        """Raise Cancelled if the command is to stop."""
        if self.is_cancelled:
            raise Cancelled(self.reason or "cancelled")

    def wait(self, seconds: float) -> bool:
        """Wait for some seconds; return True as soon as cancelled."""
        return self._cancelled.wait(seconds)

    def on_cancel(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Run a function when the command is cancelled.

        It runs in the thread that cancels, or at once if that has happened. Returns a function that takes it back.
        """
        with self._lock:
            if not self._cancelled.is_set():
                key = object()
                self._callbacks[key] = callback
                return lambda: self._forget(key)
        callback()
        return lambda: None

    def _forget(self, key: object) -> None:
        with self._lock:
            self._callbacks.pop(key, None)


def _end_time(token: "ref[CancelToken]", seconds: float) -> None:
    """Cancel a token that somebody still has."""
    if cancel := token():
        cancel.cancel(f"it took longer than {seconds:g} s: ask for less, or raise the time limit")


@contextmanager
def locked(lock: "Lock | RLock | Semaphore", check: Callable[[], None] | None) -> Iterator[None]:
    """Hold a lock; a `check` may end the wait for it."""
    while not (lock.acquire(timeout=POLL_SECONDS) if check else lock.acquire()):
        if check:
            check()
    try:
        yield
    finally:
        lock.release()


def check_cancelled(cancel: CancelToken | None) -> None:
    """Raise Cancelled if there is a token and it is cancelled."""
    if cancel:
        cancel.check()
