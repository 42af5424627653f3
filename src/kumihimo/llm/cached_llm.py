"""a model + the response cache -> LLM, and an embedder: the way of a request from the caller to the server.

    prompt -> StructuredLLM -> cancellable -> cached -> retrying -> rate_limited -> budgeted -> the model, by HTTP

Each of them wraps the next one and knows nothing else. A request waits for the rate limit before it reserves a part of
the budget, so that a pause holds nothing back; each try is charged; what is cached reaches none of them. A caller who
cancels is free at once; the request in flight is closed and charged behind its back.
"""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from kumihimo.core.cancel import CancelToken, check_cancelled
from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import ItemFailed, MalformedReply, UnparsableReply, WaitsForBatch
from kumihimo.llm import concurrency, prompts, protocols, rate_limit, rerank, retry, transport
from kumihimo.llm.budget import Account, Budget, budgeted
from kumihimo.llm.protocols import ChatRequest, Messages, Q, R, Reply, TextsReply, TextsRequest, TokenCallback
from kumihimo.storage.response_cache import DAMAGE_ERRORS, Parser, ResponseCache, cache_key
from kumihimo.text import lazy_numpy as np

EMBEDDING = "embedding"  # the scope of the embedding model
RERANKING = "reranking"  # the scope of the reranking server
_UNIT_MARGIN = 0.01  # all vectors have length 1, but for rounding
MAX_ATTEMPTS = 3  # requests until a malformed reply is a failure
prompt_log = logging.getLogger("kumihimo.prompts")


class Chat(Protocol):
    """A chat model: one request -> its reply.

    server: None for a model in this process. determined_by: everything that determines a reply, apart from the messages
    and the schema.

    Raises FailedTry where another try may succeed, ItemFailed where none will, ModelError where no request will.
    """

    @property
    def fingerprint(self) -> str: ...  # the model's name, and all else that determines its replies
    @property
    def prices(self) -> protocols.Prices: ...
    @property
    def server(self) -> transport.ModelServer | None: ...
    @property
    def workers(self) -> int: ...  # maximum of requests in flight
    def determined_by(self, parameters: Mapping[str, Any], *, structured: bool) -> Mapping[str, Any]: ...
    def __call__(self, request: ChatRequest, /) -> Reply: ...


def create_llm(
    chat: Chat,
    cache: ResponseCache,
    budget: Budget | None = None,
    scope: str = "",
    generation: int = 0,
    *,
    innermost: Callable[[ChatRequest], Reply] | None = None,
) -> "StructuredLLM":
    """Return the `LLM` of a scope.

    generation: the number of the run, for repeated runs; no two of them share a reply. innermost: receives the uncached
    requests instead of the model, for a dry run: nothing is cached.
    """
    budget = budget or Budget()
    account = Account(scope, chat.fingerprint, chat.prices)
    send = innermost or connect_model(chat, chat.server, budget, account)
    send = cached(send, chat, cache, budget, scope, generation, dry_run=innermost is not None)
    return StructuredLLM(cancellable(send, budget.cancel), chat.fingerprint, chat.workers, budget.given_up)


def connect_model(
    send: Callable[[Q], R], server: transport.ModelServer | None, budget: Budget, account: Account
) -> Callable[[Q], R]:
    """Return `send` under the caps of a budget.

    For a model on a server it waits for the limits of the server, and tries again. Meanwhile the budget holds nothing.
    """
    send, cancel = budgeted(send, budget, account), budget.cancel
    send = retry.retrying(rate_limit.rate_limited(send, server.limiter, cancel), server, cancel) if server else send

    def release_and_send(request: Q) -> R:
        check_cancelled(cancel)
        with budget.released():
            return send(request)

    return release_and_send


def cancellable(send: Callable[[ChatRequest], Reply], cancel: CancelToken | None) -> Callable[[ChatRequest], Reply]:
    """Return `send`, which its caller may leave.

    A reply of a server is closed; another one arrives in the background.
    """
    if cancel is None:
        return send

    def send_in_thread(request: ChatRequest) -> Reply:
        on_token = request.on_token and _until_cancelled(request.on_token, cancel)
        return concurrency.run_cancellable(lambda: send(replace(request, on_token=on_token, cancel=cancel)), cancel)

    return send_in_thread


