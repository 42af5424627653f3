"""requests -> the same, spaced within the limits of one server."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Lock, Semaphore
from time import monotonic

from kumihimo.core.cancel import POLL_SECONDS, CancelToken, locked
from kumihimo.core.errors import Cancelled
from kumihimo.llm.protocols import Q, R
from kumihimo.storage.request_times import QueueTimes, Times


class OwnTimes(QueueTimes):
    """The times of this process, by `monotonic`."""

    def __init__(self) -> None:
        self.times, self._lock = [0.0, 0.0, 0.0], Lock()

    @contextmanager
    def open(self) -> Iterator[tuple[float, Times]]:
        with self._lock:
            yield monotonic(), self.times


class RateLimiter:
    """A rate limiter for the requests to one server.

    It spaces them evenly, and pauses them all when the server asks for it. Limits are per minute; 0: no limit.
    The tokens of a prompt are a guess until the server has counted them. slots: for the requests in flight. times: of
    this process, or shared with others.
    """

    def __init__(self, requests: int = 0, tokens: int = 0, in_flight: int = 8) -> None:
        self.slots = Semaphore(in_flight)
        self.times: QueueTimes = OwnTimes()
        self._request_interval = 60 / requests if requests else 0.0
        self._token_interval = 60 / tokens if tokens else 0.0
        self.stopped = Event()  # set: all waiting threads wake up, and no request waits

    @property
    def has_limits(self) -> bool:
        """Return whether requests are spaced."""
        return bool(self._request_interval or self._token_interval)

    def wait(self, tokens: int, cancel: CancelToken | None = None) -> None:
        """Wait until a request with this many tokens may go.

        Return at once while `stopped` is set. A request that is cancelled gives its time to later ones.
        """
        while True:
            send_at, now = self.times.reserve(self._request_interval, tokens * self._token_interval)
            if send_at > now and self._sleep_in_queue(send_at - now, tokens, cancel):
                return
            if send_at == now or send_at >= self.times.paused_until():  # a new pause puts it back into the queue
                return

    def _sleep_in_queue(self, seconds: float, tokens: int, cancel: CancelToken | None) -> bool:
        try:
            return self.sleep(seconds, cancel)
        except Cancelled:
            self.times.move(-self._request_interval, -tokens * self._token_interval)
            raise

    def sleep(self, seconds: float, cancel: CancelToken | None = None) -> bool:
        """Wait; return True as soon as `stopped` is set.

        Raises Cancelled as soon as cancelled.
        """
        if cancel is None:
            return self.stopped.wait(seconds)
        ends_at = monotonic() + seconds
        while not self.stopped.is_set() and (left := ends_at - monotonic()) > 0:
            cancel.wait(min(left, POLL_SECONDS))
            cancel.check()
        return self.stopped.is_set()

    def correct(self, guessed: int, counted: int) -> None:
        """Correct the guessed tokens of a request; later ones move accordingly."""
        if self._token_interval:
            self.times.move(0, (counted - guessed) * self._token_interval)

    def pause(self, seconds: float) -> None:
        """Pause all requests for this many seconds."""
        self.times.pause(seconds)


def rate_limited(send: Callable[[Q], R], limiter: RateLimiter, cancel: CancelToken | None = None) -> Callable[[Q], R]:
    """Return `send` behind a rate limiter."""

    def wait_and_send(request: Q) -> R:
        guessed_tokens = request.size // 4
        limiter.wait(guessed_tokens, cancel)
        with locked(limiter.slots, cancel.check if cancel else None):
            reply = send(request)
        limiter.correct(guessed_tokens, reply.usage.tokens)
        return reply

    return wait_and_send
