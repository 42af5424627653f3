"""Verdicts and answers -> effects beside quality: order, length, chance, self-preference; and alarms.

An alarm is a sentence for the reader of the win rates. A value that cannot be computed is None, and `why` says why.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from kumihimo.core.context import Tokenizer
from kumihimo.evaluate.bias_measures import (
    BiasReport,
    FailedControl,
    JudgeAgreement,
    JudgedPoints,
    LengthAdjustedRate,
    LengthBias,
    LengthGap,
    OrderBias,
    Proportion,
    SelfComparison,
    SelfJudging,
    WinRate,
    mean_win_rate,
)
from kumihimo.evaluate.logistic import UndefinedEstimate, share_without_gap
from kumihimo.evaluate.points import CriterionPair, points_by_pair, with_swapped_pairs
from kumihimo.evaluate.records import EvalQuestion, SystemAnswer, Verdict

SIMILAR_LENGTH = 15.0  # percent: answers that differ by less count as equally long
MIN_MATCHED = 10  # questions of similar length, for a comparison with the raw rate
LENGTH_GAPS = (0.0, 10.0, 25.0, 50.0, 100.0)  # percent


def measure_bias(
    verdicts: Sequence[Verdict],
    questions: Iterable[EvalQuestion],
    answers: Mapping[str, Mapping[str, SystemAnswer]],
    tokenizer: Tokenizer,
) -> BiasReport:
    """Compute all bias panels.

    answers: by system and question, of the first generation.
    """
    sizes = {
        s: {q: len(tokenizer(a.text)) for q, a in by_question.items() if not a.failed}
        for s, by_question in answers.items()
    }
    clusters = {question.id: question.cluster for question in questions}
    judged = JudgedPoints(points_by_pair(verdicts), clusters, defaultdict(dict, sizes))
    return BiasReport(
        orders=measure_order_bias(verdicts),
        same=compare_with_self(points_by_pair(verdicts, self_pairs=True), clusters),
        tokens={
            system: sum(by_question.values()) / len(by_question) for system, by_question in sizes.items() if by_question
        },
        lengths=measure_length_bias(judged),
        adjusted=adjust_for_length(judged),
        controls=find_failed_controls(judged),
        agreement=measure_judge_agreement(verdicts),
        own=find_self_judging(verdicts, answers),
    )


def measure_order_bias(verdicts: Iterable[Verdict]) -> tuple[OrderBias, ...]:
    """Return the order effect of each protocol and criterion."""
    groups: defaultdict[tuple[str, str], list[Verdict]] = defaultdict(list)
    for v in verdicts:
        if v.role == "judge" and v.a != v.b:
            groups[v.protocol, v.criterion].append(v)
    return tuple(_order_bias(*key, rows) for key, rows in groups.items())


def _order_bias(protocol: str, criterion: str, rows: Sequence[Verdict]) -> OrderBias:
    valid = [v for v in rows if v.status == "ok"]
    decided = [v for v in valid if v.winner != "tie"]
    winners: defaultdict[tuple[object, ...], dict[str, str]] = defaultdict(dict)
    for v in valid:
        winners[v.question, v.a, v.b, v.replicate][v.first] = v.winner
    both = [by_order for by_order in winners.values() if len(by_order) == 2]
    return OrderBias(
        protocol,
        criterion,
        flips=Proportion(sum(by_order["a"] != by_order["b"] for by_order in both), len(both)),
        first=Proportion(sum(v.winner == v.first for v in decided), len(decided)),
        ties=Proportion(len(valid) - len(decided), len(valid)),
        invalid=Proportion(sum(v.status == "invalid" for v in rows), len(rows)),
        failed=Proportion(sum(v.status == "failed" for v in rows), len(rows)),
    )


def compare_with_self(
    scores: Mapping[CriterionPair, Mapping[str, float]], clusters: Mapping[str, str]
) -> tuple[SelfComparison, ...]:
    """Return the A/A panel: an alarm if the interval excludes 50."""
    rows: list[SelfComparison] = []
    for pair, points in scores.items():
        win_rate = mean_win_rate(list(points.items()), clusters, reason="no question was judged")
        alarm = (
            f"{pair.a} wins {_format_rate(win_rate)} against another generation of itself by {pair.criterion} "
            f"({pair.protocol}): differences of that size are none"
        )
        rows.append(
            SelfComparison(pair.protocol, pair.criterion, pair.a, win_rate, alarm if win_rate.differs_from_even else "")
        )
    return tuple(rows)


def measure_length_bias(judged: JudgedPoints) -> tuple[LengthBias, ...]:
    """Return the win rate of longer answers by criterion, over all pairs."""
    groups: defaultdict[tuple[str, str], list[tuple[float, str, float]]] = defaultdict(list)
    for pair, scores in judged.scores.items():
        for question, value in scores.items():
            if side := judged.longer_side(pair, question):
                longer_points = value if side > 0 else 100.0 - value
                groups[pair.protocol, pair.criterion].append(
                    (judged.length_gap(pair, question), question, longer_points)
                )
    return tuple(_length_bias(judged, *key, rows) for key, rows in groups.items())


def _length_bias(
    judged: JudgedPoints, protocol: str, criterion: str, rows: Sequence[tuple[float, str, float]]
) -> LengthBias:
    no_rows = "no answers differ this much in length"
    longer = mean_win_rate([(question, value) for _, question, value in rows], judged.clusters, reason=no_rows)
    gaps = [
        LengthGap(
            least,
            most,
            mean_win_rate([(q, v) for gap, q, v in rows if least < gap <= most], judged.clusters, reason=no_rows),
        )
        for least, most in pairwise(LENGTH_GAPS)
    ]
    wins = longer.differs_from_even and longer.value is not None and longer.value > 50
    alarm = (
        f"longer answers win {_format_rate(longer)} by {criterion} ({protocol}): look at the rates matched or adjusted "
        "for length"
    )
    return LengthBias(protocol, criterion, longer, tuple(gaps), alarm if wins else "")


def adjust_for_length(judged: JudgedPoints) -> tuple[LengthAdjustedRate, ...]:
    """Return each pair's win rate with and without length effects."""
    return tuple(_adjust_pair(judged, pair) for pair in judged.scores)


