"""a request -> its reply, tried again after pauses where another try may succeed."""

from collections.abc import Callable
from random import random
from time import monotonic

from kumihimo.core.cancel import CancelToken, check_cancelled
from kumihimo.core.errors import ItemFailed, ModelError, RequestRefused, RequestTimedOut
from kumihimo.llm.protocols import FailedTry, Q, R
from kumihimo.llm.response_body import LateReply
from kumihimo.llm.transport import OPTIONAL_PARAMETERS, ModelServer, ParameterRefused, Unreachable

_RATE_LIMIT_FACTOR = 4  # more retries where the server only limits the rate
_FEW_RETRIES = 2  # where the server has never answered, or each try takes as long as `timeout`


def retrying(send: Callable[[Q], R], server: ModelServer, cancel: CancelToken | None = None) -> Callable[[Q], R]:
    """Return `send` with retries, after pauses that grow.

    It raises ItemFailed when retries do not help, RequestTimedOut where a smaller request may, ModelError where the
    server rejects every request, RequestRefused where it rejects this one or gives a batch no useful answer.
    """

    def send_again_on_failure(request: Q) -> R:
        started = monotonic()
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
                check_cancelled(cancel)  # then we may have broken it off ourselves
                tries += 1
                patience = server.start_patience(started)
                retries = _max_retries(server, failure, request)
                if failure.final or tries > retries or patience <= 0 or (failure.wait or 0) > patience:
                    raise failure.final or _failure_error(server, failure, request, tries, patience) from failure
                wait = _back_off(server, failure, tries, retries, patience, started)
                server.limiter.sleep(wait, cancel)

    return send_again_on_failure


def _max_retries(server: ModelServer, failure: FailedTry, request: Q) -> int:
    """Return how often a retry is worthwhile."""
    if server.is_given_up:
        return 0
    if isinstance(failure, LateReply):
        return 0 if request.is_divisible else min(server.retries, _FEW_RETRIES)
    if failure.usage and request.is_divisible:
        return min(server.retries, 1)
    if isinstance(failure, Unreachable) and not server.has_answered:
        return min(server.retries, _FEW_RETRIES)
    return server.retries * (_RATE_LIMIT_FACTOR if failure.rate_limited else 1)


def _back_off(
    server: ModelServer, failure: FailedTry, tries: int, retries: int, patience: float, started: float
) -> float:
    """Return how long to wait before the next try."""
    backoff = min(20.0, 0.5 * 2 ** (tries - 1)) * (0.5 + random() / 2)
    if failure.rate_limited and failure.wait is not None:
        server.limiter.pause(failure.wait)  # for all requests to this server
    wait: float = min(backoff, patience) if failure.wait is None else failure.wait + backoff / 10
    next_step = f"try {tries + 1} of {retries + 1} in {max(wait, 1.0):.0f} s"
    _note_failure(server, failure, monotonic() - started + wait, next_step)
    return wait


def _note_failure(server: ModelServer, failure: FailedTry, waited: float, next_step: str) -> None:
    server.notes.note_failure(server.display_url, str(failure), waited, next_step)


def _refusal_error(server: ModelServer, refusal: RequestRefused) -> RequestRefused | ModelError:
    """Return the refusal.

    A server that has refused every request so far cannot be used: then it is a ModelError.
    """
    with server.lock:
        server.refusals += 1
    if server.has_answered or server.refusals < server.failure_limit:
        return refusal
    return ModelError(str(refusal))


def _failure_error(
    server: ModelServer, failure: FailedTry, request: Q, tries: int, patience: float
) -> ItemFailed | ModelError:
    """Return the error for a request whose retries are used up."""
    server.count_failure()
    if isinstance(failure, Unreachable) and not server.has_answered:
        server.limiter.stopped.set()
        return ModelError(f"{failure}: is the server running, and base_url right?")
    message = str(failure) if server.display_url in str(failure) else f"{server.display_url}: {failure}"
    if failure.wait and failure.wait > patience:
        wait = f"{failure.wait:,.0f} s"
        return ItemFailed(f"{message}; it asks to wait {wait}: run it again after that, or set a longer `patience`")
    message = f"{message}, {tries} times" if tries > 1 else message
    if failure.usage and request.is_divisible:  # an answer of no use: one of the texts may be the reason
        return RequestRefused(message)
    if not isinstance(failure, LateReply):
        return ItemFailed(message)
    if request.is_divisible:
        _note_failure(server, failure, server.timeout, "smaller requests follow")
    return RequestTimedOut(f"{message}: set a longer `timeout`")
