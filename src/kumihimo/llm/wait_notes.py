"""waiting requests -> warnings: which server they wait for, and why; a few lines for many requests."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread
from time import monotonic

log = logging.getLogger("kumihimo")
_MIN_WAIT = 2.0  # seconds of a request until a failed try is worth a warning
_NEXT_NOTE = 10.0  # seconds between two warnings about failed tries
_FIRST_SILENCE = 10.0  # seconds without an answer until the first warning
_NEXT_SILENCE = 60.0  # seconds until the next one


class WaitNotes:
    """The warnings about one server."""

    def __init__(self) -> None:
        self._last_failure = self._last_silence = -_NEXT_SILENCE  # times of `monotonic`
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
        answered = Event()
        Thread(target=self._note_silence, args=(url, answered, monotonic()), daemon=True).start()
        try:
            yield
        finally:
            answered.set()

    def _note_silence(self, url: str, answered: Event, started: float) -> None:
        """Warn from time to time until there is an answer."""
        pause = _FIRST_SILENCE
        while not answered.wait(pause):
            pause, now = _NEXT_SILENCE, monotonic()
            with self._lock:
                is_due = now - self._last_silence >= _NEXT_SILENCE
                self._last_silence = now if is_due else self._last_silence
            if is_due:
                log.warning("waiting for %s: no answer for %.0f s", url, now - started)
