"""caps -> leave to ask: what has been spent, for what, and what may still be."""

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

UsageRecorder = Callable[
    [str, str, str, Usage, int], None
]  # spent or saved; scope, model; how much; bytes of the prompt
log = logging.getLogger("kumihimo")
_TOKENS_PER_BYTE = 0.4  # tokens in a byte of a prompt, until a server has said how many it counted
DEFAULT_REPLY_TOKENS = 1000  # tokens that any reply may have


@dataclass(frozen=True, slots=True)
class Caps:
    """What may be spent at most; None: as much as it takes."""

    calls: int | None = None
    tokens: int | None = None
    cost: float | None = None

    def reached_by(self, spent: Usage, *, over: bool = False) -> str:
        """The name and number of the cap that this much reaches (or, `over`, exceeds)."""
        for name, cap, much in (
            ("calls", self.calls, spent.calls),
            ("tokens", self.tokens, spent.tokens),
            ("cost", self.cost, spent.cost),
        ):
            if cap is not None and (much > cap if over else much >= cap):
                return f"{name} {cap:,}"
        return ""


class Budget:
    """What a command spends. Requests under way are counted with what they may cost, so that a cap is met within one.

    Near a cap of tokens or cost they go one by one: what a reply costs is known only when it has come.
    within: a purse out of which all of this one is paid, that of a command for those of its questions; it has caps of
    its own, and keeps the records.
    """

    def __init__(
        self, caps: Caps | None = None, record_usage: UsageRecorder | None = None, parent: Budget | None = None
    ) -> None:
        self.caps = caps or Caps()
        self.spent: dict[str, Usage] = {}  # by scope: a step, a method, a role
        self.saved: dict[str, Usage] = {}  # by the memo
        self.total = Usage()
        self._record_usage = record_usage
        self._parent = parent
        self._in_flight: list[Usage] = []
        self._measured_scopes: set[str] = set()  # scopes of which somebody knows what a reply costs
        self._longest_reply = 0  # tokens in a reply so far
        self._tokens_per_byte = 0.0  # the most tokens in a byte of a prompt so far
        self._condition = Condition()

    def reserve(self, scope: str, model: str, prices: Prices, reply: int = DEFAULT_REPLY_TOKENS) -> Reserve:
        """Leave to ask that model for that step, method or role. reply: tokens that a reply may well have."""
        own = partial(self._reserve_here, scope, model, prices, reply)
        return (
            own
            if self._parent is None
            else partial(_reserve_both, own, self._parent.reserve(scope, model, prices, reply))
        )

    @contextmanager
    def _reserve_here(self, scope: str, model: str, prices: Prices, reply: int, size: int) -> Iterator[Charge]:
        guess = self._wait_for_room(scope, size, reply, prices)
        bills: list[Usage] = []
        try:
            yield bills.append
        finally:
            with self._condition:
                self._in_flight.remove(guess)
                for bill in bills:
                    self._charge(scope, bill, reply, size)
                    if self._parent is None:  # which says it, too
                        log.info("%s: %s, %d + %d tokens, %.1f s", scope, model, *_log_values(bill))
                self._condition.notify_all()
            if self._record_usage:
                for bill in bills:
                    self._record_usage("spent", scope, model, bill, size)

    def record_saved(self, scope: str, model: str, usage: Usage) -> None:
        """Note what a remembered reply saved."""
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
                guess = self._estimate(size, reply, prices)
                least = Usage(1, guess.prompt_tokens // 2, cost=prices.cost(guess.prompt_tokens // 2, 0, 0))
                if reached := self.caps.reached_by(self.total + least, over=True):
                    raise BudgetExceeded(f"capped: not asked, since it would go beyond --max-{reached}")
                if self._fits(scope, guess):
                    self._in_flight.append(guess)
                    return guess
                self._condition.wait()

    def _fits(self, scope: str, guess: Usage) -> bool:
        """Whether all that is under way and this together stay under the caps; one alone may be what reaches them."""
        if not self._in_flight:
            return True
        if scope not in self._measured_scopes and (self.caps.tokens is not None or self.caps.cost is not None):
            return False
        return not self.caps.reached_by(sum(self._in_flight, self.total + guess), over=True)

    def _estimate(self, size: int, reply: int, prices: Prices) -> Usage:
        prompt, reply = (
            int(size * (self._tokens_per_byte or _TOKENS_PER_BYTE)),
            max(reply, self._longest_reply if reply else 0),
        )
        return Usage(1, prompt, 0, reply, prices.cost(prompt, 0, reply))

    def _charge(self, scope: str, bill: Usage, reply: int, size: int) -> None:
        self.spent[scope] = self.spent.get(scope, Usage()) + bill
        self.total += bill
        if bill.completion_tokens or not reply:  # an answer that broke off tells nothing
            self._measured_scopes.add(scope)
        self._longest_reply = max(self._longest_reply, bill.completion_tokens)
        self._tokens_per_byte = max(self._tokens_per_byte, bill.prompt_tokens / size if size else 0.0)


@contextmanager
def _reserve_both(own: Reserve, within: Reserve, size: int) -> Iterator[Charge]:
    """Leave by both purses, who are both told what it cost."""
    with own(size) as noted, within(size) as paid:

        def bill(usage: Usage) -> None:
            noted(usage)
            paid(usage)

        yield bill


def _log_values(bill: Usage) -> tuple[int, int, float]:
    return bill.prompt_tokens, bill.completion_tokens, bill.seconds
