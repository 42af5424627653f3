"""statements on a connection -> a transaction that its caller can cancel, and release while a model speaks."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock, RLock
from typing import TypeVar

from kumihimo.core.cancel import CancelToken, check_cancelled
from kumihimo.core.errors import IndexChanged

T = TypeVar("T")
_STEPS_BETWEEN_LOOKS = 1_000_000  # of SQLite's machine: some hundredths of a second


@dataclass(slots=True)
class Session:
    """The transaction of one command on one connection, for all its threads.

    begins_with: the statement that opens it. cancel: stops it between two statements, and in the middle of one.
    on_release: called whenever nothing is open any more.
    """

    connection: sqlite3.Connection
    lock: RLock
    begins_with: str = "BEGIN"
    cancel: CancelToken | None = None
    on_release: Callable[[], None] = lambda: None
    tables: frozenset[str] | None = None  # what the file has, once a transaction that only reads has looked
    is_open: bool = False
    is_over: bool = False
    _running: int = 0  # statements, one inside the other
    _speaking: int = 0  # requests to models that are under way
    _version: int = -1  # of the file, when the transaction was released
    _facts: object = None  # about the index, then
    _interrupt_lock: Lock = field(default_factory=Lock)
    _forget_token: Callable[[], None] = lambda: None

    @property
    def only_reads(self) -> bool:
        return self.begins_with == "BEGIN"

    def begin(self) -> None:
        """Open the transaction."""
        if self.cancel:
            cancel = self.cancel
            self._forget_token = cancel.on_cancel(self._interrupt)
            if cancel.seconds_left is not None:  # nobody may look at the clock while a statement runs
                self.connection.set_progress_handler(lambda: cancel.is_cancelled, _STEPS_BETWEEN_LOOKS)
        self.connection.execute(self.begins_with)
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
        except sqlite3.OperationalError:
            self._check_cancelled()
            raise
        finally:
            if self._speaking:
                self._pause()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Keep the transaction open while a cursor is read."""
        try:
            with self.locked():
                self._enter()
                try:
                    yield
                finally:
                    self._running -= 1
        except sqlite3.OperationalError:
            self._check_cancelled()
            raise

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
        """Hold no transaction while a model speaks.

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
                self._commit()

    def stop(self) -> None:
        """Forget the token, and let no request release the transaction."""
        self._forget_token()
        with self._interrupt_lock:  # from here on the connection may serve another command
            self.is_over = True
        if self.cancel:
            self.connection.set_progress_handler(None, 0)

    def _interrupt(self) -> None:
        with self._interrupt_lock:
            if not self.is_over:
                self.connection.interrupt()

    def _check_cancelled(self) -> None:
        check_cancelled(self.cancel)

    def _enter(self) -> None:
        self._check_cancelled()
        if not self.is_open and not self.is_over:
            self._resume()
        self._running += 1

    def _resume(self) -> None:
        """Open the transaction again. Raise IndexChanged if the index changed."""
        self.connection.execute(self.begins_with)
        self.is_open = True
        if (version := self._data_version()) != self._version:
            self._version = version  # also changes where the log begins again
            if self._read_facts() != self._facts:
                raise IndexChanged("another build has ended in the middle of the question: ask again")

    def _pause(self) -> None:
        """Release the transaction; a running statement does so at its end."""
        while self.is_open and self.lock.acquire(blocking=False):
            try:
                if self.is_over or self._running or not self.is_open:
                    return
                if self._version == -1:
                    self._version, self._facts = self._data_version(), self._read_facts()
                self._commit()
            finally:
                self.lock.release()

    def _commit(self) -> None:
        self.is_open = False
        self.connection.execute("COMMIT")
        self.on_release()

    def _data_version(self) -> int:
        return int(self.connection.execute("PRAGMA data_version").fetchone()[0])

    def _read_facts(self) -> object:
        """Return the checksums of all tables, and other facts about the build."""
        return self.connection.execute("SELECT name, value FROM meta ORDER BY name").fetchall()
