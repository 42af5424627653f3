"""a model + the memo -> Ask, and an embedder: the same thing is never paid twice."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kumihimo.core.digests import storable
from kumihimo.core.errors import ItemFailed, Malformed, ModelError, Unreadable
from kumihimo.llm.budget import Purse
from kumihimo.llm.concurrency import side_by_side
from kumihimo.llm.protocols import Chat, Embedder, Hear, Messages
from kumihimo.llm.structured import Form, Reply, Spoken, form, whole_text
from kumihimo.storage.sqlite.response_cache import Memo, key

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

EMBEDDING = "embedding"  # the scope of what is embedded
RERANKING = "reranking"  # and of what a server for that puts in order
ATTEMPTS = 3  # times a reply that cannot be read is asked for
prompts = logging.getLogger("kumihimo.prompts")


@dataclass(frozen=True, slots=True)
class Asking:
    """`Ask` by a chat model, whose replies are remembered as they came: reading them happens after.

    scope: the step, method or role it is asked for. generation: which of several runs of the same is meant; no two of
    them share a reply.
    """

    chat: Chat
    memo: Memo
    purse: Purse = field(default_factory=Purse)
    scope: str = ""
    generation: int = 0

    @property
    def mark(self) -> str:
        return self.chat.mark

    @property
    def workers(self) -> int:
        return self.chat.workers

    def __call__(
        self,
        prompt: str | Messages,
        *,
        into: Any = None,
        read: Callable[[Reply], Any] | None = None,
        sample: int = 0,
        hear: Hear | None = None,
        further: int = 0,
        **parameters: Any,
    ) -> Any:
        asked: Form[Any] | None = None if into is None else form(into)
        read = read or (asked.read if asked else whole_text)
        messages = first = _conversation(prompt, asked.told if asked else "")
        paid = 0  # what is remembered to be malformed is passed over, so that a later run asks anew
        attempt = 0
        while True:
            schema = asked.schema if asked else None
            reply, new = self._reply(messages, schema, sample, attempt, hear, further, parameters)
            paid += new
            try:
                return read(reply)
            except Malformed as wrong:
                if paid == ATTEMPTS:
                    told = f"{self.mark} gave {ATTEMPTS} replies that cannot be read; of the last: {wrong}"
                    raise Unreadable(told) from wrong
                messages = _complained(first, reply, str(wrong))
                attempt += 1

    def samples(self, prompt: str | Messages, count: int, **parameters: Any) -> list[str]:
        """So many replies to the same prompt."""

        def one(sample: int) -> str | ItemFailed:
            try:
                return str(self(prompt, sample=sample, **parameters))
            except ItemFailed as failure:  # the others are wanted all the same: they are remembered
                return failure

        found = list(side_by_side(one, range(count), self.chat.workers))
        for failure in found:
            if isinstance(failure, ItemFailed):
                raise failure
        return [reply for reply in found if isinstance(reply, str)]

    def _reply(
        self,
        messages: Messages,
        schema: Mapping[str, Any] | None,
        sample: int,
        attempt: int,
        hear: Hear | None,
        further: int,
        parameters: Mapping[str, Any],
    ) -> tuple[Reply, bool]:
        """The reply, from the memo if it is there; and whether it was asked for."""
        heard = Spoken(hear) if hear else None
        paid: list[Reply] = []
        asked = self._key(messages, schema, sample, attempt, parameters)

        def pay() -> bytes:
            reply = self._pay(asked, messages, schema, heard, parameters, further)
            paid.append(replace(reply, raw=storable(reply.raw)))
            return paid[0].packed()

        reply = Reply.unpacked(self.memo.reply(asked, pay))
        if hear and heard and not heard.begun and reply.text:
            hear(reply.text)
        self._noted(messages, reply, paid=bool(paid))
        return reply, bool(paid)

    def _pay(
        self, _asked: bytes, messages: Messages, schema: Any, hear: Hear | None, parameters: Any, _further: int
    ) -> Reply:
        """The model's reply to what is not remembered under that key."""
        allow = self.purse.allow(self.scope, self.mark, self.chat.prices)
        return self.chat(messages, allow=allow, schema=schema, hear=hear, **parameters)

    def _key(self, messages: Messages, schema: Any, sample: int, attempt: int, parameters: Mapping[str, Any]) -> bytes:
        """Of everything that determines the reply."""
        what = self.chat.determined_by(parameters, structured=schema is not None)
        run = {"generation": self.generation} if self.generation else {}
        return key(model=what, messages=messages, schema=schema, sample=sample, attempt=attempt, **run)

    def _noted(self, messages: Messages, reply: Reply, *, paid: bool) -> None:
        if not paid:
            self.purse.save(self.scope, self.mark, reply.usage)
        if prompts.isEnabledFor(logging.DEBUG):
            told = "\n\n".join(f"{m['role']}: {m['content']}" for m in messages)
            source = "asked" if paid else "remembered"
            prompts.debug("--- %s, %s, %s\n%s\n\nreply: %s\n", self.scope, self.mark, source, told, reply.raw)


def _conversation(prompt: str | Messages, told: str) -> list[Mapping[str, str]]:
    """The prompt as messages, what the form of the reply has to be at the end of the last."""
    messages: list[Mapping[str, str]] = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else [*prompt]
    if told:
        last = messages[-1]
        messages[-1] = {**last, "content": f"{last['content']}\n\n{told}"}
    return messages


def _complained(first: Sequence[Mapping[str, str]], reply: Reply, complaint: str) -> list[Mapping[str, str]]:
    answered = [{"role": "assistant", "content": reply.text or "(nothing)"}]
    return [*first, *answered, {"role": "user", "content": f"{complaint} Reply again, in full."}]


@dataclass(frozen=True, slots=True)
class Remembered:
    """An embedder whose vectors are remembered, for models that are paid by the text."""

    embedder: Embedder
    memo: Memo

    @property
    def mark(self) -> str:
        return self.embedder.mark

    @property
    def batch(self) -> int:
        return self.embedder.batch

    @property
    def workers(self) -> int:
        return self.embedder.workers

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        import numpy as np

        if not texts:
            return self.embedder([])
        length = key(embedder=self.mark)  # under which it is remembered how long its vectors are
        keys = [key(embedder=self.mark, text=text) for text in texts]
        known = self.memo.known([length, *dict.fromkeys(keys)])
        new = {k: text for k, text in zip(keys, texts, strict=True) if k not in known}
        if new:
            vectors = self._pay(list(new.values()))
            dimensions = str(vectors.shape[1]).encode()
            if known.setdefault(length, dimensions) != dimensions:
                raise other_length(self.mark, vectors.shape[1])
            made = {k: vector.tobytes() for k, vector in zip(new, vectors, strict=True)}
            self.memo.keep([(length, dimensions), *made.items()])
            known |= made
        return np.stack([np.frombuffer(known[k], dtype=np.float32) for k in keys])

    def _pay(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The model's vectors of texts that are not remembered."""
        return self.embedder(texts)


def other_length(mark: str, dimensions: int) -> ModelError:
    """A model gives other vectors than before under the same name."""
    return ModelError(
        f"{mark} gives vectors of {dimensions} dimensions now, and gave others before: "
        "is base_url the server it was? Another model needs another name"
    )
