"""a question asked several times over -> what most replies say, and how each of them went."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from kumihimo.core.errors import ItemFailed, Unreadable

T = TypeVar("T")
TEMPERATURE = 0.2  # where the same is asked several times


def settings(votes: int) -> dict[str, Any]:
    """Of the model: one that is asked once is asked as it is set."""
    return {"temperature": TEMPERATURE} if votes > 1 else {}


def majority(votes: int) -> int:
    """
    >>> [majority(votes) for votes in (1, 2, 3, 5)]
    [1, 2, 2, 3]
    """
    return votes // 2 + 1


def trouble(failure: ItemFailed) -> Literal["invalid", "failed"]:
    """Whether there were replies, which could not be read, or none."""
    return "invalid" if isinstance(failure, Unreadable) else "failed"


@dataclass(slots=True)
class Poll(Generic[T]):
    """The replies that were asked for, until no further one could change what most of them say."""

    votes: int
    ayes: list[T] = field(default_factory=list)
    noes: list[T] = field(default_factory=list)
    without: list[ItemFailed] = field(default_factory=list)

    @property
    def settled(self) -> bool:
        needed = majority(self.votes)
        return len(self.ayes) >= needed or len(self.noes) > self.votes - needed

    @property
    def outcome(self) -> Literal["yes", "no", "invalid", "failed"]:
        """Without enough of either: what was wrong with the replies that are missing."""
        if len(self.ayes) >= majority(self.votes):
            return "yes"
        if len(self.ayes) + len(self.without) < majority(self.votes):
            return "no"
        return "failed" if any(trouble(each) == "failed" for each in self.without) else "invalid"

    @property
    def troubles(self) -> list[str]:
        return [f"{trouble(each)}: {each}" for each in self.without]


def poll(ask: Callable[[int], T], passes: Callable[[T], bool], votes: int, *, every: bool = False) -> Poll[T]:
    """Ask for reply 0, 1, ...; those that pass are ayes. every: all of them, for it matters what each of them says."""
    held = Poll[T](votes)
    for n in range(votes):
        if held.settled and not every:
            break
        try:
            reply = ask(n)
        except ItemFailed as failure:
            held.without.append(failure)
        else:
            (held.ayes if passes(reply) else held.noes).append(reply)
    return held
