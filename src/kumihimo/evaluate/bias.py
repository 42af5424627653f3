"""Verdicts and answers -> effects beside quality: order, length, chance, self-preference; and alarms.

An alarm is a sentence for the reader of the win rates. A value that cannot be computed is None, and `why` says why.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from kumihimo.core.context import Tokenizer
from kumihimo.evaluate.judging.blinding import blind_answer
from kumihimo.evaluate.judging.refusals import AnswersBySystem, Refusals, count_refusals
from kumihimo.evaluate.points import CriterionPair, JudgedPoints, WinRate, points_by_pair, with_swapped_pairs
from kumihimo.evaluate.records import ByQuestion, Clusters, EvalQuestion, Verdict
from kumihimo.evaluate.statistics import UndefinedEstimate, share_without_gap

SIMILAR_LENGTH = 15.0  # percent: answers that differ by less count as equally long
MIN_MATCHED = 10  # questions of similar length, for a comparison with the raw rate


# -- panels


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
class _CriterionRow:
    """A row of a panel for one criterion of one protocol."""

    protocol: str
    criterion: str


@dataclass(frozen=True, slots=True)
class OrderBias(_CriterionRow):
    """The effect of presentation order by one criterion.

    flips: pairs judged in both orders whose winner changes with the order. first: wins of the answer shown first, out
    of all wins. ties: out of valid verdicts. invalid, failed: out of all verdicts.
    """

    flips: Proportion
    first: Proportion
    ties: Proportion
    invalid: Proportion
    failed: Proportion


@dataclass(frozen=True, slots=True)
class SelfComparison(_CriterionRow):
    """A system against another generation of itself (A/A): expect 50 points."""

    system: str
    rate: WinRate
    alarm: str = ""


@dataclass(frozen=True, slots=True)
class LengthBias(_CriterionRow):
    """The effect of length by one criterion over all pairs.

    longer: the win rate of the longer answer at any gap.
    """

    longer: WinRate
    alarm: str = ""


@dataclass(frozen=True, slots=True)
class LengthAdjustedRate(_CriterionRow):
    """The win rate of a over b, with and without length effects.

    tokens_a, tokens_b: mean lengths of the answers. raw: all questions. matched: questions with answers of similar
    length. adjusted: a logistic model's rate at gap 0.
    """

    a: str
    b: str
    tokens_a: float
    tokens_b: float
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
class JudgeAgreement(_CriterionRow):
    """The agreement of two judges on the same prompts; kappa: Cohen's."""

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

    tokens: the mean answer length of each system, as `blind_answer` leaves it. refusals: of each system.
    """

    orders: tuple[OrderBias, ...]
    same: tuple[SelfComparison, ...]
    tokens: Mapping[str, float]
    lengths: tuple[LengthBias, ...]
    adjusted: tuple[LengthAdjustedRate, ...]
    controls: tuple[FailedControl, ...]
    agreement: tuple[JudgeAgreement, ...]
    own: tuple[SelfJudging, ...]
    refusals: tuple[Refusals, ...] = ()

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


def measure_bias(
    verdicts: Sequence[Verdict], questions: Sequence[EvalQuestion], answers: AnswersBySystem, tokenizer: Tokenizer
) -> BiasReport:
    """Compute all bias panels.

    answers: by system and question, of the first generation. Lengths are without lists of references, marks and
    phrases, which a judge need not see.
    """
    texts = {question.id: question.text for question in questions}
    sizes = {
        s: {q: len(tokenizer(blind_answer(a.text, texts.get(q, "")))) for q, a in by_question.items() if not a.failed}
        for s, by_question in answers.items()
    }
    clusters = {question.id: question.cluster for question in questions}
    judged = JudgedPoints(points_by_pair(verdicts), clusters, defaultdict(dict, sizes))
    return BiasReport(
        orders=measure_order_bias(verdicts),
        same=compare_with_self(points_by_pair(verdicts, self_pairs=True), clusters),
        tokens={system: fmean(by_question.values()) for system, by_question in sizes.items() if by_question},
        lengths=measure_length_bias(judged),
        adjusted=adjust_for_length(judged),
        controls=find_failed_controls(judged),
        agreement=measure_judge_agreement(verdicts),
        own=tuple(row for judge in sorted({v.judge for v in verdicts}) for row in self_judging_of(judge, answers)),
        refusals=count_refusals(questions, answers),
    )


def measure_order_bias(verdicts: Iterable[Verdict]) -> tuple[OrderBias, ...]:
    """Return the order effect of each protocol and criterion."""
    groups: defaultdict[tuple[str, str], list[Verdict]] = defaultdict(list)
    for v in verdicts:
        if v.role == "judge" and v.a != v.b:
            groups[v.protocol, v.criterion].append(v)
    return tuple(OrderBias(*key, *_order_effects(rows)) for key, rows in groups.items())


def _order_effects(rows: Sequence[Verdict]) -> Iterator[Proportion]:
    """Yield the last five fields of OrderBias for these verdicts."""
    valid = [v for v in rows if v.status == "ok"]
    decided = [v for v in valid if v.winner != "tie"]
    winners: defaultdict[tuple[object, ...], dict[str, str]] = defaultdict(dict)
    for v in valid:
        winners[v.question, v.a, v.b, v.replicate][v.first] = v.winner
    both = [by_order for by_order in winners.values() if len(by_order) == 2]
    yield Proportion(sum(by_order["a"] != by_order["b"] for by_order in both), len(both))
    yield Proportion(sum(v.winner == v.first for v in decided), len(decided))
    yield Proportion(len(valid) - len(decided), len(valid))
    yield from (Proportion(sum(v.status == status for v in rows), len(rows)) for status in ("invalid", "failed"))


def compare_with_self(scores: Mapping[CriterionPair, ByQuestion], clusters: Clusters) -> tuple[SelfComparison, ...]:
    """Return the A/A panel: an alarm if the interval excludes 50."""
    rows: list[SelfComparison] = []
    for pair, points in scores.items():
        win_rate = WinRate.from_points(list(points.items()), clusters, reason="no question was judged")
        alarm = (
            f"{pair.a} wins {_format_rate(win_rate)} against another generation of itself by {pair.criterion} "
            f"({pair.protocol}): differences of that size are none"
        )
        rows.append(SelfComparison(*pair[:3], win_rate, alarm if win_rate.differs_from_even else ""))
    return tuple(rows)


def measure_length_bias(judged: JudgedPoints) -> tuple[LengthBias, ...]:
    """Return the win rate of longer answers by criterion, over all pairs."""
    groups: defaultdict[tuple[str, str], list[tuple[str, float]]] = defaultdict(list)  # question, points
    for pair, scores in judged.scores.items():
        for question, value in scores.items():
            if gap := judged.length_gap(pair, question):
                longer_points = value if gap > 0 else 100.0 - value
                groups[pair.protocol, pair.criterion].append((question, longer_points))
    return tuple(_length_bias(judged, *key, rows) for key, rows in groups.items())


def _length_bias(
    judged: JudgedPoints, protocol: str, criterion: str, points: Sequence[tuple[str, float]]
) -> LengthBias:
    longer = WinRate.from_points(points, judged.clusters, reason="no answers differ in length")
    alarm = (
        f"longer answers win {_format_rate(longer)} by {criterion} ({protocol}): look at the rates matched or adjusted "
        "for length"
    )
    return LengthBias(protocol, criterion, longer, alarm if longer.is_win else "")


def adjust_for_length(judged: JudgedPoints) -> tuple[LengthAdjustedRate, ...]:
    """Return each pair's win rate with and without length effects."""
    return tuple(_adjust_pair(judged, pair, scores) for pair, scores in judged.scores.items())


