"""calls -> Usage: calls, tokens, cost and time."""

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Usage:
    """The calls, tokens, cost and time spent on models.

    calls: requests that a server may charge for. cached_tokens: the part of prompt_tokens that the server read from its
    cache. cost: in the currency of the prices that are set. seconds: of waiting.
    """

    calls: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.calls + other.calls,
            self.prompt_tokens + other.prompt_tokens,
            self.cached_tokens + other.cached_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cost + other.cost,
            self.seconds + other.seconds,
        )

    def __sub__(self, other: "Usage") -> "Usage":
        return self + Usage(*(-getattr(other, each.name) for each in fields(other)))

    @property
    def tokens(self) -> int:
        """Return the tokens of prompts and replies together."""
        return self.prompt_tokens + self.completion_tokens
