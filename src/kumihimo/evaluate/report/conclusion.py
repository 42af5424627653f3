"""a study -> its answer in words: which system is best, by how much, how sure that is, and what it costs.

It claims nothing that the numbers do not bear: where nothing differs for sure, that is what it says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kumihimo.evaluate.comparison import Compared, Ranked, matrix
from kumihimo.evaluate.report.markup import (
    Html,
    Part,
    bold,
    chance,
    counted,
    enumerated,
    figure,
    joined,
    listed,
    p,
    share,
    tag,
)
from kumihimo.evaluate.report.summary_data import CONTROL, Criterion, Gathered, Measure

_FEW = 10  # questions: of fewer nothing is said of what could have been seen
_LESS = 0.95  # of the tokens: not worth a word above
_FIRST = ("recall@5", "recall@10", "answer_correctness", "faithfulness")


@dataclass(frozen=True, slots=True)
class Best:
    """The first of an order; those it is significantly better than, or worse; those it cannot be told from."""

    system: str
    beaten: Sequence[Compared]
    worse: Sequence[Compared]
    level: Sequence[Compared]


def best(order: Sequence[Ranked], compared: Sequence[Compared]) -> Best:
    first = order[0].system
    cells = matrix(compared)
    pairs = [cells[first, one.system] for one in order[1:] if (first, one.system) in cells]
    sure = [pair for pair in pairs if pair.sure]
    beaten = [pair for pair in sure if pair.mean > pair.even]
    return Best(first, beaten, [p for p in sure if p not in beaten], [p for p in pairs if p not in sure])


def headline(held: Gathered) -> list[Html]:
    """A few paragraphs."""
    if held.deciding is None or not held.deciding.ranked:
        return _without_judge(held)
    return [
        *_alarms(held),
        _winner(held, held.deciding),
        *_level(held.deciding),
        *_cheaper(held, held.deciding),
        *_control(held, held.deciding.protocol),
        *_without_control(held),
    ]


def judged_by(criterion: Criterion) -> Html:
    by = f"the mean of {enumerated(criterion.parts)}" if criterion.parts else criterion.name
    return joined(["protocol ", bold(criterion.protocol), f", {by}"])


def _winner(held: Gathered, criterion: Criterion) -> Html:
    found = best(criterion.ranked, criterion.compared)
    mean = f"{share(criterion.ranked[0].mean)} of the points against the others"
    n = max((pair.n for pair in criterion.compared), default=0)
    where = joined([" (", judged_by(criterion), f"; {counted(n, 'question')})."])
    if not found.beaten:
        first = [" The judge's first is ", bold(found.system), f", with {mean}: that may be chance", where]
        return p(bold(f"No system answers significantly better than the others on {held.name}."), *first)
    others = len(criterion.ranked) - 1
    all_of_them = len(found.beaten) == others
    which = "all others" if all_of_them else f"{len(found.beaten)} of {others} others"
    whom = "" if all_of_them else f": {enumerated([pair.b for pair in found.beaten])}"
    said = f": {mean}, where 50 is as good. It is significantly better than {which}{whom}"
    return p(bold(found.system), " answers best on ", bold(held.name), said, where)


def _level(criterion: Criterion) -> Iterator[Html]:
    """Those it cannot be told from, and what could have been seen; those that are better in spite of all."""
    found = best(criterion.ranked, criterion.compared)
    for pair in found.worse:
        yield p("But against ", bold(pair.b), f" alone it is significantly worse ({_cell(pair)}).")
    if not found.level:
        return
    told = [joined([bold(pair.b), f" ({_cell(pair)})"]) for pair in found.level]
    seen = [pair.corrected_detectable for pair in found.level if pair.corrected_detectable is not None]
    n = max(pair.n for pair in found.level)
    power = _power(max(seen)) if seen and n >= _FEW else " Few questions tell little: ask 50 and more." * (n < _FEW)
    yield p("It cannot be told from ", joined(told, ", "), ".", power)


def _power(rate: float) -> str:
    return (
        f" With so many questions a win rate of {share(rate)} or more would have been seen in 4 of 5 studies: "
        "smaller differences would need more questions."
    )


def _cell(pair: Compared) -> str:
    between = f"interval {round(pair.low)}–{round(pair.high)}, " if pair.low < pair.high else ""
    return f"{share(pair.mean)} against it, {between}p {_equals(pair.corrected)}"


def _equals(p_value: float) -> str:
    told = chance(p_value)
    return told if told.startswith("<") else f"= {told}"


def _cheaper(held: Gathered, criterion: Criterion) -> Iterator[Html]:
    """What the best one costs; who takes fewer tokens and is not significantly worse; else who is next."""
    tokens = {spent.system: spent.tokens for spent in held.spent if spent.answered}
    first = criterion.ranked[0].system
    if not tokens.get(first):
        return
    cells = matrix(criterion.compared)
    less = {system: 1 - tokens[system] / tokens[first] for system in tokens if tokens[system] < _LESS * tokens[first]}
    pairs: dict[str, Compared] = {s: cells[s, first] for s in less if (s, first) in cells}
    good = sorted((s for s in pairs if not pairs[s].sure), key=lambda s: -less[s])
    spends: list[Part] = [bold(first), f" takes {figure(tokens[first])} tokens for a question"]
    if good:
        told = [joined([bold(s), f": {share(100 * less[s])} fewer tokens, not significantly worse ({_cell(pairs[s])})"])
                for s in good]  # fmt: skip
        yield p(*spends, "; ", joined(told, "; "), ".")
    elif pairs:
        s = max(pairs, key=lambda s: pairs[s].mean)
        told_of = f"{share(100 * less[s])} fewer tokens, {share(pairs[s].mean)} of the points against it"
        but = [". Of those that take fewer, ", bold(s), f" does best: {told_of}, which is significantly worse."]
        yield p(*spends, *but)
    else:
        yield p(*spends, ": none of the others takes clearly fewer.")


def _control(held: Gathered, protocol: str) -> Iterator[Html]:
    for criterion in held.of(protocol):
        if criterion.name.casefold() == CONTROL and [one.rank for one in criterion.ranked[:2]] == [1, 2]:
            first = criterion.ranked[0]
            yield p(
                "Most direct is ", bold(first.system), f" ({share(first.mean)}): the control, which long answers lose."
            )


def _alarms(held: Gathered) -> Iterator[Html]:
    """What makes the win rates of the protocol that decides doubtful: above all else."""
    alarms = held.bias.alarms_of(held.protocols[0]) if held.bias else ()
    if held.bias and alarms:
        rest = len(held.bias.alarms) - len(alarms[:3])
        more = [f"{rest} more, listed under Bias"] if rest else []
        said = bold(f"Read the win rates with care: {counted(len(alarms), 'alarm')}.")
        yield tag("div", p(said), listed([*(f"{alarm}. " for alarm in alarms[:3]), *more]), class_="alarm")


def _without_control(held: Gathered) -> Iterator[Html]:
    if held.bias is not None and not held.bias.same:
        again, judge = _code("kumi eval run --generations 2"), _code("kumi eval judge")
        said = "No system was compared with another answer of its own (A/A), so nobody knows what this judge makes of "
        yield p(said, "differences that are none: ", again, " and ", judge, " add that.", class_="alarm")


def _code(text: str) -> Html:
    return tag("code", text)


# -- where no judge has decided


def _without_judge(held: Gathered) -> list[Html]:
    measure = leading_measure(held)
    if measure is None:
        judged = f" None of {counted(len(held.verdicts), 'verdict')} is of use." if held.verdicts else ""
        return [p(bold(f"Nothing is measured of {held.name} yet."), judged)]
    order = in_order(measure)
    first, others = order[0], order[1:]
    cells = matrix(measure.compared)
    beaten = [s for s in others if (pair := cells.get((first, s))) and pair.sure]
    mean = figure(measure.mean(first))
    if not others:
        return [p(bold(first), f" is the only system on {held.name}: its {measure.name} is {mean}.")]
    close = [s for s in others if s not in beaten and (first, s) in cells]
    told = [joined([bold(s), f" ({figure(measure.mean(s))}; {_difference(cells[first, s])})"]) for s in close]
    cannot = [p("It cannot be told from ", joined(told, ", "), ".")] if told else []
    if not beaten:
        none = bold(f"No system is significantly better than the others on {held.name} by {measure.name}.")
        return [p(none, " The first is ", bold(first), f", with {mean}: that may be chance."), *cannot]
    sure = f": {mean}, significantly better than {enumerated(beaten)}."
    return [p(bold(first), f" has the best {measure.name} on ", bold(held.name), sure), *cannot]


def _difference(pair: Compared) -> str:
    between = f"interval {figure(pair.low)} to {figure(pair.high)}"
    return f"difference {figure(pair.mean)}, {between}, p {_equals(pair.corrected)}"


def leading_measure(held: Gathered) -> Measure | None:
    """The one that says most where there is no judge."""
    measures = [measure for measure in held.measures if any(measure.values.values())]
    known = {measure.name: measure for measure in measures}
    return next((known[name] for name in _FIRST if name in known), measures[0] if measures else None)


def in_order(measure: Measure) -> list[str]:
    sign = 1 if measure.less else -1
    return sorted(measure.values, key=lambda system: (sign * (measure.mean(system) or 0.0), system))
