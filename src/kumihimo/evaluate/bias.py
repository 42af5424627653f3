"""verdicts + answers -> what else decided than the answers: order, length, chance, taste; and what rings an alarm.

An alarm is a sentence for whoever reads the win rates. What cannot be said is None, and `why`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from kumihimo.core.context import Tokenizer
from kumihimo.evaluate.logistic import UndefinedEstimate, share_without_gap
from kumihimo.evaluate.points import CriterionPair, points_by_pair, with_swapped_pairs
from kumihimo.evaluate.records import EvalQuestion, SystemAnswer, Verdict
from kumihimo.evaluate.statistics import bootstrap_interval

SIMILAR_LENGTH = 15.0  # percent by which lengths may differ that are about the same
MIN_TASKS = 5  # that an interval is drawn from at least
MIN_MATCHED = 10  # such questions, before they are set against the others
LENGTH_GAPS = (0.0, 10.0, 25.0, 50.0, 100.0)  # percent


@dataclass(frozen=True, slots=True)
class Proportion:
    """So many of so many."""

    count: int
    of: int

    @property
    def percent(self) -> float | None:
        return 100.0 * self.count / self.of if self.of else None


@dataclass(frozen=True, slots=True)
class WinRate:
    """A win rate, 0 to 100, of `n` questions, and its 95 % interval; value None: undefined, and `why`."""

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int = 0
    why: str = ""

    @property
    def differs_from_even(self) -> bool:
        """Whether 50 lies outside."""
        return self.low is not None and self.high is not None and not self.low <= 50.0 <= self.high


@dataclass(frozen=True, slots=True)
class OrderBias:
    """What the order of the answers did, by one criterion.

    flips: of what was judged in both orders, how often the winner is another when they are swapped. first: of wins, how
    often by the one shown first. ties: of valid verdicts. invalid, failed: of all.
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
    """A system against another generation of itself (A/A): the points of the first should be 50."""

    protocol: str
    criterion: str
    system: str
    rate: WinRate
    alarm: str = ""


@dataclass(frozen=True, slots=True)
class LengthGap:
    """Answers of which one is longer by `least` to `most` percent of the longer one: how often the longer one wins."""

    least: float
    most: float
    rate: WinRate


@dataclass(frozen=True, slots=True)
class LengthBias:
    """Whether longer answers win, by one criterion, over all pairs. longer: their win rate, whatever the gap."""

    protocol: str
    criterion: str
    longer: WinRate
    gaps: tuple[LengthGap, ...]
    alarm: str = ""


@dataclass(frozen=True, slots=True)
class LengthAdjustedRate:
    """The win rate of a over b: raw; of questions where both are about as long; as a logistic model says for no gap."""

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
    """A system that beats another by every criterion, directness included: none should (GraphRAG, section 3.3)."""

    protocol: str
    winner: str
    loser: str
    alarm: str


@dataclass(frozen=True, slots=True)
class JudgeAgreement:
    """How far the second judge agrees with the first on the same prompts: a, b or tie. kappa: Cohen's."""

    protocol: str
    criterion: str
    alike: Proportion
    kappa: float | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class SelfJudging:
    """A judge that is the model of answers it judges: judges tend to like their own."""

    judge: str
    systems: tuple[str, ...]
    alarm: str


@dataclass(frozen=True, slots=True)
class BiasReport:
    """All panels. tokens: by system the mean length of its answers."""

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
        return self.alarms_for()

    def alarms_for(self, protocol: str = "") -> tuple[str, ...]:
        """Those that ring for a protocol, or for any; whose own answers a judge likes rings for each."""
        judged = (self.same, self.lengths, self.adjusted, self.controls)
        rung = [row.alarm for panel in judged for row in panel if protocol in ("", row.protocol)]
        return tuple(alarm for alarm in (*rung, *(own.alarm for own in self.own)) if alarm)


