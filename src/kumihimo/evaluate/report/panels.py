"""a study -> the parts of a report below its grid: ranks, bias, claims, scores, retrieval, cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kumihimo.evaluate.bias import Rate, Share
from kumihimo.evaluate.comparison import Ranked, matrix
from kumihimo.evaluate.report.charts import curves, dots, ranks, scatter
from kumihimo.evaluate.report.conclusion import in_order, judged_by, leading_measure
from kumihimo.evaluate.report.grid import compared_table, pairs_table
from kumihimo.evaluate.report.markup import Html, Part, counted, figure, folded, joined, listed, p, share, table, tag
from kumihimo.evaluate.report.summary_data import Criterion, Gathered, Measure

Panel = Callable[[Gathered], Iterator[Html]]


def _coloured(held: Gathered, system: str) -> int:
    return list(held.systems).index(system)


# -- ranks


def ranking(held: Gathered) -> Iterator[Html]:
    """By the criteria together, and by each."""
    deciding = held.deciding
    if deciding is None:
        return
    criteria = [criterion for criterion in held.of(deciding.protocol) if criterion is not deciding]
    head = ["System", "Rank", "Where it may stand", "Points against the others", "Strength",
            *(criterion.name for criterion in criteria)]  # fmt: skip
    n = len(deciding.ranked)
    rows: list[list[Part]] = [
        [
            one.system,
            str(one.rank),
            joined(
                [ranks(one.best, one.rank, one.worst, n, _coloured(held, one.system)), f" {_span(one.best, one.worst)}"]
            ),
            share(one.mean),
            figure(one.strength),
            *(_place(criterion, one.system) for criterion in criteria),
        ]
        for one in deciding.ranked
    ]
    yield table(joined(["Order by ", judged_by(deciding)]), head, rows)
    yield p(
        "By Bradley–Terry strengths, a tie half a win for each; where it may stand: in 95 of 100 draws of the tasks. "
        "By each criterion: rank (and where it may stand).",
        class_="soft",
    )
    if deciding.parts:
        yield folded("All pairs of the criteria together in numbers", pairs_table(deciding))


def _standing(held: Gathered, one: Ranked, of: int) -> Html:
    drawn = ranks(one.best, one.rank, one.worst, of, _coloured(held, one.system))
    return joined([drawn, f" {_span(one.best, one.worst)}"])


def _span(best: int, worst: int) -> str:
    return str(best) if best == worst else f"{best}–{worst}"


def _place(criterion: Criterion, system: str) -> str:
    return next((f"{one.rank} ({_span(one.best, one.worst)})" for one in criterion.ranked if one.system == system), "–")


# -- bias


def bias(held: Gathered) -> Iterator[Html]:
    """What else may have decided: alarms first."""
    if held.bias is None:
        return
    alarms = held.bias.alarms
    if alarms:
        yield tag("div", p(tag("b", f"{counted(len(alarms), 'alarm')}:")), listed(alarms), class_="alarm")
    else:
        yield p("No alarm rings.")
    yield _orders(held)
    yield from _same(held)
    yield from _lengths(held)
    yield from _second(held)


def _orders(held: Gathered) -> Html:
    assert held.bias
    rows = [
        [f"{one.criterion}, {one.protocol}", *map(_of, (one.flips, one.first, one.ties, one.invalid, one.failed))]
        for one in held.bias.orders
    ]
    head = ["Criterion", "Another winner when swapped", "Wins of the one shown first", "Ties", "Invalid", "Failed"]
    return table("Order, ties and replies that cannot be read", head, rows)


def _of(part: Share) -> str:
    return "–" if part.percent is None else f"{part.percent:.1f}\u202f% of {part.of:,}"


def _same(held: Gathered) -> Iterator[Html]:
    assert held.bias
    if not held.bias.same:
        yield p("No system was compared with another answer of its own (A/A): ", _code("kumi eval run --generations 2"),
                " and ", _code("kumi eval judge"), " add that control.")  # fmt: skip
        return
    rows = [
        [f"{one.system}, {one.criterion}, {one.protocol}", _drawn(held, one.rate, one.system), _rate(one.rate),
         str(one.rate.n), "rings" if one.alarm else "as it should be"]
        for one in held.bias.same
    ]  # fmt: skip
    yield table(
        "A system against another answer of its own (A/A): 50 is right", ["System", "", "Points", "n", "Alarm"], rows
    )


def _drawn(held: Gathered, rate: Rate, system: str) -> Html:
    if rate.value is None or rate.low is None or rate.high is None:
        return Html("")
    return dots(rate.low, rate.value, rate.high, _coloured(held, system))


def _rate(rate: Rate) -> str:
    if rate.value is None:
        return f"– ({rate.why})"
    return f"{rate.value:.1f}" + (f" ({rate.low:.1f}–{rate.high:.1f})" if rate.low is not None else "")


def _lengths(held: Gathered) -> Iterator[Html]:
    assert held.bias
    found = held.bias
    tokens = [[system, figure(found.tokens[system])] for system in held.systems if system in found.tokens]
    yield table("Mean length of the answers", ["System", "Tokens"], tokens)
    gaps = list(dict.fromkeys((gap.least, gap.most) for one in found.lengths for gap in one.gaps))
    head = ["Criterion", "All", *(f"{least:g}–{most:g}\u202f% longer" for least, most in gaps)]
    rows = [
        [f"{one.criterion}, {one.protocol}", _rate(one.longer), *(_rate(gap.rate) for gap in one.gaps)]
        for one in found.lengths
    ]
    if rows:
        yield table("How many points the longer answer has: 50 where length does not matter", head, rows)
    pairs = [
        [f"{one.a} – {one.b}, {one.criterion}", _rate(one.raw), _rate(one.matched), str(one.matched.n),
         _rate(one.adjusted)]
        for one in found.adjusted
    ]  # fmt: skip
    if pairs:
        head = ["Pair", "As judged", "Answers as long as each other", "n", "Adjusted for length"]
        yield folded("Win rates without the lengths", table("Win rates, raw, matched and adjusted", head, pairs))


def _second(held: Gathered) -> Iterator[Html]:
    assert held.bias
    if not held.bias.agreement:
        yield p("No second judge looked at a sample: set a model under ", _code("[second_judge]"), " and run ",
                _code("kumi eval judge"), " again.", class_="soft")  # fmt: skip
        return
    rows = [
        [f"{one.criterion}, {one.protocol}", _of(one.alike), figure(one.kappa) if one.kappa is not None else one.why]
        for one in held.bias.agreement
    ]
    yield table("A second judge on a sample", ["Criterion", "Says the same", "Cohen's kappa"], rows)


def _code(text: str) -> Html:
    return tag("code", text)


# -- measures of each answer


def claims(held: Gathered) -> Iterator[Html]:
    measures = held.group("claims")
    if not measures:
        return
    yield measures_table("Claims of an answer, the mean; n of N questions", held, measures)
    lines = {
        system: [(float(m.name.partition("@")[2]), mean) for m in measures
                 if m.name.startswith("clusters@") and (mean := m.mean(system)) is not None]
        for system in held.systems
    }  # fmt: skip
    lines = {system: points for system, points in lines.items() if points}
    if lines:
        title = f"Different things said, by how alike they must be to count as one: {held.name}"
        yield curves(title, "distance at which claims are one", "clusters", lines, held.systems)
    yield pairs_of(measures)
    yield from _agreeing(held)


def _agreeing(held: Gathered) -> Iterator[Html]:
    rows = [
        [f"{one.criterion}, {one.protocol}", one.measure, f"{one.decided:,} of {one.pairs:,}", f"{one.n:,}",
         f"{one.equal:,}", "–" if one.share is None else share(100 * one.share)]
        for one in held.agreements
    ]  # fmt: skip
    if rows:
        head = [
            "Criterion",
            "Measure",
            "Pairs decided by most verdicts",
            "Counted",
            "Both as many",
            "Judge prefers more",
        ]
        yield table("Whether the judge prefers the answer that has more of them", head, rows)


def ratings(held: Gathered) -> Iterator[Html]:
    measures = held.group("ratings")
    if measures:
        sizes = sorted({pair.family for measure in measures for pair in measure.compared})
        yield measures_table("Ratings from 0 to 100 (MK-RAG), the mean; n of N questions", held, measures)
        yield p(f"Families of {' or '.join(map(str, sizes)) or 'no'} comparisons.", class_="soft")
        yield pairs_of(measures)


def scores(held: Gathered) -> Iterator[Html]:
    measures = held.group("scores")
    if measures:
        yield measures_table("Scores of the answers, the mean; n of N questions", held, measures)
        yield pairs_of(measures)


def retrieval(held: Gathered) -> Iterator[Html]:
    measures = held.group("retrieval")
    if measures:
        yield measures_table("What was found, the mean; n of N questions", held, measures)
        yield pairs_of(measures)


def measures_table(caption: str, held: Gathered, measures: Sequence[Measure]) -> Html:
    """Bold: the best; † : worse than the best for sure."""
    shown = [s for s in held.systems if any(s in measure.values or s in measure.undefined for measure in measures)]
    rows = [[system, *(_mean(measure, system) for measure in measures)] for system in shown]
    whys = [
        f"{measure.name}: {reason} ({counted(n, 'answer')})"
        for measure in measures
        for reason, n in _reasons(measure).items()
    ]
    note = p(
        "Bold: the best. † : significantly worse, p < .05 by Wilcoxon after Holm. ↓ : less is better.", class_="soft"
    )
    why = folded("Why some have no value", listed(whys)) if whys else Html("")
    return joined(
        [table(caption, ["System", *(measure.name + " ↓" * measure.less for measure in measures)], rows), note, why]
    )


def _reasons(measure: Measure) -> dict[str, int]:
    found: dict[str, int] = {}
    for counts in measure.undefined.values():
        for reason, n in counts.items():
            found[reason] = found.get(reason, 0) + n
    return found


def _mean(measure: Measure, system: str) -> Html:
    mean = measure.mean(system)
    n = len(measure.values.get(system, ()))
    of = tag("small", f" {n}/{measure.total}")
    if mean is None:
        return joined(["–", of])
    first = in_order(measure)[0]
    pair = matrix(measure.compared).get((first, system))
    lower = pair is not None and pair.sure
    said = figure(mean)
    return joined([tag("b", said) if system == first else said, "†" if lower else "", of])


def pairs_of(measures: Sequence[Measure]) -> Html:
    found = [measure for measure in measures if measure.compared]
    return folded("All pairs in numbers", *(compared_table(measure.name, measure.compared) for measure in found))


# -- cost


def cost(held: Gathered) -> Iterator[Html]:
    """Quality beside what it costs, and the costs."""
    spent = [one for one in held.spent if one.answered]
    if not spent:
        return
    qualities = list(_qualities(held))
    axes = {
        "tokens": {one.system: one.tokens for one in spent},
        "calls": {one.system: one.calls for one in spent},
        "cost": {one.system: one.cost for one in spent},
        "seconds, median": {one.system: one.half or 0.0 for one in spent},
    }
    drawn = [_scatter(held, axes["tokens"], "tokens", name, values, even) for name, values, even in qualities]
    yield tag("div", *drawn, class_="pictures")
    if drawn:
        yield p("A dotted line joins the systems that no other beats in both.", class_="soft")
    others = [
        _scatter(held, xs, x_name, *qualities[0])
        for x_name, xs in axes.items()
        if qualities and x_name != "tokens" and any(xs.values())
    ]
    if any(others):
        yield folded("Against calls, cost and seconds", tag("div", *others, class_="pictures"))
    head = ["System", "Answered", "Failed", "Calls", "Tokens", "Cost", "Seconds p50", "p95", "timed"]
    rows = [
        [one.system, str(one.answered), str(one.failed), figure(one.calls, 1), f"{one.tokens:,.0f}",
         f"{one.cost:.4f}" if one.cost else "–", figure(one.half, 1), figure(one.most, 1), str(one.timed)]
        for one in held.spent
    ]  # fmt: skip
    yield table("For a question, the mean", head, rows, class_="numbers")
    yield p("Costs are in the currency of the prices that are set. Seconds are of answers that were not remembered: "
            "timed, so many.", class_="soft")  # fmt: skip


def _qualities(held: Gathered) -> Iterator[tuple[str, dict[str, float], float | None]]:
    if held.deciding is not None and held.deciding.ranked:
        yield "points against the others", {one.system: one.mean for one in held.deciding.ranked}, 50.0
    shown = [measure for measure in (leading_measure(held), *held.group("claims")[:1]) if measure]
    for measure in {measure.name: measure for measure in shown}.values():
        means = {system: mean for system in measure.values if (mean := measure.mean(system)) is not None}
        yield measure.name, means, None


def _scatter(
    held: Gathered, xs: dict[str, float], x_name: str, y_name: str, ys: dict[str, float], even: float | None
) -> Html:
    points = {system: (xs[system], ys[system]) for system in held.systems if system in ys and xs.get(system)}
    title = f"{held.name}: {y_name} against {x_name} for a question"
    return scatter(title, f"{x_name} for a question", y_name, points, list(held.systems), even=even)


PANELS: dict[str, tuple[str, Panel]] = {
    "ranking": ("Order", ranking),
    "cost": ("Cost beside quality", cost),
    "bias": ("Bias", bias),
    "claims": ("Claims", claims),
    "ratings": ("Ratings", ratings),
    "scores": ("Scores", scores),
    "retrieval": ("Retrieval", retrieval),
}
