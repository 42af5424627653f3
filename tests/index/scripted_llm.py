"""scripted replies by turn -> a chat model that gives them and records its requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kumihimo.core.usage import Usage
from kumihimo.llm.protocols import ChatRequest, Messages, Prices, Reply
from tests.fenced_texts import without_rule

TURN_OPENINGS = {  # start of the last message -> name of the turn
    "Now write the entities": "more",
    "Your reply broke off": "rest",
    "These lines": "mend",
    "Now write down what": "claims",
}


def turn_name(messages: Messages) -> str:
    """Return the name of a conversation's last turn; `first` for the extraction."""
    last_message = without_rule(messages[-1]["content"])
    if last_message.endswith("Reply again, in full."):
        return turn_name(messages[:-2])
    return next((name for start, name in TURN_OPENINGS.items() if last_message.startswith(start)), "first")


@dataclass
class ScriptedChat:
    """A chat model. replies: turn -> its replies in order; the last one repeats."""

    replies: Mapping[str, Sequence[str | Reply]]
    requests: list[tuple[Messages, dict[str, Any]]] = field(default_factory=list)
    turns: Counter[str] = field(default_factory=Counter)
    fingerprint: str = "talker"
    prices: Prices = field(default_factory=Prices)
    workers: int = 1
    server: None = None

    def determined_by(self, parameters: Mapping[str, Any], *, structured: bool) -> Mapping[str, Any]:
        return {"model": self.fingerprint, **parameters}

    def __call__(self, request: ChatRequest) -> Reply:
        self.requests.append((request.messages, dict(request.parameters)))
        name = turn_name(request.messages)
        replies = self.replies.get(name, ["END"])
        reply = replies[min(self.turns[name], len(replies) - 1)]
        self.turns[name] += 1
        return reply if isinstance(reply, Reply) else Reply(reply, usage=Usage(1, 1, 0, 1))

    @property
    def prompts(self) -> Iterator[str]:
        """Return the last message of each request."""
        return (messages[-1]["content"] for messages, _ in self.requests)


def truncated_reply(text: str) -> Reply:
    """Return a reply that was cut at its maximum length."""
    return Reply(text, "length", Usage(1, 1, 0, 1))


def record_lines(*records: Iterable[str]) -> str:
    """Return records in the format of the prompt."""
    return "\n".join([*("<|>".join(record) for record in records), "END"])
