"""a caller who leaves -> Cancelled: the token that stops a question or a build."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Lock, RLock
from time import monotonic

from kumihimo.core.errors import Cancelled

_SECONDS_BETWEEN_LOOKS = 0.05  # while a thread waits for a lock


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
        self._ends_at = None if seconds is None else monotonic() + seconds
        self._seconds = seconds
        self._cancelled = Event()
        self._callbacks: dict[object, Callable[[], None]] = {}
        self._lock = Lock()

    @property
    def is_cancelled(self) -> bool:
        """Return whether the command is to stop."""
        if self._ends_at is not None and monotonic() >= self._ends_at:
            self.cancel(f"it took longer than {self._seconds:g} s: ask for less, or raise the time limit")
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

    @property
    def seconds_left(self) -> float | None:
        """Return the seconds until the deadline; None without one."""
        return None if self._ends_at is None else max(0.0, self._ends_at - monotonic())

    def check(self) -> None:
        """Raise Cancelled if the command is to stop."""
        if self.is_cancelled:
            raise Cancelled(self.reason or "cancelled")

    def wait(self, seconds: float) -> bool:
        """Wait for some seconds; return True as soon as cancelled."""
        left = self.seconds_left
        self._cancelled.wait(seconds if left is None else min(seconds, left))
        return self.is_cancelled

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


@contextmanager
def locked(lock: RLock, check: Callable[[], None]) -> Iterator[None]:
    """Hold a lock; `check` may end the wait for it."""
    while not lock.acquire(timeout=_SECONDS_BETWEEN_LOOKS):
        check()
    try:
        yield
    finally:
        lock.release()


def check_cancelled(cancel: CancelToken | None) -> None:
    """Raise Cancelled if there is a token and it is cancelled."""
    if cancel:
        cancel.check()