@dataclass(frozen=True, slots=True)
class JudgedPoints:
    """What the panels are made from: points of pairs, of what questions, and how long the answers are."""

    scores: Mapping[CriterionPair, Mapping[str, float]]
    clusters: Mapping[str, str]  # by question
    token_counts: Mapping[str, Mapping[str, int]]  # by system, by question

    def win_rate(self, scores: Mapping[str, float], *, reason: str = "no question was judged") -> WinRate:
        """The mean of these questions' points, and its interval."""
        return mean_win_rate([(question, value) for question, value in scores.items()], self.clusters, reason=reason)

    def length_gap(self, pair: CriterionPair, question: str) -> float:
        """How much shorter the shorter answer is, in percent of the longer one."""
        one, other = self.token_counts[pair.a].get(question, 0), self.token_counts[pair.b].get(question, 0)
        return 100.0 * abs(one - other) / max(one, other, 1)

    def longer_side(self, pair: CriterionPair, question: str) -> int:
        """1 where a's answer is longer, -1 where b's is, 0 where none is."""
        one, other = self.token_counts[pair.a].get(question, 0), self.token_counts[pair.b].get(question, 0)
        return (one > other) - (one < other)


def measure_bias(
    verdicts: Sequence[Verdict],
    questions: Iterable[EvalQuestion],
    answers: Mapping[str, Mapping[str, SystemAnswer]],
    tokenizer: Tokenizer,
) -> BiasReport:
    """All panels of these verdicts. answers: by system, by question, of the first generation."""
    sizes = {s: {q: len(tokenizer(a.text)) for q, a in held.items() if not a.failed} for s, held in answers.items()}
    clusters = {question.id: question.cluster for question in questions}
    judged = JudgedPoints(points_by_pair(verdicts), clusters, defaultdict(dict, sizes))
    return BiasReport(
        orders=measure_order_bias(verdicts),
        same=compare_with_self(points_by_pair(verdicts, self_pairs=True), clusters),
        tokens={system: sum(held.values()) / len(held) for system, held in sizes.items() if held},
        lengths=measure_length_bias(judged),
        adjusted=adjust_for_length(judged),
        controls=find_failed_controls(judged),
        agreement=measure_judge_agreement(verdicts),
        own=find_self_judging(verdicts, answers),
    )


def mean_win_rate(scores: Sequence[tuple[str, float]], clusters: Mapping[str, str], *, reason: str) -> WinRate:
    """The mean of points of questions, some of them several times, with an interval by task."""
    if not scores:
        return WinRate(None, why=reason)
    values, of = [value for _, value in scores], [clusters.get(question, question) for question, _ in scores]
    mean = sum(values) / len(values)
    if len(set(of)) < MIN_TASKS:
        return WinRate(mean, n=len(values), why=f"no interval: fewer than {MIN_TASKS} tasks")
    low, high = bootstrap_interval(values, of)
    return WinRate(mean, low, high, len(values))


def measure_order_bias(verdicts: Iterable[Verdict]) -> tuple[OrderBias, ...]:
    groups: defaultdict[tuple[str, str], list[Verdict]] = defaultdict(list)
    for v in verdicts:
        if v.role == "judge" and v.a != v.b:
            groups[v.protocol, v.criterion].append(v)
    return tuple(_order_bias(*of, rows) for of, rows in groups.items())


def _order_bias(protocol: str, criterion: str, rows: Sequence[Verdict]) -> OrderBias:
    valid = [v for v in rows if v.status == "ok"]
    won = [v for v in valid if v.winner != "tie"]
    said: defaultdict[tuple[object, ...], dict[str, str]] = defaultdict(dict)
    for v in valid:
        said[v.question, v.a, v.b, v.replicate][v.first] = v.winner
    both = [held for held in said.values() if len(held) == 2]
    return OrderBias(
        protocol,
        criterion,
        flips=Proportion(sum(held["a"] != held["b"] for held in both), len(both)),
        first=Proportion(sum(v.winner == v.first for v in won), len(won)),
        ties=Proportion(len(valid) - len(won), len(valid)),
        invalid=Proportion(sum(v.status == "invalid" for v in rows), len(rows)),
        failed=Proportion(sum(v.status == "failed" for v in rows), len(rows)),
    )


