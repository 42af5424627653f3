"""requests + past usage -> Plan: calls, tokens, cost and time of each step."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, floor
from time import thread_time
from typing import NoReturn

from kumihimo.app.build import step_rates
from kumihimo.app.opened.results import Estimate, LocalWork, Range, Total
from kumihimo.core import context, errors, task
from kumihimo.core.usage import Usage
from kumihimo.llm import budget, registry
from kumihimo.llm.cached_llm import EMBEDDING, CachedEmbedder, StructuredLLM, create_llm, request_key
from kumihimo.llm.protocols import ChatRequest, Embedder, Prices, TextsRequest
from kumihimo.storage.response_cache import UsageEntry

_SERVER_TOKENS = 0.9  # of a server, for each token of the built-in tokenizer
# How far a build may be from the estimate, before anything was asked, over corpora and habits of models.
_LATER_CALLS: Range = (0.1, 1.95)  # the calls that follow from replies
_TOKENS = 1.9  # the tokens of a reply, either way
_PROMPTS = 0.12  # the tokens of counted prompts, as a power of that: each server counts its own
# Earlier calls, built keys and calls of the step itself after which the logarithms of these are half as large.
_TOKENS_HALVED, _KEYS_HALVED, _CALLS_HALVED = 18, 6, 1
_TIMED_TEXTS = 5  # embedded to measure the speed of a model inside this process
NOT_ASKED = "not asked"  # the failure of a dry run


@dataclass(slots=True)
class RequestTally:
    """The requests of one step, or of the embedder for one table.

    tokens: by the built-in tokenizer. read: those after the first message, the instructions. followups: the calls that
    may follow; each repeats the whole conversation. batch: texts in one request of an embedder.
    """

    model: str
    prices: Prices
    workers: int
    calls: int = 0
    texts: int = 0
    bytes: int = 0
    tokens: int = 0
    read: int = 0
    followups: int = 0
    batch: int = 1

    def add_request(self, texts: Sequence[str], tokenizer: context.Tokenizer) -> None:
        """Add one request."""
        self.calls += 1
        self.texts += len(texts)
        self.bytes += sum(len(text.encode()) for text in texts)
        counts = [len(tokenizer(text)) for text in texts]
        self.tokens += sum(counts)
        self.read += sum(counts[1:])


@dataclass(frozen=True, slots=True)
class DryRunModels:
    """Models that answer from the cache alone and count other requests."""

    models: registry.ModelRegistry
    tokenizer: context.Tokenizer
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
            raise errors.ItemFailed(NOT_ASKED)

        return create_llm(chat, self.models.cache(), scope=scope, innermost=count_request)

    def embedder(self, table: str) -> Embedder:
        embedder = self.models.embedder(budget.Budget(), table)
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
            raise errors.ItemFailed(NOT_ASKED)

        return replace(embedder, send=count_texts, dry_run=True)


def skip_failed(call: task.RunJob, jobs: Iterable[task.Job]) -> Iterator[list[task.StepResult]]:
    """Yield the results of a pool that skips failed keys.

    Their requests would be paid for the first time, not again.
    """
    failing = set(call.failing) if isinstance(call, task.Task) else set()
    for job in jobs:
        yield call([(key, rows) for key, rows in job if key not in failing])


def usage_history(spent: Iterable[UsageEntry], tallies: Mapping[str, RequestTally]) -> dict[str, Usage]:
    """Return past usage by scope."""
    return {
        s.scope: s.usage
        for s in spent
        if s.kind == "spent" and s.scope in tallies and s.model == tallies[s.scope].model and s.usage.calls
    }


@dataclass(frozen=True, slots=True)
class PlanEstimator:
    """The requests of a dry run, and everything that tells how many follow.

    tallies, dependencies, past, built_keys: by scope of a step; dependencies are the scopes of all model steps before
    it. embedded, table_dependencies: by table. spent: the usage so far. built_keys: how many keys have rows.
    """

    tallies: Mapping[str, RequestTally]
    dependencies: Mapping[str, Sequence[str]] = field(default_factory=dict)
    past: Mapping[str, Usage] = field(default_factory=dict)
    spent: Sequence[UsageEntry] = ()
    embedded: Mapping[str, RequestTally] = field(default_factory=dict)
    table_dependencies: Mapping[str, Sequence[str]] = field(default_factory=dict)
    built_keys: Mapping[str, int] = field(default_factory=dict)

    def estimates(self, scopes: Collection[str] | None = None, tables: Collection[str] | None = None) -> list[Estimate]:
        """Return the estimate of each step, and of the embedder.

        scopes, tables: only these; None: all.
        """
        coming: dict[str, Usage] = {}  # by scope: calls and reply tokens
        estimates: list[Estimate] = []
        for scope, tally in self.tallies.items():
            before = self.dependencies.get(scope, ())
            upstream = sum((coming[name] for name in before if name in coming), Usage())
            if (scopes is not None and scope not in scopes) or not (tally.calls or upstream.calls):
                continue
            estimate, coming[scope] = self._step(scope, tally, upstream, self._past_usage(before))
            if estimate.calls[1]:
                estimates.append(estimate)
        embedded = [self._embedding(table, coming) for table in self.embedded if tables is None or table in tables]
        return [*estimates, *merge_embedding(each for each in embedded if each.calls[1])]

    def _past_usage(self, scopes: Iterable[str]) -> Usage:
        """Return the past usage of these scopes together."""
        return sum((self.past[scope] for scope in scopes if scope in self.past), Usage())

    def _step(self, scope: str, tally: RequestTally, upstream: Usage, earlier: Usage) -> tuple[Estimate, Usage]:
        """Return the estimate of a step, and its typical usage.

        upstream, earlier: the coming and the past usage of the steps before it.
        """
        rate, own = step_rates.STEPS.get(scope, step_rates.PLUGIN_STEP), self.past.get(scope, Usage())
        more, before = upstream.completion_tokens / 1000, earlier.completion_tokens / 1000
        if scope not in step_rates.STEPS:
            more, before = upstream.calls, earlier.calls
        known = own.calls + tally.calls if earlier.calls else 0
        later = more * (rate.weight * rate.calls + known) / (rate.weight + before)
        similar = [s for s in self.spent if s.kind == "spent" and s.model == tally.model]
        similar = [s for s in similar if s.scope == scope] or similar
        usage, size = sum((s.usage for s in similar), Usage()), sum(s.bytes for s in similar)
        counted = _prompt_tokens(tally, usage, size) if tally.calls else 0.0
        reply, prompt = rate.reply + rate.read * tally.read / max(tally.calls, 1), rate.prompt
        if own.calls:
            reply, prompt = own.completion_tokens / own.calls, own.prompt_tokens / own.calls

        def usage_of(turns: float, later: float, margin: float) -> Usage:
            count, length = tally.calls + turns + later, reply * margin
            asked = counted * margin**_PROMPTS + later * prompt * margin
            asked += turns * (counted / max(tally.calls, 1) + length)  # the next call repeats the reply
            return Usage(round(count), round(asked), completion_tokens=round(count * length))

        turns = self._turns(scope, tally)
        margin = _TOKENS ** _margin_share(own.calls + earlier.calls, _TOKENS_HALVED)
        share = _margin_share(known, _CALLS_HALVED)
        low, high = (later * factor**share for factor in _LATER_CALLS)
        least, most = usage_of(turns[0], low, 1 / margin), usage_of(turns[1], high, margin)
        calls = (tally.calls + floor(turns[0]) + round(low), tally.calls + ceil(turns[1]) + round(high))
        prompts, replies = ((getattr(least, n), getattr(most, n)) for n in ("prompt_tokens", "completion_tokens"))
        exact = not upstream.calls and calls[0] == calls[1]
        return _price(scope, tally, calls, prompts, replies, usage, exact=exact), usage_of(sum(turns) / 2, later, 1)

    def _turns(self, scope: str, tally: RequestTally) -> Range:
        """Return how many turns follow.

        Past turns of the keys that are built narrow the typical share; a short text seldom needs one more.
        """
        if scope not in step_rates.STEPS or not (tally.calls and tally.followups):
            return (0, tally.followups)
        certain = max(tally.followups - tally.calls, 0)  # all but one
        begun = max(tally.calls - tally.followups, 0)  # their next turn was not asked yet
        uncertain, keys = tally.followups - certain, self.built_keys.get(scope, 0) + begun
        low, high = 0.0, min(step_rates.MORE_TURNS, tally.read / tally.calls / 1000)
        if keys:
            turns = (self.past.get(scope, Usage()).calls + begun) / keys - 1
            seen = (turns * (tally.calls - begun) - certain) / uncertain
            if 0 <= seen <= 1:
                margin = high * _margin_share(keys, _KEYS_HALVED)
                low, high = max(seen - margin, 0), min(seen + margin, 1)
        return (certain + low * uncertain, certain + high * uncertain)

    def _embedding(self, table: str, coming: Mapping[str, Usage]) -> Estimate:
        """Return the estimate of embedding one table."""
        tally, before = self.embedded[table], self.table_dependencies.get(table, ())
        spent = [s for s in self.spent if s.kind == "spent" and s.model == tally.model]
        usage, size = sum((s.usage for s in spent), Usage()), sum(s.bytes for s in spent)
        past_calls = self._past_usage(before).calls
        rate = step_rates.TABLES.get(table, step_rates.PLUGIN_TABLE)
        rows = rate.rows * sum(coming[name].completion_tokens for name in before if name in coming) / 1000
        shares = [factor ** _margin_share(past_calls, _KEYS_HALVED) for factor in _LATER_CALLS]
        low, high = (ceil(rows * share / tally.batch) for share in shares)
        requests: Range = (tally.calls + low, tally.calls + high + (rows > 0))  # the last batch may be small
        margin = _TOKENS ** _margin_share(past_calls, _TOKENS_HALVED)
        tokens = _prompt_tokens(tally, usage, size) + rows * rate.tokens
        prompts: Range = (round(tokens / margin), round(tokens * margin))
        return _price(EMBEDDING, tally, requests, prompts, (0, 0), usage, exact=not rows)


def merge_embedding(estimates: Iterable[Estimate]) -> list[Estimate]:
    """Return one estimate for all embedded tables, none without any."""
    rows = list(estimates)
    if not rows:
        return []
    sums, exact = Total.of(EMBEDDING, rows), all(row.exact for row in rows)
    first = replace(rows[0], calls=sums.calls, prompt_tokens=sums.tokens, seconds=sums.seconds)
    return [replace(first, cost=sums.cost, exact=exact)]


def _price(
    step: str, tally: RequestTally, calls: Range, prompt: Range, completion: Range, usage: Usage, *, exact: bool
) -> Estimate:
    """Return an estimate; its seconds as before, else by published speeds."""
    reply = (completion[0] / max(calls[0], 1), completion[1] / max(calls[1], 1))
    seconds = call_seconds(calls, reply, tally.workers)
    if usage.calls:
        each = usage.seconds / usage.calls / tally.workers
        seconds = (calls[0] * each, calls[1] * each)
    return price_estimate(step, tally.model, tally.prices, calls, prompt, completion, seconds, exact)


def price_estimate(
    step: str, model: str, prices: Prices, calls: Range, prompt: Range, completion: Range, seconds: Range, exact: bool
) -> Estimate:
    """Return an estimate, with its cost if prices are set."""
    low, high = (prices.cost(round(prompt[i]), 0, round(completion[i]), round(calls[i])) for i in (0, 1))
    return Estimate(step, model, exact, calls, prompt, completion, (low, high) if prices.is_set else None, seconds)


def _prompt_tokens(tally: RequestTally, usage: Usage, size: int) -> float:
    """Return the tokens of the requests, as a server counts them.

    usage, size: of earlier requests, and the bytes of their prompts.
    """
    return tally.bytes * usage.prompt_tokens / size if size else _SERVER_TOKENS * tally.tokens


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


def _margin_share(calls: int, halved_after: int) -> float:
    """Return the share of a margin that is left after some calls.

    >>> [round(_margin_share(calls, 20), 2) for calls in (0, 20, 180)]
    [1.0, 0.5, 0.1]
    """
    return 1 / (1 + calls / halved_after)
