"""verdicts + answers -> what else decided than the answers: order, length, chance, taste; and what rings an alarm.

An alarm is a sentence for whoever reads the win rates. What cannot be said is None, and `why`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Share:
    """So many of so many."""

    count: int
    of: int

    @property
    def percent(self) -> float | None:
        return 100.0 * self.count / self.of if self.of else None


@dataclass(frozen=True, slots=True)
class Rate:
    """A win rate, 0 to 100, of `n` questions, and its 95 % interval; value None: undefined, and `why`."""

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int = 0
    why: str = ""

    @property
    def off(self) -> bool:
        """Whether 50 lies outside."""
        return self.low is not None and self.high is not None and not self.low <= 50.0 <= self.high


@dataclass(frozen=True, slots=True)
class Order:
    """What the order of the answers did, by one criterion.

    flips: of what was judged in both orders, how often the winner is another when they are swapped. first: of wins, how
    often by the one shown first. ties: of valid verdicts. invalid, failed: of all.
    """

    protocol: str
    criterion: str
    flips: Share
    first: Share
    ties: Share
    invalid: Share
    failed: Share


@dataclass(frozen=True, slots=True)
class Same:
    """A system against another generation of itself (A/A): the points of the first should be 50."""

    protocol: str
    criterion: str
    system: str
    rate: Rate
    alarm: str = ""


@dataclass(frozen=True, slots=True)
class Gap:
    """Answers of which one is longer by `least` to `most` percent of the longer one: how often the longer one wins."""

    least: float
    most: float
    rate: Rate


@dataclass(frozen=True, slots=True)
class Length:
    """Whether longer answers win, by one criterion, over all pairs. longer: their win rate, whatever the gap."""

    protocol: str
    criterion: str
    longer: Rate
    gaps: tuple[Gap, ...]
    alarm: str = ""


@dataclass(frozen=True, slots=True)
class Adjusted:
    """The win rate of a over b: raw; of questions where both are about as long; as a logistic model says for no gap."""

    protocol: str
    criterion: str
    a: str
    b: str
    raw: Rate
    matched: Rate
    adjusted: Rate
    alarm: str = ""


@dataclass(frozen=True, slots=True)
class Control:
    """A system that beats another by every criterion, directness included: none should (GraphRAG, section 3.3)."""

    protocol: str
    winner: str
    loser: str
    alarm: str


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far the second judge agrees with the first on the same prompts: a, b or tie. kappa: Cohen's."""

    protocol: str
    criterion: str
    alike: Share
    kappa: float | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Own:
    """A judge that is the model of answers it judges: judges tend to like their own."""

    judge: str
    systems: tuple[str, ...]
    alarm: str


@dataclass(frozen=True, slots=True)
class Bias:
    """All panels. tokens: by system the mean length of its answers."""

    orders: tuple[Order, ...]
    same: tuple[Same, ...]
    tokens: Mapping[str, float]
    lengths: tuple[Length, ...]
    adjusted: tuple[Adjusted, ...]
    controls: tuple[Control, ...]
    agreement: tuple[Agreement, ...]
    own: tuple[Own, ...]

    @property
    def alarms(self) -> tuple[str, ...]:
        rows = (*self.same, *self.lengths, *self.adjusted, *self.controls, *self.own)
        return tuple(row.alarm for row in rows if row.alarm)
