"""a stage of a study + models that nobody asks -> Estimate: of a sample, from the least to the most, and in sums."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, TypeVar

from kumihimo.app.cost import DryRunModels, RequestTally, estimate_plan, usage_history
from kumihimo.app.estimate_query_cost import StubModels, merge_plans
from kumihimo.app.results import Estimate, Plan, Range
from kumihimo.app.snapshot import Snapshot
from kumihimo.core.context import Tokenizer
from kumihimo.llm.budget import Budget
from kumihimo.llm.cached_llm import CachedLLM
from kumihimo.llm.registry import ModelRegistry
from kumihimo.storage.sqlite.response_cache import UsageEntry

A = TypeVar("A")
StageRunner = Callable[
    [StubModels, bool], object
]  # runs a stage by these models; bool: on the fullest answers, or the least


@dataclass(frozen=True, slots=True)
class _NullTokenizer:
    """Where only the number of calls is wanted."""

    fingerprint: str = ""

    def __call__(self, text: str) -> Sequence[int]:  # noqa: ARG002
        return ()


_NULL_TOKENIZER = _NullTokenizer()


@dataclass(frozen=True, slots=True)
class EstimationContext:
    """The models that are set, and what was asked of them before."""

    registry: ModelRegistry
    tokenizer: Tokenizer
    past_usage: Sequence[UsageEntry]
    snapshot: Snapshot | None = None  # whom questions are asked of
    invented_replies: Mapping[bool, dict[bytes, bytes]] = field(default_factory=lambda: {False: {}, True: {}})

    def estimate_range(self, run_stage: StageRunner, factor: float = 1.0) -> list[Estimate]:
        """From replies that say the least to such as say the most. more: times the most may be, since votes split."""
        least, most = (self._plan_stage(run_stage, full=full) for full in (False, True))
        largest = tuple(scale_estimate(e, factor) for e in most.estimates)
        return list(merge_plans(least, replace(most, estimates=largest)).estimates)

    def _plan_stage(self, run_stage: StageRunner, *, full: bool) -> Plan:
        asked: dict[str, RequestTally] = {}
        run_stage(
            StubModels.wrap(
                self.registry,
                self.tokenizer,
                asked,
                maximal=full,
                replies=self.invented_replies[full],
                snapshot=self.snapshot,
            ),
            full,
        )
        return self.plan_from_tally(asked)

    def plan_from_tally(self, tallies: Mapping[str, RequestTally]) -> Plan:
        return estimate_plan(tallies, {}, usage_history(self.past_usage, tallies), self.past_usage)

    def uncached_items(
        self, scope: str, items: Sequence[A], stage: Callable[[Sequence[A], CachedLLM], Any], rows_per_item: int
    ) -> list[A]:
        """Those of which something is not remembered. rows: that the stage makes of each."""
        mark = self.registry.llm(scope, Budget()).fingerprint
        if not any(s.scope == scope and s.model == mark for s in self.past_usage):
            return list(items)
        made = iter(stage(items, DryRunModels(self.registry, _NULL_TOKENIZER).llm(scope)))
        return [item for item in items if any(each.status == "failed" for each in list(islice(made, rows_per_item)))]


def pick_evenly(items: Sequence[A], size: int) -> list[A]:
    """So many of them, at even distances.

    >>> spread("abcdefgh", 3), spread("ab", 3)
    (['b', 'e', 'g'], ['a', 'b'])
    """
    size = min(size, len(items))
    return [items[(2 * i + 1) * len(items) // (2 * size)] for i in range(size)]


def scale_estimate(e: Estimate, factor: float) -> Estimate:
    """So many times as much."""

    def times(much: Range) -> Range:
        return (round(much[0] * factor), round(much[1] * factor))

    return replace(
        e,
        calls=times(e.calls),
        prompt_tokens=times(e.prompt_tokens),
        completion_tokens=times(e.completion_tokens),
        cost=e.cost and (e.cost[0] * factor, e.cost[1] * factor),
        seconds=e.seconds and (e.seconds[0] * factor, e.seconds[1] * factor),
    )


def merge_estimates(name: str, estimates: Sequence[Estimate]) -> list[Estimate]:
    """All of a stage in one."""
    if not estimates:
        return []
    costs, seconds = [e.cost for e in estimates if e.cost], [e.seconds for e in estimates if e.seconds]
    return [
        Estimate(
            name,
            " + ".join(dict.fromkeys(e.model for e in estimates)),
            all(e.exact for e in estimates),
            _sum_ranges([e.calls for e in estimates]),
            _sum_ranges([e.prompt_tokens for e in estimates]),
            _sum_ranges([e.completion_tokens for e in estimates]),
            _sum_ranges(costs) if len(costs) == len(estimates) else None,
            _sum_ranges(seconds) if len(seconds) == len(estimates) else None,
        )
    ]


def _sum_ranges(ranges: Sequence[Range]) -> Range:
    return (sum(low for low, _ in ranges), sum(high for _, high in ranges))
