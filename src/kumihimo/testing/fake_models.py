"""prompt -> reply, text -> vector, both invented: deterministic models for tests and benchmarks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

from kumihimo.core.digests import hash_parts
from kumihimo.core.usage import Usage
from kumihimo.llm.protocols import Messages, Prices, Reserve, TokenCallback, reserve_nothing
from kumihimo.llm.structured import Reply

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(slots=True)
class FakeChat:
    """A chat model that computes its reply, and counts prompts.

    answer: the last message -> the reply. A word is a token.
    join_messages: answer the whole conversation, its messages joined by empty lines.
    """

    answer: Callable[[str], str]
    fingerprint: str = "fake"
    prices: Prices = field(default_factory=Prices)
    workers: int = 4
    join_messages: bool = False
    prompt_counts: Counter[str] = field(default_factory=Counter)
    _lock: Lock = field(default_factory=Lock)

    def determined_by(self, parameters: Mapping[str, Any], **_: bool) -> dict[str, Any]:
        return {"model": self.fingerprint, **parameters}

    def __call__(
        self, messages: Messages, *, reserve: Reserve = reserve_nothing, on_token: TokenCallback | None = None, **_: Any
    ) -> Reply:
        prompt = "\n\n".join(m["content"] for m in messages) if self.join_messages else messages[-1]["content"]
        with reserve(len(prompt.encode())) as charge:
            text = self.answer(prompt)
            usage = Usage(1, len(prompt.split()), 0, len(text.split()))
            charge(usage)
        if on_token:
            for token in re.findall(r"\S+\s*|\s+", text):
                on_token(token)
        with self._lock:
            self.prompt_counts[prompt] += 1
        return Reply(text, usage=usage)


@dataclass(frozen=True, slots=True)
class FakeEmbedder:
    """An embedder that hashes words: texts with common words are near."""

    dimensions: int = 32
    fingerprint: str = "fake-embedder"
    batch: int = 256
    workers: int = 1

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        import numpy as np

        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for i, text in enumerate(texts):
            for word in text.casefold().split():
                vectors[i, int(hash_parts(word), 16) % self.dimensions] += 1
            vectors[i] /= np.sqrt((vectors[i] ** 2).sum()) or 1
        return vectors
