"""limits of a minute -> when the next request may go; nobody spins while waiting."""

from __future__ import annotations

from threading import Event, Lock
from time import monotonic


class Pace:
    """Spaces the requests to one server evenly, and holds them all while it asks for a pause.

    Limits are for a minute; 0: none. A prompt's tokens are guessed until the server has counted them.
    """

    def __init__(self, requests: int = 0, tokens: int = 0) -> None:
        self._gap = 60 / requests if requests else 0.0
        self._token = 60 / tokens if tokens else 0.0
        self._request = self._tokens = self._held = 0.0  # when the next may go
        self._lock = Lock()
        self._given_up = Event()

    def wait(self, tokens: int) -> None:
        """Until a request with so many tokens may go; not at all once the server was given up."""
        at = -1.0
        while at < self._held:  # a pause that was asked for meanwhile puts us into the queue again
            with self._lock:
                at = max(monotonic(), self._request, self._tokens, self._held)
                self._request, self._tokens = at + self._gap, at + tokens * self._token
            if (wait := at - monotonic()) > 0 and self._given_up.wait(wait):
                return

    def correct(self, guessed: int, counted: int) -> None:
        """A request had other than the guessed number of tokens: those after it go later, or sooner."""
        with self._lock:
            self._tokens += (counted - guessed) * self._token

    def hold(self, seconds: float) -> None:
        """Nothing goes before so many seconds have passed."""
        self._held = max(self._held, monotonic() + seconds)

    def sleep(self, seconds: float) -> None:
        """For one request alone."""
        self._given_up.wait(seconds)

    def take_up(self) -> None:
        """Wait again as it should be."""
        self._given_up.clear()

    def give_up(self) -> None:
        """Wake whoever waits."""
        self._given_up.set()
