"""values -> measures of bias: what each one counts, frozen dataclasses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kumihimo.evaluate.points import CriterionPair
from kumihimo.evaluate.statistics import bootstrap_interval

MIN_TASKS = 5  # for an interval


@dataclass(frozen=True, slots=True)
class Proportion:
    """A count out of a total."""

    count: int
    of: int

    @property
    def percent(self) -> float | None:
        """Return the percentage, None for an empty total."""
        return 100.0 * self.count / self.of if self.of else None


@dataclass(frozen=True, slots=True)
class WinRate:
    """A win rate over `n` questions with its 95 % interval.

    value: 0 to 100, None if it is undefined; `why` says why.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int = 0
    why: str = ""

    @property
    def differs_from_even(self) -> bool:
        """Return whether the interval excludes 50."""
        return self.low is not None and self.high is not None and not self.low <= 50.0 <= self.high


@dataclass(frozen=True, slots=True)
class OrderBias:
    """The effect of presentation order by one criterion.

    flips: pairs judged in both orders whose winner changes with the order. first: wins of the answer shown first, out
    of all wins. ties: out of valid verdicts. invalid, failed: out of all verdicts.
    """

    protocol: str
    criterion: str
    flips: Proportion
    first: Proportion
    ties: Proportion
    invalid: Proportion
    failed: Proportion


@dataclass(frozen=True, slots=True)
class SelfComparison:
    """A system against another generation of itself (A/A): expect 50 points."""

    protocol: str
    criterion: str
    system: str
    rate: WinRate
    alarm: str = ""


@dataclass(frozen=True, slots=True)
class LengthGap:
    """The win rate of longer answers for one range of gaps.

    least, most: the gap in percent of the longer answer.
    """

    least: float
    most: float
    rate: WinRate


@dataclass(frozen=True, slots=True)
class LengthBias:
    """The effect of length by one criterion over all pairs.

    longer: the win rate of the longer answer at any gap.
    """

    protocol: str
    criterion: str
    longer: WinRate
    gaps: tuple[LengthGap, ...]
    alarm: str = ""


@dataclass(frozen=True, slots=True)
class LengthAdjustedRate:
    """The win rate of a over b, with and without length effects.

    raw: all questions. matched: questions with answers of similar length. adjusted: a logistic model's rate at gap 0.
    """

    protocol: str
    criterion: str
    a: str
    b: str
    raw: WinRate
    matched: WinRate
    adjusted: WinRate
    alarm: str = ""


@dataclass(frozen=True, slots=True)
class FailedControl:
    """A system that wins every criterion, directness included: implausible (GraphRAG, section 3.3)."""

    protocol: str
    winner: str
    loser: str
    alarm: str


@dataclass(frozen=True, slots=True)
class JudgeAgreement:
    """The agreement of two judges on the same prompts; kappa: Cohen's."""

    protocol: str
    criterion: str
    alike: Proportion
    kappa: float | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class SelfJudging:
    """A judge that wrote some of the answers: judges prefer their own."""

    judge: str
    systems: tuple[str, ...]
    alarm: str


@dataclass(frozen=True, slots=True)
class BiasReport:
    """The bias panels.

    tokens: the mean answer length of each system.
    """

    orders: tuple[OrderBias, ...]
    same: tuple[SelfComparison, ...]
    tokens: Mapping[str, float]
    lengths: tuple[LengthBias, ...]
    adjusted: tuple[LengthAdjustedRate, ...]
    controls: tuple[FailedControl, ...]
    agreement: tuple[JudgeAgreement, ...]
    own: tuple[SelfJudging, ...]

    @property
    def alarms(self) -> tuple[str, ...]:
        """Return all alarms."""
        return self.alarms_for()

    def alarms_for(self, protocol: str = "") -> tuple[str, ...]:
        """Return the alarms of a protocol, or all alarms.

        A self-judging alarm belongs to every protocol.
        """
        panels = (self.same, self.lengths, self.adjusted, self.controls)
        alarms = [row.alarm for panel in panels for row in panel if protocol in ("", row.protocol)]
        return tuple(alarm for alarm in (*alarms, *(judging.alarm for judging in self.own)) if alarm)


@dataclass(frozen=True, slots=True)
class JudgedPoints:
    """The input of the panels.

    scores: points by pair. clusters: by question. token_counts: of the answers, by system and question.
    """

    scores: Mapping[CriterionPair, Mapping[str, float]]
    clusters: Mapping[str, str]  # by question
    token_counts: Mapping[str, Mapping[str, int]]  # by system, by question

    def win_rate(self, scores: Mapping[str, float], *, reason: str = "no question was judged") -> WinRate:
        """Return the mean points of these questions with its interval."""
        return mean_win_rate([(question, value) for question, value in scores.items()], self.clusters, reason=reason)

    def length_gap(self, pair: CriterionPair, question: str) -> float:
        """Return the length gap in percent of the longer answer."""
        tokens_a, tokens_b = self.token_counts[pair.a].get(question, 0), self.token_counts[pair.b].get(question, 0)
        return 100.0 * abs(tokens_a - tokens_b) / max(tokens_a, tokens_b, 1)

    def longer_side(self, pair: CriterionPair, question: str) -> int:
        """Return 1 if a's answer is longer, -1 if b's, else 0."""
        tokens_a, tokens_b = self.token_counts[pair.a].get(question, 0), self.token_counts[pair.b].get(question, 0)
        return (tokens_a > tokens_b) - (tokens_a < tokens_b)


def mean_win_rate(scores: Sequence[tuple[str, float]], clusters: Mapping[str, str], *, reason: str) -> WinRate:
    """Return the mean points with an interval by task.

    A question may occur several times. reason: the reason to report if `scores` is empty.
    """
    if not scores:
        return WinRate(None, why=reason)
    values, groups = [value for _, value in scores], [clusters.get(question, question) for question, _ in scores]
    mean = sum(values) / len(values)
    if len(set(groups)) < MIN_TASKS:
        return WinRate(mean, n=len(values), why=f"no interval: fewer than {MIN_TASKS} tasks")
    low, high = bootstrap_interval(values, groups)
    return WinRate(mean, low, high, len(values))
