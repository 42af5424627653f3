"""prompt -> reply, text -> vector, both invented: deterministic models for tests and benchmarks."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from kumihimo.core import digests, usage
from kumihimo.llm.protocols import ChatRequest, Prices, Reply, Vectors
from kumihimo.text import lazy_numpy as np


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
    server: None = None
    _lock: Lock = field(default_factory=Lock)

    def determined_by(self, parameters: Mapping[str, Any], **_: bool) -> dict[str, Any]:
        return {"model": self.fingerprint, **parameters}

    def __call__(self, request: ChatRequest) -> Reply:
        contents = [message["content"] for message in request.messages]
        prompt = "\n\n".join(contents) if self.join_messages else contents[-1]
        text = self.answer(prompt)
        if request.on_token:
            for token in re.findall(r"\S+\s*|\s+", text):
                request.on_token(token)
        with self._lock:
            self.prompt_counts[prompt] += 1
        return Reply(text, usage=usage.Usage(1, len(prompt.split()), 0, len(text.split())))


@dataclass(frozen=True, slots=True)
class FakeEmbedder:
    """An embedder that hashes words: texts with common words are near."""

    dimensions: int = 32
    fingerprint: str = "fake-embedder"
    batch: int = 256
    workers: int = 1

    def __call__(self, texts: Sequence[str]) -> Vectors:
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for i, text in enumerate(texts):
            for word in text.casefold().split():
                vectors[i, int(digests.hash_parts(word), 16) % self.dimensions] += 1
            vectors[i] /= np.sqrt((vectors[i] ** 2).sum()) or 1
        return vectors
