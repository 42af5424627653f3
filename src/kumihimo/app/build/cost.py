"""requests + past usage -> Plan: calls, tokens, cost and time of each step."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, floor, inf
from time import thread_time
from typing import NoReturn

from kumihimo.app.build import step_rates
from kumihimo.app.build.step_rates import ReadingSizes
from kumihimo.app.opened.results import Estimate, LocalWork, Range, sum_ranges
from kumihimo.core.context import Tokenizer
from kumihimo.core.errors import ItemFailed
from kumihimo.core.task import Job, RunJob, StepResult, Task
from kumihimo.core.usage import Usage
from kumihimo.llm.budget import Budget
from kumihimo.llm.cached_llm import EMBEDDING, CachedEmbedder, StructuredLLM, create_llm, request_key
from kumihimo.llm.protocols import ChatRequest, Embedder, Prices, TextsRequest
from kumihimo.llm.registry import ModelRegistry
from kumihimo.storage.response_cache import UsageEntry

_UNCALIBRATED: Range = (0.5, 1.1)  # server tokens per token of the built-in tokenizer, without data
UNKNOWN_REPLY: Range = (16, 600)  # tokens of a reply, without earlier replies
# How far coming calls may differ from earlier ones: a part in any case, and a part that shrinks with their number.
_CALIBRATION, _TURNS, _REPLIES, _PROMPTS = (0.05, 0.3), (0.2, 0.6), (0.3, 1.0), (0.6, 1.0)
_TIMED_TEXTS = 5  # embedded to measure the speed of a model inside this process
_FEW_CALLS = 3  # more than expected, where few are expected
NOT_ASKED = "not asked"  # the failure of a dry run


@dataclass(slots=True)
class RequestTally:
    """The requests of one step, or of the embedder for one table.

    tokens: by the built-in tokenizer. followups: the calls that may follow; each repeats the whole conversation.
    batch: texts in one request of an embedder.
    """

    model: str
    prices: Prices
    workers: int
    calls: int = 0
    texts: int = 0
    bytes: int = 0
    tokens: int = 0
    followups: int = 0
    batch: int = 1

    def add_request(self, texts: Sequence[str], tokenizer: Tokenizer) -> None:
        """Add one request."""
        self.calls += 1
        self.texts += len(texts)
        self.bytes += sum(len(text.encode()) for text in texts)
        self.tokens += sum(len(tokenizer(text)) for text in texts)


@dataclass(frozen=True, slots=True)
class DryRunModels:
    """Models that answer from the cache alone and count other requests."""

    models: ModelRegistry
    tokenizer: Tokenizer
    previous_models: Mapping[str, str] = field(default_factory=dict)  # by scope: the model behind its table
    tallies: dict[str, RequestTally] = field(default_factory=dict)  # by scope of a step
    embedded: dict[str, RequestTally] = field(default_factory=dict)  # by table, for a paid embedding model
    # the most followups of each request; equal requests count once, over all steps
    counted_followups: dict[bytes, int] = field(default_factory=dict)
    local_texts: list[str] = field(default_factory=list)  # for the embedding model inside this process

    def llm(self, scope: str) -> StructuredLLM:
        chat = self.models.required_chat(scope, self.previous_models.get(scope, ""))
        tally = self.tallies.setdefault(scope, RequestTally(chat.fingerprint, chat.prices, chat.workers))

        def count_request(request: ChatRequest) -> NoReturn:
            key = request_key(chat, request)
            if not self.models.cache().is_waiting(key):
                if key not in self.counted_followups:
                    tally.add_request([message["content"] for message in request.messages], self.tokenizer)
                counted = self.counted_followups.get(key, 0)
                self.counted_followups[key] = max(counted, request.followups)
                tally.followups += self.counted_followups[key] - counted
            raise ItemFailed(NOT_ASKED)

        return create_llm(chat, self.models.cache(), scope=scope, innermost=count_request)

    def embedder(self, table: str) -> Embedder:
        embedder = self.models.embedder(Budget(), table)
        if not isinstance(embedder, CachedEmbedder):
            return embedder
        tally = None
        if model := self.models.paid_embedder:
            new_tally = RequestTally(model.fingerprint, model.prices, model.workers, batch=embedder.batch)
            tally = self.embedded.setdefault(table, new_tally)

        def count_texts(request: TextsRequest) -> NoReturn:
            if tally:
                tally.add_request(request.texts, self.tokenizer)
            else:
                self.local_texts.extend(request.texts)
            raise ItemFailed(NOT_ASKED)

        return replace(embedder, send=count_texts, dry_run=True)


def skip_failed(call: RunJob, jobs: Iterable[Job]) -> Iterator[list[StepResult]]:
    """Yield the results of a pool that skips failed keys.

    Their requests would be paid for the first time, not again.
    """
    failing = set(call.failing) if isinstance(call, Task) else set()
    for job in jobs:
        yield call([(key, rows) for key, rows in job if key not in failing])


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


@dataclass(frozen=True, slots=True)
class PlanEstimator:
    """The requests of a dry run, and everything that tells how many follow.

    tallies, dependencies, past: by scope of a step; dependencies are the scopes of all model steps before it. embedded,
    table_dependencies: by table. spent: the usage so far. windows: settings that limit the tokens of a prompt.
    """

    tallies: Mapping[str, RequestTally]
    dependencies: Mapping[str, Sequence[str]] = field(default_factory=dict)
    past: Mapping[str, PastUsage] = field(default_factory=dict)
    spent: Sequence[UsageEntry] = ()
    embedded: Mapping[str, RequestTally] = field(default_factory=dict)
    table_dependencies: Mapping[str, Sequence[str]] = field(default_factory=dict)
    sizes: ReadingSizes = field(default_factory=ReadingSizes)
    windows: Mapping[str, int] = field(default_factory=dict)

    def estimates(self, scopes: Collection[str] | None = None, tables: Collection[str] | None = None) -> list[Estimate]:
        """Return the estimate of each step, and of the embedder.

        scopes, tables: only these; None: all.
        """
        calls: dict[str, Range] = {}  # by scope
        estimates: list[Estimate] = []
        for scope, tally in self.tallies.items():
            upstream = [calls[name] for name in self.dependencies.get(scope, ()) if name in calls]
            if (scopes is not None and scope not in scopes) or not (tally.calls or upstream):
                continue
            estimate = self._step(scope, tally, sum_ranges(upstream))
            if estimate.calls[1]:
                calls[scope] = estimate.calls
                estimates.append(estimate)
        embedded = [self._embedding(table, calls) for table in self.embedded if tables is None or table in tables]
        return [*estimates, *merge_embedding(each for each in embedded if each.calls[1])]

    def _step(self, scope: str, tally: RequestTally, upstream: Range) -> Estimate:
        """Return the estimate of a step.

        upstream: the calls of the steps before it.
        """
        past = self.past.get(scope)
        similar = [s for s in self.spent if s.kind == "spent" and s.model == tally.model]
        similar = [s for s in similar if s.scope == scope] or similar
        usage, size = sum((s.usage for s in similar), Usage()), sum(s.bytes for s in similar)
        reply = self._reply(scope, past, usage, tally.calls)
        calls, prompt = (0.0, 0.0), (0.0, 0.0)
        if tally.calls:
            calls = _call_range(tally, past)
            counted = _prompt_range(tally, usage, size)
            repeated = reply[1] if tally.followups else 0  # the next call repeats the reply
            prompt = (counted[0], (counted[1] / tally.calls + repeated) * calls[1])
        if upstream[1]:
            rate = step_rates.LATER_STEPS.get(scope, step_rates.PLUGIN_STEP)
            later = self._later_calls(scope, rate, past, upstream)
            tokens = rate.prompt[0], min(rate.prompt[1], self.windows.get(scope, inf))
            if past:
                spread = _spread(_PROMPTS, past.usage.calls, later[1])
                tokens = _scale(spread, past.usage.prompt_tokens / past.usage.calls)
            calls, prompt = sum_ranges([calls, later]), sum_ranges([prompt, _multiply(later, tokens)])
        exact = not upstream[1] and calls[0] == calls[1]
        return _price(scope, tally, calls, prompt, reply, usage, exact=exact)

    def _later_calls(self, scope: str, rate: step_rates.Rate, past: PastUsage | None, upstream: Range) -> Range:
        """Return the calls about rows that other calls will make.

        Past calls of this step narrow the range of its rate, or replace it where they contradict it.
        """
        unit = upstream if rate.unit == "calls" else self.sizes.unit(rate.unit)
        low, high = floor(rate.calls[0] * unit[0]), ceil(rate.calls[1] * unit[1]) + (_FEW_CALLS if unit[1] else 0)
        earlier = [self.past[name].usage.calls for name in self.dependencies[scope] if name in self.past]
        if past and earlier and rate.spread:
            shares = _scale(rate.spread, past.usage.calls / max(earlier))
            again = 2 if any(self.sizes.rows.values()) else 1  # an update touches rows of earlier documents too
            least, most = floor(shares[0] * upstream[0]), ceil(again * shares[1] * upstream[1] + _FEW_CALLS)
            low, high = (max(low, least), min(high, most)) if least <= high and low <= most else (least, most)
        return (low, high)

    def _reply(self, scope: str, past: PastUsage | None, usage: Usage, coming: int) -> Range:
        """Return the token range of one reply."""
        source = past.usage if past else usage
        if source.calls:
            return _scale(_spread(_REPLIES, source.calls, coming), source.completion_tokens / source.calls)
        if scope in step_rates.LATER_STEPS:
            return step_rates.LATER_STEPS[scope].reply
        return step_rates.FIRST_REPLIES.get(scope, UNKNOWN_REPLY)

    def _embedding(self, table: str, calls: Mapping[str, Range]) -> Estimate:
        """Return the estimate of embedding one table."""
        tally = self.embedded[table]
        spent = [s for s in self.spent if s.kind == "spent" and s.model == tally.model]
        usage, size = sum((s.usage for s in spent), Usage()), sum(s.bytes for s in spent)
        requests: Range = (tally.calls, tally.calls)
        tokens = _prompt_range(tally, usage, size)
        upstream = [calls[name] for name in self.table_dependencies.get(table, ()) if name in calls]
        if upstream:
            rate = step_rates.TABLES.get(table, step_rates.PLUGIN_TABLE)
            unit = sum_ranges(upstream) if rate.unit == "calls" else self.sizes.unit(rate.unit)
            rows = _multiply(rate.rows, unit)
            more = ceil(rows[0] / tally.batch), ceil(rows[1] / tally.batch) + 1  # the last batch may be small
            requests, tokens = sum_ranges([requests, more]), sum_ranges([tokens, _multiply(rows, rate.tokens)])
        return _price(EMBEDDING, tally, requests, tokens, (0, 0), usage, exact=requests[0] == requests[1])


def merge_embedding(estimates: Iterable[Estimate]) -> list[Estimate]:
    """Return one estimate for all embedded tables, none without any."""
    rows = list(estimates)
    if not rows:
        return []
    calls, prompt, seconds = (
        sum_ranges(getattr(r, name) for r in rows) for name in ("calls", "prompt_tokens", "seconds")
    )
    cost = sum_ranges(row.cost or (0, 0) for row in rows) if rows[0].cost else None
    exact = all(row.exact for row in rows)
    return [replace(rows[0], calls=calls, prompt_tokens=prompt, cost=cost, seconds=seconds, exact=exact)]


def _price(
    step: str, tally: RequestTally, calls: Range, prompt: Range, reply: Range, usage: Usage, *, exact: bool
) -> Estimate:
    """Return an estimate; its seconds as before, else by published speeds."""
    seconds = call_seconds(calls, reply, tally.workers)
    if usage.calls:
        seconds = _scale((calls[0] / tally.workers, calls[1] / tally.workers), usage.seconds / usage.calls)
    return price_estimate(
        step, tally.model, tally.prices, calls, _round(prompt), _round(_multiply(calls, reply)), seconds, exact
    )


def price_estimate(
    step: str, model: str, prices: Prices, calls: Range, prompt: Range, completion: Range, seconds: Range, exact: bool
) -> Estimate:
    """Return an estimate, with its cost if prices are set."""
    low, high = (prices.cost(round(prompt[i]), 0, round(completion[i]), round(calls[i])) for i in (0, 1))
    return Estimate(step, model, exact, calls, prompt, completion, (low, high) if prices.is_set else None, seconds)


def _prompt_range(tally: RequestTally, usage: Usage, size: int) -> Range:
    """Return the tokens of the requests, as a server counts them.

    usage, size: of earlier requests, and the bytes of their prompts.
    """
    if not size:
        return _scale(_UNCALIBRATED, tally.tokens)
    return _scale(_spread(_CALIBRATION, usage.calls, tally.calls), tally.bytes * usage.prompt_tokens / size)


def call_seconds(calls: Range, reply: Range, workers: int = 1) -> Range:
    """Return the seconds of calls with such replies, by the published speeds."""
    slow, fast = step_rates.TOKENS_PER_SECOND
    each = (step_rates.SECONDS_OF_CALL[0] + reply[0] / fast, step_rates.SECONDS_OF_CALL[1] + reply[1] / slow)
    return (calls[0] * each[0] / workers, calls[1] * each[1] / workers)


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


def _call_range(tally: RequestTally, past_usage: PastUsage | None) -> Range:
    """Return the range of calls, with followups.

    Their number is as in the sample, or else between none and all possible ones.
    """
    turns = past_usage.usage.calls / past_usage.keys if past_usage else 1.0
    if tally.followups and turns > 1:
        spread = _spread(_TURNS, past_usage.usage.calls if past_usage else 0, tally.calls)
        low, high = _round(_scale(spread, tally.calls * turns))
        return (max(low, tally.calls), high)
    return (tally.calls, max(tally.calls + tally.followups, round(tally.calls * turns)))


def _spread(spread: tuple[float, float], earlier: float, coming: float) -> Range:
    """Return the range of coming means, relative to the earlier mean.

    >>> [round(end, 2) for end in _spread((0.3, 1.0), 100, 100)]
    [0.67, 1.5]
    """
    part = spread[0] + spread[1] * (max(earlier, 1) ** -0.5 + max(coming, 1) ** -0.5)
    return (1 / (1 + part), 1 + part)


def _scale(factors: Range, amount: float) -> Range:
    return (factors[0] * amount, factors[1] * amount)


def _multiply(one: Range, other: Range) -> Range:
    return (one[0] * other[0], one[1] * other[1])


def _round(amounts: Range) -> Range:
    return (round(amounts[0]), round(amounts[1]))
