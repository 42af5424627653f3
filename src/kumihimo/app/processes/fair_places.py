"""callers with keys -> places, in turn by key: the many calls of one do not keep out another."""

from collections import Counter, deque
from collections.abc import Callable

Begin = Callable[[], object]


class FairPlaces:
    """A number of places for calls, and some to spare: for keys that have none.

    So one key may take all of them, and the first call of another one begins at once. Then the keys take turns. For one
    thread at a time.

    >>> order, places = list[str](), FairPlaces(1, spare=0)
    >>> for call in ("a1", "a2", "a3", "b1"):
    ...     places.ask(call[0], lambda call=call: order.append(call))
    >>> for key in "aba":
    ...     places.leave(key)
    >>> order
    ['a1', 'a2', 'b1', 'a3']
    """

    def __init__(self, count: int, spare: int = 1) -> None:
        self._count, self._spare = count, spare
        self._held = Counter[str]()
        self._waiting: dict[str, deque[Begin]] = {}  # in the order of the turns

    @property
    def running(self) -> int:
        """Return how many calls have a place."""
        return self._held.total()

    @property
    def waiting(self) -> int:
        """Return how many calls wait for one."""
        return sum(map(len, self._waiting.values()))

    def ask(self, key: str, begin: Begin) -> None:
        """Ask for a place.

        begin: is called as soon as there is one, perhaps at once.
        """
        self._waiting.setdefault(key, deque()).append(begin)
        self._fill()

    def withdraw(self, key: str, begin: Begin) -> None:
        """Wait no more."""
        calls = self._waiting[key]
        calls.remove(begin)
        if not calls:
            del self._waiting[key]

    def leave(self, key: str) -> None:
        """Give a place back."""
        self._held[key] -= 1
        self._fill()

    def _fill(self) -> None:
        """Give places to the next calls."""
        while (key := next(filter(self._may_begin, self._waiting), None)) is not None:
            calls = self._waiting.pop(key)
            self._held[key] += 1
            begin = calls.popleft()
            if calls:
                self._waiting[key] = calls  # behind the other keys
            begin()

    def _may_begin(self, key: str) -> bool:
        places = self._count + (0 if self._held[key] else self._spare)
        return self.running < places
