"""several budgets -> one: each of them pays the whole, and each cap holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from kumihimo.core.cancel import CancelToken
from kumihimo.core.usage import Usage
from kumihimo.llm.budget import Account, Budget


class JointBudget(Budget):
    """Budgets that pay together, such as those of a key for several indexes.

    Give them in one order everywhere: a request waits for the first one, then for the next.
    """

    def __init__(self, budgets: Sequence[Budget]) -> None:
        super().__init__()
        self.budgets = budgets

    @contextmanager
    def reserve(self, account: Account, size: int, cancel: CancelToken | None = None) -> Iterator[list[Usage]]:
        """Wait until a request fits under the caps of all."""
        charges: list[Usage] = []
        with ExitStack() as stack:
            shares = [stack.enter_context(budget.reserve(account, size, cancel)) for budget in self.budgets]
            try:
                yield charges
            finally:
                for share in shares:
                    share += charges

    def record_spent(self, scope: str, model: str, usage: Usage) -> None:
        """Record what another process has spent."""
        for budget in self.budgets:
            budget.record_spent(scope, model, usage)

    def record_saved(self, scope: str, model: str, usage: Usage) -> None:
        """Record the usage that a cached reply saved."""
        for budget in self.budgets:
            budget.record_saved(scope, model, usage)
