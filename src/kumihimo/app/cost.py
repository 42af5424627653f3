"""what a build would ask, and what was asked before -> Plan: calls, tokens, cost and time of each step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kumihimo.app.results import Estimate, Plan, Range
from kumihimo.core.context import Ruler
from kumihimo.core.digests import digest
from kumihimo.core.errors import ItemFailed
from kumihimo.core.task import Call, Job, Made, Pool, Task
from kumihimo.core.usage import Usage
from kumihimo.index import scope
from kumihimo.llm.budget import Purse
from kumihimo.llm.cached_llm import EMBEDDING, RERANKING, Asking, Remembered
from kumihimo.llm.protocols import Embedder, Messages, Prices
from kumihimo.llm.registry import Connections
from kumihimo.llm.structured import Reply
from kumihimo.storage.sqlite.response_cache import Spent

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_RULED: Range = (0.5, 1.1)  # tokens of a server for one of the built-in tokenizer, until a server has counted
_COUNTED: Range = (0.95, 1.05)  # for one as it counted before
_REPLY: Range = (16, 600)  # tokens of a reply, until there was one
_LIKE: Range = (0.7, 1.3)  # of a reply, for one of the same step before
_FOLLOWS: Range = (0.5, 1.25)  # calls of a step that reads what was not asked yet, for calls in proportion


@dataclass(slots=True)
class Asked:
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
    further: int = 0

    def note(self, texts: Sequence[str], ruler: Ruler, further: int = 0) -> None:
        """One request."""
        self.calls += 1
        self.further += further
        self.texts += len(texts)
        self.bytes += sum(len(text.encode()) for text in texts)
        self.tokens += sum(len(ruler(text)) for text in texts)


@dataclass(frozen=True, slots=True)
class Tally:
    """Models that answer from the memo alone, and count what they would have had to ask."""

    models: Connections
    ruler: Ruler
    before: Mapping[str, str] = field(default_factory=dict)  # by scope: the mark of the model that made its table
    asked: dict[str, Asked] = field(default_factory=dict)  # by step
    seen: set[bytes] = field(default_factory=set)  # the same thing is asked once, by whichever step

    def asking(self, scope: str) -> Asking:
        real = self.models.asking(scope, Purse(), self.before.get(scope, ""))
        asked = self.asked.setdefault(scope, Asked(real.mark, real.chat.prices, real.chat.workers))
        return _Silent(real.chat, real.memo, scope=scope, asked=asked, tally=self)

    def embedder(self) -> Embedder:
        paid = self.models.paid_embedder
        if paid is None:
            return self.models.embedder(Purse())
        asked = self.asked.setdefault(EMBEDDING, Asked(paid.mark, paid.prices, paid.workers))
        return _SilentRemembered(paid, self.models.memo(), asked=asked, ruler=self.ruler)


@dataclass(frozen=True, slots=True)
class _Silent(Asking):
    """Asks nobody: what is not remembered is counted, and has failed."""

    asked: Asked = field(kw_only=True)
    tally: Tally = field(kw_only=True)

    def _pay(self, _asked: bytes, messages: Messages, _schema: Any, _hear: Any, _given: Any, further: int) -> Reply:
        if _asked not in self.tally.seen:
            self.tally.seen.add(_asked)
            self.asked.note([message["content"] for message in messages], self.tally.ruler, further)
        raise ItemFailed("not asked")


@dataclass(frozen=True, slots=True)
class _SilentRemembered(Remembered):
    """The same for texts to embed."""

    asked: Asked = field(kw_only=True)
    ruler: Ruler = field(kw_only=True)

    def _pay(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.asked.note(texts, self.ruler)
        raise ItemFailed("not asked")


def without_failures(call: Call, jobs: Iterable[Job]) -> Iterator[list[Made]]:
    """A pool that leaves out what has failed before: that would not be paid again, but for the first time."""
    failing = set(call.failing) if isinstance(call, Task) else set()
    for job in jobs:
        yield call([(key, rows) for key, rows in job if key not in failing])


@dataclass(slots=True)
class Sample:
    """A pool that asks about so many chunks only, spread over all, and about what is made of them."""

    size: int
    pool: Pool
    is_document: Callable[[str], bool]
    keys: Counter[str] = field(default_factory=Counter)  # by step: how many it was asked for
    _chosen: set[str] = field(default_factory=set)

    def __call__(self, call: Call, jobs: Iterable[Job]) -> Iterator[list[Made]]:
        listed = list(jobs)
        chunks = {self._chunk(key) for job in listed for key, _ in job if self.is_document(key.partition(".")[0])}
        if {"." in chunk for chunk in chunks} - {"." in chunk for chunk in self._chosen}:
            # of those that are to be asked, not of all that there are: whole documents may come before their chunks
            self._chosen |= set(sorted(chunks, key=digest)[: self.size])
            self._chosen |= {chunk.partition(".")[0] for chunk in self._chosen}

        def some(job: Job) -> list[Made]:
            wanted = [(key, rows) for key, rows in job if rows and self._wants(key)]
            if isinstance(call, Task):
                self.keys[call.step.name] += len(wanted)
            made = {m.key: m for m in call(wanted)}
            return [made.get(key) or Made(key, [], b"", "not in the sample") for key, _ in job]

        return self.pool(some, listed)

    def _wants(self, key: str) -> bool:
        """Keys are documents, chunks, what is made of them, or groups of that, which hold what the sample gave."""
        return not self.is_document(key.partition(".")[0]) or self._chunk(key) in self._chosen

    @staticmethod
    def _chunk(key: str) -> str:
        """Where it stands: the chunk, or a whole document."""
        return ".".join(key.split(".")[:2])


@dataclass(frozen=True, slots=True)
class Past:
    """What a step has asked before, for how many keys."""

    keys: int
    usage: Usage


def history(spent: Iterable[Spent], asked: Mapping[str, Asked]) -> dict[str, Past]:
    """From all that was ever spent; how many keys that was for is not known, so one call is taken for one key."""
    told = {
        s.scope: s.usage for s in spent if s.kind == "spent" and s.scope in asked and s.model == asked[s.scope].model
    }
    return {scope: Past(usage.calls, usage) for scope, usage in told.items() if usage.calls}


def sampled(sample: Sample, purse: Purse) -> dict[str, Past]:
    """From a sample, whether its replies were paid or remembered."""
    nothing = Usage()
    used = {name: purse.spent.get(name, nothing) + purse.saved.get(name, nothing) for name in map(scope, sample.keys)}
    shared = Counter(map(scope, sample.keys))  # steps that go on with one conversation: each asks it, one pays
    return {name: Past(sample.keys[name], _part(usage, shared[name])) for name, usage in used.items() if usage.calls}


def _part(usage: Usage, of: int) -> Usage:
    prompt, completion = round(usage.prompt_tokens / of), round(usage.completion_tokens / of)
    return Usage(max(round(usage.calls / of), 1), prompt, 0, completion, usage.cost / of, usage.seconds / of)


def estimated(
    asked: Mapping[str, Asked], reads: Mapping[str, Sequence[str]], past: Mapping[str, Past], spent: Sequence[Spent]
) -> Plan:
    """The plan of what was tallied. reads: of each step the steps that ask, among those it is made of."""
    found: list[Estimate] = []
    unknown: list[str] = []
    times: dict[str, float] = {}  # what is to come, in terms of what a step has asked before
    for step, tally in asked.items():
        before = past.get(step)
        so_far = before.usage.calls if before else 0
        waits = [r for r in reads.get(step, ()) if r in times or r in unknown]
        if not tally.calls and not waits:
            continue
        if waits and before is None:
            unknown.append(step)
            continue
        alone = sum(_calls(tally, before)) / 2 / so_far if so_far else 0.0
        times[step] = max([times[r] for r in waits if r in times] or [alone])
        found.append(
            _estimate(step, tally, before, times[step] if waits else None, [s for s in spent if s.kind == "spent"])
        )
    return Plan(tuple(found), tuple(unknown))


def _estimate(step: str, asked: Asked, before: Past | None, times: float | None, spent: Sequence[Spent]) -> Estimate:
    same = [s for s in spent if s.model == asked.model]
    same = [s for s in same if s.scope == step] or same
    usage, size = sum((s.usage for s in same), Usage()), sum(s.bytes for s in same)
    reply = _reply(step, before, usage)
    if times is None or before is None:
        calls = _calls(asked, before)
        counted = _of(_COUNTED, asked.bytes * usage.prompt_tokens / size) if size else _of(_RULED, asked.tokens)
        again = reply[1] if asked.further else 0  # what was replied is told with the next call
        prompt = (counted[0], (counted[1] / max(asked.calls, 1) + again) * calls[1])
    else:
        low, high = _whole(_of(_FOLLOWS, before.usage.calls * times))
        calls = (max(low, asked.calls), max(high, asked.calls + 1))  # something of what it waits for will reach it
        each = before.usage.prompt_tokens / before.usage.calls
        prompt = (calls[0] * each, calls[1] * each)
    completion = (calls[0] * reply[0], calls[1] * reply[1])
    low, high = (asked.prices.cost(round(prompt[i]), 0, round(completion[i]), round(calls[i])) for i in (0, 1))
    cost = (low, high) if asked.prices.known else None
    pause = usage.seconds / usage.calls / asked.workers if usage.calls else None
    seconds = None if pause is None else (calls[0] * pause, calls[1] * pause)
    exact = times is None and calls[0] == calls[1]
    return Estimate(step, asked.model, exact, calls, _whole(prompt), _whole(completion), cost, seconds)


def _calls(asked: Asked, before: Past | None) -> Range:
    """With those that follow: as many as in the sample, or else between none and all that may."""
    turns = before.usage.calls / before.keys if before else 1.0
    if asked.further and turns > 1:
        low, high = _whole(_of(_LIKE, asked.calls * turns))
        return (max(low, asked.calls), high)
    return (asked.calls, max(asked.calls + asked.further, round(asked.calls * turns)))


def _reply(step: str, before: Past | None, usage: Usage) -> Range:
    """Tokens of one reply."""
    if step in (EMBEDDING, RERANKING):
        return (0, 0)
    known = before.usage if before else usage
    return _of(_LIKE, known.completion_tokens / known.calls) if known.calls else _REPLY


def _of(share: Range, much: float) -> Range:
    return (share[0] * much, share[1] * much)


def _whole(much: Range) -> Range:
    return (round(much[0]), round(much[1]))