def _adjust_pair(judged: JudgedPoints, pair: CriterionPair, scores: ByQuestion) -> LengthAdjustedRate:
    similar = {q: value for q, value in scores.items() if abs(judged.length_gap(pair, q)) < SIMILAR_LENGTH}
    raw = judged.win_rate(scores)
    matched = judged.win_rate(similar, reason=f"no answers whose lengths differ by less than {SIMILAR_LENGTH:g} %")
    alarm = (
        f"{pair.a} against {pair.b} by {pair.criterion} ({pair.protocol}): {_format_rate(raw)}, but "
        f"{_format_rate(matched)} for answers of similar length"
    )
    is_alarming = matched.n >= MIN_MATCHED and _is_contradicted(raw, matched)
    tokens_a, tokens_b = (_mean_tokens(judged.token_counts[side], scores) for side in (pair.a, pair.b))
    adjusted = _rate_without_gap(judged, pair)
    return LengthAdjustedRate(*pair, tokens_a, tokens_b, raw, matched, adjusted, alarm if is_alarming else "")


def _mean_tokens(token_counts: Mapping[str, int], questions: Collection[str]) -> float:
    return fmean(token_counts.get(question, 0) for question in questions) if questions else 0.0


def _is_contradicted(raw: WinRate, matched: WinRate) -> bool:
    """Return whether answers of similar length contradict the raw rate."""
    if not raw.differs_from_even or raw.value is None or matched.low is None or matched.high is None:
        return False
    is_confirmed = matched.is_win if raw.is_win else matched.high < 50
    return not is_confirmed and not matched.low <= raw.value <= matched.high


