"""failed tries -> another try or an error, with a fake inner call on a clock that the tests move."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kumihimo.core.errors import BudgetExceeded, ItemFailed, ModelError, RequestRefused, RequestTimedOut
from kumihimo.core.usage import Usage
from kumihimo.llm.protocols import ChatRequest, FailedTry, Reply, TextsReply, TextsRequest
from kumihimo.llm.response_body import LateReply
from kumihimo.llm.retry import retrying
from kumihimo.llm.transport import ModelServer, ParameterRefused, Unreachable, connect_server
from tests.fake_clock import FakeClock, clock as clock

REQUEST = ChatRequest([{"role": "user", "content": "When?"}])
REPLY = Reply("At ten.")
URL = "http://127.0.0.1:1/v1"


def create_server(**settings: Any) -> ModelServer:
    limits = {"requests_per_minute": 0, "tokens_per_minute": 0}
    return connect_server(
        {"base_url": URL, "key": "", "timeout": 9.0, "retries": 2, "patience": 60.0, "workers": 4, **limits, **settings}
    )


class Failing:
    """A model that fails with these errors first."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.tries = 0

    def __call__(self, request: ChatRequest) -> Reply:
        self.tries += 1
        if self.errors:
            raise self.errors.pop(0)
        return REPLY


def test_a_failure_is_tried_again_after_pauses_that_grow(clock: FakeClock) -> None:
    model = Failing(*(FailedTry("too slow") for _ in range(5)))
    assert retrying(model, create_server(retries=5))(REQUEST) is REPLY
    assert model.tries == 6
    assert all(0.25 * 2**n <= wait <= 0.5 * 2**n for n, wait in enumerate(clock.waits))


def test_retries_end(clock: FakeClock) -> None:
    model = Failing(*(FailedTry("too slow") for _ in range(9)))
    with pytest.raises(ItemFailed, match=rf"^{URL}: too slow, 3 times$"):
        retrying(model, create_server())(REQUEST)
    assert model.tries == 3


def test_a_rate_limit_pauses_all_requests_as_long_as_the_server_asks(clock: FakeClock) -> None:
    server, model = create_server(), Failing(*(FailedTry("busy", wait=5.0, rate_limited=True) for _ in range(8)))
    assert retrying(model, server)(REQUEST) is REPLY
    assert (model.tries, len(clock.waits)) == (9, 8)
    assert all(5.0 < wait <= 7.0 for wait in clock.waits)
    server.limiter.pause(30.0)
    server.limiter.wait(0)
    assert clock.waits[-1] == 30.0


def test_a_pause_that_is_too_long_is_not_made(clock: FakeClock) -> None:
    model = Failing(FailedTry("busy", wait=1000.0, rate_limited=True))
    with pytest.raises(ItemFailed, match="it asks to wait 1,000 s: run it again after that"):
        retrying(model, create_server())(REQUEST)
    assert clock.waits == []


@pytest.mark.parametrize("error", [BudgetExceeded("capped"), ItemFailed("no"), ModelError("no"), RequestRefused("no")])
def test_other_errors_are_not_tried_again(error: Exception) -> None:
    model = Failing(error)
    with pytest.raises(type(error)):
        retrying(model, create_server())(REQUEST)
    assert model.tries == 1


def test_a_broken_stream_is_not_tried_again(clock: FakeClock) -> None:
    model = Failing(FailedTry("broke off", paid=True, final=ItemFailed("broke off in the middle: ask again")))
    with pytest.raises(ItemFailed, match="in the middle"):
        retrying(model, create_server())(REQUEST)
    assert (model.tries, clock.waits) == (1, [])


def test_a_refused_parameter_is_tried_without_it_at_once(clock: FakeClock) -> None:
    model = Failing(ParameterRefused("no temperature"), ParameterRefused("no top_n"))
    assert retrying(model, create_server(retries=0))(REQUEST) is REPLY
    assert clock.waits == []
    with pytest.raises(RequestRefused, match="no temperature"):
        retrying(Failing(*(ParameterRefused("no temperature") for _ in range(99))), create_server())(REQUEST)


def call_often(call: Callable[[ChatRequest], Reply], times: int) -> list[str]:
    """Return the class names of its errors."""
    errors: list[str] = []
    for _ in range(times):
        with pytest.raises((ItemFailed, ModelError)) as error:
            call(REQUEST)
        errors.append(error.type.__name__)
    return errors


def test_a_server_that_refuses_everything_cannot_be_used() -> None:
    server = create_server()
    send = retrying(Failing(*(RequestRefused("no") for _ in range(20))), server)
    assert call_often(send, 8) == ["RequestRefused"] * 7 + ["ModelError"]
    server.has_answered = True
    assert call_often(send, 1) == ["RequestRefused"]


def test_many_failures_in_a_row_open_the_circuit(clock: FakeClock) -> None:
    server = create_server(retries=0)
    send = retrying(Failing(*(FailedTry("too slow") for _ in range(8))), server)
    assert call_often(send, 7) == ["ItemFailed"] * 7
    assert not clock.stopped
    call_often(send, 1)
    assert clock.stopped  # no request waits for this server any more
    with pytest.raises(ItemFailed, match=f"not asked: {URL} failed 8 times in a row"), server.post("/x", {}):
        pass
    server.close_circuit()
    assert (server.failures, clock.stopped) == (0, False)


def test_a_server_that_never_answered_is_given_up_at_once(clock: FakeClock) -> None:
    server, model = create_server(retries=9), Failing(*(Unreachable("cannot be reached") for _ in range(9)))
    with pytest.raises(ModelError, match="cannot be reached: is the server running"):
        retrying(model, server)(REQUEST)
    assert (model.tries, clock.stopped) == (3, True)