def compare_with_self(
    scores: Mapping[CriterionPair, Mapping[str, float]], clusters: Mapping[str, str]
) -> tuple[SelfComparison, ...]:
    """The A/A panel: an alarm where 50 lies outside of the interval."""
    made: list[SelfComparison] = []
    for pair, held in scores.items():
        found = mean_win_rate(list(held.items()), clusters, reason="no question was judged")
        alarm = (
            f"{pair.a} wins {_format_rate(found)} against another generation of itself by {pair.criterion} ({pair.protocol}): "
            "differences of that size are none"
        )
        made.append(
            SelfComparison(pair.protocol, pair.criterion, pair.a, found, alarm if found.differs_from_even else "")
        )
    return tuple(made)


def measure_length_bias(judged: JudgedPoints) -> tuple[LengthBias, ...]:
    """The points of the longer answer, all pairs of a criterion together."""
    groups: defaultdict[tuple[str, str], list[tuple[float, str, float]]] = defaultdict(list)
    for pair, scores in judged.scores.items():
        for question, value in scores.items():
            if side := judged.longer_side(pair, question):
                of_longer = value if side > 0 else 100.0 - value
                groups[pair.protocol, pair.criterion].append((judged.length_gap(pair, question), question, of_longer))
    return tuple(_length_bias(judged, *of, rows) for of, rows in groups.items())


def _length_bias(
    judged: JudgedPoints, protocol: str, criterion: str, rows: Sequence[tuple[float, str, float]]
) -> LengthBias:
    none = "no answers differ so in length"
    longer = mean_win_rate([(question, value) for _, question, value in rows], judged.clusters, reason=none)
    gaps = [
        LengthGap(
            least,
            most,
            mean_win_rate([(q, v) for gap, q, v in rows if least < gap <= most], judged.clusters, reason=none),
        )
        for least, most in pairwise(LENGTH_GAPS)
    ]
    wins = longer.differs_from_even and longer.value is not None and longer.value > 50
    alarm = (
        f"longer answers win {_format_rate(longer)} by {criterion} ({protocol}): look at the rates that are matched or "
        "adjusted for length"
    )
    return LengthBias(protocol, criterion, longer, tuple(gaps), alarm if wins else "")


def adjust_for_length(judged: JudgedPoints) -> tuple[LengthAdjustedRate, ...]:
    """The win rate of each pair beside what it is without regard to length."""
    return tuple(_adjust_pair(judged, pair) for pair in judged.scores)


def _adjust_pair(judged: JudgedPoints, pair: CriterionPair) -> LengthAdjustedRate:
    scores = judged.scores[pair]
    near = {question: value for question, value in scores.items() if judged.length_gap(pair, question) < SIMILAR_LENGTH}
    raw = judged.win_rate(scores)
    matched = judged.win_rate(near, reason=f"no answers whose lengths differ by less than {SIMILAR_LENGTH:g} %")
    found = LengthAdjustedRate(*pair, raw, matched, _rate_without_gap(judged, pair))
    if not raw.differs_from_even or matched.n < MIN_MATCHED or matched.value is None or raw.value is None:
        return found
    confirmed = matched.differs_from_even and (matched.value > 50) == (raw.value > 50)
    if confirmed or matched.low is None or matched.high is None or matched.low <= raw.value <= matched.high:
        return found
    alarm = (
        f"{pair.a} against {pair.b} by {pair.criterion} ({pair.protocol}): {_format_rate(raw)}, but {_format_rate(matched)} where "
        "both answers are about as long"
    )
    return replace(found, alarm=alarm)


