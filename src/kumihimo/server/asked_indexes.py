"""the access to one index, or to several -> what answers a question to them, with the rights of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TypeVar

from fastapi import Request

from kumihimo.app.async_facade import AsyncKumihimo
from kumihimo.app.questions import Questions
from kumihimo.app.several import SeveralIndexes
from kumihimo.app.snapshot import Snapshot
from kumihimo.core.errors import SettingsError
from kumihimo.llm.budget import Budget, JointBudget
from kumihimo.server.access import Access, find_access

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AskedIndexes:
    """The indexes that a question asks together; the first one leads."""

    accesses: tuple[Access, ...]

    @property
    def first(self) -> Access:
        return self.accesses[0]

    @property
    def facade(self) -> Questions:
        """Return the index, or several with the rights of each."""
        if len(self.accesses) == 1:
            return self.first.served.kumi
        indexes = {access.served.name: access.served.kumi for access in self.accesses}
        return SeveralIndexes(indexes, rights={access.served.name: access.rights for access in self.accesses})

    @property
    def questions(self) -> AsyncKumihimo:
        """Return the facade for asyncio, in places of the first index."""
        questions = self.first.served.questions
        return questions if len(self.accesses) == 1 else questions.asking(self.facade)

    @property
    def rights(self) -> str:
        """Return the rights of the question itself."""
        return self.first.rights if len(self.accesses) == 1 else ""

    def new_budget(self) -> Budget | None:
        """Return the budget of a request, for the key in each index."""
        budgets = [access.grant.new_budget() for access in sorted(self.accesses, key=attrgetter("served.name"))]
        paying = [budget for budget in budgets if budget]
        return JointBudget(paying) if len(paying) > 1 else next(iter(paying), None)

    async def read(self, read: Callable[[Snapshot], T]) -> T:
        """Return the result of a read of what the sender may see."""

        def read_with_rights(_: object) -> T:
            with self.facade.snapshot(rights=self.rights) as snapshot:
                return read(snapshot)

        return await self.first.served.questions.run(read_with_rights)


def find_asked(request: Request, access: Access, more: Sequence[str]) -> AskedIndexes:
    """Return the index of an address and further ones, by name.

    Raises NotFound as `find_access`, and SettingsError for a repeated name.
    """
    names = [access.served.name, *more]
    if repeated := next((name for n, name in enumerate(names) if name in names[:n]), ""):
        raise SettingsError(f"the index {repeated} is named twice: name each index once")
    return AskedIndexes((access, *(find_access(request, name) for name in more)))
