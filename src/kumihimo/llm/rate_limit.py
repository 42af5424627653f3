"""limits of a minute -> when the next request may go; nobody spins while waiting."""

from __future__ import annotations

from threading import Event, Lock
from time import monotonic


class RateLimiter:
    """Spaces the requests to one server evenly, and holds them all while it asks for a pause.

    Limits are for a minute; 0: none. A prompt's tokens are guessed until the server has counted them.
    """

    def __init__(self, requests: int = 0, tokens: int = 0) -> None:
        self._request_interval = 60 / requests if requests else 0.0
        self._token_interval = 60 / tokens if tokens else 0.0
        self._next_request = self._next_tokens = self._paused_until = 0.0  # when the next may go
        self._lock = Lock()
        self._stopped = Event()

    def wait(self, tokens: int) -> None:
        """Until a request with so many tokens may go; not at all once the server was given up."""
        at = -1.0
        while at < self._paused_until:  # a pause that was asked for meanwhile puts us into the queue again
            with self._lock:
                at = max(monotonic(), self._next_request, self._next_tokens, self._paused_until)
                self._next_request, self._next_tokens = at + self._request_interval, at + tokens * self._token_interval
            if (wait := at - monotonic()) > 0 and self._stopped.wait(wait):
                return

    def correct(self, guessed: int, counted: int) -> None:
        """A request had other than the guessed number of tokens: those after it go later, or sooner."""
        with self._lock:
            self._next_tokens += (counted - guessed) * self._token_interval

    def pause(self, seconds: float) -> None:
        """Nothing goes before so many seconds have passed."""
        self._paused_until = max(self._paused_until, monotonic() + seconds)

    def sleep(self, seconds: float) -> None:
        """For one request alone."""
        self._stopped.wait(seconds)

    def resume(self) -> None:
        """Wait again as it should be."""
        self._stopped.clear()

    def give_up(self) -> None:
        """Wake whoever waits."""
        self._stopped.set()
