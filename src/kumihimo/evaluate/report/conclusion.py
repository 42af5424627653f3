"""a study -> its answer in words: which system is best, by how much, how sure that is, and what it costs.

It claims nothing that the numbers do not bear: where nothing differs for sure, that is what it says.
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

_FEW_QUESTIONS = 10  # questions: of fewer nothing is said of what could have been seen
_CHEAPER_RATIO = 0.95  # of the tokens: not worth a word above
_LEADING_MEASURES = ("recall@5", "recall@10", "answer_correctness", "faithfulness")


@dataclass(frozen=True, slots=True)
class Leader:
    """The first of an order; those it is significantly better than, or worse; those it cannot be told from."""

    system: str
    beaten: Sequence[Comparison]
    lost_to: Sequence[Comparison]
    tied: Sequence[Comparison]


def find_leader(order: Sequence[RankedSystem], compared: Sequence[Comparison]) -> Leader:
    first = order[0].system
    cells = comparison_matrix(compared)
    pairs = [cells[first, one.system] for one in order[1:] if (first, one.system) in cells]
    sure = [pair for pair in pairs if pair.is_significant]
    beaten = [pair for pair in sure if pair.mean > pair.even_mean]
    return Leader(first, beaten, [p for p in sure if p not in beaten], [p for p in pairs if p not in sure])


def render_headline(held: StudyResults) -> list[Html]:
    """A few paragraphs."""
    if held.deciding_criterion is None or not held.deciding_criterion.ranking:
        return _measure_headline(held)
    return [
        *_alarm_box(held),
        _winner_paragraph(held, held.deciding_criterion),
        *_level_paragraphs(held.deciding_criterion),
        *_cheaper_paragraph(held, held.deciding_criterion),
        *_control_paragraph(held, held.deciding_criterion.protocol),
        *_missing_aa_note(held),
    ]


def protocol_label(criterion: CriterionResults) -> Html:
    by = f"the mean of {join_words(criterion.parts)}" if criterion.parts else criterion.name
    return join_html(["protocol ", bold(criterion.protocol), f", {by}"])


def _winner_paragraph(held: StudyResults, criterion: CriterionResults) -> Html:
    found = find_leader(criterion.ranking, criterion.comparisons)
    mean = f"{format_percent(criterion.ranking[0].mean)} of the points against the others"
    n = max((pair.n for pair in criterion.comparisons), default=0)
    where = join_html([" (", protocol_label(criterion), f"; {pluralise(n, 'question')})."])
    if not found.beaten:
        first = [" The judge's first is ", bold(found.system), f", with {mean}: that may be chance", where]
        return p(bold(f"No system answers significantly better than the others on {held.name}."), *first)
    others = len(criterion.ranking) - 1
    all_of_them = len(found.beaten) == others
    which = "all others" if all_of_them else f"{len(found.beaten)} of {others} others"
    whom = "" if all_of_them else f": {join_words([pair.b for pair in found.beaten])}"
    said = f": {mean}, where 50 is as good. It is significantly better than {which}{whom}"
    return p(bold(found.system), " answers best on ", bold(held.name), said, where)


def _level_paragraphs(criterion: CriterionResults) -> Iterator[Html]:
    """Those it cannot be told from, and what could have been seen; those that are better in spite of all."""
    found = find_leader(criterion.ranking, criterion.comparisons)
    for pair in found.lost_to:
        yield p("But against ", bold(pair.b), f" alone it is significantly worse ({_comparison_note(pair)}).")
    if not found.tied:
        return
    told = [join_html([bold(pair.b), f" ({_comparison_note(pair)})"]) for pair in found.tied]
    seen = [pair.corrected_detectable for pair in found.tied if pair.corrected_detectable is not None]
    n = max(pair.n for pair in found.tied)
    power = (
        _power_note(max(seen))
        if seen and n >= _FEW_QUESTIONS
        else " Few questions tell little: ask 50 and more." * (n < _FEW_QUESTIONS)
    )
    yield p("It cannot be told from ", join_html(told, ", "), ".", power)


def _power_note(rate: float) -> str:
    return (
        f" With so many questions a win rate of {format_percent(rate)} or more would have been seen in 4 of 5 studies: "
        "smaller differences would need more questions."
    )


def _comparison_note(pair: Comparison) -> str:
    between = f"interval {round(pair.low)}–{round(pair.high)}, " if pair.low < pair.high else ""
    return f"{format_percent(pair.mean)} against it, {between}p {_p_value_note(pair.corrected)}"


def _p_value_note(p_value: float) -> str:
    told = format_p_value(p_value)
    return told if told.startswith("<") else f"= {told}"


def _cheaper_paragraph(held: StudyResults, criterion: CriterionResults) -> Iterator[Html]:
    """What the best one costs; who takes fewer tokens and is not significantly worse; else who is next."""
    tokens = {spent.system: spent.tokens for spent in held.costs if spent.answered}
    first = criterion.ranking[0].system
    if not tokens.get(first):
        return
    cells = comparison_matrix(criterion.comparisons)
    less = {
        system: 1 - tokens[system] / tokens[first]
        for system in tokens
        if tokens[system] < _CHEAPER_RATIO * tokens[first]
    }
    pairs: dict[str, Comparison] = {s: cells[s, first] for s in less if (s, first) in cells}
    good = sorted((s for s in pairs if not pairs[s].is_significant), key=lambda s: -less[s])
    spends: list[Part] = [bold(first), f" takes {format_figure(tokens[first])} tokens for a question"]
    if good:
        told = [join_html([bold(s), f": {format_percent(100 * less[s])} fewer tokens, not significantly worse ({_comparison_note(pairs[s])})"])
                for s in good]  # fmt: skip
        yield p(*spends, "; ", join_html(told, "; "), ".")
    elif pairs:
        s = max(pairs, key=lambda s: pairs[s].mean)
        told_of = (
            f"{format_percent(100 * less[s])} fewer tokens, {format_percent(pairs[s].mean)} of the points against it"
        )
        but = [". Of those that take fewer, ", bold(s), f" does best: {told_of}, which is significantly worse."]
        yield p(*spends, *but)
    else:
        yield p(*spends, ": none of the others takes clearly fewer.")


def _control_paragraph(held: StudyResults, protocol: str) -> Iterator[Html]:
    for criterion in held.criteria_of(protocol):
        if criterion.name.casefold() == CONTROL_CRITERION and [one.rank for one in criterion.ranking[:2]] == [1, 2]:
            first = criterion.ranking[0]
            yield p(
                "Most direct is ",
                bold(first.system),
                f" ({format_percent(first.mean)}): the control, which long answers lose.",
            )


def _alarm_box(held: StudyResults) -> Iterator[Html]:
    """What makes the win rates of the protocol that decides doubtful: above all else."""
    alarms = held.bias.alarms_for(held.protocols[0]) if held.bias else ()
    if held.bias and alarms:
        rest = len(held.bias.alarms) - len(alarms[:3])
        more = [f"{rest} more, listed under Bias"] if rest else []
        said = bold(f"Read the win rates with care: {pluralise(len(alarms), 'alarm')}.")
        yield tag("div", p(said), bullet_list([*(f"{alarm}. " for alarm in alarms[:3]), *more]), class_="alarm")


def _missing_aa_note(held: StudyResults) -> Iterator[Html]:
    if held.bias is not None and not held.bias.same:
        again, judge = _code("kumi eval run --generations 2"), _code("kumi eval judge")
        said = "No system was compared with another answer of its own (A/A), so nobody knows what this judge makes of "
        yield p(said, "differences that are none: ", again, " and ", judge, " add that.", class_="alarm")


def _code(text: str) -> Html:
    return tag("code", text)


# -- where no judge has decided


def _measure_headline(held: StudyResults) -> list[Html]:
    measure = leading_measure(held)
    if measure is None:
        judged = f" None of {pluralise(len(held.verdicts), 'verdict')} is of use." if held.verdicts else ""
        return [p(bold(f"Nothing is measured of {held.name} yet."), judged)]
    order = order_systems(measure)
    first, others = order[0], order[1:]
    cells = comparison_matrix(measure.comparisons)
    beaten = [s for s in others if (pair := cells.get((first, s))) and pair.is_significant]
    mean = format_figure(measure.mean(first))
    if not others:
        return [p(bold(first), f" is the only system on {held.name}: its {measure.name} is {mean}.")]
    close = [s for s in others if s not in beaten and (first, s) in cells]
    told = [
        join_html([bold(s), f" ({format_figure(measure.mean(s))}; {_difference_note(cells[first, s])})"]) for s in close
    ]
    cannot = [p("It cannot be told from ", join_html(told, ", "), ".")] if told else []
    if not beaten:
        none = bold(f"No system is significantly better than the others on {held.name} by {measure.name}.")
        return [p(none, " The first is ", bold(first), f", with {mean}: that may be chance."), *cannot]
    sure = f": {mean}, significantly better than {join_words(beaten)}."
    return [p(bold(first), f" has the best {measure.name} on ", bold(held.name), sure), *cannot]


def _difference_note(pair: Comparison) -> str:
    between = f"interval {format_figure(pair.low)} to {format_figure(pair.high)}"
    return f"difference {format_figure(pair.mean)}, {between}, p {_p_value_note(pair.corrected)}"


def leading_measure(held: StudyResults) -> ReportMeasure | None:
    """The one that says most where there is no judge."""
    measures = [measure for measure in held.measures if any(measure.values.values())]
    known = {measure.name: measure for measure in measures}
    return next((known[name] for name in _LEADING_MEASURES if name in known), measures[0] if measures else None)


def order_systems(measure: ReportMeasure) -> list[str]:
    sign = 1 if measure.lower_is_better else -1
    return sorted(measure.values, key=lambda system: (sign * (measure.mean(system) or 0.0), system))
