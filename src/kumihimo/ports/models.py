"""model servers -> Ask, Near, Match: the verbs that steps and methods are given, and the only threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from kumihimo.core.context import Context
from kumihimo.core.records import storable
from kumihimo.core.table import Table
from kumihimo.core.task import Call, Job, Made, Pool
from kumihimo.ports.memo import Memo, key

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Messages = Sequence[Mapping[str, str]]  # {"role": ..., "content": ...}, oldest first


class Chat(Protocol):
    """A chat model: messages -> its reply. Raises ItemFailed when it has failed for good."""

    @property
    def mark(self) -> str: ...  # the model's name, and whatever else decides what it says
    def __call__(self, messages: Messages, **parameters: Any) -> str: ...


class Embedder(Protocol):
    """Texts -> vectors of length 1, shape (texts, dimensions), float32: each row depends on its own text only."""

    @property
    def mark(self) -> str: ...
    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]: ...


class Ask(Protocol):
    """The paid verb: a chat model's reply to a prompt, or to a conversation."""

    @property
    def mark(self) -> str: ...
    def __call__(self, prompt: str | Messages, *, attempt: int = 0, **parameters: Any) -> str: ...


class Match(Protocol):
    """Search a table by words: the best `k`, best first."""

    def __call__(self, table: Table[Any], text: str, *, k: int) -> Context: ...


class Near(Protocol):
    """Search a table by meaning: the nearest `k`, nearest first; scores are cosines."""

    def __call__(self, table: Table[Any], text: str, *, k: int) -> Context: ...


@dataclass(frozen=True, slots=True)
class Asking:
    """`Ask` by a chat model, whose replies are remembered: the same thing is never asked twice."""

    chat: Chat
    memo: Memo

    @property
    def mark(self) -> str:
        return self.chat.mark

    def __call__(self, prompt: str | Messages, *, attempt: int = 0, **parameters: Any) -> str:
        messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)
        asked = key(model=self.mark, messages=messages, parameters=parameters, attempt=attempt)
        return self.memo.reply(asked, lambda: storable(self.chat(messages, **parameters)).encode()).decode()


@dataclass(frozen=True, slots=True)
class Remembered:
    """An embedder whose vectors are remembered, for models that are paid by the text."""

    embedder: Embedder
    memo: Memo

    @property
    def mark(self) -> str:
        return self.embedder.mark

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        import numpy as np

        if not texts:
            return self.embedder([])
        keys = [key(embedder=self.mark, text=text) for text in texts]
        known = self.memo.known(dict.fromkeys(keys))
        new = {k: text for k, text in zip(keys, texts, strict=True) if k not in known}
        if new:
            vectors = self.embedder(list(new.values()))
            known |= {k: vector.tobytes() for k, vector in zip(new, vectors, strict=True)}
            self.memo.keep((k, known[k]) for k in new)
        return np.stack([np.frombuffer(known[k], dtype=np.float32) for k in keys])


def threads(workers: int) -> Pool:
    """A pool of `workers` threads; at most four jobs a worker are held at once."""

    def run(call: Call, jobs: Iterable[Job]) -> Iterator[list[Made]]:
        with ThreadPoolExecutor(workers) as executor:
            pending: deque[Future[list[Made]]] = deque()
            try:
                for job in jobs:
                    pending.append(executor.submit(call, job))
                    if len(pending) >= 4 * workers:
                        yield pending.popleft().result()
                while pending:
                    yield pending.popleft().result()
            finally:
                for future in pending:
                    future.cancel()

    return run
