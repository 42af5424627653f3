"""question + method -> Plan: what it would cost to ask, found by asking models that answer from nothing."""

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

_EXCERPT_CHARS = 80  # characters of a document, so that a question that nobody has asked finds something
_MAX_ITEMS = 8  # of a list, where replies are as full as may be; with _SIZE about 500 tokens
_TEXT_BYTES = 200  # bytes of a text within a reply
_REPLY_BYTES = 1600  # bytes of a reply that is a text
_MAX_DEPTH = 6  # schemas may hold themselves
_DEFAULT_MAXIMUM = 100  # of a number without a maximum: as scores go
JsonSchema = Mapping[str, Any]


def estimate_query_cost(snapshot: Snapshot, question: str, name: str, *, filter: str = "", **settings: Any) -> Plan:
    """What `reading.ask` would ask of models, from the least to the most; nobody is asked, nothing is kept.

    The method itself is run, twice: once on replies that say as little as may be, no, nothing, 0, and once on such
    as say as much as may be. What is remembered answers as it did, and costs nothing.
    """
    question, options = question or sample_question(snapshot), {"filter": filter, **settings}
    least, most = (_estimate_with_stubs(snapshot, question, name, options, maximal=full) for full in (False, True))
    return merge_plans(least, most)


def merge_plans(minimum: Plan, maximum: Plan) -> Plan:
    """Of each step from one to the other."""
    there = {e.step: e for e in minimum.estimates}
    estimates = [_merge_estimates(there.pop(e.step, None), e) for e in maximum.estimates]
    estimates += [_merge_estimates(None, e) for e in there.values()]
    return Plan(tuple(estimates), tuple(dict.fromkeys(minimum.unknown + maximum.unknown)))


def sample_question(snapshot: Snapshot) -> str:
    """One of no matter what, in words that the documents use."""
    documents = snapshot.table(ROOT)
    first = [documents[id] for (id,) in islice(documents.columns("id"), 1)]
    said = " ".join(text for document in first for text in document.text[document.body :][:_EXCERPT_CHARS].split())
    return f"What are the main themes of these documents, and what has this to do with them: {said}"


def _estimate_with_stubs(
    snapshot: Snapshot, question: str, name: str, options: Mapping[str, Any], *, maximal: bool
) -> Plan:
    asked: dict[str, RequestTally] = {}
    stand_in = StubModels.wrap(snapshot.models, snapshot.tokenizer, asked, maximal=maximal, snapshot=snapshot)
    unknown: tuple[str, ...] = ()
    try:
        replace(snapshot, models=stand_in, line_ends={}, lazy_rows={}).ask(question, name, **options)
    except ItemFailed:  # it made nothing of replies that say nothing: how it goes on is not known
        unknown = (name or snapshot.default_method(),)
    spent = snapshot.models.cache().usage() if asked else []
    return replace(estimate_plan(asked, {}, usage_history(spent, asked), spent), unknown=unknown)


def _merge_estimates(minimum: Estimate | None, maximum: Estimate) -> Estimate:
    """From one to the other; which of them is more is not said, for a no may lead further than a yes."""
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


def _merge_ranges(one: Range, other: Range) -> Range:
    return (min(one[0], other[0]), max(one[1], other[1]))


# -- models that answer from nothing


