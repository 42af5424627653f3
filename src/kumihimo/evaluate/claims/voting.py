"""a question asked several times over -> what most replies say, and how each of them went."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from kumihimo.core.errors import ItemFailed, UnparsableReply

T = TypeVar("T")
VOTE_TEMPERATURE = 0.2  # where the same is asked several times


def vote_settings(votes: int) -> dict[str, Any]:
    """Of the model: one that is asked once is asked as it is set."""
    return {"temperature": VOTE_TEMPERATURE} if votes > 1 else {}


def votes_needed(votes: int) -> int:
    """
    >>> [majority(votes) for votes in (1, 2, 3, 5)]
    [1, 2, 2, 3]
    """
    return votes // 2 + 1


def classify_failure(failure: ItemFailed) -> Literal["invalid", "failed"]:
    """Whether there were replies, which could not be read, or none."""
    return "invalid" if isinstance(failure, UnparsableReply) else "failed"


@dataclass(slots=True)
class Poll(Generic[T]):
    """The replies that were asked for, until no further one could change what most of them say."""

    votes: int
    accepted: list[T] = field(default_factory=list)
    rejected: list[T] = field(default_factory=list)
    failures: list[ItemFailed] = field(default_factory=list)

    @property
    def is_settled(self) -> bool:
        needed = votes_needed(self.votes)
        return len(self.accepted) >= needed or len(self.rejected) > self.votes - needed

    @property
    def outcome(self) -> Literal["yes", "no", "invalid", "failed"]:
        """Without enough of either: what was wrong with the replies that are missing."""
        if len(self.accepted) >= votes_needed(self.votes):
            return "yes"
        if len(self.accepted) + len(self.failures) < votes_needed(self.votes):
            return "no"
        return "failed" if any(classify_failure(each) == "failed" for each in self.failures) else "invalid"

    @property
    def failure_notes(self) -> list[str]:
        return [f"{classify_failure(each)}: {each}" for each in self.failures]


def poll_replies(
    get_reply: Callable[[int], T], accepts: Callable[[T], bool], votes: int, *, all_votes: bool = False
) -> Poll[T]:
    """Ask for reply 0, 1, ...; those that pass are ayes. every: all of them, for it matters what each of them says."""
    held = Poll[T](votes)
    for n in range(votes):
        if held.is_settled and not all_votes:
            break
        try:
            reply = get_reply(n)
        except ItemFailed as failure:
            held.failures.append(failure)
        else:
            (held.accepted if accepts(reply) else held.rejected).append(reply)
    return held
