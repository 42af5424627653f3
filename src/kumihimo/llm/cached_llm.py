"""a model + the memo -> Ask, and an embedder: the same thing is never paid twice."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kumihimo.core.digests import replace_surrogates
from kumihimo.core.errors import ItemFailed, MalformedReply, ModelError, UnparsableReply
from kumihimo.llm.budget import Budget
from kumihimo.llm.concurrency import map_concurrent
from kumihimo.llm.protocols import Chat, Embedder, Messages, TokenCallback
from kumihimo.llm.structured import ReasoningFilter, Reply, ReplyForm, reply_form, require_complete_text
from kumihimo.storage.sqlite.response_cache import ResponseCache, cache_key

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

EMBEDDING = "embedding"  # the scope of what is embedded
RERANKING = "reranking"  # and of what a server for that puts in order
MAX_ATTEMPTS = 3  # times a reply that cannot be read is asked for
prompt_log = logging.getLogger("kumihimo.prompts")


@dataclass(frozen=True, slots=True)
class CachedLLM:
    """`Ask` by a chat model, whose replies are remembered as they came: reading them happens after.

    scope: the step, method or role it is asked for. generation: which of several runs of the same is meant; no two of
    them share a reply.
    """

    chat: Chat
    cache: ResponseCache
    budget: Budget = field(default_factory=Budget)
    scope: str = ""
    generation: int = 0

    @property
    def fingerprint(self) -> str:
        return self.chat.fingerprint

    @property
    def workers(self) -> int:
        return self.chat.workers

    def __call__(
        self,
        prompt: str | Messages,
        *,
        schema: Any = None,
        parse: Callable[[Reply], Any] | None = None,
        sample: int = 0,
        on_token: TokenCallback | None = None,
        followups: int = 0,
        **parameters: Any,
    ) -> Any:
        asked: ReplyForm[Any] | None = None if schema is None else reply_form(schema)
        parse = parse or (asked.parse if asked else require_complete_text)
        messages = first = _to_messages(prompt, asked.instructions if asked else "")
        paid = 0  # what is remembered to be malformed is passed over, so that a later run asks anew
        attempt = 0
        while True:
            schema = asked.json_schema if asked else None
            reply, new = self._cached_reply(messages, schema, sample, attempt, on_token, followups, parameters)
            paid += new
            try:
                return parse(reply)
            except MalformedReply as wrong:
                if paid == MAX_ATTEMPTS:
                    told = f"{self.fingerprint} gave {MAX_ATTEMPTS} replies that cannot be read; of the last: {wrong}"
                    raise UnparsableReply(told) from wrong
                messages = _with_complaint(first, reply, str(wrong))
                attempt += 1

    def samples(self, prompt: str | Messages, count: int, **parameters: Any) -> list[str]:
        """So many replies to the same prompt."""

        def one(sample: int) -> str | ItemFailed:
            try:
                return str(self(prompt, sample=sample, **parameters))
            except ItemFailed as failure:  # the others are wanted all the same: they are remembered
                return failure

        found = list(map_concurrent(one, range(count), self.chat.workers))
        for failure in found:
            if isinstance(failure, ItemFailed):
                raise failure
        return [reply for reply in found if isinstance(reply, str)]

    def _cached_reply(
        self,
        messages: Messages,
        schema: Mapping[str, Any] | None,
        sample: int,
        attempt: int,
        on_token: TokenCallback | None,
        followups: int,
        parameters: Mapping[str, Any],
    ) -> tuple[Reply, bool]:
        """The reply, from the memo if it is there; and whether it was asked for."""
        heard = ReasoningFilter(on_token) if on_token else None
        paid: list[Reply] = []
        asked = self._key(messages, schema, sample, attempt, parameters)

        def pay() -> bytes:
            reply = self._request_reply(asked, messages, schema, heard, parameters, followups)
            paid.append(replace(reply, raw=replace_surrogates(reply.raw)))
            return paid[0].to_bytes()

        reply = Reply.from_bytes(self.cache.get_or_fetch(asked, pay))
        if on_token and heard and not heard.started and reply.text:
            on_token(reply.text)
        self._log_reply(messages, reply, paid=bool(paid))
        return reply, bool(paid)

    def _request_reply(
        self, _asked: bytes, messages: Messages, schema: Any, hear: TokenCallback | None, parameters: Any, _further: int
    ) -> Reply:
        """The model's reply to what is not remembered under that key."""
        allow = self.budget.reserve(self.scope, self.fingerprint, self.chat.prices)
        return self.chat(messages, reserve=allow, schema=schema, on_token=hear, **parameters)

    def _key(self, messages: Messages, schema: Any, sample: int, attempt: int, parameters: Mapping[str, Any]) -> bytes:
        """Of everything that determines the reply."""
        what = self.chat.determined_by(parameters, structured=schema is not None)
        run = {"generation": self.generation} if self.generation else {}
        return cache_key(model=what, messages=messages, schema=schema, sample=sample, attempt=attempt, **run)

    def _log_reply(self, messages: Messages, reply: Reply, *, paid: bool) -> None:
        if not paid:
            self.budget.record_saved(self.scope, self.fingerprint, reply.usage)
        if prompt_log.isEnabledFor(logging.DEBUG):
            told = "\n\n".join(f"{m['role']}: {m['content']}" for m in messages)
            source = "asked" if paid else "remembered"
            prompt_log.debug("--- %s, %s, %s\n%s\n\nreply: %s\n", self.scope, self.fingerprint, source, told, reply.raw)


def _to_messages(prompt: str | Messages, instructions: str) -> list[Mapping[str, str]]:
    """The prompt as messages, what the form of the reply has to be at the end of the last."""
    messages: list[Mapping[str, str]] = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else [*prompt]
    if instructions:
        last = messages[-1]
        messages[-1] = {**last, "content": f"{last['content']}\n\n{instructions}"}
    return messages


def _with_complaint(first: Sequence[Mapping[str, str]], reply: Reply, complaint: str) -> list[Mapping[str, str]]:
    answered = [{"role": "assistant", "content": reply.text or "(nothing)"}]
    return [*first, *answered, {"role": "user", "content": f"{complaint} Reply again, in full."}]


@dataclass(frozen=True, slots=True)
class CachedEmbedder:
    """An embedder whose vectors are remembered, for models that are paid by the text."""

    embedder: Embedder
    cache: ResponseCache

    @property
    def fingerprint(self) -> str:
        return self.embedder.fingerprint

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
        length = cache_key(embedder=self.fingerprint)  # under which it is remembered how long its vectors are
        keys = [cache_key(embedder=self.fingerprint, text=text) for text in texts]
        known = self.cache.get_many([length, *dict.fromkeys(keys)])
        new = {k: text for k, text in zip(keys, texts, strict=True) if k not in known}
        if new:
            vectors = self._embed(list(new.values()))
            dimensions = str(vectors.shape[1]).encode()
            if known.setdefault(length, dimensions) != dimensions:
                raise dimension_mismatch(self.fingerprint, vectors.shape[1])
            made = {k: vector.tobytes() for k, vector in zip(new, vectors, strict=True)}
            self.cache.put_many([(length, dimensions), *made.items()])
            known |= made
        return np.stack([np.frombuffer(known[k], dtype=np.float32) for k in keys])

    def _embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The model's vectors of texts that are not remembered."""
        return self.embedder(texts)


def dimension_mismatch(fingerprint: str, dimensions: int) -> ModelError:
    """A model gives other vectors than before under the same name."""
    return ModelError(
        f"{fingerprint} gives vectors of {dimensions} dimensions now, and gave others before: "
        "is base_url the server it was? Another model needs another name"
    )
