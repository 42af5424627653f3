"""what a build would ask, and what was asked before -> Plan: calls, tokens, cost and time of each step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kumihimo.app.results import Estimate, Plan, Range
from kumihimo.core.context import Tokenizer
from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import ItemFailed
from kumihimo.core.task import Job, Pool, RunJob, StepResult, Task
from kumihimo.core.usage import Usage
from kumihimo.index import settings_scope
from kumihimo.llm.budget import Budget
from kumihimo.llm.cached_llm import EMBEDDING, RERANKING, CachedEmbedder, CachedLLM
from kumihimo.llm.protocols import Embedder, Messages, Prices
from kumihimo.llm.registry import ModelRegistry
from kumihimo.llm.structured import Reply
from kumihimo.storage.sqlite.response_cache import UsageEntry

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_UNCALIBRATED: Range = (0.5, 1.1)  # tokens of a server for one of the built-in tokenizer, until a server has counted
_CALIBRATED: Range = (0.95, 1.05)  # for one as it counted before
_UNKNOWN_REPLY: Range = (16, 600)  # tokens of a reply, until there was one
_REPLY_SPREAD: Range = (0.7, 1.3)  # of a reply, for one of the same step before
_DOWNSTREAM_SPREAD: Range = (0.5, 1.25)  # calls of a step that reads what was not asked yet, for calls in proportion


@dataclass(slots=True)
class RequestTally:
    """What one step, or the embedder, would ask: requests, texts, their bytes, tokens by the built-in tokenizer.

    further: calls that may follow to these, each of which is told again all that was said before.
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
        """One request."""
        self.calls += 1
        self.followups += followups
        self.texts += len(texts)
        self.bytes += sum(len(text.encode()) for text in texts)
        self.tokens += sum(len(tokenizer(text)) for text in texts)


@dataclass(frozen=True, slots=True)
class DryRunModels:
    """Models that answer from the memo alone, and count what they would have had to ask."""

    models: ModelRegistry
    tokenizer: Tokenizer
    previous_models: Mapping[str, str] = field(
        default_factory=dict
    )  # by scope: the mark of the model that made its table
    tallies: dict[str, RequestTally] = field(default_factory=dict)  # by step
    counted_keys: set[bytes] = field(default_factory=set)  # the same thing is asked once, by whichever step

    def llm(self, scope: str) -> CachedLLM:
        real = self.models.llm(scope, Budget(), self.previous_models.get(scope, ""))
        asked = self.tallies.setdefault(scope, RequestTally(real.fingerprint, real.chat.prices, real.chat.workers))
        return _DryRunLLM(real.chat, real.cache, scope=scope, request_tally=asked, dry_run=self)

    def embedder(self) -> Embedder:
        paid = self.models.paid_embedder
        if paid is None:
            return self.models.embedder(Budget())
        asked = self.tallies.setdefault(EMBEDDING, RequestTally(paid.fingerprint, paid.prices, paid.workers))
        return _DryRunEmbedder(paid, self.models.cache(), request_tally=asked, tokenizer=self.tokenizer)


@dataclass(frozen=True, slots=True)
class _DryRunLLM(CachedLLM):
    """Asks nobody: what is not remembered is counted, and has failed."""

    request_tally: RequestTally = field(kw_only=True)
    dry_run: DryRunModels = field(kw_only=True)

    def _request_reply(
        self, _asked: bytes, messages: Messages, _schema: Any, _hear: Any, _given: Any, further: int
    ) -> Reply:
        if _asked not in self.dry_run.counted_keys:
            self.dry_run.counted_keys.add(_asked)
            self.request_tally.add_request(
                [message["content"] for message in messages], self.dry_run.tokenizer, further
            )
        raise ItemFailed("not asked")


@dataclass(frozen=True, slots=True)
class _DryRunEmbedder(CachedEmbedder):
    """The same for texts to embed."""

    request_tally: RequestTally = field(kw_only=True)
    tokenizer: Tokenizer = field(kw_only=True)

    def _embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.request_tally.add_request(texts, self.tokenizer)
        raise ItemFailed("not asked")


def skip_failed(call: RunJob, jobs: Iterable[Job]) -> Iterator[list[StepResult]]:
    """A pool that leaves out what has failed before: that would not be paid again, but for the first time."""
    failing = set(call.failing) if isinstance(call, Task) else set()
    for job in jobs:
        yield call([(key, rows) for key, rows in job if key not in failing])


@dataclass(slots=True)
class SamplingPool:
    """A pool that asks about so many chunks only, spread over all, and about what is made of them."""

    size: int
    pool: Pool
    is_document: Callable[[str], bool]
    keys: Counter[str] = field(default_factory=Counter)  # by step: how many it was asked for
    _sample_keys: set[str] = field(default_factory=set)

    def __call__(self, call: RunJob, jobs: Iterable[Job]) -> Iterator[list[StepResult]]:
        listed = list(jobs)
        chunks = {self._chunk_id(key) for job in listed for key, _ in job if self.is_document(key.partition(".")[0])}
        if {"." in chunk for chunk in chunks} - {"." in chunk for chunk in self._sample_keys}:
            # of those that are to be asked, not of all that there are: whole documents may come before their chunks
            self._sample_keys |= set(sorted(chunks, key=hash_parts)[: self.size])
            self._sample_keys |= {chunk.partition(".")[0] for chunk in self._sample_keys}

        def some(job: Job) -> list[StepResult]:
            wanted = [(key, rows) for key, rows in job if rows and self._in_sample(key)]
            if isinstance(call, Task):
                self.keys[call.step.name] += len(wanted)
            made = {m.key: m for m in call(wanted)}
            return [made.get(key) or StepResult(key, [], b"", "not in the sample") for key, _ in job]

        return self.pool(some, listed)

    def _in_sample(self, key: str) -> bool:
        """Keys are documents, chunks, what is made of them, or groups of that, which hold what the sample gave."""
        return not self.is_document(key.partition(".")[0]) or self._chunk_id(key) in self._sample_keys

    @staticmethod
    def _chunk_id(key: str) -> str:
        """Where it stands: the chunk, or a whole document."""
        return ".".join(key.split(".")[:2])


