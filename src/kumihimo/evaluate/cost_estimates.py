"""A stage of a study run on stub models -> Estimate: minimum and maximum, scaled from a sample."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, TypeVar

from kumihimo.app.cost import DryRunModels, RequestTally, estimate_plan, usage_history
from kumihimo.app.estimate_query_cost import StubModels, merge_plans
from kumihimo.app.results import Estimate, Plan, Range, UsageEntry
from kumihimo.app.snapshot import Snapshot
from kumihimo.core.context import Tokenizer
from kumihimo.llm.budget import Budget
from kumihimo.llm.cached_llm import CachedLLM
from kumihimo.llm.registry import ModelRegistry

A = TypeVar("A")
StageRunner = Callable[[StubModels, bool], object]  # runs a stage with stubs; True: with maximal replies


@dataclass(frozen=True, slots=True)
class _NullTokenizer:
    """A tokenizer for runs that only count calls."""

    fingerprint: str = ""

    def __call__(self, text: str) -> Sequence[int]:  # noqa: ARG002
        return ()


_NULL_TOKENIZER = _NullTokenizer()


@dataclass(frozen=True, slots=True)
class EstimationContext:
    """The configured models and their past usage."""

    registry: ModelRegistry
    tokenizer: Tokenizer
    past_usage: Sequence[UsageEntry]
    snapshot: Snapshot | None = None  # the index that answers the questions
    invented_replies: Mapping[bool, dict[bytes, bytes]] = field(default_factory=lambda: {False: {}, True: {}})

    def estimate_range(self, run_stage: StageRunner, factor: float = 1.0) -> list[Estimate]:
        """Estimate a stage from minimal replies to maximal replies.

        factor: a multiplier for the maximum, because votes may split.
        """
        least, most = (self._plan_stage(run_stage, full=full) for full in (False, True))
        largest = tuple(scale_estimate(estimate, factor) for estimate in most.estimates)
        return list(merge_plans(least, replace(most, estimates=largest)).estimates)

    def _plan_stage(self, run_stage: StageRunner, *, full: bool) -> Plan:
        tallies: dict[str, RequestTally] = {}
        run_stage(
            StubModels.wrap(
                self.registry,
                self.tokenizer,
                tallies,
                maximal=full,
                replies=self.invented_replies[full],
                snapshot=self.snapshot,
            ),
            full,
        )
        return self.plan_from_tally(tallies)

    def plan_from_tally(self, tallies: Mapping[str, RequestTally]) -> Plan:
        """Return the plan for these tallies."""
        return estimate_plan(tallies, {}, usage_history(self.past_usage, tallies), self.past_usage)

    def uncached_items(
        self, scope: str, items: Sequence[A], stage: Callable[[Sequence[A], CachedLLM], Any], rows_per_item: int
    ) -> list[A]:
        """Return the items with uncached replies.

        rows_per_item: the number of rows the stage makes of an item.
        """
        fingerprint = self.registry.llm(scope, Budget()).fingerprint
        if not any(s.scope == scope and s.model == fingerprint for s in self.past_usage):
            return list(items)
        results = iter(stage(items, DryRunModels(self.registry, _NULL_TOKENIZER).llm(scope)))
        return [
            item for item in items if any(result.status == "failed" for result in list(islice(results, rows_per_item)))
        ]


def pick_evenly(items: Sequence[A], size: int) -> list[A]:
    """Pick `size` items at even distances.

    >>> pick_evenly("abcdefgh", 3), pick_evenly("ab", 3)
    (['b', 'e', 'g'], ['a', 'b'])
    """
    size = min(size, len(items))
    return [items[(2 * i + 1) * len(items) // (2 * size)] for i in range(size)]


def scale_estimate(estimate: Estimate, factor: float) -> Estimate:
    """Multiply an estimate by a factor."""

    def times(bounds: Range) -> Range:
        return (round(bounds[0] * factor), round(bounds[1] * factor))

    return replace(
        estimate,
        calls=times(estimate.calls),
        prompt_tokens=times(estimate.prompt_tokens),
        completion_tokens=times(estimate.completion_tokens),
        cost=estimate.cost and (estimate.cost[0] * factor, estimate.cost[1] * factor),
        seconds=estimate.seconds and (estimate.seconds[0] * factor, estimate.seconds[1] * factor),
    )


def merge_estimates(name: str, estimates: Sequence[Estimate]) -> list[Estimate]:
    """Merge the estimates of a stage into one row."""
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
