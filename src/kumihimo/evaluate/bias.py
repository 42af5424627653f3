"""verdicts + answers -> what else decided than the answers: order, length, chance, taste; and what rings an alarm.

An alarm is a sentence for whoever reads the win rates. What cannot be said is None, and `why`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from kumihimo.core.context import Ruler
from kumihimo.evaluate.logistic import Undefined, at_no_gap
from kumihimo.evaluate.points import Pair, points, with_mirrored
from kumihimo.evaluate.records import Answered, Question, Verdict
from kumihimo.evaluate.statistics import interval

ALIKE = 15.0  # percent by which lengths may differ that are about the same
TASKS = 5  # that an interval is drawn from at least
LEAST = 10  # such questions, before they are set against the others
GAPS = (0.0, 10.0, 25.0, 50.0, 100.0)  # percent


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
        panels = (self.same, self.lengths, self.adjusted, self.controls, self.own)
        return tuple(row.alarm for panel in panels for row in panel if row.alarm)


@dataclass(frozen=True, slots=True)
class Judged:
    """What the panels are made from: points of pairs, of what questions, and how long the answers are."""

    scores: Mapping[Pair, Mapping[str, float]]
    clusters: Mapping[str, str]  # by question
    sizes: Mapping[str, Mapping[str, int]]  # by system, by question

    def rate(self, scores: Mapping[str, float], *, few: str = "no question was judged") -> Rate:
        """The mean of these questions' points, and its interval."""
        return rate([(question, value) for question, value in scores.items()], self.clusters, few=few)

    def gap(self, pair: Pair, question: str) -> float:
        """How much shorter the shorter answer is, in percent of the longer one."""
        one, other = self.sizes[pair.a].get(question, 0), self.sizes[pair.b].get(question, 0)
        return 100.0 * abs(one - other) / max(one, other, 1)

    def longer(self, pair: Pair, question: str) -> int:
        """1 where a's answer is longer, -1 where b's is, 0 where none is."""
        one, other = self.sizes[pair.a].get(question, 0), self.sizes[pair.b].get(question, 0)
        return (one > other) - (one < other)


def biases(
    verdicts: Sequence[Verdict],
    questions: Iterable[Question],
    answers: Mapping[str, Mapping[str, Answered]],
    ruler: Ruler,
) -> Bias:
    """All panels of these verdicts. answers: by system, by question, of the first generation."""
    sizes = {s: {q: len(ruler(a.text)) for q, a in held.items() if not a.failed} for s, held in answers.items()}
    clusters = {question.id: question.cluster for question in questions}
    judged = Judged(points(verdicts), clusters, defaultdict(dict, sizes))
    return Bias(
        orders=orders(verdicts),
        same=same(points(verdicts, same=True), clusters),
        tokens={system: sum(held.values()) / len(held) for system, held in sizes.items() if held},
        lengths=lengths(judged),
        adjusted=adjusted(judged),
        controls=controls(judged),
        agreement=agreement(verdicts),
        own=own(verdicts, answers),
    )


def rate(scores: Sequence[tuple[str, float]], clusters: Mapping[str, str], *, few: str) -> Rate:
    """The mean of points of questions, some of them several times, with an interval by task."""
    if not scores:
        return Rate(None, why=few)
    values, of = [value for _, value in scores], [clusters.get(question, question) for question, _ in scores]
    mean = sum(values) / len(values)
    if len(set(of)) < TASKS:
        return Rate(mean, n=len(values), why=f"no interval: fewer than {TASKS} tasks")
    low, high = interval(values, of)
    return Rate(mean, low, high, len(values))


def orders(verdicts: Iterable[Verdict]) -> tuple[Order, ...]:
    groups: defaultdict[tuple[str, str], list[Verdict]] = defaultdict(list)
    for v in verdicts:
        if v.role == "judge" and v.a != v.b:
            groups[v.protocol, v.criterion].append(v)
    return tuple(_order(*of, rows) for of, rows in groups.items())


def _order(protocol: str, criterion: str, rows: Sequence[Verdict]) -> Order:
    valid = [v for v in rows if v.status == "ok"]
    won = [v for v in valid if v.winner != "tie"]
    said: defaultdict[tuple[object, ...], dict[str, str]] = defaultdict(dict)
    for v in valid:
        said[v.question, v.a, v.b, v.replicate][v.first] = v.winner
    both = [held for held in said.values() if len(held) == 2]
    return Order(
        protocol,
        criterion,
        flips=Share(sum(held["a"] != held["b"] for held in both), len(both)),
        first=Share(sum(v.winner == v.first for v in won), len(won)),
        ties=Share(len(valid) - len(won), len(valid)),
        invalid=Share(sum(v.status == "invalid" for v in rows), len(rows)),
        failed=Share(sum(v.status == "failed" for v in rows), len(rows)),
    )


def same(scores: Mapping[Pair, Mapping[str, float]], clusters: Mapping[str, str]) -> tuple[Same, ...]:
    """The A/A panel: an alarm where 50 lies outside of the interval."""
    made: list[Same] = []
    for pair, held in scores.items():
        found = rate(list(held.items()), clusters, few="no question was judged")
        alarm = (
            f"{pair.a} wins {_told(found)} against another generation of itself by {pair.criterion} ({pair.protocol}): "
            "differences of that size are none"
        )
        made.append(Same(pair.protocol, pair.criterion, pair.a, found, alarm if found.off else ""))
    return tuple(made)


