"""caps -> permission to send a request: what was spent, by scope, and what remains.

Each request is reserved before it is sent, and settled after it, by the ledger of its budget. So a process that is
killed leaves its requests charged as they were estimated.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from threading import Condition
from time import monotonic
from typing import Protocol

from kumihimo.core.cancel import POLL_SECONDS, CancelToken, check_cancelled
from kumihimo.core.errors import BudgetExceeded
from kumihimo.core.usage import Usage
from kumihimo.llm.protocols import FailedTry, Prices, Q, R
from kumihimo.llm.telemetry import model_span, usage_attributes
from kumihimo.storage.response_cache import ResponseCache

log = logging.getLogger("kumihimo")
_TOKENS_PER_BYTE = 0.4  # tokens in a byte of a prompt, until a server has counted some
_NOTHING = Usage()


@dataclass(frozen=True, slots=True)
class Caps:
    """The spending limits; None: no limit."""

    calls: int | None = None
    tokens: int | None = None
    cost: float | None = None

    def reached_by(self, spent: Usage, *, over: bool = False) -> str:
        """Return the cap this usage reaches (`over`: exceeds), else an empty text."""
        for name in ("calls", "tokens", "cost"):
            cap, amount = getattr(self, name), getattr(spent, name)
            if cap is not None and (amount > cap if over else amount >= cap):
                return f"{name} {cap:,}"
        return ""


@dataclass(frozen=True, slots=True)
class Account:
    """The scope and the model that requests are charged to.

    scope: a step, a method or a role. reply: tokens to expect in a reply of unknown length; 0: replies have none.
    """

    scope: str
    model: str
    prices: Prices
    reply: int = 1000


Settle = Callable[[Usage], None]  # replaces the estimate of a request by its usage


class Admit(Protocol):
    """Whether a request may be sent now.

    total: what was spent under the caps, and reserved by other processes; None: what the budget has spent. reserved:
    the latter part. Raises BudgetExceeded if it may never be sent.
    """

    def __call__(self, total: Usage | None = None, reserved: Usage = _NOTHING) -> bool: ...


class UsageLedger(Protocol):
    """Where what is spent is recorded, for all processes."""

    def reserve(self, account: Account, estimate: Usage, size: int, admit: Admit) -> Settle | None:
        """Record the estimate of a request, unless it is not admitted.

        size: bytes of the prompt. Returns None if the request has to wait.
        """

    def record_saved(self, scope: str, model: str, usage: Usage) -> None:
        """Record the usage that a cached reply saved."""


@dataclass(frozen=True, slots=True)
class CacheLedger:
    """The `UsageLedger` of an index: the usage in its response cache, by scope and model."""

    cache: Callable[[], ResponseCache]

    def reserve(self, account: Account, estimate: Usage, size: int, admit: Admit) -> Settle | None:
        return self.record(account, estimate, size) if admit() else None

    def record(self, account: Account, estimate: Usage, size: int) -> Settle:
        """Record the estimate of a request."""
        cache, owner = self.cache(), ("spent", account.scope, account.model)
        try:
            cache.record_usage(*owner, estimate, size, at_once=True)
        except BaseException:  # nothing is sent
            cache.record_usage(*owner, Usage() - estimate, -size)
            raise

        def settle(usage: Usage) -> None:
            cache.record_usage(*owner, usage - estimate, 0 if usage.calls else -size)

        return settle

    def record_saved(self, scope: str, model: str, usage: Usage) -> None:
        self.cache().record_usage("saved", scope, model, usage, 0)


class Budget:
    """The budget of a command, with caps on its spending.

    Requests in flight count with their estimated cost, so that a cap is exceeded by one request at most. Near a cap of
    tokens or cost requests go one by one: the cost of a reply is known only when it has arrived.
    ledger: records what is spent. parent: a budget that pays for this one too, such as that of a command for its
    questions. It has its own caps, and keeps the records. cancel: stops the command; that of the parent by default.
    released: entered while a model is asked, to hold nothing that others wait for; that of the parent at first.
    """

    def __init__(
        self,
        caps: Caps | None = None,
        ledger: UsageLedger | None = None,
        parent: "Budget | None" = None,
        *,
        cancel: CancelToken | None = None,
    ) -> None:
        self.caps = caps or Caps()
        self.spent: dict[str, Usage] = {}  # by scope
        self.saved: dict[str, Usage] = {}  # by the response cache, by scope
        self.total = Usage()
        self.given_up: dict[str, int] = {}  # prompts without a readable reply -> how many replies were read
        self._ledger = ledger
        self.cancel: CancelToken | None = cancel or (parent.cancel if parent else None)
        self.released: Callable[[], AbstractContextManager[object]] = parent.released if parent else nullcontext
        self._parent = parent
        self._in_flight: list[Usage] = []
        self._measured_scopes: set[str] = set()  # scopes with a reply of known cost
        self._longest_reply = 0  # tokens in a reply so far
        self._tokens_per_byte = 0.0  # the most tokens in a byte of a prompt so far
        self._condition = Condition()

    @contextmanager
    def reserve(self, account: Account, size: int, cancel: CancelToken | None = None) -> Iterator[list[Usage]]:
        """Wait until a request fits under the caps.

        At the end it pays the charges that the caller has put into the list. size: bytes of the prompt. cancel: stops
        the wait; that of the budget by default.
        """
        cancel = cancel or self.cancel
        estimate, settle = self._wait_for_room(account, size, cancel)
        charges: list[Usage] = []
        try:
            parent = self._parent.reserve(account, size, cancel) if self._parent else nullcontext(charges)
            with parent as charges:
                yield charges
        finally:
            try:
                settle(sum(charges, Usage()))
            finally:
                with self._condition:
                    self._in_flight.remove(estimate)
                    for usage in charges:
                        self._charge(account, usage, size)
                    self._condition.notify_all()

    def has_room_below(self, calls: int, account: Account, size: int) -> bool:
        """Return whether its caps leave room, but for fewer requests.

        size: bytes of the prompt of each. What another budget pays too is not considered.
        """
        with self._condition:
            estimate = self._estimate(account, size)
            spent = sum(self._in_flight, self.total)
        return bool(not self.caps.reached_by(spent) and self.caps.reached_by(sum([estimate] * calls, spent), over=True))

    def record_saved(self, scope: str, model: str, usage: Usage) -> None:
        """Record the usage that a cached reply saved."""
        with self._condition:
            self.saved[scope] = self.saved.get(scope, Usage()) + usage
        if self._parent:
            self._parent.record_saved(scope, model, usage)
        if self._ledger:
            self._ledger.record_saved(scope, model, usage)

    def _wait_for_room(self, account: Account, size: int, cancel: CancelToken | None) -> tuple[Usage, Settle]:
        """Wait until a request fits; return its estimate and what settles it."""
        with self._condition:
            while True:
                estimate = self._estimate(account, size)
                if settle := self._try_to_reserve(account, estimate, size):
                    self._in_flight.append(estimate)
                    return estimate, settle
                check_cancelled(cancel)
                self._condition.wait(POLL_SECONDS if cancel else None)

    def _try_to_reserve(self, account: Account, estimate: Usage, size: int) -> Settle | None:
        admit = partial(self._admits, account, estimate)
        if self._ledger:
            return self._ledger.reserve(account, estimate, size, admit)
        return (lambda _: None) if admit() else None

    def _admits(
        self, account: Account, estimate: Usage, total: Usage | None = None, reserved: Usage = _NOTHING
    ) -> bool:
        """Return whether a request and those in flight stay under the caps.

        A request alone may reach a cap. It is an `Admit`.
        """
        total = total or self.total
        if reached := self.caps.reached_by(total):
            raise BudgetExceeded(f"capped: not asked, since --max-{reached} was reached")
        least_prompt = estimate.prompt_tokens // 2
        least = Usage(1, least_prompt, cost=account.prices.cost(least_prompt, 0, 0))
        if reached := self.caps.reached_by(total + least, over=True):
            raise BudgetExceeded(f"capped: not asked, since it would go beyond --max-{reached}")
        if not self._in_flight and not reserved.calls:
            return True
        has_caps = self.caps.tokens is not None or self.caps.cost is not None
        if self._in_flight and has_caps and account.scope not in self._measured_scopes:
            return False
        reached = self.caps.reached_by(sum(self._in_flight, total + estimate), over=True)
        if reached and not self._in_flight:
            raise BudgetExceeded(f"capped: not asked, since requests of other processes may reach --max-{reached}")
        return not reached

    def _estimate(self, account: Account, size: int) -> Usage:
        prompt = int(size * (self._tokens_per_byte or _TOKENS_PER_BYTE))
        reply = max(account.reply, self._longest_reply if account.reply else 0)
        return Usage(1, prompt, 0, reply, account.prices.cost(prompt, 0, reply))

    def _charge(self, account: Account, usage: Usage, size: int) -> None:
        self.spent[account.scope] = self.spent.get(account.scope, Usage()) + usage
        self.total += usage
        if usage.completion_tokens or not account.reply:  # a reply that broke off is no measure
            self._measured_scopes.add(account.scope)
        self._longest_reply = max(self._longest_reply, usage.completion_tokens)
        self._tokens_per_byte = max(self._tokens_per_byte, usage.prompt_tokens / size if size else 0.0)
        if self._parent is None:  # which logs it too
            counts = (usage.prompt_tokens, usage.completion_tokens, usage.seconds)
            log.info("%s: %s, %d + %d tokens, %.1f s", account.scope, account.model, *counts)


def budgeted(send: Callable[[Q], R], budget: Budget, account: Account) -> Callable[[Q], R]:
    """Return `send` under the caps of a budget.

    Each reply is charged, and the prompt of each reply that was lost on its way.
    """

    def reserve_and_send(request: Q) -> R:
        started = monotonic()
        with budget.reserve(account, request.size) as charges:
            check_cancelled(budget.cancel)  # the last moment before it costs something
            try:
                with model_span(account.scope, account.model, has_reply=bool(account.reply)) as set_attributes:
                    reply = send(request)
                    set_attributes(usage_attributes(reply.usage))
            except FailedTry as failure:
                if failure.usage:
                    charges.append(failure.usage)
                elif failure.paid:
                    prompt, seconds = request.size // 4, monotonic() - started
                    charges.append(Usage(1, prompt, 0, 0, account.prices.cost(prompt, 0, 0), seconds))
                raise
            charges.append(reply.usage)
            return reply

    return reserve_and_send
