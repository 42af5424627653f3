"""a study -> its conclusion: the best system, its margin and certainty, its cost.

It states only what the numbers support. Without a significant difference it says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kumihimo.evaluate.comparison import Comparison, RankedSystem, comparison_matrix
from kumihimo.evaluate.report.markup import (
    Html,
    Part,
    bold,
    bullet_list,
    code,
    format_figure,
    format_p_value,
    format_percent,
    join_html,
    join_words,
    p,
    pluralise,
    tag,
)
from kumihimo.evaluate.report.summary_data import CONTROL_CRITERION, CriterionResults, ReportMeasure, StudyResults

_FEW_QUESTIONS = 10  # with fewer questions no detectable win rate is given
_CHEAPER_RATIO = 0.95  # of the tokens of the best system; above, a system is not cheaper
_LEADING_MEASURES = ("recall@5", "recall@10", "answer_correctness", "faithfulness")


@dataclass(frozen=True, slots=True)
class Leader:
    """The first system of a ranking: whom it beats, loses to, or ties with, by significance."""

    system: str
    beaten: Sequence[Comparison]
    lost_to: Sequence[Comparison]
    tied: Sequence[Comparison]


def find_leader(order: Sequence[RankedSystem], comparisons: Sequence[Comparison]) -> Leader:
    """Return the first system with its significant comparisons."""
    first = order[0].system
    cells = comparison_matrix(comparisons)
    pairs = [cells[first, entry.system] for entry in order[1:] if (first, entry.system) in cells]
    significant = [pair for pair in pairs if pair.is_significant]
    beaten = [pair for pair in significant if pair.mean > pair.even_mean]
    return Leader(
        first,
        beaten,
        [pair for pair in significant if pair not in beaten],
        [pair for pair in pairs if pair not in significant],
    )


def render_headline(study: StudyResults) -> list[Html]:
    """Return the paragraphs of the headline."""
    if study.deciding_criterion is None or not study.deciding_criterion.ranking:
        return _measure_headline(study)
    return [
        *_alarm_box(study),
        _winner_paragraph(study, study.deciding_criterion),
        *_level_paragraphs(study.deciding_criterion),
        *_cheaper_paragraph(study, study.deciding_criterion),
        *_control_paragraph(study, study.deciding_criterion.protocol),
        *_missing_aa_note(study),
    ]


def protocol_label(criterion: CriterionResults) -> Html:
    """Return the protocol and criteria of a result."""
    criteria = f"the mean of {join_words(criterion.parts)}" if criterion.parts else criterion.name
    return join_html(["protocol ", bold(criterion.protocol), f", {criteria}"])


def _winner_paragraph(study: StudyResults, criterion: CriterionResults) -> Html:
    """Return the paragraph on the best system."""
    leader = find_leader(criterion.ranking, criterion.comparisons)
    mean = f"{format_percent(criterion.ranking[0].mean)} of the points against the others"
    count = max((pair.n for pair in criterion.comparisons), default=0)
    where = join_html([" (", protocol_label(criterion), f"; {pluralise(count, 'question')})."])
    if not leader.beaten:
        first = [" The judge ranks ", bold(leader.system), f" first, with {mean}, which may be chance", where]
        return p(bold(f"No system answers significantly better than the others on {study.name}."), *first)
    others = len(criterion.ranking) - 1
    all_of_them = len(leader.beaten) == others
    scope = "all others" if all_of_them else f"{len(leader.beaten)} of {others} others"
    names = "" if all_of_them else f": {join_words([pair.b for pair in leader.beaten])}"
    margin = f": {mean}, where 50 is a tie. It is significantly better than {scope}{names}"
    return p(bold(leader.system), " answers best on ", bold(study.name), margin, where)


def _level_paragraphs(criterion: CriterionResults) -> Iterator[Html]:
    """Yield paragraphs on systems that are tied with, or better."""
    leader = find_leader(criterion.ranking, criterion.comparisons)
    for pair in leader.lost_to:
        yield p("But against ", bold(pair.b), f" alone it is significantly worse ({_comparison_note(pair)}).")
    if not leader.tied:
        return
    parts = [join_html([bold(pair.b), f" ({_comparison_note(pair)})"]) for pair in leader.tied]
    detectable = [pair.corrected_detectable for pair in leader.tied if pair.corrected_detectable is not None]
    count = max(pair.n for pair in leader.tied)
    power = (
        _power_note(max(detectable))
        if detectable and count >= _FEW_QUESTIONS
        else " These are too few questions: ask 50 or more." * (count < _FEW_QUESTIONS)
    )
    yield p("It cannot be distinguished from ", join_html(parts, ", "), ".", power)


def _power_note(rate: float) -> str:
    """Return a sentence on the detectable win rate."""
    return (
        f" With this many questions, a win rate of {format_percent(rate)} or more is significant in 4 of 5 studies; "
        "smaller differences need more questions."
    )


def _comparison_note(pair: Comparison) -> str:
    """Return a comparison in words."""
    interval = f"interval {round(pair.low)}–{round(pair.high)}, " if pair.low < pair.high else ""
    return f"{format_percent(pair.mean)} against it, {interval}p {_p_value_note(pair.corrected)}"


def _p_value_note(p_value: float) -> str:
    """Return a p-value with its sign."""
    text = format_p_value(p_value)
    return text if text.startswith("<") else f"= {text}"


def _cheaper_paragraph(study: StudyResults, criterion: CriterionResults) -> Iterator[Html]:
    """Yield a paragraph on cheaper systems that are not significantly worse.

    If all are worse, it names the best of them.
    """
    tokens = {cost.system: cost.tokens for cost in study.costs if cost.answered}
    first = criterion.ranking[0].system
    if not tokens.get(first):
        return
    cells = comparison_matrix(criterion.comparisons)
    savings = {
        system: 1 - tokens[system] / tokens[first]
        for system in tokens
        if tokens[system] < _CHEAPER_RATIO * tokens[first]
    }
    fewer = {system: f"{format_percent(100 * share)} fewer tokens" for system, share in savings.items()}
    pairs = {system: cells[system, first] for system in savings if (system, first) in cells}
    not_worse = sorted((name for name in pairs if not pairs[name].is_significant), key=lambda name: -savings[name])
    opening: list[Part] = [bold(first), f" uses {format_figure(tokens[first])} tokens per question"]
    if not_worse:
        parts = [
            join_html([bold(system), f": {fewer[system]}, not significantly worse ({_comparison_note(pairs[system])})"])
            for system in not_worse
        ]
        yield p(*opening, "; ", join_html(parts, "; "), ".")
    elif pairs:
        system = max(pairs, key=lambda name: pairs[name].mean)
        margin = f"{fewer[system]}, {format_percent(pairs[system].mean)} of the points against it"
        remark = [". Among the cheaper systems ", bold(system), f" is best: {margin}, which is significantly worse."]
        yield p(*opening, *remark)
    else:
        yield p(*opening, "; no other system uses clearly fewer.")


def _control_paragraph(study: StudyResults, protocol: str) -> Iterator[Html]:
    """Yield a paragraph on the winner of the control criterion."""
    for criterion in study.criteria_of(protocol):
        if criterion.name.casefold() == CONTROL_CRITERION and [entry.rank for entry in criterion.ranking[:2]] == [1, 2]:
            first = criterion.ranking[0]
            yield p(
                "The most direct is ",
                bold(first.system),
                f" ({format_percent(first.mean)}). Directness is the control: long answers lose by it.",
            )


def _alarm_box(study: StudyResults) -> Iterator[Html]:
    """Yield a box with the alarms of the deciding protocol."""
    alarms = study.bias.alarms_for(study.protocols[0]) if study.bias else ()
    if study.bias and alarms:
        rest = len(study.bias.alarms) - len(alarms[:3])
        remainder = [f"{rest} more, listed under Bias"] if rest else []
        title = bold(f"Read the win rates with care: {pluralise(len(alarms), 'alarm')}.")
        yield tag("div", p(title), bullet_list([*(f"{alarm}. " for alarm in alarms[:3]), *remainder]), class_="alarm")


def _missing_aa_note(study: StudyResults) -> Iterator[Html]:
    """Yield a warning if no A/A comparison exists."""
    if study.bias is not None and not study.bias.same:
        run, judge = code("kumi eval run --generations 2"), code("kumi eval judge")
        text = "No system was compared with another answer of its own (A/A), so the judge's error on equal answers is "
        yield p(text, "unknown: ", run, " and ", judge, " add this check.", class_="alarm")


# -- without a judge


def _measure_headline(study: StudyResults) -> list[Html]:
    """Return the headline by the leading measure, without judge results."""
    measure = leading_measure(study)
    if measure is None:
        note = f" None of {pluralise(len(study.verdicts), 'verdict')} is valid." if study.verdicts else ""
        return [p(bold(f"There are no results for {study.name} yet."), note)]
    order = order_systems(measure)
    first, others = order[0], order[1:]
    cells = comparison_matrix(measure.comparisons)
    beaten = [system for system in others if (pair := cells.get((first, system))) and pair.is_significant]
    mean = format_figure(measure.mean(first))
    if not others:
        return [p(bold(first), f" is the only system on {study.name}: its {measure.name} is {mean}.")]
    tied = [system for system in others if system not in beaten and (first, system) in cells]
    parts = [
        join_html([bold(system), f" ({format_figure(measure.mean(system))}; {_difference_note(cells[first, system])})"])
        for system in tied
    ]
    ties = [p("It cannot be distinguished from ", join_html(parts, ", "), ".")] if parts else []
    if not beaten:
        opening = bold(f"No system is significantly better than the others on {study.name} by {measure.name}.")
        return [p(opening, " ", bold(first), f" is first with {mean}, which may be chance."), *ties]
    details = f": {mean}, significantly better than {join_words(beaten)}."
    return [p(bold(first), f" has the best {measure.name} on ", bold(study.name), details), *ties]


def _difference_note(pair: Comparison) -> str:
    """Return a difference in words."""
    interval = f"interval {format_figure(pair.low)} to {format_figure(pair.high)}"
    return f"difference {format_figure(pair.mean)}, {interval}, p {_p_value_note(pair.corrected)}"


def leading_measure(study: StudyResults) -> ReportMeasure | None:
    """Return the most informative measure with values, or None."""
    measures = [measure for measure in study.measures if any(measure.values.values())]
    by_name = {measure.name: measure for measure in measures}
    return next((by_name[name] for name in _LEADING_MEASURES if name in by_name), measures[0] if measures else None)


def order_systems(measure: ReportMeasure) -> list[str]:
    """Return the systems of a measure, best first."""
    sign = 1 if measure.lower_is_better else -1
    return sorted(measure.values, key=lambda system: (sign * (measure.mean(system) or 0.0), system))
