"""a stage of a study + models that nobody asks -> Estimate: of a sample, from the least to the most, and in sums."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, TypeVar

from kumihimo.app.cost import Asked, Tally, estimated, history
from kumihimo.app.estimate_query_cost import StandIn, between
from kumihimo.app.results import Estimate, Plan, Range
from kumihimo.app.snapshot import Reading
from kumihimo.core.context import Ruler
from kumihimo.llm.budget import Purse
from kumihimo.llm.cached_llm import Asking
from kumihimo.llm.registry import Connections
from kumihimo.storage.sqlite.response_cache import Spent

A = TypeVar("A")
By = Callable[[StandIn, bool], object]  # runs a stage by these models; bool: on the fullest answers, or the least


@dataclass(frozen=True, slots=True)
class _Unmeasured:
    """Where only the number of calls is wanted."""

    mark: str = ""

    def __call__(self, text: str) -> Sequence[int]:  # noqa: ARG002
        return ()


_UNMEASURED = _Unmeasured()


@dataclass(frozen=True, slots=True)
class Models:
    """The models that are set, and what was asked of them before."""

    real: Connections
    ruler: Ruler
    spent: Sequence[Spent]
    reading: Reading | None = None  # whom questions are asked of
    made_up: Mapping[bool, dict[bytes, bytes]] = field(default_factory=lambda: {False: {}, True: {}})

    def both(self, by: By, more: float = 1.0) -> list[Estimate]:
        """From replies that say the least to such as say the most. more: times the most may be, since votes split."""
        least, most = (self._plan(by, full=full) for full in (False, True))
        largest = tuple(scaled(e, more) for e in most.estimates)
        return list(between(least, replace(most, estimates=largest)).estimates)

    def _plan(self, by: By, *, full: bool) -> Plan:
        asked: dict[str, Asked] = {}
        by(StandIn.of(self.real, self.ruler, asked, full=full, made_up=self.made_up[full], like=self.reading), full)
        return self.of(asked)

    def of(self, asked: Mapping[str, Asked]) -> Plan:
        return estimated(asked, {}, history(self.spent, asked), self.spent)

    def left(self, scope: str, items: Sequence[A], stage: Callable[[Sequence[A], Asking], Any], rows: int) -> list[A]:
        """Those of which something is not remembered. rows: that the stage makes of each."""
        mark = self.real.asking(scope, Purse()).mark
        if not any(s.scope == scope and s.model == mark for s in self.spent):
            return list(items)
        made = iter(stage(items, Tally(self.real, _UNMEASURED).asking(scope)))
        return [item for item in items if any(each.status == "failed" for each in list(islice(made, rows)))]


def spread(items: Sequence[A], size: int) -> list[A]:
    """So many of them, at even distances.

    >>> spread("abcdefgh", 3), spread("ab", 3)
    (['b', 'e', 'g'], ['a', 'b'])
    """
    size = min(size, len(items))
    return [items[(2 * i + 1) * len(items) // (2 * size)] for i in range(size)]


def scaled(e: Estimate, by: float) -> Estimate:
    """So many times as much."""

    def times(much: Range) -> Range:
        return (round(much[0] * by), round(much[1] * by))

    return replace(
        e,
        calls=times(e.calls),
        prompt_tokens=times(e.prompt_tokens),
        completion_tokens=times(e.completion_tokens),
        cost=e.cost and (e.cost[0] * by, e.cost[1] * by),
        seconds=e.seconds and (e.seconds[0] * by, e.seconds[1] * by),
    )


def row(name: str, found: Sequence[Estimate]) -> list[Estimate]:
    """All of a stage in one."""
    if not found:
        return []
    costs, seconds = [e.cost for e in found if e.cost], [e.seconds for e in found if e.seconds]
    return [
        Estimate(
            name,
            " + ".join(dict.fromkeys(e.model for e in found)),
            all(e.exact for e in found),
            _sum([e.calls for e in found]),
            _sum([e.prompt_tokens for e in found]),
            _sum([e.completion_tokens for e in found]),
            _sum(costs) if len(costs) == len(found) else None,
            _sum(seconds) if len(seconds) == len(found) else None,
        )
    ]


def _sum(ranges: Sequence[Range]) -> Range:
    return (sum(low for low, _ in ranges), sum(high for _, high in ranges))