@dataclass
class StubModels(ModelRegistry):
    """Those that the settings name, by name only. length: of the vectors that texts would have."""

    tallies: dict[str, RequestTally] = field(kw_only=True)  # by scope
    real: ModelRegistry = field(kw_only=True)
    tokenizer: Tokenizer = field(kw_only=True)
    maximal: bool = field(kw_only=True)
    dimensions: int = field(default=1, kw_only=True)
    replies: dict[bytes, bytes] = field(default_factory=dict, kw_only=True)  # replies so far

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
        """In place of those. like: an index, which has vectors of theirs."""
        length = next((matrix.shape[1] for matrix in snapshot.matrices.values()), 1) if snapshot else 1
        held = {} if replies is None else replies
        return cls(
            real.settings,
            real.cache,
            tallies=tallies,
            real=real,
            tokenizer=tokenizer,
            maximal=maximal,
            dimensions=length,
            replies=held,
        )

    def chat(self, scope: str) -> Chat | None:
        return self.real.chat(scope)

    def budget(self, _: Caps | None = None, parent: Budget | None = None) -> Budget:  # noqa: ARG002
        return Budget()

    def llm(self, scope: str, budget: Budget, previous_model: str = "", generation: int = 0) -> CachedLLM:
        real = self.real.llm(scope, budget, previous_model, generation)
        asked = self.tallies.setdefault(scope, RequestTally(real.fingerprint, real.chat.prices, real.chat.workers))
        memo: Any = self.stub_cache
        return _StubLLM(
            real.chat,
            memo,
            budget,
            scope,
            generation,
            request_tally=asked,
            tokenizer=self.tokenizer,
            maximal=self.maximal,
        )

    def embedder(self, budget: Budget) -> Embedder:
        paid = self.real.paid_embedder
        if paid is None:
            return self.real.embedder(budget)
        asked = self.tallies.setdefault(EMBEDDING, RequestTally(paid.fingerprint, paid.prices, paid.workers))
        memo: Any = self.stub_cache
        return _StubEmbedder(paid, memo, request_tally=asked, tokenizer=self.tokenizer, dimensions=self.dimensions)

    def endpoint_scorer(self, budget: Budget) -> RelevanceScorer:
        paid = self.real.paid_reranker
        if paid is None:
            return super().endpoint_scorer(budget)
        asked = self.tallies.setdefault(RERANKING, RequestTally(paid.fingerprint, paid.prices, paid.workers))
        memo: Any = self.stub_cache
        return _StubReranker(paid, memo, request_tally=asked, tokenizer=self.tokenizer)


