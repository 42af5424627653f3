"""tables -> an index on disk: what the packages above may do with it, without SQL and connections."""

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from kumihimo.core.cancel import CancelToken
from kumihimo.core.table import Rows

T = TypeVar("T")


class StorageError(Exception):
    """A failure of a store without a known remedy, such as a full disk."""


class IndexTransaction(Protocol):
    """One transaction over the tables of an index."""

    def has(self, table: str) -> bool: ...
    def rows(self, table: str) -> Rows: ...
    def values(self, table: str, id: str, *columns: str) -> Sequence[Any]: ...  # None for each where there is no row
    def values_in(self, table: str, ids: Sequence[str], *columns: str) -> list[Any]: ...  # of the rows that exist

    # facts about the index, such as its sources and models
    def meta(self, name: str, default: Any = None) -> Any: ...
    def set_meta(self, name: str, value: object) -> None: ...
    def meta_names(self, *beginnings: str) -> list[str]: ...  # of facts that begin so, sorted

    # the state of the last build
    def fingerprints(self) -> dict[str, str]: ...  # by step
    def failures(self) -> tuple[tuple[str, str, str], ...]: ...  # (step, item, error)

    def once_per_build(self, key: Hashable, compute: Callable[[], T]) -> T: ...  # only while reading
    def check_cancelled(self) -> None: ...
    def released(self) -> AbstractContextManager[None]: ...  # while a model speaks
    def documents_with(self, key: str) -> Sequence[tuple[str, Any]]: ...  # (uri, value of this metadata key)
    def rolled_back(self) -> AbstractContextManager[None]: ...  # undoes every change made inside it


class Store(Protocol):
    """Where the tables of one index are."""

    @property
    def location(self) -> str: ...  # for messages
    def exists(self) -> bool: ...
    def is_read_only(self) -> bool: ...
    def size(self) -> int: ...  # bytes
    def read_transaction(self, cancel: CancelToken | None = None) -> AbstractContextManager[IndexTransaction]:
        """Open a snapshot of one finished build.

        cancel: stops its statements, which raise Cancelled. Raises IndexUnavailable without an index.
        """

    def write_transaction(
        self, *, wait: bool = False, rebuild: bool = False, cancel: CancelToken | None = None
    ) -> AbstractContextManager[IndexTransaction]:
        """Open the transaction of a build, which readers see when it ends.

        wait: for another build; without it, IndexBusy is raised. rebuild: drop what can be built again, also in an
        index of an older version.
        """

    def rewrite(self, *, wait: bool = False) -> None:
        """Leave nothing of deleted rows.

        Raises IndexBusy while others use the index; wait: until they end.
        """

    def close(self) -> None: ...