def _adjust_pair(judged: JudgedPoints, pair: CriterionPair) -> LengthAdjustedRate:
    scores = judged.scores[pair]
    similar = {
        question: value for question, value in scores.items() if judged.length_gap(pair, question) < SIMILAR_LENGTH
    }
    raw = judged.win_rate(scores)
    matched = judged.win_rate(similar, reason=f"no answers whose lengths differ by less than {SIMILAR_LENGTH:g} %")
    rates = LengthAdjustedRate(*pair, raw, matched, _rate_without_gap(judged, pair))
    if not raw.differs_from_even or matched.n < MIN_MATCHED or matched.value is None or raw.value is None:
        return rates
    confirmed = matched.differs_from_even and (matched.value > 50) == (raw.value > 50)
    if confirmed or matched.low is None or matched.high is None or matched.low <= raw.value <= matched.high:
        return rates
    alarm = (
        f"{pair.a} against {pair.b} by {pair.criterion} ({pair.protocol}): {_format_rate(raw)}, but "
        f"{_format_rate(matched)} for answers of similar length"
    )
    return replace(rates, alarm=alarm)


def _rate_without_gap(judged: JudgedPoints, pair: CriterionPair) -> WinRate:
    scores = judged.scores[pair]
    lengths_a, lengths_b = judged.token_counts[pair.a], judged.token_counts[pair.b]
    gaps = [lengths_a.get(question, 0) - lengths_b.get(question, 0) for question in scores]
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
        win_rate = judged.win_rate(scores)
        if win_rate.differs_from_even and win_rate.value is not None and win_rate.value > 50:
            won_criteria[pair.protocol, pair.a, pair.b].add(pair.criterion)
    return tuple(
        FailedControl(
            *key,
            f"{key[1]} beats {key[2]} by every criterion, directness too ({key[0]}): does the judge assess it at all?",
        )
        for key, criteria in won_criteria.items()
        if "directness" in criteria and len(criteria) > 3 and criteria == judged_criteria[key[0]]
    )


def measure_judge_agreement(verdicts: Iterable[Verdict]) -> tuple[JudgeAgreement, ...]:
    """Return the agreement of the second judge with the first."""
    winners: defaultdict[tuple[str, str], dict[tuple[object, ...], dict[str, str]]] = defaultdict(dict)
    for v in verdicts:
        if v.status == "ok":
            presentation = v.question, v.a, v.b, v.first, v.replicate
            winners[v.protocol, v.criterion].setdefault(presentation, {})[v.role] = v.winner
    rows: list[JudgeAgreement] = []
    for key, by_presentation in winners.items():
        both = [
            (by_role["judge"], by_role["second_judge"]) for by_role in by_presentation.values() if len(by_role) == 2
        ]
        if both:
            kappa_value = cohen_kappa(both)
            alike = Proportion(sum(first == second for first, second in both), len(both))
            rows.append(
                JudgeAgreement(
                    *key,
                    alike,
                    kappa_value,
                    "" if kappa_value is not None else "both judges always give the same verdict",
                )
            )
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


def find_self_judging(
    verdicts: Iterable[Verdict], answers: Mapping[str, Mapping[str, SystemAnswer]]
) -> tuple[SelfJudging, ...]:
    """Return the judges that are the model of some answers.

    Models are compared by name, whatever their parameters.
    """
    return tuple(row for judge in sorted({v.judge for v in verdicts}) for row in self_judging_of(judge, answers))


def self_judging_of(judge: str, answers: Mapping[str, Mapping[str, SystemAnswer]]) -> list[SelfJudging]:
    """Return a row if this judge's model wrote some of the answers."""
    name = judge.partition(" ")[0]
    judged_systems = [
        s for s, by_question in answers.items() if any(a.model.partition(" ")[0] == name for a in by_question.values())
    ]
    if not judged_systems or not name:
        return []
    alarm = (
        f"the judge, {name}, wrote the answers of {', '.join(judged_systems)}: judges prefer their own; "
        "set another [judge]"
    )
    return [SelfJudging(judge, tuple(judged_systems), alarm)]


def _format_rate(win_rate: WinRate) -> str:
    interval_text = "" if win_rate.low is None else f" ({win_rate.low:.1f}–{win_rate.high:.1f})"
    return f"{win_rate.value or 0:.1f} %{interval_text}"
