"""values computed from a build -> the same values for all connections of a process, until the index changes."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from threading import Lock, RLock
from typing import Any, TypeVar

from kumihimo.core.cancel import locked

T = TypeVar("T")
_MAX_VALUES = 64
_MAX_WEIGHT = 500_000  # rows that all values hold together: about 400 MB


@dataclass(slots=True)
class _Entry:
    """A value, and the lock of the thread that computes it."""

    lock: RLock = field(default_factory=RLock)
    value: Any = None
    is_computed: bool = False


@dataclass(slots=True)
class BuildMemory:
    """The values of the last two builds; those used last are kept.

    A value with many rows has an attribute `weight`, their number.
    """

    versions: tuple[Hashable, ...] = ()
    entries: OrderedDict[tuple[Hashable, Hashable], _Entry] = field(default_factory=OrderedDict)
    lock: Lock = field(default_factory=Lock)

    def get(self, version: Hashable, key: Hashable, compute: Callable[[], T], check: Callable[[], None]) -> T:
        """Return a value of a build, which one thread computes.

        check: raises if a thread that waits for the value is to stop.
        """
        entry = self._find(version, key)
        if not entry.is_computed:
            with locked(entry.lock, check):
                if not entry.is_computed:  # by another thread meanwhile
                    entry.value = compute()
                    entry.is_computed = True
        value: T = entry.value
        return value

    def _find(self, version: Hashable, key: Hashable) -> _Entry:
        with self.lock:
            if version not in self.versions:
                self.versions = (*self.versions[-1:], version)
                for old in [name for name in self.entries if name[0] not in self.versions]:
                    del self.entries[old]
            entry = self.entries.setdefault((version, key), _Entry())
            self.entries.move_to_end((version, key))
            weight = sum(getattr(other.value, "weight", 0) for other in self.entries.values())
            while len(self.entries) > 1 and (len(self.entries) > _MAX_VALUES or weight > _MAX_WEIGHT):
                _, oldest = self.entries.popitem(last=False)
                weight -= getattr(oldest.value, "weight", 0)
            return entry