@dataclass(frozen=True, slots=True)
class PastUsage:
    """What a step has asked before, for how many keys."""

    keys: int
    usage: Usage


def usage_history(spent: Iterable[UsageEntry], tallies: Mapping[str, RequestTally]) -> dict[str, PastUsage]:
    """From all that was ever spent; how many keys that was for is not known, so one call is taken for one key."""
    told = {
        s.scope: s.usage
        for s in spent
        if s.kind == "spent" and s.scope in tallies and s.model == tallies[s.scope].model
    }
    return {scope: PastUsage(usage.calls, usage) for scope, usage in told.items() if usage.calls}


def usage_from_sample(sample: SamplingPool, budget: Budget) -> dict[str, PastUsage]:
    """From a sample, whether its replies were paid or remembered."""
    nothing = Usage()
    used = {
        name: budget.spent.get(name, nothing) + budget.saved.get(name, nothing)
        for name in map(settings_scope, sample.keys)
    }
    shared = Counter(map(settings_scope, sample.keys))  # steps that go on with one conversation: each asks it, one pays
    return {
        name: PastUsage(sample.keys[name], _usage_share(usage, shared[name]))
        for name, usage in used.items()
        if usage.calls
    }


def _usage_share(usage: Usage, of: int) -> Usage:
    prompt, completion = round(usage.prompt_tokens / of), round(usage.completion_tokens / of)
    return Usage(max(round(usage.calls / of), 1), prompt, 0, completion, usage.cost / of, usage.seconds / of)


def estimate_plan(
    tallies: Mapping[str, RequestTally],
    dependencies: Mapping[str, Sequence[str]],
    past: Mapping[str, PastUsage],
    spent: Sequence[UsageEntry],
) -> Plan:
    """The plan of what was tallied. reads: of each step the steps that ask, among those it is made of."""
    found: list[Estimate] = []
    unknown: list[str] = []
    times: dict[str, float] = {}  # what is to come, in terms of what a step has asked before
    for step, tally in tallies.items():
        before = past.get(step)
        so_far = before.usage.calls if before else 0
        waits = [r for r in dependencies.get(step, ()) if r in times or r in unknown]
        if not tally.calls and not waits:
            continue
        if waits and before is None:
            unknown.append(step)
            continue
        alone = sum(_call_range(tally, before)) / 2 / so_far if so_far else 0.0
        times[step] = max([times[r] for r in waits if r in times] or [alone])
        found.append(
            _estimate_step(step, tally, before, times[step] if waits else None, [s for s in spent if s.kind == "spent"])
        )
    return Plan(tuple(found), tuple(unknown))


def _estimate_step(
    step: str, tally: RequestTally, before: PastUsage | None, times: float | None, spent: Sequence[UsageEntry]
) -> Estimate:
    same = [s for s in spent if s.model == tally.model]
    same = [s for s in same if s.scope == step] or same
    usage, size = sum((s.usage for s in same), Usage()), sum(s.bytes for s in same)
    reply = _reply_range(step, before, usage)
    if times is None or before is None:
        calls = _call_range(tally, before)
        counted = (
            _scale(_CALIBRATED, tally.bytes * usage.prompt_tokens / size)
            if size
            else _scale(_UNCALIBRATED, tally.tokens)
        )
        again = reply[1] if tally.followups else 0  # what was replied is told with the next call
        prompt = (counted[0], (counted[1] / max(tally.calls, 1) + again) * calls[1])
    else:
        low, high = _round(_scale(_DOWNSTREAM_SPREAD, before.usage.calls * times))
        calls = (max(low, tally.calls), max(high, tally.calls + 1))  # something of what it waits for will reach it
        each = before.usage.prompt_tokens / before.usage.calls
        prompt = (calls[0] * each, calls[1] * each)
    completion = (calls[0] * reply[0], calls[1] * reply[1])
    low, high = (tally.prices.cost(round(prompt[i]), 0, round(completion[i]), round(calls[i])) for i in (0, 1))
    cost = (low, high) if tally.prices.is_set else None
    pause = usage.seconds / usage.calls / tally.workers if usage.calls else None
    seconds = None if pause is None else (calls[0] * pause, calls[1] * pause)
    exact = times is None and calls[0] == calls[1]
    return Estimate(step, tally.model, exact, calls, _round(prompt), _round(completion), cost, seconds)


def _call_range(tally: RequestTally, before: PastUsage | None) -> Range:
    """With those that follow: as many as in the sample, or else between none and all that may."""
    turns = before.usage.calls / before.keys if before else 1.0
    if tally.followups and turns > 1:
        low, high = _round(_scale(_REPLY_SPREAD, tally.calls * turns))
        return (max(low, tally.calls), high)
    return (tally.calls, max(tally.calls + tally.followups, round(tally.calls * turns)))


def _reply_range(step: str, before: PastUsage | None, usage: Usage) -> Range:
    """Tokens of one reply."""
    if step in (EMBEDDING, RERANKING):
        return (0, 0)
    known = before.usage if before else usage
    return _scale(_REPLY_SPREAD, known.completion_tokens / known.calls) if known.calls else _UNKNOWN_REPLY


def _scale(share: Range, much: float) -> Range:
    return (share[0] * much, share[1] * much)


def _round(much: Range) -> Range:
    return (round(much[0]), round(much[1]))