def _rate_without_gap(judged: JudgedPoints, pair: CriterionPair) -> WinRate:
    scores = judged.scores[pair]
    lengths = [judged.token_counts[system] for system in (pair.a, pair.b)]
    gaps = [lengths[0].get(question, 0) - lengths[1].get(question, 0) for question in scores]
    groups = [judged.clusters.get(question, question) for question in scores]
    try:
        share, (low, high) = share_without_gap([value / 100 for value in scores.values()], gaps, groups)
    except UndefinedEstimate as error:
        return WinRate(None, n=len(scores), why=str(error))
    return WinRate(100 * share, 100 * low, 100 * high, len(scores))


def find_failed_controls(judged: JudgedPoints) -> tuple[FailedControl, ...]:
    """Return systems that beat another by four or more criteria, directness included."""
    won_criteria: defaultdict[tuple[str, str, str], set[str]] = defaultdict(set)
    judged_criteria: defaultdict[str, set[str]] = defaultdict(set)
    for pair, scores in with_swapped_pairs(judged.scores).items():
        judged_criteria[pair.protocol].add(pair.criterion)
        if judged.win_rate(scores).is_win:
            won_criteria[pair.protocol, pair.a, pair.b].add(pair.criterion)
    rows: list[FailedControl] = []
    for (protocol, a, b), criteria in won_criteria.items():
        if "directness" in criteria and len(criteria) > 3 and criteria == judged_criteria[protocol]:
            alarm = f"{a} beats {b} by every criterion, directness too ({protocol}): does the judge assess it at all?"
            rows.append(FailedControl(protocol, a, b, alarm))
    return tuple(rows)


def measure_judge_agreement(verdicts: Iterable[Verdict]) -> tuple[JudgeAgreement, ...]:
    """Return the agreement of the second judge with the first."""
    winners: defaultdict[tuple[str, str], dict[tuple[object, ...], dict[str, str]]] = defaultdict(dict)
    for v in verdicts:
        if v.status == "ok":
            presentation = v.question, v.a, v.b, v.first, v.replicate
            winners[v.protocol, v.criterion].setdefault(presentation, {})[v.role] = v.winner
    rows: list[JudgeAgreement] = []
    for key, by_presentation in winners.items():
        if both := [(roles["judge"], roles["second_judge"]) for roles in by_presentation.values() if len(roles) == 2]:
            kappa = cohen_kappa(both)
            alike = Proportion(sum(first == second for first, second in both), len(both))
            why = "both judges always give the same verdict" if kappa is None else ""
            rows.append(JudgeAgreement(*key, alike, kappa, why))
    return tuple(rows)


def cohen_kappa(pairs: Sequence[tuple[str, str]]) -> float | None:
    """Return Cohen's kappa; None if chance agreement is total.

    >>> cohen_kappa([("a", "a"), ("b", "b"), ("a", "b"), ("b", "b")])  # .75 agree, by chance .5
    0.5
    """
    n = len(pairs)
    first, second = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    chance = sum(first[label] * second[label] for label in first) / n**2
    if chance == 1.0:
        return None
    return (sum(a == b for a, b in pairs) / n - chance) / (1 - chance)


def self_judging_of(judge: str, answers: AnswersBySystem) -> list[SelfJudging]:
    """Return a row if this judge's model wrote some of the answers."""
    name = judge.partition(" ")[0]
    judged_systems = tuple(
        s for s, by_question in answers.items() if any(a.model.partition(" ")[0] == name for a in by_question.values())
    )
    alarm = (
        f"the judge, {name}, wrote the answers of {', '.join(judged_systems)}: judges prefer their own; "
        "set another [judge]"
    )
    return [SelfJudging(judge, judged_systems, alarm)] if judged_systems and name else []


def _format_rate(win_rate: WinRate) -> str:
    interval_text = "" if win_rate.low is None else f" ({win_rate.low:.1f}–{win_rate.high:.1f})"
    return f"{win_rate.value or 0:.1f} %{interval_text}"
