"""a request sent several times -> the majority verdict, and the replies behind it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from kumihimo.core.errors import ItemFailed, UnparsableReply

T = TypeVar("T")
VOTE_TEMPERATURE = 0.2  # for requests sent several times


def vote_settings(votes: int) -> dict[str, Any]:
    """Return the LLM settings for this number of votes.

    A single request keeps the configured temperature.
    """
    return {"temperature": VOTE_TEMPERATURE} if votes > 1 else {}


def votes_needed(votes: int) -> int:
    """Return the smallest majority of this number of votes.

    >>> [votes_needed(votes) for votes in (1, 2, 3, 5)]
    [1, 2, 2, 3]
    """
    return votes // 2 + 1


def classify_failure(failure: ItemFailed) -> Literal["invalid", "failed"]:
    """Return `invalid` for an unreadable reply, `failed` for a missing one."""
    return "invalid" if isinstance(failure, UnparsableReply) else "failed"


@dataclass(slots=True)
class Poll(Generic[T]):
    """The replies to one request, until more could not change the majority."""

    votes: int
    accepted: list[T] = field(default_factory=list)
    rejected: list[T] = field(default_factory=list)
    failures: list[ItemFailed] = field(default_factory=list)

    @property
    def is_settled(self) -> bool:
        """Return whether further replies cannot change the outcome."""
        needed = votes_needed(self.votes)
        return len(self.accepted) >= needed or len(self.rejected) > self.votes - needed

    @property
    def outcome(self) -> Literal["yes", "no", "invalid", "failed"]:
        """Return `yes` or `no` by majority, else why there is none.

        `failed` if a reply is missing, `invalid` if replies were only unreadable.
        """
        if len(self.accepted) >= votes_needed(self.votes):
            return "yes"
        if len(self.accepted) + len(self.failures) < votes_needed(self.votes):
            return "no"
        return "failed" if any(classify_failure(failure) == "failed" for failure in self.failures) else "invalid"

    @property
    def failure_notes(self) -> list[str]:
        """Return a note on each failed request."""
        return [f"{classify_failure(failure)}: {failure}" for failure in self.failures]


def poll_replies(
    get_reply: Callable[[int], T], accepts: Callable[[T], bool], votes: int, *, all_votes: bool = False
) -> Poll[T]:
    """Request replies 0, 1, ... until the outcome is settled.

    accepts: whether a reply counts as a yes. all_votes: request every reply, because the content of each one matters.
    """
    vote = Poll[T](votes)
    for number in range(votes):
        if vote.is_settled and not all_votes:
            break
        try:
            reply = get_reply(number)
        except ItemFailed as failure:
            vote.failures.append(failure)
        else:
            (vote.accepted if accepts(reply) else vote.rejected).append(reply)
    return vote