def _until_cancelled(on_token: TokenCallback, cancel: CancelToken) -> TokenCallback:
    """Return a callback that receives nothing more once its caller has left."""
    return lambda token: None if cancel.is_cancelled else on_token(token)


@dataclass(frozen=True, slots=True)
class StructuredLLM:
    """An `LLM` that parses the replies of `send`, and sends malformed ones back.

    given_up: the prompts of this command that got no readable reply; a second step with the same prompt pays nothing.
    """

    send: Callable[[ChatRequest], Reply]
    fingerprint: str
    workers: int
    given_up: dict[str, int] = field(default_factory=dict)

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
        form = None if schema is None else prompts.reply_form(schema)
        parse = parse or (form.parse if form else prompts.require_complete_text)
        first = _to_messages(prompt, form.instructions if form else "")
        json_schema = form.json_schema if form else None
        request = ChatRequest(first, json_schema, parameters, on_token, sample, followups=followups)
        paid_replies = 0  # cached malformed replies do not count, so that a later run sends new requests
        while True:
            reply = self._send_streaming(request, on_token) if on_token else self.send(request)
            paid_replies += not reply.is_cached
            try:
                return parse(reply)
            except MalformedReply as error:
                prompt, replies = hash_parts(str(sample), repr(parameters), json.dumps(first)), request.attempt + 1
                if paid_replies == MAX_ATTEMPTS or replies == self.given_up.get(prompt):
                    self.given_up[prompt] = replies
                    message = f"{self.fingerprint} gave {MAX_ATTEMPTS} replies that cannot be read; the last: {error}"
                    raise UnparsableReply(message) from error
                answer = {"role": "assistant", "content": reply.text or "(nothing)"}
                messages = [*first, answer, {"role": "user", "content": f"{error} Reply again, in full."}]
                request = replace(request, messages=messages, attempt=request.attempt + 1)

    def _send_streaming(self, request: ChatRequest, on_token: TokenCallback) -> Reply:
        """Return the reply, and pass on its text without reasoning.

        It passes on tokens as they arrive, or the whole text at once from the cache.
        """
        token_filter = protocols.ReasoningFilter(on_token)
        reply = self.send(replace(request, on_token=token_filter))
        if not token_filter.started and reply.text:
            on_token(reply.text)
        return reply

    def samples(self, prompt: str | Messages, count: int, **parameters: Any) -> list[str]:
        """Return this many replies to the same prompt."""

        def request_sample(sample: int) -> str | ItemFailed:
            try:
                return str(self(prompt, sample=sample, **parameters))
            except ItemFailed as failure:  # the other samples are requested all the same, and cached
                return failure

        replies = list(concurrency.map_concurrent(request_sample, range(count), self.workers))
        if failures := [reply for reply in replies if isinstance(reply, ItemFailed)]:
            raise failures[0]
        return [reply for reply in replies if isinstance(reply, str)]


def _to_messages(prompt: str | Messages, instructions: str) -> list[Mapping[str, str]]:
    """Return the prompt as messages, with the instructions appended to the last."""
    messages: list[Mapping[str, str]] = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else [*prompt]
    if instructions:
        last = messages[-1]
        messages[-1] = {**last, "content": f"{last['content']}\n\n{instructions}"}
    return messages


def request_key(chat: Chat, request: ChatRequest, generation: int = 0) -> bytes:
    """Return the cache key: the digest of everything that determines the reply."""
    schema, run = request.schema, {"generation": generation} if generation else {}
    determinants = chat.determined_by(request.parameters, structured=schema is not None)
    place = {"sample": request.sample, "attempt": request.attempt}
    return cache_key(model=determinants, messages=request.messages, schema=schema, **place, **run)