def lengths(judged: Judged) -> tuple[Length, ...]:
    """The points of the longer answer, all pairs of a criterion together."""
    groups: defaultdict[tuple[str, str], list[tuple[float, str, float]]] = defaultdict(list)
    for pair, scores in judged.scores.items():
        for question, value in scores.items():
            if side := judged.longer(pair, question):
                of_longer = value if side > 0 else 100.0 - value
                groups[pair.protocol, pair.criterion].append((judged.gap(pair, question), question, of_longer))
    return tuple(_length(judged, *of, rows) for of, rows in groups.items())


def _length(judged: Judged, protocol: str, criterion: str, rows: Sequence[tuple[float, str, float]]) -> Length:
    none = "no answers differ so in length"
    longer = rate([(question, value) for _, question, value in rows], judged.clusters, few=none)
    gaps = [
        Gap(least, most, rate([(q, v) for gap, q, v in rows if least < gap <= most], judged.clusters, few=none))
        for least, most in pairwise(GAPS)
    ]
    wins = longer.off and longer.value is not None and longer.value > 50
    alarm = (
        f"longer answers win {_told(longer)} by {criterion} ({protocol}): look at the rates that are matched or "
        "adjusted for length"
    )
    return Length(protocol, criterion, longer, tuple(gaps), alarm if wins else "")


def adjusted(judged: Judged) -> tuple[Adjusted, ...]:
    """The win rate of each pair beside what it is without regard to length."""
    return tuple(_adjusted(judged, pair) for pair in judged.scores)


def _adjusted(judged: Judged, pair: Pair) -> Adjusted:
    scores = judged.scores[pair]
    near = {question: value for question, value in scores.items() if judged.gap(pair, question) < ALIKE}
    raw = judged.rate(scores)
    matched = judged.rate(near, few=f"no answers whose lengths differ by less than {ALIKE:g} %")
    found = Adjusted(*pair, raw, matched, _without_gap(judged, pair))
    if not raw.off or matched.n < LEAST or matched.value is None or raw.value is None:
        return found
    confirmed = matched.off and (matched.value > 50) == (raw.value > 50)
    if confirmed or matched.low is None or matched.high is None or matched.low <= raw.value <= matched.high:
        return found
    alarm = (
        f"{pair.a} against {pair.b} by {pair.criterion} ({pair.protocol}): {_told(raw)}, but {_told(matched)} where "
        "both answers are about as long"
    )
    return replace(found, alarm=alarm)


def _without_gap(judged: Judged, pair: Pair) -> Rate:
    scores = judged.scores[pair]
    one, other = judged.sizes[pair.a], judged.sizes[pair.b]
    gaps = [one.get(question, 0) - other.get(question, 0) for question in scores]
    of = [judged.clusters.get(question, question) for question in scores]
    try:
        share, (low, high) = at_no_gap([value / 100 for value in scores.values()], gaps, of)
    except Undefined as why:
        return Rate(None, n=len(scores), why=str(why))
    return Rate(100 * share, 100 * low, 100 * high, len(scores))


def controls(judged: Judged) -> tuple[Control, ...]:
    """Who surely beats whom by four criteria and more, directness among them."""
    won: defaultdict[tuple[str, str, str], set[str]] = defaultdict(set)
    asked: defaultdict[str, set[str]] = defaultdict(set)
    for pair, scores in with_mirrored(judged.scores).items():
        asked[pair.protocol].add(pair.criterion)
        found = judged.rate(scores)
        if found.off and found.value is not None and found.value > 50:
            won[pair.protocol, pair.a, pair.b].add(pair.criterion)
    return tuple(
        Control(*of, f"{of[1]} beats {of[2]} by every criterion, directness too ({of[0]}): does the judge look at it?")
        for of, criteria in won.items()
        if "directness" in criteria and len(criteria) > 3 and criteria == asked[of[0]]
    )


def agreement(verdicts: Iterable[Verdict]) -> tuple[Agreement, ...]:
    said: defaultdict[tuple[str, str], dict[tuple[object, ...], dict[str, str]]] = defaultdict(dict)
    for v in verdicts:
        if v.status == "ok":
            shown = v.question, v.a, v.b, v.first, v.replicate
            said[v.protocol, v.criterion].setdefault(shown, {})[v.role] = v.winner
    made: list[Agreement] = []
    for of, held in said.items():
        both = [(told["judge"], told["second_judge"]) for told in held.values() if len(told) == 2]
        if both:
            found = kappa(both)
            alike = Share(sum(one == other for one, other in both), len(both))
            made.append(Agreement(*of, alike, found, "" if found is not None else "both always say the same one thing"))
    return tuple(made)


def kappa(pairs: Sequence[tuple[str, str]]) -> float | None:
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


def own(verdicts: Iterable[Verdict], answers: Mapping[str, Mapping[str, Answered]]) -> tuple[Own, ...]:
    """Judges that are the model of answers, by name, whatever its parameters."""
    return tuple(found for judge in sorted({v.judge for v in verdicts}) for found in own_of(judge, answers))


def own_of(judge: str, answers: Mapping[str, Mapping[str, Answered]]) -> list[Own]:
    name = judge.partition(" ")[0]
    by = [s for s, held in answers.items() if any(a.model.partition(" ")[0] == name for a in held.values())]
    if not by or not name:
        return []
    alarm = f"the judge, {name}, is the model of answers of {', '.join(by)}: judges like their own; set another [judge]"
    return [Own(judge, tuple(by), alarm)]


def _told(found: Rate) -> str:
    within = "" if found.low is None else f" ({found.low:.1f}–{found.high:.1f})"
    return f"{found.value or 0:.1f} %{within}"
