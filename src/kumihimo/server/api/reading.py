"""a request + its access -> what a function reads from the index, with the rights of the sender."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from fastapi import Request

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.facade import Kumihimo
from kumihimo.core.errors import SettingsError, describe_unknown
from kumihimo.core.wiring import ROOT
from kumihimo.server.access import Access
from kumihimo.server.disconnect import cancel_on_disconnect
from kumihimo.server.problems import NotFound

T = TypeVar("T")


async def read_index(request: Request, access: Access, read: Callable[[Snapshot], T]) -> T:
    """Return the result of a read; a client that leaves ends it."""
    return await cancel_on_disconnect(request, read_snapshot(access, read))


async def read_snapshot(access: Access, read: Callable[[Snapshot], T]) -> T:
    """Return the result of a read of what the sender may see."""

    def read_with_rights(kumi: Kumihimo) -> T:
        with kumi.snapshot(rights=access.rights) as snapshot:
            return read(snapshot)

    return await access.served.questions.run(read_with_rights)


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