def cached(
    send: Callable[[ChatRequest], Reply],
    chat: Chat,
    cache: ResponseCache,
    budget: Budget,
    scope: str = "",
    generation: int = 0,
    *,
    dry_run: bool = False,
) -> Callable[[ChatRequest], Reply]:
    """Return `send` behind the response cache.

    It stores raw replies, so that each call parses them again. chat: determines the replies.
    """

    def look_up_or_send(request: ChatRequest) -> Reply:
        new_replies: list[bytes] = []
        key = request_key(chat, request, generation)

        def fetch() -> bytes:
            if not dry_run and cache.is_waiting(key):
                raise WaitsForBatch("waits for a batch: `kumi index --batch` collects it")
            new_replies.append(send(request).to_bytes())
            return new_replies[0]

        reply: Reply = cache.get_or_fetch(key, fetch, Reply.from_bytes, dry_run=dry_run)
        if not new_replies:
            reply = replace(reply, is_cached=True)
            budget.record_saved(scope, chat.fingerprint, reply.usage)
        if prompt_log.isEnabledFor(logging.DEBUG):
            conversation = "\n\n".join(f"{m['role']}: {m['content']}" for m in request.messages)
            source = "cached" if reply.is_cached else "asked"
            entry = "--- %s, %s, %s\n%s\n\nreply: %s\n"
            prompt_log.debug(entry, scope, chat.fingerprint, source, conversation, reply.raw)
        return reply

    return look_up_or_send


@dataclass(frozen=True, slots=True)
class CachedEmbedder:
    """An `Embedder` that caches its vectors, for models paid by the text.

    prefix: put before each text. dry_run: `send` only raises an error. cancel: frees the caller of a request.
    """

    send: Callable[[TextsRequest], TextsReply]
    fingerprint: str
    batch: int
    workers: int
    cache: ResponseCache
    prefix: str = ""
    dry_run: bool = False
    cancel: CancelToken | None = None

    def __call__(self, texts: Sequence[str]) -> protocols.Vectors:
        return concurrency.run_cancellable(lambda: self._embed(texts), self.cancel)

    def _embed(self, texts: Sequence[str]) -> protocols.Vectors:
        if not texts:
            return np.zeros((0, 0), dtype=np.float32)
        texts = [self.prefix + text for text in texts]
        keys = [cache_key(embedder=self.fingerprint, text=text) for text in texts]
        texts_by_key = dict(zip(keys, texts, strict=True))
        dimensions_key = cache_key(embedder=self.fingerprint)
        dimensions: int | None = self.cache.get_many([dimensions_key], int).get(dimensions_key)

        def fetch(missing: list[bytes]) -> dict[bytes, bytes]:
            vectors = self.send(TextsRequest([texts_by_key[key] for key in missing])).values
            if dimensions not in (None, vectors.shape[1]):
                raise protocols.dimension_mismatch(self.fingerprint, vectors.shape[1])
            fetched = {key: vector.tobytes() for key, vector in zip(missing, vectors, strict=True)}
            self._refuse_bad_vectors(fetched)
            if dimensions is None:
                self.cache.put_many([(dimensions_key, str(vectors.shape[1]).encode())])
            return fetched

        parse = partial(parse_vector, dimensions=dimensions)
        vectors = self.cache.get_or_fetch_many(list(texts_by_key), fetch, parse, dry_run=self.dry_run)
        return np.stack([vectors[key] for key in keys])

    def _refuse_bad_vectors(self, fetched: dict[bytes, bytes]) -> None:
        """Raise ItemFailed if some vectors are bad, and cache the others."""
        good = {key: value for key, value in fetched.items() if _can_parse(parse_vector, value)}
        if bad := len(fetched) - len(good):
            self.cache.put_many(good.items())
            message = f"{bad} of {len(fetched)} vectors of {self.fingerprint} are zero, infinite or not numbers"
            raise ItemFailed(f"{message}: is it an embedding model?")


def parse_vector(value: bytes, dimensions: int | None = None) -> protocols.Vectors:
    """Return a cached vector. Raise ValueError if its length is not 1."""
    vector = np.frombuffer(value, dtype=np.float32)
    wide = vector.astype(np.float64)  # whose squares do not overflow
    if not abs(np.dot(wide, wide) - 1) < _UNIT_MARGIN or dimensions not in (None, len(vector)):  # so is NaN
        raise ValueError("no vector of length 1")
    return vector


def is_cached_value(value: object) -> bool:
    """Return whether a cached value is readable: reply, vector, dimensions or scores."""
    parsers: tuple[Parser, ...] = (Reply.from_bytes, parse_vector, int, rerank.parse_cached_scores)
    return isinstance(value, bytes) and any(_can_parse(parse, value) for parse in parsers)


def _can_parse(parse: Parser, value: bytes) -> bool:
    try:
        parse(value)
    except DAMAGE_ERRORS:
        return False
    return True