# -- patience


def fail_until(send: Callable[[ChatRequest], Reply], clock: FakeClock) -> float:
    """Return the time when a request is given up."""
    with pytest.raises(ItemFailed):
        send(REQUEST)
    return clock.now


@pytest.mark.parametrize("failure", [FailedTry("busy", rate_limited=True), FailedTry("broken"), Unreachable("gone")])
def test_a_server_that_keeps_failing_is_given_up_within_the_patience(clock: FakeClock, failure: FailedTry) -> None:
    server = create_server(retries=99)
    server.has_answered = True
    model = Failing(*[failure] * 99)
    assert fail_until(retrying(model, server), clock) == pytest.approx(60.0)
    assert 6 < model.tries < 12
    tries = model.tries
    assert fail_until(retrying(model, server), clock) == pytest.approx(60.0)  # others are not repeated any more
    assert model.tries == tries + 1


def test_an_answer_and_a_new_command_give_new_patience(clock: FakeClock) -> None:
    server, failure = create_server(retries=99), FailedTry("busy", rate_limited=True)
    server.has_answered = True
    send = retrying(Failing(*[failure] * 99), server)
    fail_until(send, clock)
    server.close_circuit()
    clock.now = 1000.0
    assert fail_until(send, clock) == pytest.approx(1060.0)


def test_without_patience_no_try_is_repeated(clock: FakeClock) -> None:
    model = Failing(FailedTry("busy", rate_limited=True))
    with pytest.raises(ItemFailed, match=f"^{URL}: busy$"):
        retrying(model, create_server(patience=0.0))(REQUEST)
    assert (model.tries, clock.waits) == (1, [])


def test_a_pause_that_is_longer_than_the_rest_of_the_patience_is_not_made(clock: FakeClock) -> None:
    model = Failing(*(FailedTry("busy", wait=25.0, rate_limited=True) for _ in range(9)))
    with pytest.raises(ItemFailed, match="it asks to wait 25 s: run it again after that, or set a longer `patience`"):
        retrying(model, create_server())(REQUEST)
    assert (model.tries, len(clock.waits)) == (3, 2)


# -- no answer in time


def test_a_batch_without_an_answer_in_time_is_not_sent_again(clock: FakeClock) -> None:
    requests: list[int] = []

    def send(request: TextsRequest) -> TextsReply:
        requests.append(len(request.texts))
        raise LateReply(f"{URL} did not answer within 9 s", paid=True)

    server = create_server()
    for texts, question in ((["a", "b"], ""), (["a"], ""), (["a", "b"], "which?")):
        with pytest.raises(RequestTimedOut, match=r"did not answer within 9 s.*: set a longer `timeout`"):
            retrying(send, server)(TextsRequest(texts, question))
    assert requests == [2, 1, 1, 1, 2, 2, 2]
    assert server.failures == 3


def test_a_chat_without_an_answer_in_time_is_sent_again_twice_at_most(clock: FakeClock) -> None:
    model = Failing(*(LateReply(f"{URL} did not answer within 9 s") for _ in range(9)))
    with pytest.raises(RequestTimedOut, match="did not answer within 9 s, 3 times: set a longer `timeout`"):
        retrying(model, create_server(retries=9))(REQUEST)
    assert model.tries == 3


def test_a_chat_that_takes_longer_than_the_patience_is_sent_again_once(clock: FakeClock) -> None:
    class Slow(Failing):
        def __call__(self, request: ChatRequest) -> Reply:
            clock.now += 300
            return super().__call__(request)

    model = Slow(*(LateReply("no answer") for _ in range(9)))
    with pytest.raises(RequestTimedOut):
        retrying(model, create_server(retries=9))(REQUEST)
    assert model.tries == 2


def test_a_batch_with_a_useless_answer_is_refused_so_that_each_half_is_tried_alone(clock: FakeClock) -> None:
    requests: list[int] = []

    def send(request: TextsRequest) -> TextsReply:
        requests.append(len(request.texts))
        raise FailedTry("a vector of zeros", usage=Usage(1, 7))

    for texts in (["a", "b"], ["a"]):
        with pytest.raises(ItemFailed, match=r"a vector of zeros, [23] times") as error:
            retrying(send, create_server())(TextsRequest(texts))
        assert isinstance(error.value, RequestRefused) == (len(texts) > 1)
    assert requests == [2, 2, 1, 1, 1]


# -- what is said while it waits


def test_a_wait_is_said_from_the_third_second_on_and_every_ten_seconds(
    clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    server = create_server(retries=99)
    times: list[float] = []
    busy = FailedTry(f"{URL} says: too many requests (429)", wait=1.0, rate_limited=True)

    class Busy(Failing):
        def __call__(self, request: ChatRequest) -> Reply:
            times.extend([round(clock.now)] * (len(caplog.messages) - len(times)))
            return super().__call__(request)

    retrying(Busy(*[busy] * 12), server)(REQUEST)
    assert len(caplog.messages) == 2
    assert times[1] - times[0] >= 10
    assert times[0] >= 2
    assert caplog.messages[0] == f"waiting for {URL}: it says: too many requests (429); try 3 of 397 in 1 s"


def test_a_short_wait_is_not_said(clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    retrying(Failing(*[FailedTry("broken")] * 2), create_server())(REQUEST)
    assert caplog.messages == []


def test_a_batch_that_timed_out_is_said(clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    def send(request: TextsRequest) -> TextsReply:
        clock.now += 9
        raise LateReply(f"{URL} did not answer within 9 s")

    with pytest.raises(RequestTimedOut):
        retrying(send, create_server())(TextsRequest(["a", "b"]))
    assert caplog.messages == [f"waiting for {URL}: it did not answer within 9 s; smaller requests follow"]
