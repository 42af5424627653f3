"""turns -> a model that says what it was told to say at each, and writes down what it was given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kumihimo.core.usage import Usage
from kumihimo.llm.protocols import Messages, Prices, Reserve
from kumihimo.llm.structured import Reply

TURNS = {  # how the last message begins -> what is asked for
    "Do the records": "check",
    "Many entities": "more",
    "Your reply broke off": "rest",
    "These lines": "mend",
    "Now write down what": "claims",
}


def turn(messages: Messages) -> str:
    """Of a conversation, what is asked for last, or again; `first` where it is the records of the text."""
    last = messages[-1]["content"]
    if last.endswith("Reply again, in full."):
        return turn(messages[:-2])
    return next((name for start, name in TURNS.items() if last.startswith(start)), "first")


@dataclass
class Talker:
    """A chat model. says: to each turn the replies, one after the other, the last of them for ever."""

    says: Mapping[str, Sequence[str | Reply]]
    given: list[tuple[Messages, dict[str, Any]]] = field(default_factory=list)
    turns: Counter[str] = field(default_factory=Counter)
    fingerprint: str = "talker"
    prices: Prices = field(default_factory=Prices)
    workers: int = 1

    def determined_by(self, parameters: Mapping[str, Any], *, structured: bool) -> Mapping[str, Any]:
        return {"model": self.fingerprint, **parameters}

    def __call__(self, messages: Messages, *, reserve: Reserve, **parameters: Any) -> Reply:
        self.given.append((messages, {k: v for k, v in parameters.items() if k not in ("schema", "on_token")}))
        name = turn(messages)
        replies = self.says.get(name, ["END"])
        said = replies[min(self.turns[name], len(replies) - 1)]
        self.turns[name] += 1
        with reserve(1) as bill:
            bill(Usage(1, 1, 0, 1))
        return said if isinstance(said, Reply) else Reply(said, usage=Usage(1, 1, 0, 1))

    @property
    def prompts(self) -> Iterator[str]:
        """The last message of each request."""
        return (messages[-1]["content"] for messages, _ in self.given)


def cut(text: str) -> Reply:
    """A reply that broke off at the greatest length it may have."""
    return Reply(text, "length", Usage(1, 1, 0, 1))


def lines(*records: Iterable[str]) -> str:
    """Records as a model is asked to write them."""
    return "\n".join([*("<|>".join(record) for record in records), "END"])
