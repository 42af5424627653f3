"""limits per minute -> the time of the next request; waiting threads sleep."""

from __future__ import annotations

from threading import Event, Lock
from time import monotonic


class RateLimiter:
    """A rate limiter for the requests to one server.

    It spaces them evenly, and pauses them all when the server asks for it. Limits are per minute; 0: no limit.
    The tokens of a prompt are a guess until the server has counted them.
    """

    def __init__(self, requests: int = 0, tokens: int = 0) -> None:
        self._request_interval = 60 / requests if requests else 0.0
        self._token_interval = 60 / tokens if tokens else 0.0
        self._next_request = self._next_tokens = self._paused_until = 0.0  # times of `monotonic`
        self._lock = Lock()
        self._stopped = Event()

    def wait(self, tokens: int) -> None:
        """Wait until a request with this many tokens may go.

        Return at once after `give_up`.
        """
        send_at = -1.0
        while send_at < self._paused_until:  # a new pause puts the request back into the queue
            with self._lock:
                send_at = max(monotonic(), self._next_request, self._next_tokens, self._paused_until)
                self._next_request = send_at + self._request_interval
                self._next_tokens = send_at + tokens * self._token_interval
            if (remaining := send_at - monotonic()) > 0 and self._stopped.wait(remaining):
                return

    def correct(self, guessed: int, counted: int) -> None:
        """Correct the guessed tokens of a request; later ones move accordingly."""
        with self._lock:
            self._next_tokens += (counted - guessed) * self._token_interval

    def pause(self, seconds: float) -> None:
        """Pause all requests for this many seconds."""
        self._paused_until = max(self._paused_until, monotonic() + seconds)

    def sleep(self, seconds: float) -> None:
        """Pause this request alone."""
        self._stopped.wait(seconds)

    def resume(self) -> None:
        """Wait again, after `give_up`."""
        self._stopped.clear()

    def give_up(self) -> None:
        """Wake all waiting threads, and stop waiting."""
        self._stopped.set()
