"""a visit + a function -> what it reads from the index, or the value of an index that is still empty."""

from collections.abc import Callable
from typing import TypeVar

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.server.api.reading import read_index
from kumihimo.server.pages.rendering import Visit

T = TypeVar("T")


async def read_or(visit: Visit, empty: T, read: Callable[[Snapshot], T]) -> T:
    """Return what a function reads; `empty` before the first build."""
    if not visit.access.served.kumi.store.exists():
        return empty
    return await read_index(visit.request, visit.access, read)
