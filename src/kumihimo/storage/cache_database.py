"""the tables of a response cache -> rows, transactions that write, and claims on keys between processes.

Claims are locks of the system on the bytes of a file. A claim costs no write, and the system frees the claims of a
process that is killed.
"""

import logging
import os
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import Event, Lock
from typing import Any, Protocol, Self
from zlib import crc32

from kumihimo.core.errors import IndexUnavailable
from kumihimo.storage.session import Connection

_POLL_SECONDS = 0.05
_WARNING_POLLS = 40  # 2 seconds
_MAX_POLLS = (
    12_000  # 10 minutes; then a process with a claim may be stopped, such as by Ctrl-Z: its keys are fetched again
)
_ARE_OF_PROCESS = sys.platform not in ("linux", "win32")  # POSIX locks: all are freed when it closes the file once
log = logging.getLogger("kumihimo")

if sys.platform == "linux":
    import fcntl

    def _set_lock(file: int, offset: int, *, locked: bool) -> None:
        """Lock or unlock a byte, for this open file alone."""
        kind = fcntl.F_WRLCK if locked else fcntl.F_UNLCK
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", kind, os.SEEK_SET, offset, 1, 0))

elif sys.platform == "win32":
    import msvcrt

    def _set_lock(file: int, offset: int, *, locked: bool) -> None:
        """Lock or unlock a byte."""
        os.lseek(file, offset, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_NBLCK if locked else msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _set_lock(file: int, offset: int, *, locked: bool) -> None:
        """Lock or unlock a byte for this process."""
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB if locked else fcntl.LOCK_UN, 1, offset)


class Locks(Protocol):
    """Locks between processes, which end with this one."""

    def try_lock(self, numbers: Iterable[int]) -> set[int]: ...  # those that were free
    def unlock(self, numbers: set[int]) -> None: ...
    def close(self) -> None: ...


class _LockFile:
    """An open file, and the bytes of it that threads have locked.

    users: how many claims have it open.
    """

    def __init__(self, path: str) -> None:
        self.path, self.users = path, 0
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        self.offsets: set[int] = set()
        self.lock = Lock()

    def try_lock(self, offsets: Iterable[int]) -> set[int]:
        """Lock the free bytes, and return their offsets."""
        claimed: set[int] = set()
        with self.lock:
            for offset in set(offsets) - self.offsets:
                try:
                    _set_lock(self.descriptor, offset, locked=True)
                except (BlockingIOError, PermissionError):  # another process has it
                    continue
                claimed.add(offset)
            self.offsets |= claimed
        return claimed

    def unlock(self, offsets: set[int]) -> None:
        """Unlock bytes that `try_lock` has locked."""
        with self.lock:
            for offset in offsets:
                _set_lock(self.descriptor, offset, locked=False)
            self.offsets -= offsets

    def close(self) -> None:
        """Close the file with its last claim."""
        with _shared_lock:
            self.users -= 1
            if not self.users:
                _shared_files.pop(self.path, None)
                os.close(self.descriptor)


_shared_files: dict[str, _LockFile] = {}  # only where locks belong to a process, which may close a file but once
_shared_lock = Lock()


def _open_lock_file(path: Path) -> _LockFile:
    key = os.path.realpath(path)
    with _shared_lock:
        file = _shared_files.get(key) or _LockFile(key)
        if _ARE_OF_PROCESS:
            _shared_files[key] = file
        file.users += 1
    return file


class KeyClaims:
    """Claims on the keys of one cache, by threads and processes.

    open_locks: called before the first claim.
    """

    def __init__(self, open_locks: Callable[[], Locks]) -> None:
        self._open_locks = open_locks
        self._lock, self._closed = Lock(), Event()
        self._locked_offsets: set[int] = set()  # of the bytes that threads have locked by these claims
        self._file: Locks | None = None
        self._has_warned = False

    @classmethod
    def in_file(cls, path: Path) -> Self:
        """Return claims by locks on the bytes of a file."""
        return cls(lambda: _open_lock_file(path))

    @contextmanager
    def claim(self, keys: Sequence[bytes]) -> Iterator[list[bytes]]:
        """Wait until some of the keys are free, and claim those.

        While a caller waits it has no claim, so that no two of them wait for each other.
        """
        polls = 0
        while not (offsets := self._try_claim(keys)) and polls < _MAX_POLLS:
            self._note_wait(polls)
            self._closed.wait(_POLL_SECONDS)
            polls += 1
        try:
            yield [key for key in keys if _lock_offset(key) in offsets] if offsets else list(keys)
        finally:
            self._release(offsets)

    def close(self) -> None:
        """Free all claims; waiting callers raise IndexUnavailable."""
        with self._lock:
            self._closed.set()
            if self._file is not None:
                self._file.unlock(self._locked_offsets)
                self._file.close()
            self._file, self._locked_offsets = None, set()

    def _try_claim(self, keys: Iterable[bytes]) -> set[int]:
        """Lock the free keys, and return the offsets of their bytes."""
        with self._lock:
            if self._closed.is_set():
                raise IndexUnavailable("the cache was closed while a request waited for a reply")
            if self._file is None:
                self._file = self._open_locks()
            claimed = self._file.try_lock(map(_lock_offset, keys))
            self._locked_offsets |= claimed
        return claimed

    def _note_wait(self, polls: int) -> None:
        """Log that a caller waits; after some seconds, warn once."""
        if polls == 0:
            log.info("waiting for a reply that another process or thread has requested")
        elif polls == _WARNING_POLLS and not self._has_warned:
            self._has_warned = True
            log.warning("waiting for replies that another process has requested; they are not paid for twice")

    def _release(self, offsets: set[int]) -> None:
        with self._lock:
            if self._file is not None:
                self._file.unlock(offsets & self._locked_offsets)
            self._locked_offsets -= offsets


def _lock_offset(key: bytes) -> int:
    """Return the offset of a key's byte.

    Keys that share one wait for each other, which does no harm. Windows locks the first 2**31 bytes only.
    """
    return crc32(key) >> 1


class SharedTables(Protocol):
    """Tables beside an index, which processes write one after the other.

    A failure raises IndexUnavailable with a remedy. What is closed is opened again when it is used.
    """

    def exists(self) -> bool: ...
    def prepare(self) -> None: ...  # the tables that are missing
    def write(self) -> AbstractContextManager[Connection]: ...  # one transaction
    def close(self) -> None: ...


class CacheDatabase(SharedTables, Protocol):
    """The storage of cached replies, prepared before anything is paid.

    claims: on keys, between processes. location: for messages.
    """

    claims: KeyClaims
    location: str

    def is_writable(self) -> bool: ...  # an absent one may be created
    def has_table(self, name: str) -> bool: ...
    def read(self) -> AbstractContextManager[Connection | None]: ...  # none without a cache
    def write(self, *, synced: bool = False, erasing: bool = False) -> AbstractContextManager[Connection]:
        """Open a transaction.

        synced: it is on disk when it ends. erasing: what it deletes is overwritten.
        """

    def shrink(self) -> bool: ...  # free the space of deleted rows; False while an earlier state is read
    def check(self, is_reply: Callable[[object], bool], *, repair: bool) -> list[str]:
        """Return what is damaged.

        is_reply: whether a stored value can be read. repair: keep only what can be.
        """

    def select(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a query; none without a cache."""
        with self.read() as db:
            return db.all(sql, *values) if db else []

    def select_in(self, sql: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        """Return the rows with one of many values, as `Connection.all_in` does."""
        with self.read() as db:
            return db.all_in(sql, values) if db and values else []