def _rate_without_gap(judged: JudgedPoints, pair: CriterionPair) -> WinRate:
    scores = judged.scores[pair]
    one, other = judged.token_counts[pair.a], judged.token_counts[pair.b]
    gaps = [one.get(question, 0) - other.get(question, 0) for question in scores]
    of = [judged.clusters.get(question, question) for question in scores]
    try:
        share, (low, high) = share_without_gap([value / 100 for value in scores.values()], gaps, of)
    except UndefinedEstimate as why:
        return WinRate(None, n=len(scores), why=str(why))
    return WinRate(100 * share, 100 * low, 100 * high, len(scores))


def find_failed_controls(judged: JudgedPoints) -> tuple[FailedControl, ...]:
    """Who surely beats whom by four criteria and more, directness among them."""
    won: defaultdict[tuple[str, str, str], set[str]] = defaultdict(set)
    asked: defaultdict[str, set[str]] = defaultdict(set)
    for pair, scores in with_swapped_pairs(judged.scores).items():
        asked[pair.protocol].add(pair.criterion)
        found = judged.win_rate(scores)
        if found.differs_from_even and found.value is not None and found.value > 50:
            won[pair.protocol, pair.a, pair.b].add(pair.criterion)
    return tuple(
        FailedControl(
            *of, f"{of[1]} beats {of[2]} by every criterion, directness too ({of[0]}): does the judge look at it?"
        )
        for of, criteria in won.items()
        if "directness" in criteria and len(criteria) > 3 and criteria == asked[of[0]]
    )


def measure_judge_agreement(verdicts: Iterable[Verdict]) -> tuple[JudgeAgreement, ...]:
    said: defaultdict[tuple[str, str], dict[tuple[object, ...], dict[str, str]]] = defaultdict(dict)
    for v in verdicts:
        if v.status == "ok":
            shown = v.question, v.a, v.b, v.first, v.replicate
            said[v.protocol, v.criterion].setdefault(shown, {})[v.role] = v.winner
    made: list[JudgeAgreement] = []
    for of, held in said.items():
        both = [(told["judge"], told["second_judge"]) for told in held.values() if len(told) == 2]
        if both:
            found = cohen_kappa(both)
            alike = Proportion(sum(one == other for one, other in both), len(both))
            made.append(
                JudgeAgreement(*of, alike, found, "" if found is not None else "both always say the same one thing")
            )
    return tuple(made)


def cohen_kappa(pairs: Sequence[tuple[str, str]]) -> float | None:
    """Cohen's kappa: how far two agree beyond chance; None where chance alone would have them agree always.

    >>> kappa([("a", "a"), ("b", "b"), ("a", "b"), ("b", "b")])  # .75 agree, by chance .5
    0.5
    """
    n = len(pairs)
    one, other = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    chance = sum(one[label] * other[label] for label in one) / n**2
    if chance == 1.0:
        return None
    return (sum(a == b for a, b in pairs) / n - chance) / (1 - chance)


def find_self_judging(
    verdicts: Iterable[Verdict], answers: Mapping[str, Mapping[str, SystemAnswer]]
) -> tuple[SelfJudging, ...]:
    """Judges that are the model of answers, by name, whatever its parameters."""
    return tuple(found for judge in sorted({v.judge for v in verdicts}) for found in self_judging_of(judge, answers))


def self_judging_of(judge: str, answers: Mapping[str, Mapping[str, SystemAnswer]]) -> list[SelfJudging]:
    name = judge.partition(" ")[0]
    by = [s for s, held in answers.items() if any(a.model.partition(" ")[0] == name for a in held.values())]
    if not by or not name:
        return []
    alarm = f"the judge, {name}, is the model of answers of {', '.join(by)}: judges like their own; set another [judge]"
    return [SelfJudging(judge, tuple(by), alarm)]


def _format_rate(found: WinRate) -> str:
    within = "" if found.low is None else f" ({found.low:.1f}–{found.high:.1f})"
    return f"{found.value or 0:.1f} %{within}"
