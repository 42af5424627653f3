"""question + method -> Plan: the cost of a question, estimated with stub models."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import count, islice
from threading import Lock
from typing import TYPE_CHECKING, Any

from kumihimo.app.cost import RequestTally, estimate_plan, usage_history
from kumihimo.app.results import Estimate, Plan, Range
from kumihimo.app.snapshot import Snapshot
from kumihimo.core.context import Tokenizer
from kumihimo.core.errors import ItemFailed, MalformedReply
from kumihimo.core.wiring import ROOT
from kumihimo.llm.budget import Budget, Caps
from kumihimo.llm.cached_llm import EMBEDDING, RERANKING, CachedEmbedder, CachedLLM
from kumihimo.llm.protocols import Chat, Embedder, Messages
from kumihimo.llm.registry import ModelRegistry
from kumihimo.llm.rerank import RelevanceScorer
from kumihimo.llm.rerank_client import CachedScorer
from kumihimo.llm.structured import Reply
from kumihimo.storage.sqlite.response_cache import ResponseCache

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_EXCERPT_CHARS = 80  # characters of a document in a sample question, so that a search finds something
_MAX_ITEMS = 8  # items of a list in a maximal reply; with _TEXT_BYTES about 500 tokens
_TEXT_BYTES = 200  # bytes of a text in a JSON reply
_REPLY_BYTES = 1600  # bytes of a plain-text reply
_MAX_DEPTH = 6  # for recursive schemas
_DEFAULT_MAXIMUM = 100  # for numbers without a maximum: most are scores
JsonSchema = Mapping[str, Any]


def estimate_query_cost(snapshot: Snapshot, question: str, name: str, *, filter: str = "", **settings: Any) -> Plan:
    """Estimate the LLM calls and cost of `snapshot.ask`.

    The method runs on stub replies: minimal ones (no, nothing, 0), then maximal ones. Cached replies are used and cost
    nothing. No model is called, and nothing is stored.
    """
    question, options = question or sample_question(snapshot), {"filter": filter, **settings}
    minimum, maximum = (
        _estimate_with_stubs(snapshot, question, name, options, maximal=maximal) for maximal in (False, True)
    )
    return merge_plans(minimum, maximum)


def merge_plans(minimum: Plan, maximum: Plan) -> Plan:
    """Merge two plans into ranges from one to the other."""
    minimum_by_step = {e.step: e for e in minimum.estimates}
    estimates = [_merge_estimates(minimum_by_step.pop(e.step, None), e) for e in maximum.estimates]
    estimates += [_merge_estimates(None, e) for e in minimum_by_step.values()]
    return Plan(tuple(estimates), tuple(dict.fromkeys(minimum.unknown + maximum.unknown)))


def sample_question(snapshot: Snapshot) -> str:
    """Return a typical question with words of the documents."""
    documents = snapshot.table(ROOT)
    first_documents = [documents[id] for (id,) in islice(documents.columns("id"), 1)]
    excerpt = " ".join(
        text for document in first_documents for text in document.text[document.body :][:_EXCERPT_CHARS].split()
    )
    return f"What are the main themes of these documents, and what has this to do with them: {excerpt}"


def _estimate_with_stubs(
    snapshot: Snapshot, question: str, name: str, options: Mapping[str, Any], *, maximal: bool
) -> Plan:
    tallies: dict[str, RequestTally] = {}
    stubs = StubModels.wrap(snapshot.models, snapshot.tokenizer, tallies, maximal=maximal, snapshot=snapshot)
    unknown: tuple[str, ...] = ()
    try:
        replace(snapshot, models=stubs, line_ends={}, lazy_rows={}).ask(question, name, **options)
    except ItemFailed:  # the method rejects stub replies: its further calls are unknown
        unknown = (name or snapshot.default_method(),)
    spent = snapshot.models.cache().usage() if tallies else []
    return replace(estimate_plan(tallies, {}, usage_history(spent, tallies), spent), unknown=unknown)


def _merge_estimates(minimum: Estimate | None, maximum: Estimate) -> Estimate:
    """Merge two estimates into ranges.

    Either may be the larger one: the reply "no" can lead to more calls than "yes".
    """
    if minimum is None:
        minimum = replace(maximum, calls=(0, 0), prompt_tokens=(0, 0), completion_tokens=(0, 0))
        minimum = replace(minimum, cost=maximum.cost and (0, 0), seconds=maximum.seconds and (0, 0))
    calls = _merge_ranges(minimum.calls, maximum.calls)
    return replace(
        maximum,
        exact=calls[0] == calls[1],
        calls=calls,
        prompt_tokens=_merge_ranges(minimum.prompt_tokens, maximum.prompt_tokens),
        completion_tokens=_merge_ranges(minimum.completion_tokens, maximum.completion_tokens),
        cost=_merge_ranges(minimum.cost, maximum.cost) if minimum.cost and maximum.cost else None,
        seconds=_merge_ranges(minimum.seconds, maximum.seconds) if minimum.seconds and maximum.seconds else None,
    )


def _merge_ranges(first: Range, second: Range) -> Range:
    return (min(first[0], second[0]), max(first[1], second[1]))


# -- stub models


@dataclass
class StubModels(ModelRegistry):
    """Stubs of the configured models.

    dimensions: of the embeddings.
    """

    tallies: dict[str, RequestTally] = field(kw_only=True)  # by scope
    real: ModelRegistry = field(kw_only=True)
    tokenizer: Tokenizer = field(kw_only=True)
    maximal: bool = field(kw_only=True)
    dimensions: int = field(default=1, kw_only=True)
    replies: dict[bytes, bytes] = field(default_factory=dict, kw_only=True)  # by cache key

    def __post_init__(self) -> None:
        self.stub_cache = _StubCache(self.cache, self.replies)

    @classmethod
    def wrap(
        cls,
        real: ModelRegistry,
        tokenizer: Tokenizer,
        tallies: dict[str, RequestTally],
        *,
        maximal: bool,
        replies: dict[bytes, bytes] | None = None,
        snapshot: Snapshot | None = None,
    ) -> StubModels:
        """Return stubs of these models.

        snapshot: an index; its vectors give the dimensions.
        """
        dimensions = next((matrix.shape[1] for matrix in snapshot.matrices.values()), 1) if snapshot else 1
        stub_replies = {} if replies is None else replies
        return cls(
            real.settings,
            real.cache,
            tallies=tallies,
            real=real,
            tokenizer=tokenizer,
            maximal=maximal,
            dimensions=dimensions,
            replies=stub_replies,
        )

    def chat(self, scope: str) -> Chat | None:
        return self.real.chat(scope)

    def budget(self, _: Caps | None = None, parent: Budget | None = None) -> Budget:  # noqa: ARG002
        return Budget()

    def llm(self, scope: str, budget: Budget, previous_model: str = "", generation: int = 0) -> CachedLLM:
        llm = self.real.llm(scope, budget, previous_model, generation)
        tally = self.tallies.setdefault(scope, RequestTally(llm.fingerprint, llm.chat.prices, llm.chat.workers))
        cache: Any = self.stub_cache
        return _StubLLM(
            llm.chat,
            cache,
            budget,
            scope,
            generation,
            request_tally=tally,
            tokenizer=self.tokenizer,
            maximal=self.maximal,
        )

    def embedder(self, budget: Budget) -> Embedder:
        paid = self.real.paid_embedder
        if paid is None:
            return self.real.embedder(budget)
        tally = self.tallies.setdefault(EMBEDDING, RequestTally(paid.fingerprint, paid.prices, paid.workers))
        cache: Any = self.stub_cache
        return _StubEmbedder(paid, cache, request_tally=tally, tokenizer=self.tokenizer, dimensions=self.dimensions)

    def endpoint_scorer(self, budget: Budget) -> RelevanceScorer:
        paid = self.real.paid_reranker
        if paid is None:
            return super().endpoint_scorer(budget)
        tally = self.tallies.setdefault(RERANKING, RequestTally(paid.fingerprint, paid.prices, paid.workers))
        cache: Any = self.stub_cache
        return _StubReranker(paid, cache, request_tally=tally, tokenizer=self.tokenizer)


@dataclass(slots=True)
class _StubCache:
    """A cache that reads the real one and writes to memory.

    Equal requests are sent once.
    """

    open_cache: Callable[[], ResponseCache]
    replies: dict[bytes, bytes] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def get_or_fetch(self, key: bytes, fetch: Callable[[], bytes]) -> bytes:
        with self.lock:
            reply = self.replies.get(key) or self.open_cache().get_many([key]).get(key)
            if reply is None:
                reply = self.replies[key] = fetch()
            return reply

    def get_many(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        key_list = list(keys)
        return self.open_cache().get_many(key_list) | {
            key: self.replies[key] for key in key_list if key in self.replies
        }

    def put_many(self, replies: Iterable[tuple[bytes, bytes]]) -> None:
        self.replies |= dict(replies)


@dataclass(frozen=True, slots=True)
class _StubLLM(CachedLLM):
    """An LLM that makes up replies of the wanted form.

    It counts the requests.
    """

    request_tally: RequestTally = field(kw_only=True)
    tokenizer: Tokenizer = field(kw_only=True)
    maximal: bool = field(kw_only=True)

    def __call__(self, prompt: str | Messages, *, parse: Callable[[Reply], Any] | None = None, **options: Any) -> Any:
        """Return the parsed stub reply.

        If `parse` rejects it, try a few common replies.
        """
        fallbacks = ("10", "yes", "[]", "{}") if self.maximal else ("0", "no", "[]", "{}")

        def readable(reply: Reply) -> Any:
            assert parse
            for text in (reply.raw, *fallbacks):
                with suppress(MalformedReply):
                    return parse(replace(reply, raw=text))
            return parse(reply)

        # `super()` fails in dataclasses with slots
        return CachedLLM.__call__(self, prompt, parse=readable if parse else None, **options)

    def _request_reply(
        self, key: bytes, messages: Messages, schema: Any, _on_token: Any, _parameters: Any, followups: int
    ) -> Reply:
        contents = [message["content"] for message in messages]
        self.request_tally.add_request(contents, self.tokenizer, followups)
        texts = _stub_texts(contents[-1], int.from_bytes(key[:4], "big"), maximal=self.maximal)
        if schema is None:
            return Reply(
                next(texts) if not self.maximal else " ".join(next(texts) for _ in range(_REPLY_BYTES // _TEXT_BYTES))
            )
        return Reply(json.dumps(_stub_json(schema, schema, texts, maximal=self.maximal), ensure_ascii=False))


@dataclass(frozen=True, slots=True)
class _StubEmbedder(CachedEmbedder):
    """An embedder that returns constant vectors.

    It counts the texts.
    """

    request_tally: RequestTally = field(kw_only=True)
    tokenizer: Tokenizer = field(kw_only=True)
    dimensions: int = field(kw_only=True)

    def _embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        import numpy as np

        self.request_tally.add_request(texts, self.tokenizer)
        return np.full((len(texts), self.dimensions), self.dimensions**-0.5, dtype=np.float32)


@dataclass(frozen=True, slots=True)
class _StubReranker(CachedScorer):
    """A reranker that keeps the order.

    It counts the texts.
    """

    request_tally: RequestTally = field(kw_only=True)
    tokenizer: Tokenizer = field(kw_only=True)

    def _request_scores(self, question: str, texts: Sequence[str]) -> bytes:
        self.request_tally.add_request([question, *texts], self.tokenizer)
        return json.dumps([0.0] * len(texts)).encode()


def _stub_texts(prompt: str, start: int, *, maximal: bool) -> Iterator[str]:
    """Yield reply texts: "no", or distinct excerpts of the prompt."""
    size = max(_TEXT_BYTES * len(prompt) // max(len(prompt.encode()), 1), 1)
    for number in count():
        offset = (start + number * size) % max(len(prompt), 1)
        yield f"{number + 1}. {prompt[offset : offset + size] or prompt[:size]}" if maximal else "no"


def _stub_json(schema: JsonSchema, root: JsonSchema, texts: Iterator[str], depth: int = 0, *, maximal: bool) -> Any:
    """Return a minimal value for a schema; with `maximal`, a large one."""
    maximal = maximal and depth < _MAX_DEPTH

    def build(part: JsonSchema) -> Any:
        return _stub_json(part, root, texts, depth + 1, maximal=maximal)

    if options := schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf"):
        return build(min(options, key=lambda option: (option.get("type") == "null") == maximal))
    if "$ref" in schema:
        return build(reduce(lambda node, name: node[name], schema["$ref"].split("/")[1:], root))
    if "enum" in schema or "const" in schema:
        return _stub_choice(schema.get("enum", [schema.get("const")]), maximal=maximal)
    kind = schema.get("type", "object")
    if kind == "object":
        return {name: build(part) for name, part in schema.get("properties", {}).items()}
    if kind == "array":
        return _stub_list(schema, build, maximal=maximal)
    if kind == "string":
        return next(texts)
    return {"boolean": maximal, "null": None}.get(kind, _stub_number(schema, maximal=maximal))


def _stub_choice(choices: Sequence[Any], *, maximal: bool) -> Any:
    """Return yes or no if allowed, else the last or first choice."""
    preferred, position = ("yes", -1) if maximal else ("no", 0)
    return next((choice for choice in choices if str(choice).casefold() == preferred), choices[position])


def _stub_list(schema: JsonSchema, build: Callable[[JsonSchema], Any], *, maximal: bool) -> list[Any]:
    if "prefixItems" in schema:
        return [build(part) for part in schema["prefixItems"]]
    size = max(schema.get("minItems", 0), min(schema.get("maxItems", _MAX_ITEMS), _MAX_ITEMS) if maximal else 0)
    item: JsonSchema = schema.get("items", {})
    if item.get("type") in ("integer", "number"):  # these are source numbers
        return [*range(1, size + 1)]
    return [build(item) for _ in range(size)]


def _stub_number(schema: JsonSchema, *, maximal: bool) -> int:
    return int(schema.get("maximum", _DEFAULT_MAXIMUM) if maximal else max(schema.get("minimum", 0), 0))
