"""Caps -> leave to ask: what is spent stays under them, however many ask at once."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import repeat
from random import Random
from threading import Lock, Thread

import pytest

from kumihimo.core.errors import BudgetExceeded
from kumihimo.core.usage import Usage
from kumihimo.llm.budget import Budget, Caps
from kumihimo.llm.protocols import Charge, Prices

PRICES = Prices(prompt=1.0, completion=100.0)


def pay(purse: Budget, *bills: Usage, scope: str = "step", model: str = "m", size: int = 40) -> None:
    """One request that is billed so."""
    with purse.reserve(scope, model, PRICES)(size) as bill:
        for usage in bills:
            bill(usage)


def fail(purse: Budget, error: type[BaseException], *bills: Usage) -> None:
    """One request that is billed so, and goes wrong."""
    with pytest.raises(error), purse.reserve("step", "m", PRICES)(40) as bill:
        _raise(error, bill, *bills)


def _raise(error: type[BaseException], bill: Charge, *bills: Usage) -> None:
    for usage in bills:
        bill(usage)
    time.sleep(0.002)
    raise error


def at_once(work: Callable[[], None], threads: int = 16) -> None:
    running = [Thread(target=work) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(20)
    assert not any(thread.is_alive() for thread in running)


def spend(purse: Budget, bills: Iterator[Usage]) -> list[Usage]:
    """Ask by 16 threads until no more may be asked; gives what was billed."""
    billed: list[Usage] = []
    lock = Lock()

    def work() -> None:
        while True:
            try:
                with purse.reserve("step", "m", PRICES)(40) as bill:
                    with lock:
                        usage = next(bills)
                        billed.append(usage)
                    time.sleep(0.0002)
                    bill(usage)
            except BudgetExceeded:
                return

    at_once(work)
    return billed


def replies(seed: int) -> Iterator[Usage]:
    """Of one call each, the longest first."""
    random = Random(seed)
    yield Usage(1, 10, 0, 100, PRICES.cost(10, 0, 100))
    while True:
        said = random.choice([1, 5, 20, 100])
        yield Usage(1, 10, 0, said, PRICES.cost(10, 0, said))


def test_without_caps_all_is_allowed() -> None:
    purse = Budget()
    for _ in range(100):
        pay(purse, Usage(1, 10**9, 0, 10**9, 1e9))
    assert purse.total.calls == 100


@pytest.mark.parametrize("most", [1, 15, 16, 17, 100])
def test_calls_are_counted_exactly(most: int) -> None:
    purse = Budget(Caps(calls=most))
    assert len(spend(purse, repeat(Usage(1, 1, 0, 1)))) == most
    assert purse.total.calls == most


@pytest.mark.parametrize("seed", range(5))
def test_tokens_are_kept_within_one_call(seed: int) -> None:
    purse = Budget(Caps(tokens=3000))
    billed = spend(purse, replies(seed))
    assert abs(purse.total.tokens - 3000) < max(usage.tokens for usage in billed)
    assert purse.total.tokens == sum(usage.tokens for usage in billed)


@pytest.mark.parametrize("seed", range(5))
def test_cost_is_kept_within_one_call(seed: int) -> None:
    purse = Budget(Caps(cost=0.25))
    billed = spend(purse, replies(seed))
    assert abs(purse.total.cost - 0.25) < max(usage.cost for usage in billed)


def test_nobody_goes_along_with_the_first_while_it_is_not_known_what_a_reply_costs() -> None:
    purse = Budget(Caps(tokens=100))
    billed = spend(purse, repeat(Usage(1, 1000, 0, 1000)))
    assert len(billed) == 1


def test_far_from_its_cap_many_go_at_once() -> None:
    purse = Budget(Caps(tokens=10**6))
    pay(purse, Usage(1, 10, 0, 10))
    under_way, most, lock = [0], [0], Lock()

    def work() -> None:
        with purse.reserve("step", "m", PRICES)(40) as bill:
            with lock:
                under_way[0] += 1
                most[0] = max(most[0], under_way[0])
            time.sleep(0.05)
            with lock:
                under_way[0] -= 1
            bill(Usage(1, 10, 0, 10))

    at_once(work)
    assert most[0] > 8


@pytest.mark.parametrize(
    ("caps", "said"),
    [
        (Caps(calls=2), "calls 2"),
        (Caps(tokens=1000), "tokens 1,000"),
        (Caps(cost=0.5), "cost 0.5"),
        (Caps(calls=2, tokens=1000, cost=0.5), "calls 2"),
    ],
)
def test_a_cap_that_is_reached_is_named(caps: Caps, said: str) -> None:
    purse = Budget(caps)
    for _ in range(2):
        pay(purse, Usage(1, 400, 0, 100, 0.25))
    with pytest.raises(BudgetExceeded) as capped:
        pay(purse)
    assert str(capped.value) == f"capped: not asked, since --max-{said} was reached"
    assert purse.total.calls == 2


@pytest.mark.parametrize("caps", [Caps(calls=0), Caps(tokens=0), Caps(cost=0.0)])
def test_a_cap_of_nothing_allows_nothing(caps: Caps) -> None:
    with pytest.raises(BudgetExceeded, match="0"):
        pay(Budget(caps))


def test_what_is_not_charged_counts_for_nothing() -> None:
    purse = Budget(Caps(calls=2))
    for _ in range(10):
        pay(purse)
    assert (purse.total, purse.spent) == (Usage(), {})
    pay(purse, Usage())
    assert purse.total.calls == 0


def test_one_leave_may_be_billed_twice() -> None:
    purse = Budget(Caps(calls=3))
    pay(purse, Usage(1, 10), Usage(1, 20))
    assert purse.total == Usage(2, 30)


def test_what_is_spent_and_saved_is_told_by_scope_and_recorded() -> None:
    recorded: list[tuple[object, ...]] = []
    purse = Budget(record_usage=lambda *told: recorded.append(told))
    pay(purse, Usage(1, 10, 4, 2, 0.5, 1.0), scope="gists", size=50)
    pay(purse, Usage(1, 20, 0, 3), scope="gists", model="other", size=0)
    pay(purse, Usage(1, 5), scope="answer")
    pay(purse, scope="nobody")
    purse.record_saved("gists", "m", Usage(1, 7))
    purse.record_saved("gists", "m", Usage(1, 8))
    assert purse.spent == {"gists": Usage(2, 30, 4, 5, 0.5, 1.0), "answer": Usage(1, 5)}
    assert purse.saved == {"gists": Usage(2, 15)}
    assert purse.total == Usage(3, 35, 4, 5, 0.5, 1.0)
    assert recorded == [
        ("spent", "gists", "m", Usage(1, 10, 4, 2, 0.5, 1.0), 50),
        ("spent", "gists", "other", Usage(1, 20, 0, 3), 0),
        ("spent", "answer", "m", Usage(1, 5), 40),
        ("saved", "gists", "m", Usage(1, 7), 0),
        ("saved", "gists", "m", Usage(1, 8), 0),
    ]


def test_what_is_saved_is_under_no_cap() -> None:
    purse = Budget(Caps(calls=1, tokens=100, cost=0.1))
    purse.record_saved("gists", "m", Usage(5, 500, 0, 500, 5.0))
    pay(purse, Usage(1))
    assert purse.total == Usage(1)


def test_what_went_wrong_makes_room_and_is_paid_all_the_same() -> None:
    purse = Budget(Caps(tokens=100))
    fail(purse, RuntimeError, Usage(1, 10, 0, 80))
    assert purse.total == Usage(1, 10, 0, 80)
    fail(purse, RuntimeError)
    fail(purse, KeyboardInterrupt)
    assert purse.total == Usage(1, 10, 0, 80)
    assert len(spend(purse, repeat(Usage(1, 10, 0, 80)))) == 1


def test_a_prompt_that_is_known_to_go_beyond_a_cap_is_not_sent() -> None:
    purse = Budget(Caps(tokens=100))
    with pytest.raises(BudgetExceeded, match="not asked, since it would go beyond --max-tokens 100"):
        pay(purse, Usage(1), size=1000)


def test_whoever_waits_for_room_goes_on_when_a_request_fails() -> None:
    purse = Budget(Caps(tokens=1000))
    at_once(lambda: fail(purse, RuntimeError))
    assert purse.total == Usage()


def test_each_request_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "kumihimo"):
        pay(Budget(), Usage(1, 10, 0, 2, seconds=1.26))
    assert caplog.messages == ["step: m, 10 + 2 tokens, 1.3 s"]


def test_an_answer_that_broke_off_tells_nothing_of_what_a_reply_costs() -> None:
    purse = Budget(Caps(tokens=20_000))
    pay(purse, Usage(1, 10))
    billed = spend(purse, repeat(Usage(1, 10, 0, 5000)))
    assert purse.total.tokens < 20_000 + 5010
    assert len(billed) in (4, 5)


def test_a_purse_within_a_purse_is_paid_from_both() -> None:
    noted: list[tuple[object, ...]] = []
    whole = Budget(Caps(calls=3), record_usage=lambda *told: noted.append(told))
    one, other = Budget(parent=whole), Budget(Caps(calls=1), parent=Budget(parent=whole))
    pay(one, Usage(1, 10, 0, 5), scope="answer")
    pay(other, Usage(1, 20, 0, 5))
    fail(other, BudgetExceeded)
    one.record_saved("answer", "m", Usage(1, 7))
    fail(one, ValueError, Usage(1, 1))
    fail(one, BudgetExceeded)
    assert (one.total, other.total) == (Usage(2, 11, 0, 5), Usage(1, 20, 0, 5))
    assert (whole.total, whole.saved) == (one.total + other.total, {"answer": Usage(1, 7)})
    assert [told[:2] for told in noted] == [("spent", s) for s in ("answer", "step")] + [
        ("saved", "answer"),
        ("spent", "step"),
    ]


def test_many_purses_stay_under_the_caps_of_one() -> None:
    whole = Budget(Caps(tokens=3000))
    bills = replies(5)
    parts: list[Budget] = []
    lock = Lock()

    def work() -> None:
        with suppress(BudgetExceeded):
            while True:
                with lock:
                    usage = next(bills)
                    parts.append(own := Budget(parent=whole))
                with own.reserve("step", "m", PRICES)(40) as bill:
                    bill(usage)

    at_once(work)
    assert sum((part.total for part in parts), Usage()) == whole.total
    assert whole.total.tokens > 2500
    assert whole.total.tokens <= 3000 + 110
