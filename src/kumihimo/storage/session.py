"""statements on a connection -> a transaction that its caller can cancel, and release during an LLM call."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock, RLock
from typing import Any, Protocol, TypeVar

from kumihimo.core.cancel import CancelToken, check_cancelled
from kumihimo.core.errors import IndexChanged

T = TypeVar("T")


class Connection(Protocol):
    """An open connection to a database, which runs our SQL: `?` stands for each value.

    error: what it raises if a statement fails or is interrupted.
    """

    @property
    def error(self) -> type[Exception]: ...
    def all(self, sql: str, *values: object) -> list[tuple[Any, ...]]: ...
    def all_in(self, sql: str, values: Sequence[object], rest: str = "") -> list[tuple[Any, ...]]:
        """Return the rows with one of many values.

        sql: ends with the name of the column. rest: what follows the test.
        """

    def run(self, sql: str, *values: object) -> int: ...  # the number of rows
    def many(self, sql: str, rows: Iterable[Sequence[object]]) -> int: ...
    def microseconds(self) -> int: ...  # since 1970, by the clock that all processes share
    def begin(self, *, only_reads: bool) -> None: ...
    def commit(self, *, only_reads: bool) -> None: ...
    def interrupt(self) -> None: ...  # from another thread
    def build_id(self) -> Hashable: ...  # what tells the present build from others
    def close(self) -> None: ...


@dataclass(slots=True)
class Session:
    """The transaction of one command on one connection, for all its threads.

    cancel: stops it between two statements, and in the middle of one.
    """

    connection: Connection
    lock: RLock
    only_reads: bool = True
    cancel: CancelToken | None = None
    is_open: bool = False
    is_over: bool = False
    _running: int = 0  # statements, one inside the other
    _speaking: int = 0  # requests to models that are under way
    _build: Hashable = None  # that it reads, once it was released
    _interrupt_lock: Lock = field(default_factory=Lock)
    _forget_token: Callable[[], None] = lambda: None

    def begin(self) -> None:
        """Open the transaction."""
        if self.cancel:
            self._forget_token = self.cancel.on_cancel(self._interrupt)
        self.connection.begin(only_reads=self.only_reads)
        self.is_open = True

    def run(self, statement: Callable[[], T]) -> T:
        """Run a statement in the transaction."""
        try:
            with self.lock:
                self._enter()
                try:
                    return statement()
                finally:
                    self._running -= 1
        except self.connection.error:
            check_cancelled(self.cancel)
            raise
        finally:
            if self._speaking:
                self._pause()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other threads from the connection."""
        try:
            with self.lock:
                yield
        finally:
            if self._speaking:
                self._pause()

    @contextmanager
    def released(self) -> Iterator[None]:
        """Hold no transaction during an LLM call.

        The next statement opens it again; a statement in another thread opens it for itself alone. It raises
        IndexChanged if another build has ended meanwhile.
        """
        with self._interrupt_lock:
            self._speaking += 1
        try:
            self._pause()
            yield
        finally:
            with self._interrupt_lock:
                self._speaking -= 1

    def end(self) -> None:
        """Commit what is open, and forget the token."""
        with self.lock:
            self.stop()
            if self.is_open:
                self.is_open = False
                self.connection.commit(only_reads=self.only_reads)

    def stop(self) -> None:
        """Forget the token, and let no request release the transaction."""
        self._forget_token()
        with self._interrupt_lock:  # from here on the connection may serve another command
            self.is_over = True

    def _interrupt(self) -> None:
        with self._interrupt_lock:
            if not self.is_over:
                self.connection.interrupt()

    def _enter(self) -> None:
        if self.cancel:
            self.cancel.check()
        if not self.is_open and not self.is_over:
            self._resume()
        self._running += 1

    def _resume(self) -> None:
        """Open the transaction again. Raise IndexChanged if the index changed."""
        self.connection.begin(only_reads=self.only_reads)
        self.is_open = True
        if self.connection.build_id() != self._build:
            raise IndexChanged("another build has ended in the middle of the question: ask again")

    def _pause(self) -> None:
        """Release the transaction; a running statement does so at its end."""
        while self.is_open and self.lock.acquire(blocking=False):
            try:
                if self.is_over or self._running or not self.is_open:
                    return
                if self._build is None:
                    self._build = self.connection.build_id()
                self.is_open = False
                self.connection.commit(only_reads=self.only_reads)
            finally:
                self.lock.release()
