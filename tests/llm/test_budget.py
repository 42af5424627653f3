"""caps -> permission to send a request: many threads at once stay under the caps."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import repeat
from random import Random
from threading import Barrier, Lock, Thread

import pytest

from kumihimo.core.errors import BudgetExceeded, ItemFailed
from kumihimo.core.usage import Usage
from kumihimo.llm.budget import Account, Admit, Budget, Caps, Settle, budgeted
from kumihimo.llm.protocols import ChatRequest, FailedTry, Prices, Reply

PRICES = Prices(prompt=1.0, completion=100.0)
ACCOUNT = Account("step", "m", PRICES)


@dataclass
class Recording:
    """A ledger that lists what is settled and saved."""

    entries: list[tuple[object, ...]]

    def reserve(self, account: Account, estimate: Usage, size: int, admit: Admit) -> Settle | None:
        def settle(usage: Usage) -> None:
            if usage.calls:
                self.entries.append(("spent", account.scope, account.model, usage, size))

        return settle if admit() else None

    def record_saved(self, scope: str, model: str, usage: Usage) -> None:
        self.entries.append(("saved", scope, model, usage, 0))


def pay(budget: Budget, *usages: Usage, scope: str = "step", model: str = "m", size: int = 40) -> None:
    """Send one request with these charges."""
    with budget.reserve(Account(scope, model, PRICES), size) as charges:
        charges += usages


def fail(budget: Budget, error: type[BaseException], *usages: Usage) -> None:
    """Send one request that fails after these charges."""
    with pytest.raises(error), budget.reserve(ACCOUNT, 40) as charges:
        _raise(error, charges, *usages)


def _raise(error: type[BaseException], charges: list[Usage], *usages: Usage) -> None:
    charges += usages
    time.sleep(0.002)  # let other threads in
    raise error


def run_threads(work: Callable[[], None], threads: int = 16) -> None:
    running = [Thread(target=work) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(90)
    assert not any(thread.is_alive() for thread in running)


def spend(budget: Budget, usages: Iterator[Usage]) -> list[Usage]:
    """Spend the whole budget in 16 threads; return the charges."""
    charged: list[Usage] = []
    lock = Lock()

    def work() -> None:
        while True:
            try:
                with budget.reserve(ACCOUNT, 40) as charges:
                    with lock:
                        usage = next(usages)
                        charged.append(usage)
                    time.sleep(0.0002)  # let other threads in
                    charges.append(usage)
            except BudgetExceeded:
                return

    run_threads(work)
    return charged


def yield_usages(seed: int) -> Iterator[Usage]:
    """Yield usages of one call each, the longest reply first."""
    random = Random(seed)
    yield Usage(1, 10, 0, 100, PRICES.cost(10, 0, 100))
    while True:
        reply_tokens = random.choice([1, 5, 20, 100])
        yield Usage(1, 10, 0, reply_tokens, PRICES.cost(10, 0, reply_tokens))


def test_no_caps_allow_every_request() -> None:
    budget = Budget()
    for _ in range(100):
        pay(budget, Usage(1, 10**9, 0, 10**9, 1e9))
    assert budget.total.calls == 100


@pytest.mark.parametrize("limit", [1, 15, 16, 17, 100])
def test_calls_are_counted_exactly(limit: int) -> None:
    budget = Budget(Caps(calls=limit))
    assert len(spend(budget, repeat(Usage(1, 1, 0, 1)))) == limit
    assert budget.total.calls == limit


@pytest.mark.parametrize("seed", range(5))
def test_a_cap_of_tokens_is_met_within_one_call(seed: int) -> None:
    budget = Budget(Caps(tokens=3000))
    charged = spend(budget, yield_usages(seed))
    assert abs(budget.total.tokens - 3000) < max(usage.tokens for usage in charged)
    assert budget.total.tokens == sum(usage.tokens for usage in charged)


@pytest.mark.parametrize("seed", range(5))
def test_a_cap_of_cost_is_met_within_one_call(seed: int) -> None:
    budget = Budget(Caps(cost=0.25))
    charged = spend(budget, yield_usages(seed))
    assert abs(budget.total.cost - 0.25) < max(usage.cost for usage in charged)


def test_the_first_request_runs_alone_while_the_cost_of_a_reply_is_unknown() -> None:
    budget = Budget(Caps(tokens=100))
    charged = spend(budget, repeat(Usage(1, 1000, 0, 1000)))
    assert len(charged) == 1


def test_far_from_its_cap_many_go_at_once() -> None:
    budget = Budget(Caps(tokens=10**6))
    pay(budget, Usage(1, 10, 0, 10))
    all_in_flight = Barrier(16, timeout=60)  # breaks where fewer than 16 come

    def work() -> None:
        with budget.reserve(ACCOUNT, 40) as charges:
            all_in_flight.wait()
            charges.append(Usage(1, 10, 0, 10))

    run_threads(work)
    assert budget.total.calls == 17


@pytest.mark.parametrize(
    ("caps", "reached"),
    [
        (Caps(calls=2), "calls 2"),
        (Caps(tokens=1000), "tokens 1,000"),
        (Caps(cost=0.5), "cost 0.5"),
        (Caps(calls=2, tokens=1000, cost=0.5), "calls 2"),
    ],
)
def test_a_cap_that_is_reached_is_named(caps: Caps, reached: str) -> None:
    budget = Budget(caps)
    for _ in range(2):
        pay(budget, Usage(1, 400, 0, 100, 0.25))
    with pytest.raises(BudgetExceeded) as capped:
        pay(budget)
    assert str(capped.value) == f"capped: not asked, since --max-{reached} was reached"
    assert budget.total.calls == 2


@pytest.mark.parametrize("caps", [Caps(calls=0), Caps(tokens=0), Caps(cost=0.0)])
def test_a_cap_of_nothing_allows_nothing(caps: Caps) -> None:
    with pytest.raises(BudgetExceeded, match="0"):
        pay(Budget(caps))


def test_requests_without_a_charge_do_not_count() -> None:
    budget = Budget(Caps(calls=2))
    for _ in range(10):
        pay(budget)
    assert (budget.total, budget.spent) == (Usage(), {})
    pay(budget, Usage())
    assert budget.total.calls == 0


def test_one_reservation_may_be_charged_twice() -> None:
    budget = Budget(Caps(calls=3))
    pay(budget, Usage(1, 10), Usage(1, 20))
    assert budget.total == Usage(2, 30)


def test_spent_and_saved_usage_is_recorded_by_scope() -> None:
    recorded: list[tuple[object, ...]] = []
    budget = Budget(ledger=Recording(recorded))
    pay(budget, Usage(1, 10, 4, 2, 0.5, 1.0), scope="gists", size=50)
    pay(budget, Usage(1, 20, 0, 3), scope="gists", model="other", size=0)
    pay(budget, Usage(1, 5), scope="answer")
    pay(budget, scope="nobody")
    budget.record_saved("gists", "m", Usage(1, 7))
    budget.record_saved("gists", "m", Usage(1, 8))
    assert budget.spent == {"gists": Usage(2, 30, 4, 5, 0.5, 1.0), "answer": Usage(1, 5)}
    assert budget.saved == {"gists": Usage(2, 15)}
    assert budget.total == Usage(3, 35, 4, 5, 0.5, 1.0)
    assert recorded == [
        ("spent", "gists", "m", Usage(1, 10, 4, 2, 0.5, 1.0), 50),
        ("spent", "gists", "other", Usage(1, 20, 0, 3), 0),
        ("spent", "answer", "m", Usage(1, 5), 40),
        ("saved", "gists", "m", Usage(1, 7), 0),
        ("saved", "gists", "m", Usage(1, 8), 0),
    ]


def test_saved_usage_is_under_no_cap() -> None:
    budget = Budget(Caps(calls=1, tokens=100, cost=0.1))
    budget.record_saved("gists", "m", Usage(5, 500, 0, 500, 5.0))
    pay(budget, Usage(1))
    assert budget.total == Usage(1)


def test_failed_requests_make_room_and_are_charged() -> None:
    budget = Budget(Caps(tokens=100))
    fail(budget, RuntimeError, Usage(1, 10, 0, 80))
    assert budget.total == Usage(1, 10, 0, 80)
    fail(budget, RuntimeError)
    fail(budget, KeyboardInterrupt)
    assert budget.total == Usage(1, 10, 0, 80)
    assert len(spend(budget, repeat(Usage(1, 10, 0, 80)))) == 1


def test_a_prompt_that_would_exceed_a_cap_is_not_sent() -> None:
    budget = Budget(Caps(tokens=100))
    with pytest.raises(BudgetExceeded, match="not asked, since it would go beyond --max-tokens 100"):
        pay(budget, Usage(1), size=1000)


def test_waiting_requests_go_on_when_a_request_fails() -> None:
    budget = Budget(Caps(tokens=1000))
    run_threads(lambda: fail(budget, RuntimeError))
    assert budget.total == Usage()


def test_each_request_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "kumihimo"):
        pay(Budget(), Usage(1, 10, 0, 2, seconds=1.26))
    assert caplog.messages == ["step: m, 10 + 2 tokens, 1.3 s"]


def test_a_reply_that_broke_off_is_no_measure_of_cost() -> None:
    budget = Budget(Caps(tokens=20_000))
    pay(budget, Usage(1, 10))
    charged = spend(budget, repeat(Usage(1, 10, 0, 5000)))
    assert budget.total.tokens < 20_000 + 5010
    assert len(charged) in (4, 5)


def test_a_child_budget_charges_its_parent_too() -> None:
    recorded: list[tuple[object, ...]] = []
    parent = Budget(Caps(calls=3), Recording(recorded))
    first, second = Budget(parent=parent), Budget(Caps(calls=1), parent=Budget(parent=parent))
    pay(first, Usage(1, 10, 0, 5), scope="answer")
    pay(second, Usage(1, 20, 0, 5))
    fail(second, BudgetExceeded)
    first.record_saved("answer", "m", Usage(1, 7))
    fail(first, ValueError, Usage(1, 1))
    fail(first, BudgetExceeded)
    assert (first.total, second.total) == (Usage(2, 11, 0, 5), Usage(1, 20, 0, 5))
    assert (parent.total, parent.saved) == (first.total + second.total, {"answer": Usage(1, 7)})
    assert [entry[:2] for entry in recorded] == [("spent", s) for s in ("answer", "step")] + [
        ("saved", "answer"),
        ("spent", "step"),
    ]


def test_many_child_budgets_stay_under_the_caps_of_their_parent() -> None:
    parent = Budget(Caps(tokens=3000))
    usages = yield_usages(5)
    children: list[Budget] = []
    lock = Lock()

    def work() -> None:
        with suppress(BudgetExceeded):
            while True:
                with lock:
                    usage = next(usages)
                    children.append(child := Budget(parent=parent))
                with child.reserve(ACCOUNT, 40) as charges:
                    charges.append(usage)

    run_threads(work)
    paid = sum((child.total for child in children), Usage())
    assert paid.cost == pytest.approx(parent.total.cost)  # the order of the sums differs
    assert replace(paid, cost=0) == replace(parent.total, cost=0)
    assert parent.total.tokens > 2500
    assert parent.total.tokens <= 3000 + 110


# -- the wrapper of one request


REQUEST = ChatRequest([{"role": "user", "content": "x" * 40}])


def fail_with(failure: Exception) -> Callable[[ChatRequest], Reply]:
    def send(request: ChatRequest) -> Reply:
        raise failure

    return send


def test_a_reply_is_charged() -> None:
    budget, reply = Budget(), Reply("At nine.", usage=Usage(1, 10, 0, 2, 0.5))
    assert budgeted(lambda _: reply, budget, ACCOUNT)(REQUEST) is reply
    assert budget.spent == {"step": reply.usage}


def test_a_lost_reply_costs_its_prompt() -> None:
    budget = Budget()
    with pytest.raises(FailedTry):
        budgeted(fail_with(FailedTry("broke off", paid=True)), budget, ACCOUNT)(REQUEST)
    assert (budget.total.calls, budget.total.prompt_tokens, budget.total.cost) == (1, 10, 10 / 1e6)


def test_a_malformed_answer_costs_what_the_server_says() -> None:
    budget = Budget()
    with pytest.raises(FailedTry):
        budgeted(fail_with(FailedTry("no vectors", usage=Usage(1, 7))), budget, ACCOUNT)(REQUEST)
    assert budget.total == Usage(1, 7)


@pytest.mark.parametrize("failure", [FailedTry("too busy"), ItemFailed("no")])
def test_a_refused_request_costs_nothing(failure: Exception) -> None:
    budget = Budget()
    with pytest.raises(type(failure)):
        budgeted(fail_with(failure), budget, ACCOUNT)(REQUEST)
    assert budget.total == Usage()


def test_a_capped_request_is_not_sent() -> None:
    with pytest.raises(BudgetExceeded):
        budgeted(fail_with(AssertionError("it was sent")), Budget(Caps(calls=0)), ACCOUNT)(REQUEST)
