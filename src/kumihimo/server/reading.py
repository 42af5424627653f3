"""a request + its access -> what a function reads from the indexes, until the client leaves."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, TypeVar
from urllib.parse import quote

from fastapi import Request

from kumihimo.app.async_facade import AsyncKumihimo
from kumihimo.app.questions import Questions
from kumihimo.app.several import SeveralIndexes
from kumihimo.app.snapshot import Snapshot
from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import Cancelled, SettingsError, describe_unknown
from kumihimo.core.spans import Span
from kumihimo.core.wiring import ROOT
from kumihimo.llm.budget import Budget
from kumihimo.llm.joint_budget import JointBudget
from kumihimo.server.access import Access, find_access, usable_indexes
from kumihimo.server.problems import NotFound

T = TypeVar("T")


async def cancel_on_disconnect(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine; cancel it when the client leaves.

    The body of the request has been read. Raises Cancelled for a client that has left.
    """
    task, left = asyncio.create_task(work), asyncio.create_task(_wait_for_disconnect(request))
    try:
        await asyncio.wait([task, left], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise Cancelled("the client has left before the answer: ask again")
        return await task
    finally:
        task.cancel()
        left.cancel()
        await asyncio.wait([task, left])


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


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


async def read_index(request: Request, access: Access, read: Callable[[Snapshot], T]) -> T:
    """Return the result of a read; a client that leaves ends it."""
    return await cancel_on_disconnect(request, access.read(read))


def found(row: T | None, kind: str, id: str) -> T:
    """Return the row. Raise NotFound if none is visible."""
    if row is None:
        raise NotFound(f"no {kind} {id[:100]!r}: it may have changed since; list them again")
    return row


def check_search(snapshot: Snapshot, method: str, filter: str, settings: Mapping[str, object]) -> None:
    """Raise every error of a question that its options alone show.

    A name that is no setting would be an option of `ask`: nothing else may pass.
    """
    name = method or snapshot.default_method()
    known = snapshot.method(name).settings
    for setting, value in settings.items():
        if setting not in known:
            raise SettingsError(f"{name} has {describe_unknown('setting', setting, known)}")
        known[setting].parse(name, value)
    if filter.strip():
        snapshot.narrowed(filter).table(ROOT)


def passage_link(request: Request, access: Access) -> Callable[[Span], str]:
    """Return a function: a passage -> the address that marks it."""
    usable = usable_indexes(request)

    def link(span: Span) -> str:
        index = span.index or access.served.name
        part = "" if usable[:1] == [index] else f"indexes/{quote(index, safe='')}/"
        address = f"{request.base_url}{part}documents/{hash_parts(span.uri)}"
        return f"{address}?start={span.start}&end={span.end}#passage"

    return link
