"""the tables of a response cache -> rows, and transactions that write: in a file, or in a schema of a database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from kumihimo.storage.key_claims import KeyClaims


class CacheWriter(Protocol):
    """A transaction that writes."""

    def all(self, sql: str, *values: object) -> list[tuple[Any, ...]]: ...
    def run(self, sql: str, *values: object) -> int: ...  # the number of rows
    def many(self, sql: str, rows: Iterable[Sequence[object]]) -> int: ...
    def microseconds(self) -> int: ...  # since 1970, by the clock that all processes share


class CacheDatabase(Protocol):
    """The storage of cached replies.

    claims: on keys, between processes. A failure raises IndexUnavailable with a remedy.
    """

    claims: KeyClaims

    @property
    def location(self) -> str: ...  # for messages
    def exists(self) -> bool: ...
    def is_writable(self) -> bool: ...  # an absent one may be created
    def prepare(self) -> None: ...  # so that writing succeeds: before anything is paid
    def has_table(self, name: str) -> bool: ...
    def select(self, sql: str, *values: object) -> list[tuple[Any, ...]]: ...  # no rows without a cache
    def select_in(self, sql: str, values: Sequence[object]) -> list[tuple[Any, ...]]: ...  # with `IN (?)`
    def write(self, *, synced: bool = False, erasing: bool = False) -> AbstractContextManager[CacheWriter]:
        """Open a transaction.

        synced: it is on disk when it ends. erasing: what it deletes is overwritten.
        """

    def shrink(self) -> bool: ...  # free the space of deleted rows; False while an earlier state is read
    def check(self, is_reply: Callable[[object], bool], *, repair: bool) -> list[str]:
        """Return what is damaged.

        is_reply: whether a stored value can be read. repair: keep only what can be.
        """

    def disconnect(self) -> None: ...
    def close(self) -> None: ...
