"""requests + past usage -> Plan: calls, tokens, cost and time of each step."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import thread_time
from typing import NoReturn

from kumihimo.app.results import Estimate, LocalWork, Plan, Range
from kumihimo.core.context import Tokenizer
from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import ItemFailed
from kumihimo.core.task import Job, Pool, RunJob, StepResult, Task
from kumihimo.core.usage import Usage
from kumihimo.llm.budget import Budget
from kumihimo.llm.cached_llm import EMBEDDING, RERANKING, CachedEmbedder, StructuredLLM, create_llm, request_key
from kumihimo.llm.protocols import ChatRequest, Embedder, Prices, TextsRequest
from kumihimo.llm.registry import ModelRegistry
from kumihimo.storage.sqlite.response_cache import UsageEntry

_UNCALIBRATED: Range = (0.5, 1.1)  # server tokens per token of the built-in tokenizer, without data
_CALIBRATED: Range = (0.95, 1.05)  # the same, with earlier counts of the server
_UNKNOWN_REPLY: Range = (16, 600)  # tokens of a reply, without earlier replies
_REPLY_SPREAD: Range = (0.7, 1.3)  # tokens of a reply, relative to earlier replies of the step
_TIMED_TEXTS = 5  # embedded to measure the speed of a model inside this process
_DOWNSTREAM_SPREAD: Range = (0.5, 1.25)  # calls of a step with unknown input, relative to proportional growth


@dataclass(slots=True)
class RequestTally:
    """The requests of one step, or of the embedder.

    tokens: by the built-in tokenizer. followups: the calls that may follow; each repeats the whole conversation.
    """

    model: str
    prices: Prices
    workers: int
    calls: int = 0
    texts: int = 0
    bytes: int = 0
    tokens: int = 0
    followups: int = 0

    def add_request(self, texts: Sequence[str], tokenizer: Tokenizer, followups: int = 0) -> None:
        """Add one request."""
        self.calls += 1
        self.followups += followups
        self.texts += len(texts)
        self.bytes += sum(len(text.encode()) for text in texts)
        self.tokens += sum(len(tokenizer(text)) for text in texts)


@dataclass(frozen=True, slots=True)
class DryRunModels:
    """Models that answer from the cache alone and count other requests."""

    models: ModelRegistry
    tokenizer: Tokenizer
    previous_models: Mapping[str, str] = field(default_factory=dict)  # by scope: the model behind its table
    tallies: dict[str, RequestTally] = field(default_factory=dict)  # by step
    counted_keys: set[bytes] = field(default_factory=set)  # equal requests count once, over all steps
    local_texts: list[str] = field(default_factory=list)  # for the embedding model inside this process

    def llm(self, scope: str) -> StructuredLLM:
        chat = self.models.required_chat(scope, self.previous_models.get(scope, ""))
        tally = self.tallies.setdefault(scope, RequestTally(chat.fingerprint, chat.prices, chat.workers))

        def count_request(request: ChatRequest) -> NoReturn:
            if (key := request_key(chat, request)) not in self.counted_keys:
                self.counted_keys.add(key)
                contents = [message["content"] for message in request.messages]
                tally.add_request(contents, self.tokenizer, request.followups)
            raise ItemFailed("not asked")

        return create_llm(chat, self.models.cache(), scope=scope, innermost=count_request)

    def embedder(self, table: str) -> Embedder:
        embedder = self.models.embedder(Budget(), table)
        if not isinstance(embedder, CachedEmbedder):
            return embedder
        tally = None
        if model := self.models.paid_embedder:
            tally = self.tallies.setdefault(EMBEDDING, RequestTally(model.fingerprint, model.prices, model.workers))

        def count_texts(request: TextsRequest) -> NoReturn:
            if tally:
                tally.add_request(request.texts, self.tokenizer)
            else:
                self.local_texts.extend(request.texts)
            raise ItemFailed("not asked")

        return replace(embedder, send=count_texts, dry_run=True)


def skip_failed(call: RunJob, jobs: Iterable[Job]) -> Iterator[list[StepResult]]:
    """Yield the results of a pool that skips failed keys.

    Their requests would be paid for the first time, not again.
    """
    failing = set(call.failing) if isinstance(call, Task) else set()
    for job in jobs:
        yield call([(key, rows) for key, rows in job if key not in failing])


@dataclass(slots=True)
class SamplingPool:
    """A pool that runs a sample of chunks, spread over all.

    It also runs the rows made from them. size: chunks in the sample.
    """

    size: int
    pool: Pool
    is_document: Callable[[str], bool]
    keys: Counter[str] = field(default_factory=Counter)  # by step: number of sampled keys
    scopes: dict[str, str] = field(default_factory=dict)  # by step: where its settings and its model are set
    _sample_keys: set[str] = field(default_factory=set)

    def __call__(self, call: RunJob, jobs: Iterable[Job]) -> Iterator[list[StepResult]]:
        all_jobs = list(jobs)
        chunks = {self._chunk_id(key) for job in all_jobs for key, _ in job if self.is_document(key.partition(".")[0])}
        if {"." in chunk for chunk in chunks} - {"." in chunk for chunk in self._sample_keys}:
            # sample from the keys of this step, not from all chunks: steps over documents may run before their chunks
            self._sample_keys |= set(sorted(chunks, key=hash_parts)[: self.size])
            self._sample_keys |= {chunk.partition(".")[0] for chunk in self._sample_keys}

        def run_sampled(job: Job) -> list[StepResult]:
            sampled_job = [(key, rows) for key, rows in job if rows and self._in_sample(key)]
            if isinstance(call, Task):
                self.keys[call.step.name] += len(sampled_job)
                self.scopes[call.step.name] = call.step.scope
            results = {result.key: result for result in call(sampled_job)}
            return [results.get(key) or StepResult(key, [], b"", "not in the sample") for key, _ in job]

        return self.pool(run_sampled, all_jobs)

    def _in_sample(self, key: str) -> bool:
        """Return whether the key is in the sample.

        Keys are documents, chunks, rows made from them, or groups of such rows; groups hold sampled rows only.
        """
        return not self.is_document(key.partition(".")[0]) or self._chunk_id(key) in self._sample_keys

    @staticmethod
    def _chunk_id(key: str) -> str:
        """Return the chunk of a key, or its whole document."""
        return ".".join(key.split(".")[:2])


@dataclass(frozen=True, slots=True)
class PastUsage:
    """The usage of a step so far, and its number of keys."""

    keys: int
    usage: Usage


def usage_history(spent: Iterable[UsageEntry], tallies: Mapping[str, RequestTally]) -> dict[str, PastUsage]:
    """Return past usage by scope.

    The number of keys is not recorded, so each call counts as one key.
    """
    usage_by_scope = {
        s.scope: s.usage
        for s in spent
        if s.kind == "spent" and s.scope in tallies and s.model == tallies[s.scope].model
    }
    return {scope: PastUsage(usage.calls, usage) for scope, usage in usage_by_scope.items() if usage.calls}


def usage_from_sample(sample: SamplingPool, budget: Budget) -> dict[str, PastUsage]:
    """Return the usage of a sample by scope, paid or cached."""
    none = Usage()
    usage_by_scope = {
        name: budget.spent.get(name, none) + budget.saved.get(name, none) for name in sample.scopes.values()
    }
    steps_by_scope = Counter(sample.scopes.values())  # steps that share a conversation: only one of them pays
    return {
        name: PastUsage(sample.keys[name], _usage_share(usage, steps_by_scope[name]))
        for name, usage in usage_by_scope.items()
        if usage.calls
    }


def _usage_share(usage: Usage, parts: int) -> Usage:
    prompt, completion = round(usage.prompt_tokens / parts), round(usage.completion_tokens / parts)
    return Usage(max(round(usage.calls / parts), 1), prompt, 0, completion, usage.cost / parts, usage.seconds / parts)


def estimate_plan(
    tallies: Mapping[str, RequestTally],
    dependencies: Mapping[str, Sequence[str]],
    past: Mapping[str, PastUsage],
    spent: Sequence[UsageEntry],
) -> Plan:
    """Return the plan of a dry run.

    dependencies: for each step, the LLM steps that it depends on.
    """
    estimates: list[Estimate] = []
    unknown: list[str] = []
    times: dict[str, float] = {}  # coming calls of each step, relative to its past calls
    for step, tally in tallies.items():
        past_usage = past.get(step)
        past_calls = past_usage.usage.calls if past_usage else 0
        upstream = [name for name in dependencies.get(step, ()) if name in times or name in unknown]
        if not tally.calls and not upstream:
            continue
        if upstream and past_usage is None:
            unknown.append(step)
            continue
        own_times = sum(_call_range(tally, past_usage)) / 2 / past_calls if past_calls else 0.0
        times[step] = max([times[name] for name in upstream if name in times] or [own_times])
        estimates.append(
            _estimate_step(
                step, tally, past_usage, times[step] if upstream else None, [s for s in spent if s.kind == "spent"]
            )
        )
    return Plan(tuple(estimates), tuple(unknown))


def estimate_local_work(embedder: Embedder | None, texts: Sequence[str]) -> LocalWork | None:
    """Return the work of an embedding model inside this process.

    It embeds a few of the texts to measure its speed on this machine.
    """
    if embedder is None or not texts:
        return None
    sample = texts[:: -(-len(texts) // _TIMED_TEXTS)]
    embedder(sample[:1])  # loads it
    start = thread_time()
    embedder(sample)
    rate = (thread_time() - start) / sum(len(text.encode()) + 1 for text in sample)
    return LocalWork(embedder.fingerprint, len(texts), rate * sum(len(text.encode()) + 1 for text in texts))


def _estimate_step(
    step: str, tally: RequestTally, past_usage: PastUsage | None, times: float | None, spent: Sequence[UsageEntry]
) -> Estimate:
    similar = [s for s in spent if s.model == tally.model]
    similar = [s for s in similar if s.scope == step] or similar
    usage, size = sum((s.usage for s in similar), Usage()), sum(s.bytes for s in similar)
    reply = _reply_range(step, past_usage, usage)
    if times is None or past_usage is None:
        calls = _call_range(tally, past_usage)
        prompt_tokens = tally.bytes * usage.prompt_tokens / size if size else tally.tokens
        counted = _scale(_CALIBRATED if size else _UNCALIBRATED, prompt_tokens)
        repeated = reply[1] if tally.followups else 0  # the next call repeats the reply
        prompt = (counted[0], (counted[1] / max(tally.calls, 1) + repeated) * calls[1])
    else:
        low, high = _round(_scale(_DOWNSTREAM_SPREAD, past_usage.usage.calls * times))
        calls = (max(low, tally.calls), max(high, tally.calls + 1))  # at least one new input will arrive
        prompt_per_call = past_usage.usage.prompt_tokens / past_usage.usage.calls
        prompt = (calls[0] * prompt_per_call, calls[1] * prompt_per_call)
    completion = (calls[0] * reply[0], calls[1] * reply[1])
    low, high = (tally.prices.cost(round(prompt[i]), 0, round(completion[i]), round(calls[i])) for i in (0, 1))
    cost = (low, high) if tally.prices.is_set else None
    call_seconds = usage.seconds / usage.calls / tally.workers if usage.calls else None
    seconds = None if call_seconds is None else (calls[0] * call_seconds, calls[1] * call_seconds)
    exact = times is None and calls[0] == calls[1]
    return Estimate(step, tally.model, exact, calls, _round(prompt), _round(completion), cost, seconds)


def _call_range(tally: RequestTally, past_usage: PastUsage | None) -> Range:
    """Return the range of calls, with followups.

    Their number is as in the sample, or else between none and all possible ones.
    """
    turns = past_usage.usage.calls / past_usage.keys if past_usage else 1.0
    if tally.followups and turns > 1:
        low, high = _round(_scale(_REPLY_SPREAD, tally.calls * turns))
        return (max(low, tally.calls), high)
    return (tally.calls, max(tally.calls + tally.followups, round(tally.calls * turns)))


def _reply_range(step: str, past_usage: PastUsage | None, usage: Usage) -> Range:
    """Return the token range of one reply."""
    if step in (EMBEDDING, RERANKING):
        return (0, 0)
    source = past_usage.usage if past_usage else usage
    return _scale(_REPLY_SPREAD, source.completion_tokens / source.calls) if source.calls else _UNKNOWN_REPLY


def _scale(factors: Range, amount: float) -> Range:
    return (factors[0] * amount, factors[1] * amount)


def _round(amounts: Range) -> Range:
    return (round(amounts[0]), round(amounts[1]))