@dataclass(slots=True)
class _StubCache:
    """A memo that answers, and adds nothing to the one that is kept. Equal requests are one."""

    open_cache: Callable[[], ResponseCache]
    replies: dict[bytes, bytes] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def get_or_fetch(self, key: bytes, fetch: Callable[[], bytes]) -> bytes:
        with self.lock:
            found = self.replies.get(key) or self.open_cache().get_many([key]).get(key)
            if found is None:
                found = self.replies[key] = fetch()
            return found

    def get_many(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        wanted = list(keys)
        return self.open_cache().get_many(wanted) | {key: self.replies[key] for key in wanted if key in self.replies}

    def put_many(self, replies: Iterable[tuple[bytes, bytes]]) -> None:
        self.replies |= dict(replies)


@dataclass(frozen=True, slots=True)
class _StubLLM(CachedLLM):
    """Replies of the wanted form are made up; requests are counted."""

    request_tally: RequestTally = field(kw_only=True)
    tokenizer: Tokenizer = field(kw_only=True)
    maximal: bool = field(kw_only=True)

    def __call__(self, prompt: str | Messages, *, parse: Callable[[Reply], Any] | None = None, **options: Any) -> Any:
        """As ever; where a form of its own is read, whatever of a few replies can be read is the reply."""
        tried = ("10", "yes", "[]", "{}") if self.maximal else ("0", "no", "[]", "{}")

        def readable(reply: Reply) -> Any:
            assert parse
            for text in (reply.raw, *tried):
                with suppress(MalformedReply):
                    return parse(replace(reply, raw=text))
            return parse(reply)

        # the explicit form: `super()` does not reach out of a class with slots
        return CachedLLM.__call__(self, prompt, parse=readable if parse else None, **options)

    def _request_reply(
        self, asked: bytes, messages: Messages, schema: Any, _hear: Any, _given: Any, further: int
    ) -> Reply:
        told = [message["content"] for message in messages]
        self.request_tally.add_request(told, self.tokenizer, further)
        texts = _stub_texts(told[-1], int.from_bytes(asked[:4], "big"), maximal=self.maximal)
        if schema is None:
            return Reply(
                next(texts) if not self.maximal else " ".join(next(texts) for _ in range(_REPLY_BYTES // _TEXT_BYTES))
            )
        return Reply(json.dumps(_stub_json(schema, schema, texts, maximal=self.maximal), ensure_ascii=False))


@dataclass(frozen=True, slots=True)
class _StubEmbedder(CachedEmbedder):
    """Vectors that point nowhere in particular; texts are counted."""

    request_tally: RequestTally = field(kw_only=True)
    tokenizer: Tokenizer = field(kw_only=True)
    dimensions: int = field(kw_only=True)

    def _embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        import numpy as np

        self.request_tally.add_request(texts, self.tokenizer)
        return np.full((len(texts), self.dimensions), self.dimensions**-0.5, dtype=np.float32)


@dataclass(frozen=True, slots=True)
class _StubReranker(CachedScorer):
    """Judgements that leave all as it is; texts are counted."""

    request_tally: RequestTally = field(kw_only=True)
    tokenizer: Tokenizer = field(kw_only=True)

    def _request_scores(self, question: str, texts: Sequence[str]) -> bytes:
        self.request_tally.add_request([question, *texts], self.tokenizer)
        return json.dumps([0.0] * len(texts)).encode()


def _stub_texts(prompt: str, start: int, *, maximal: bool) -> Iterator[str]:
    """Texts in the prompt's own words, each another: a single "no", or some stretch of it."""
    size = max(_TEXT_BYTES * len(prompt) // max(len(prompt.encode()), 1), 1)
    for n in count():
        at = (start + n * size) % max(len(prompt), 1)
        yield f"{n + 1}. {prompt[at : at + size] or prompt[:size]}" if maximal else "no"


def _stub_json(schema: JsonSchema, root: JsonSchema, texts: Iterator[str], depth: int = 0, *, maximal: bool) -> Any:
    """The least that fits a schema; or, where `full`, the most that may be expected."""
    maximal = maximal and depth < _MAX_DEPTH

    def made(part: JsonSchema) -> Any:
        return _stub_json(part, root, texts, depth + 1, maximal=maximal)

    if arms := schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf"):
        return made(min(arms, key=lambda arm: (arm.get("type") == "null") == maximal))
    if "$ref" in schema:
        return made(reduce(lambda held, name: held[name], schema["$ref"].split("/")[1:], root))
    if "enum" in schema or "const" in schema:
        return _stub_choice(schema.get("enum", [schema.get("const")]), maximal=maximal)
    kind = schema.get("type", "object")
    if kind == "object":
        return {name: made(part) for name, part in schema.get("properties", {}).items()}
    if kind == "array":
        return _stub_list(schema, made, maximal=maximal)
    if kind == "string":
        return next(texts)
    return {"boolean": maximal, "null": None}.get(kind, _stub_number(schema, maximal=maximal))


def _stub_choice(choices: Sequence[Any], *, maximal: bool) -> Any:
    """No and yes, where one may say so; or else the first and the last."""
    wanted, place = ("yes", -1) if maximal else ("no", 0)
    return next((choice for choice in choices if str(choice).casefold() == wanted), choices[place])


def _stub_list(schema: JsonSchema, build: Callable[[JsonSchema], Any], *, maximal: bool) -> list[Any]:
    if "prefixItems" in schema:
        return [build(part) for part in schema["prefixItems"]]
    size = max(schema.get("minItems", 0), min(schema.get("maxItems", _MAX_ITEMS), _MAX_ITEMS) if maximal else 0)
    item: JsonSchema = schema.get("items", {})
    if item.get("type") in ("integer", "number"):  # they name sources, one each
        return [*range(1, size + 1)]
    return [build(item) for _ in range(size)]


def _stub_number(schema: JsonSchema, *, maximal: bool) -> int:
    return int(schema.get("maximum", _DEFAULT_MAXIMUM) if maximal else max(schema.get("minimum", 0), 0))
