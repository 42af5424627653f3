"""a model + the response cache -> LLM, and an embedder: no request is paid twice."""

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

EMBEDDING = "embedding"  # the scope of the embedding model
RERANKING = "reranking"  # the scope of the reranking server
MAX_ATTEMPTS = 3  # requests until a malformed reply is a failure
prompt_log = logging.getLogger("kumihimo.prompts")


@dataclass(frozen=True, slots=True)
class CachedLLM:
    """An `LLM` over a chat model, with a response cache.

    The cache stores raw replies, and each call parses them again.
    scope: the step, method or role of the request.
    generation: the number of the run, for repeated runs; no two of them share a reply.
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
        expected: ReplyForm[Any] | None = None if schema is None else reply_form(schema)
        parse = parse or (expected.parse if expected else require_complete_text)
        messages = first = _to_messages(prompt, expected.instructions if expected else "")
        paid_replies = 0  # cached malformed replies do not count, so that a later run sends new requests
        attempt = 0
        while True:
            json_schema = expected.json_schema if expected else None
            reply, is_new = self._cached_reply(messages, json_schema, sample, attempt, on_token, followups, parameters)
            paid_replies += is_new
            try:
                return parse(reply)
            except MalformedReply as error:
                if paid_replies == MAX_ATTEMPTS:
                    message = f"{self.fingerprint} gave {MAX_ATTEMPTS} replies that cannot be read; the last: {error}"
                    raise UnparsableReply(message) from error
                messages = _with_complaint(first, reply, str(error))
                attempt += 1

    def samples(self, prompt: str | Messages, count: int, **parameters: Any) -> list[str]:
        """Return this many replies to the same prompt."""

        def request_sample(sample: int) -> str | ItemFailed:
            try:
                return str(self(prompt, sample=sample, **parameters))
            except ItemFailed as failure:  # the other samples are requested all the same, and cached
                return failure

        replies = list(map_concurrent(request_sample, range(count), self.chat.workers))
        for failure in replies:
            if isinstance(failure, ItemFailed):
                raise failure
        return [reply for reply in replies if isinstance(reply, str)]

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
        """Return the reply, and whether it was requested rather than cached."""
        token_filter = ReasoningFilter(on_token) if on_token else None
        new_replies: list[Reply] = []
        request_key = self._key(messages, schema, sample, attempt, parameters)

        def fetch() -> bytes:
            reply = self._request_reply(request_key, messages, schema, token_filter, parameters, followups)
            new_replies.append(replace(reply, raw=replace_surrogates(reply.raw)))
            return new_replies[0].to_bytes()

        reply = Reply.from_bytes(self.cache.get_or_fetch(request_key, fetch))
        if on_token and token_filter and not token_filter.started and reply.text:
            on_token(reply.text)
        self._log_reply(messages, reply, paid=bool(new_replies))
        return reply, bool(new_replies)

    def _request_reply(
        self,
        _request_key: bytes,
        messages: Messages,
        schema: Any,
        on_token: TokenCallback | None,
        parameters: Any,
        _followups: int,
    ) -> Reply:
        """Return the reply of the model to an uncached request."""
        reserve = self.budget.reserve(self.scope, self.fingerprint, self.chat.prices)
        return self.chat(messages, reserve=reserve, schema=schema, on_token=on_token, **parameters)

    def _key(self, messages: Messages, schema: Any, sample: int, attempt: int, parameters: Mapping[str, Any]) -> bytes:
        """Return the cache key: the digest of everything that determines the reply."""
        determinants = self.chat.determined_by(parameters, structured=schema is not None)
        run = {"generation": self.generation} if self.generation else {}
        return cache_key(model=determinants, messages=messages, schema=schema, sample=sample, attempt=attempt, **run)

    def _log_reply(self, messages: Messages, reply: Reply, *, paid: bool) -> None:
        if not paid:
            self.budget.record_saved(self.scope, self.fingerprint, reply.usage)
        if prompt_log.isEnabledFor(logging.DEBUG):
            conversation = "\n\n".join(f"{m['role']}: {m['content']}" for m in messages)
            source = "asked" if paid else "cached"
            entry = "--- %s, %s, %s\n%s\n\nreply: %s\n"
            prompt_log.debug(entry, self.scope, self.fingerprint, source, conversation, reply.raw)


def _to_messages(prompt: str | Messages, instructions: str) -> list[Mapping[str, str]]:
    """Return the prompt as messages, with the instructions appended to the last."""
    messages: list[Mapping[str, str]] = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else [*prompt]
    if instructions:
        last = messages[-1]
        messages[-1] = {**last, "content": f"{last['content']}\n\n{instructions}"}
    return messages


def _with_complaint(first: Sequence[Mapping[str, str]], reply: Reply, complaint: str) -> list[Mapping[str, str]]:
    answer = [{"role": "assistant", "content": reply.text or "(nothing)"}]
    return [*first, *answer, {"role": "user", "content": f"{complaint} Reply again, in full."}]


@dataclass(frozen=True, slots=True)
class CachedEmbedder:
    """An embedder that caches its vectors, for models paid by the text."""

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
        dimensions_key = cache_key(embedder=self.fingerprint)
        keys = [cache_key(embedder=self.fingerprint, text=text) for text in texts]
        cached = self.cache.get_many([dimensions_key, *dict.fromkeys(keys)])
        missing = {k: text for k, text in zip(keys, texts, strict=True) if k not in cached}
        if missing:
            vectors = self._embed(list(missing.values()))
            dimensions = str(vectors.shape[1]).encode()
            if cached.setdefault(dimensions_key, dimensions) != dimensions:
                raise dimension_mismatch(self.fingerprint, vectors.shape[1])
            fetched = {k: vector.tobytes() for k, vector in zip(missing, vectors, strict=True)}
            self.cache.put_many([(dimensions_key, dimensions), *fetched.items()])
            cached |= fetched
        return np.stack([np.frombuffer(cached[k], dtype=np.float32) for k in keys])

    def _embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of uncached texts."""
        return self.embedder(texts)


def dimension_mismatch(fingerprint: str, dimensions: int) -> ModelError:
    """Return the error for a model that changed its vector dimensions."""
    return ModelError(
        f"{fingerprint} gives vectors of {dimensions} dimensions now, and gave others before: "
        "is base_url still the same server? Another model needs another name"
    )
