"""caps -> permission to send a request: what was spent, by scope, and what remains."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from threading import Condition

from kumihimo.core.errors import BudgetExceeded
from kumihimo.core.usage import Usage
from kumihimo.llm.protocols import Charge, Prices, Reserve

UsageRecorder = Callable[[str, str, str, Usage, int], None]  # "spent" or "saved", scope, model, usage, prompt bytes
log = logging.getLogger("kumihimo")
_TOKENS_PER_BYTE = 0.4  # tokens in a byte of a prompt, until a server has counted some
DEFAULT_REPLY_TOKENS = 1000  # assumed for a reply of unknown length


@dataclass(frozen=True, slots=True)
class Caps:
    """The spending limits; None: no limit."""

    calls: int | None = None
    tokens: int | None = None
    cost: float | None = None

    def reached_by(self, spent: Usage, *, over: bool = False) -> str:
        """Return the cap this usage reaches (`over`: exceeds), else an empty text."""
        for name, cap, amount in (
            ("calls", self.calls, spent.calls),
            ("tokens", self.tokens, spent.tokens),
            ("cost", self.cost, spent.cost),
        ):
            if cap is not None and (amount > cap if over else amount >= cap):
                return f"{name} {cap:,}"
        return ""


class Budget:
    """The budget of a command, with caps on its spending.

    Requests in flight count with their estimated cost, so that a cap is exceeded by one request at most. Near a cap of
    tokens or cost requests go one by one: the cost of a reply is known only when it has arrived.
    parent: a budget that pays for this one too, such as that of a command for its questions. It has its own caps, and
    keeps the records.
    """

    def __init__(
        self, caps: Caps | None = None, record_usage: UsageRecorder | None = None, parent: Budget | None = None
    ) -> None:
        self.caps = caps or Caps()
        self.spent: dict[str, Usage] = {}  # by scope: a step, a method, a role
        self.saved: dict[str, Usage] = {}  # by the response cache, by scope
        self.total = Usage()
        self._record_usage = record_usage
        self._parent = parent
        self._in_flight: list[Usage] = []
        self._measured_scopes: set[str] = set()  # scopes with a reply of known cost
        self._longest_reply = 0  # tokens in a reply so far
        self._tokens_per_byte = 0.0  # the most tokens in a byte of a prompt so far
        self._condition = Condition()

    def reserve(self, scope: str, model: str, prices: Prices, reply: int = DEFAULT_REPLY_TOKENS) -> Reserve:
        """Return the permission to call a model for a scope.

        reply: the number of tokens to expect in a reply.
        """
        reserve_here = partial(self._reserve_here, scope, model, prices, reply)
        if self._parent is None:
            return reserve_here
        return partial(_reserve_both, reserve_here, self._parent.reserve(scope, model, prices, reply))

    @contextmanager
    def _reserve_here(self, scope: str, model: str, prices: Prices, reply: int, size: int) -> Iterator[Charge]:
        estimate = self._wait_for_room(scope, size, reply, prices)
        charges: list[Usage] = []
        try:
            yield charges.append
        finally:
            with self._condition:
                self._in_flight.remove(estimate)
                for usage in charges:
                    self._charge(scope, usage, reply, size)
                    if self._parent is None:  # which logs it too
                        log.info("%s: %s, %d + %d tokens, %.1f s", scope, model, *_log_values(usage))
                self._condition.notify_all()
            if self._record_usage:
                for usage in charges:
                    self._record_usage("spent", scope, model, usage, size)

    def record_saved(self, scope: str, model: str, usage: Usage) -> None:
        """Record the usage that a cached reply saved."""
        with self._condition:
            self.saved[scope] = self.saved.get(scope, Usage()) + usage
        if self._parent:
            self._parent.record_saved(scope, model, usage)
        if self._record_usage:
            self._record_usage("saved", scope, model, usage, 0)

    def _wait_for_room(self, scope: str, size: int, reply: int, prices: Prices) -> Usage:
        with self._condition:
            while True:
                if reached := self.caps.reached_by(self.total):
                    raise BudgetExceeded(f"capped: not asked, since --max-{reached} was reached")
                estimate = self._estimate(size, reply, prices)
                minimum = Usage(1, estimate.prompt_tokens // 2, cost=prices.cost(estimate.prompt_tokens // 2, 0, 0))
                if reached := self.caps.reached_by(self.total + minimum, over=True):
                    raise BudgetExceeded(f"capped: not asked, since it would go beyond --max-{reached}")
                if self._fits(scope, estimate):
                    self._in_flight.append(estimate)
                    return estimate
                self._condition.wait()

    def _fits(self, scope: str, estimate: Usage) -> bool:
        """Return whether this request and those in flight stay under the caps.

        A request alone may reach a cap.
        """
        if not self._in_flight:
            return True
        if scope not in self._measured_scopes and (self.caps.tokens is not None or self.caps.cost is not None):
            return False
        return not self.caps.reached_by(sum(self._in_flight, self.total + estimate), over=True)

    def _estimate(self, size: int, reply: int, prices: Prices) -> Usage:
        prompt = int(size * (self._tokens_per_byte or _TOKENS_PER_BYTE))
        reply = max(reply, self._longest_reply if reply else 0)
        return Usage(1, prompt, 0, reply, prices.cost(prompt, 0, reply))

    def _charge(self, scope: str, usage: Usage, reply: int, size: int) -> None:
        self.spent[scope] = self.spent.get(scope, Usage()) + usage
        self.total += usage
        if usage.completion_tokens or not reply:  # a reply that broke off is no measure
            self._measured_scopes.add(scope)
        self._longest_reply = max(self._longest_reply, usage.completion_tokens)
        self._tokens_per_byte = max(self._tokens_per_byte, usage.prompt_tokens / size if size else 0.0)


@contextmanager
def _reserve_both(reserve_own: Reserve, reserve_parent: Reserve, size: int) -> Iterator[Charge]:
    """Reserve from both budgets, and charge both."""
    with reserve_own(size) as charge_own, reserve_parent(size) as charge_parent:

        def charge_both(usage: Usage) -> None:
            charge_own(usage)
            charge_parent(usage)

        yield charge_both


def _log_values(usage: Usage) -> tuple[int, int, float]:
    return usage.prompt_tokens, usage.completion_tokens, usage.seconds
