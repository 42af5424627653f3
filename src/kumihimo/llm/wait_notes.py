"""waiting requests -> warnings: which server they wait for, and why; a few lines for many requests."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from os import getpid
from threading import Lock, Thread
from time import monotonic, sleep

log = logging.getLogger("kumihimo")
_MIN_WAIT = 2.0  # seconds of a request until a failed try is worth a warning
_NEXT_NOTE = 10.0  # seconds between two warnings about failed tries
_FIRST_SILENCE = 10.0  # seconds without an answer until the first warning
_NEXT_SILENCE = 60.0  # seconds until the next one


class WaitNotes:
    """The warnings about one server."""

    def __init__(self) -> None:
        self._last_failure = self._last_silence = -_NEXT_SILENCE  # times of `monotonic`
        self._silent: dict[object, float] = {}  # requests without an answer, and when they began
        self._watcher: Thread | None = None
        self._process = getpid()
        self._lock = Lock()

    def note_failure(self, url: str, failure: str, waited: float, next_step: str) -> None:
        """Warn about a failed try, unless the request is young.

        waited: seconds until its next try.
        """
        now = monotonic()
        with self._lock:
            if waited < _MIN_WAIT or now - self._last_failure < _NEXT_NOTE:
                return
            self._last_failure = now
        reason = f"it{failure.removeprefix(url)}" if failure.startswith(url) else failure
        log.warning("waiting for %s: %s; %s", url, reason, next_step)

    @contextmanager
    def watch(self, url: str) -> Iterator[None]:
        """Warn while a server gives no answer to a request."""
        request = object()
        with self._lock:
            if self._process != getpid():  # forked: it has neither the threads nor the requests of its parent
                self._process = getpid()
                self._silent.clear()
            self._silent[request] = monotonic()
            if not (self._watcher and self._watcher.is_alive()):
                self._watcher = Thread(target=self._note_silence, args=(url,), daemon=True)
                self._watcher.start()
        try:
            yield
        finally:
            with self._lock:
                self._silent.pop(request, None)

    def _note_silence(self, url: str) -> None:
        """Warn from time to time until there are no requests."""
        while (pause := self._note_longest_silence(url)) is not None:
            sleep(pause)

    def _note_longest_silence(self, url: str) -> float | None:
        """Warn if it is due; return the seconds until the next look.

        A look comes late enough for many short requests to share one thread.
        """
        with self._lock:
            if not self._silent:
                self._watcher = None
                return None
            now, started = monotonic(), min(self._silent.values())
            due = max(started + _FIRST_SILENCE, self._last_silence + _NEXT_SILENCE)
            if now >= due:
                due, self._last_silence = now + _NEXT_SILENCE, now
                log.warning("waiting for %s: no answer for %.0f s", url, now - started)
            return due - now
