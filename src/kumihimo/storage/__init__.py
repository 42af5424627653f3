"""tables -> an index on disk: its store, whose transactions are connections to a database."""

from contextlib import AbstractContextManager
from typing import Protocol

from kumihimo.core.cancel import CancelToken
from kumihimo.storage.database import Database


class Store(Protocol):
    """Where the tables of one index are."""

    @property
    def location(self) -> str: ...  # for messages
    def exists(self) -> bool: ...
    def is_read_only(self) -> bool: ...
    def size(self) -> int: ...  # bytes
    def read_transaction(self, cancel: CancelToken | None = None) -> AbstractContextManager[Database]:
        """Open a snapshot of one finished build.

        cancel: stops its statements, which raise Cancelled. Raises IndexUnavailable without an index.
        """

    def write_transaction(
        self, *, wait: bool = False, rebuild: bool = False, cancel: CancelToken | None = None
    ) -> AbstractContextManager[Database]:
        """Open the transaction of a build, which readers see when it ends.

        wait: for another build; without it, IndexBusy is raised. rebuild: drop what can be built again, also in an
        index of an older version.
        """

    def rewrite(self, *, wait: bool = False) -> None:
        """Leave nothing of deleted rows.

        Raises IndexBusy while others use the index; wait: until they end.
        """

    def close(self) -> None: ...
