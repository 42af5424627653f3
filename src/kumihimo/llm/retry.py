"""a request -> its reply, tried again after pauses where another try may succeed."""

import logging
from collections.abc import Callable
from random import random

from kumihimo.core.errors import ItemFailed, ModelError, RequestRefused
from kumihimo.llm.protocols import FailedTry, Q, R
from kumihimo.llm.transport import OPTIONAL_PARAMETERS, ModelServer, ParameterRefused, Unreachable

_MAX_WAIT = 120.0  # seconds; a request fails if the server asks for more
_RATE_LIMIT_FACTOR = 4  # more retries where the server only limits the rate
log = logging.getLogger("kumihimo")


def retrying(send: Callable[[Q], R], server: ModelServer) -> Callable[[Q], R]:
    """Return `send` with retries, after pauses that grow.

    It raises ItemFailed when retries do not help, RequestRefused where the server rejects this request, ModelError
    where it rejects every request.
    """

    def send_again_on_failure(request: Q) -> R:
        tries = refused_parameters = 0
        while True:
            try:
                return send(request)
            except ParameterRefused as refusal:  # the next try leaves it out
                refused_parameters += 1
                if refused_parameters > len(OPTIONAL_PARAMETERS):
                    raise RequestRefused(str(refusal)) from refusal
            except RequestRefused as refusal:
                raise _refusal_error(server, refusal) from refusal
            except FailedTry as failure:
                tries += 1
                if failure.final or tries > _max_tries(server, failure) or (failure.wait or 0) > _MAX_WAIT:
                    raise failure.final or _failure_error(server, failure, tries) from failure
                _back_off(server, failure, tries)

    return send_again_on_failure


def _max_tries(server: ModelServer, failure: FailedTry) -> int:
    """Return how often a retry is worthwhile."""
    if isinstance(failure, Unreachable) and not server.has_answered:
        return min(server.retries, 2)
    return server.retries * (_RATE_LIMIT_FACTOR if failure.rate_limited else 1)


def _back_off(server: ModelServer, failure: FailedTry, tries: int) -> None:
    backoff = min(20.0, 0.5 * 2 ** (tries - 1)) * (0.5 + random() / 2)
    if failure.rate_limited and failure.wait is not None:
        server.limiter.pause(failure.wait)  # for all requests to this server
    wait = backoff if failure.wait is None else failure.wait + backoff / 10
    log.info("%s: %s; trying again in %.1f s", server.display_url, failure, wait)
    server.limiter.stopped.wait(wait)


def _refusal_error(server: ModelServer, refusal: RequestRefused) -> RequestRefused | ModelError:
    """Return the refusal.

    A server that has refused every request so far cannot be used: then it is a ModelError.
    """
    with server.lock:
        server.refusals += 1
    if server.has_answered or server.refusals < server.failure_limit:
        return refusal
    return ModelError(str(refusal))


def _failure_error(server: ModelServer, failure: FailedTry, tries: int) -> ItemFailed | ModelError:
    """Return the error for a request whose retries are used up."""
    with server.lock:
        server.failures += 1
        if server.failures >= server.failure_limit:
            server.limiter.stopped.set()
    if isinstance(failure, Unreachable) and not server.has_answered:
        server.limiter.stopped.set()
        return ModelError(f"{failure}: is the server running, and base_url right?")
    message = str(failure) if server.display_url in str(failure) else f"{server.display_url}: {failure}"
    if (failure.wait or 0) > _MAX_WAIT:
        return ItemFailed(f"{message}; it asks to wait {failure.wait:,.0f} s: run it again after that")
    return ItemFailed(f"{message}, {tries} times" if tries > 1 else message)
