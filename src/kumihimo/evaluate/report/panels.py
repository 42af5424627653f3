"""a study -> the parts of a report below its grid: ranks, bias, claims, scores, retrieval, cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kumihimo.evaluate.bias import Proportion, WinRate
from kumihimo.evaluate.comparison import RankedSystem, comparison_matrix
from kumihimo.evaluate.report.charts import draw_curves, draw_interval, draw_ranks, draw_scatter
from kumihimo.evaluate.report.conclusion import leading_measure, order_systems, protocol_label
from kumihimo.evaluate.report.grid import comparison_table, pairs_table
from kumihimo.evaluate.report.markup import (
    Html,
    Part,
    bullet_list,
    collapsible,
    format_figure,
    format_percent,
    html_table,
    join_html,
    p,
    pluralise,
    tag,
)
from kumihimo.evaluate.report.summary_data import CriterionResults, ReportMeasure, StudyResults

Panel = Callable[[StudyResults], Iterator[Html]]


def _system_index(held: StudyResults, system: str) -> int:
    return list(held.systems).index(system)


# -- ranks


def ranking_panel(held: StudyResults) -> Iterator[Html]:
    """By the criteria together, and by each."""
    deciding = held.deciding_criterion
    if deciding is None:
        return
    criteria = [criterion for criterion in held.criteria_of(deciding.protocol) if criterion is not deciding]
    head = ["System", "Rank", "Where it may stand", "Points against the others", "Strength",
            *(criterion.name for criterion in criteria)]  # fmt: skip
    n = len(deciding.ranking)
    rows: list[list[Part]] = [
        [
            one.system,
            str(one.rank),
            join_html(
                [
                    draw_ranks(one.best, one.rank, one.worst, n, _system_index(held, one.system)),
                    f" {_rank_range(one.best, one.worst)}",
                ]
            ),
            format_percent(one.mean),
            format_figure(one.strength),
            *(_rank_cell(criterion, one.system) for criterion in criteria),
        ]
        for one in deciding.ranking
    ]
    yield html_table(join_html(["Order by ", protocol_label(deciding)]), head, rows)
    yield p(
        "By Bradley–Terry strengths, a tie half a win for each; where it may stand: in 95 of 100 draws of the tasks. "
        "By each criterion: rank (and where it may stand).",
        class_="soft",
    )
    if deciding.parts:
        yield collapsible("All pairs of the criteria together in numbers", pairs_table(deciding))


def _standing(held: StudyResults, one: RankedSystem, of: int) -> Html:
    drawn = draw_ranks(one.best, one.rank, one.worst, of, _system_index(held, one.system))
    return join_html([drawn, f" {_rank_range(one.best, one.worst)}"])


def _rank_range(best: int, worst: int) -> str:
    return str(best) if best == worst else f"{best}–{worst}"


def _rank_cell(criterion: CriterionResults, system: str) -> str:
    return next(
        (f"{one.rank} ({_rank_range(one.best, one.worst)})" for one in criterion.ranking if one.system == system), "–"
    )


# -- bias


def bias_panel(held: StudyResults) -> Iterator[Html]:
    """What else may have decided: alarms first."""
    if held.bias is None:
        return
    alarms = held.bias.alarms
    if alarms:
        yield tag("div", p(tag("b", f"{pluralise(len(alarms), 'alarm')}:")), bullet_list(alarms), class_="alarm")
    else:
        yield p("No alarm rings.")
    yield _order_table(held)
    yield from _aa_table(held)
    yield from _length_tables(held)
    yield from _second_judge_table(held)


def _order_table(held: StudyResults) -> Html:
    assert held.bias
    rows = [
        [
            f"{one.criterion}, {one.protocol}",
            *map(_share_cell, (one.flips, one.first, one.ties, one.invalid, one.failed)),
        ]
        for one in held.bias.orders
    ]
    head = ["Criterion", "Another winner when swapped", "Wins of the one shown first", "Ties", "Invalid", "Failed"]
    return html_table("Order, ties and replies that cannot be read", head, rows)


def _share_cell(part: Proportion) -> str:
    return "–" if part.percent is None else f"{part.percent:.1f}\u202f% of {part.of:,}"


def _aa_table(held: StudyResults) -> Iterator[Html]:
    assert held.bias
    if not held.bias.same:
        yield p("No system was compared with another answer of its own (A/A): ", _code("kumi eval run --generations 2"),
                " and ", _code("kumi eval judge"), " add that control.")  # fmt: skip
        return
    rows = [
        [f"{one.system}, {one.criterion}, {one.protocol}", _interval_picture(held, one.rate, one.system), _rate_cell(one.rate),
         str(one.rate.n), "rings" if one.alarm else "as it should be"]
        for one in held.bias.same
    ]  # fmt: skip
    yield html_table(
        "A system against another answer of its own (A/A): 50 is right", ["System", "", "Points", "n", "Alarm"], rows
    )


def _interval_picture(held: StudyResults, rate: WinRate, system: str) -> Html:
    if rate.value is None or rate.low is None or rate.high is None:
        return Html("")
    return draw_interval(rate.low, rate.value, rate.high, _system_index(held, system))


def _rate_cell(rate: WinRate) -> str:
    if rate.value is None:
        return f"– ({rate.why})"
    return f"{rate.value:.1f}" + (f" ({rate.low:.1f}–{rate.high:.1f})" if rate.low is not None else "")


def _length_tables(held: StudyResults) -> Iterator[Html]:
    assert held.bias
    found = held.bias
    tokens = [[system, format_figure(found.tokens[system])] for system in held.systems if system in found.tokens]
    yield html_table("Mean length of the answers", ["System", "Tokens"], tokens)
    gaps = list(dict.fromkeys((gap.least, gap.most) for one in found.lengths for gap in one.gaps))
    head = ["Criterion", "All", *(f"{least:g}–{most:g}\u202f% longer" for least, most in gaps)]
    rows = [
        [f"{one.criterion}, {one.protocol}", _rate_cell(one.longer), *(_rate_cell(gap.rate) for gap in one.gaps)]
        for one in found.lengths
    ]
    if rows:
        yield html_table("How many points the longer answer has: 50 where length does not matter", head, rows)
    pairs = [
        [f"{one.a} – {one.b}, {one.criterion}", _rate_cell(one.raw), _rate_cell(one.matched), str(one.matched.n),
         _rate_cell(one.adjusted)]
        for one in found.adjusted
    ]  # fmt: skip
    if pairs:
        head = ["Pair", "As judged", "Answers as long as each other", "n", "Adjusted for length"]
        yield collapsible(
            "Win rates without the lengths", html_table("Win rates, raw, matched and adjusted", head, pairs)
        )


def _second_judge_table(held: StudyResults) -> Iterator[Html]:
    assert held.bias
    if not held.bias.agreement:
        yield p("No second judge looked at a sample: set a model under ", _code("[second_judge]"), " and run ",
                _code("kumi eval judge"), " again.", class_="soft")  # fmt: skip
        return
    rows = [
        [
            f"{one.criterion}, {one.protocol}",
            _share_cell(one.alike),
            format_figure(one.kappa) if one.kappa is not None else one.why,
        ]
        for one in held.bias.agreement
    ]
    yield html_table("A second judge on a sample", ["Criterion", "Says the same", "Cohen's kappa"], rows)


def _code(text: str) -> Html:
    return tag("code", text)


# -- measures of each answer


def claims_panel(held: StudyResults) -> Iterator[Html]:
    measures = held.measures_in("claims")
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
        yield draw_curves(title, "distance at which claims are one", "clusters", lines, held.systems)
    yield measure_pairs(measures)
    yield from _agreement_table(held)


def _agreement_table(held: StudyResults) -> Iterator[Html]:
    rows = [
        [f"{one.criterion}, {one.protocol}", one.measure, f"{one.decided:,} of {one.pairs:,}", f"{one.n:,}",
         f"{one.equal:,}", "–" if one.share is None else format_percent(100 * one.share)]
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
        yield html_table("Whether the judge prefers the answer that has more of them", head, rows)


def ratings_panel(held: StudyResults) -> Iterator[Html]:
    measures = held.measures_in("ratings")
    if measures:
        sizes = sorted({pair.family for measure in measures for pair in measure.comparisons})
        yield measures_table("Ratings from 0 to 100 (MK-RAG), the mean; n of N questions", held, measures)
        yield p(f"Families of {' or '.join(map(str, sizes)) or 'no'} comparisons.", class_="soft")
        yield measure_pairs(measures)


def scores_panel(held: StudyResults) -> Iterator[Html]:
    measures = held.measures_in("scores")
    if measures:
        yield measures_table("Scores of the answers, the mean; n of N questions", held, measures)
        yield measure_pairs(measures)


def retrieval_panel(held: StudyResults) -> Iterator[Html]:
    measures = held.measures_in("retrieval")
    if measures:
        yield measures_table("What was found, the mean; n of N questions", held, measures)
        yield measure_pairs(measures)


def measures_table(caption: str, held: StudyResults, measures: Sequence[ReportMeasure]) -> Html:
    """Bold: the best; † : worse than the best for sure."""
    shown = [s for s in held.systems if any(s in measure.values or s in measure.undefined for measure in measures)]
    rows = [[system, *(_mean_cell(measure, system) for measure in measures)] for system in shown]
    whys = [
        f"{measure.name}: {reason} ({pluralise(n, 'answer')})"
        for measure in measures
        for reason, n in _undefined_reasons(measure).items()
    ]
    note = p(
        "Bold: the best. † : significantly worse, p < .05 by Wilcoxon after Holm. ↓ : less is better.", class_="soft"
    )
    why = collapsible("Why some have no value", bullet_list(whys)) if whys else Html("")
    return join_html(
        [
            html_table(
                caption, ["System", *(measure.name + " ↓" * measure.lower_is_better for measure in measures)], rows
            ),
            note,
            why,
        ]
    )


def _undefined_reasons(measure: ReportMeasure) -> dict[str, int]:
    found: dict[str, int] = {}
    for counts in measure.undefined.values():
        for reason, n in counts.items():
            found[reason] = found.get(reason, 0) + n
    return found


def _mean_cell(measure: ReportMeasure, system: str) -> Html:
    mean = measure.mean(system)
    n = len(measure.values.get(system, ()))
    of = tag("small", f" {n}/{measure.total}")
    if mean is None:
        return join_html(["–", of])
    first = order_systems(measure)[0]
    pair = comparison_matrix(measure.comparisons).get((first, system))
    lower = pair is not None and pair.is_significant
    said = format_figure(mean)
    return join_html([tag("b", said) if system == first else said, "†" if lower else "", of])


def measure_pairs(measures: Sequence[ReportMeasure]) -> Html:
    found = [measure for measure in measures if measure.comparisons]
    return collapsible(
        "All pairs in numbers", *(comparison_table(measure.name, measure.comparisons) for measure in found)
    )


# -- cost


def cost_panel(held: StudyResults) -> Iterator[Html]:
    """Quality beside what it costs, and the costs."""
    spent = [one for one in held.costs if one.answered]
    if not spent:
        return
    qualities = list(_qualities(held))
    axes = {
        "tokens": {one.system: one.tokens for one in spent},
        "calls": {one.system: one.calls for one in spent},
        "cost": {one.system: one.cost for one in spent},
        "seconds, median": {one.system: one.median_seconds or 0.0 for one in spent},
    }
    drawn = [_cost_scatter(held, axes["tokens"], "tokens", name, values, even) for name, values, even in qualities]
    yield tag("div", *drawn, class_="pictures")
    if drawn:
        yield p("A dotted line joins the systems that no other beats in both.", class_="soft")
    others = [
        _cost_scatter(held, xs, x_name, *qualities[0])
        for x_name, xs in axes.items()
        if qualities and x_name != "tokens" and any(xs.values())
    ]
    if any(others):
        yield collapsible("Against calls, cost and seconds", tag("div", *others, class_="pictures"))
    head = ["System", "Answered", "Failed", "Calls", "Tokens", "Cost", "Seconds p50", "p95", "timed"]
    rows = [
        [one.system, str(one.answered), str(one.failed), format_figure(one.calls, 1), f"{one.tokens:,.0f}",
         f"{one.cost:.4f}" if one.cost else "–", format_figure(one.median_seconds, 1), format_figure(one.p95_seconds, 1), str(one.timed)]
        for one in held.costs
    ]  # fmt: skip
    yield html_table("For a question, the mean", head, rows, class_="numbers")
    yield p("Costs are in the currency of the prices that are set. Seconds are of answers that were not remembered: "
            "timed, so many.", class_="soft")  # fmt: skip


def _qualities(held: StudyResults) -> Iterator[tuple[str, dict[str, float], float | None]]:
    if held.deciding_criterion is not None and held.deciding_criterion.ranking:
        yield "points against the others", {one.system: one.mean for one in held.deciding_criterion.ranking}, 50.0
    shown = [measure for measure in (leading_measure(held), *held.measures_in("claims")[:1]) if measure]
    for measure in {measure.name: measure for measure in shown}.values():
        means = {system: mean for system in measure.values if (mean := measure.mean(system)) is not None}
        yield measure.name, means, None


def _cost_scatter(
    held: StudyResults, xs: dict[str, float], x_name: str, y_name: str, ys: dict[str, float], even: float | None
) -> Html:
    points = {system: (xs[system], ys[system]) for system in held.systems if system in ys and xs.get(system)}
    title = f"{held.name}: {y_name} against {x_name} for a question"
    return draw_scatter(title, f"{x_name} for a question", y_name, points, list(held.systems), baseline=even)


PANELS: dict[str, tuple[str, Panel]] = {
    "ranking": ("Order", ranking_panel),
    "cost": ("Cost beside quality", cost_panel),
    "bias": ("Bias", bias_panel),
    "claims": ("Claims", claims_panel),
    "ratings": ("Ratings", ratings_panel),
    "scores": ("Scores", scores_panel),
    "retrieval": ("Retrieval", retrieval_panel),
}
