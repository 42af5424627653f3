"""a study -> the parts of a report below its grid: ranks, bias, claims, scores, retrieval, cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kumihimo.evaluate.comparison import RankedSystem, comparison_matrix
from kumihimo.evaluate.report.bias_panels import bias_panel
from kumihimo.evaluate.report.charts import draw_curves, draw_ranks, draw_scatter
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


# -- ranks


def ranking_panel(study: StudyResults) -> Iterator[Html]:
    """Yield the ranking by the combined criteria and by each."""
    deciding = study.deciding_criterion
    if deciding is None:
        return
    criteria = [criterion for criterion in study.criteria_of(deciding.protocol) if criterion is not deciding]
    head = ["System", "Rank", "Rank interval", "Points against the others", "Strength",
            *(criterion.name for criterion in criteria)]  # fmt: skip
    total = len(deciding.ranking)
    rows: list[list[Part]] = [
        [
            entry.system,
            str(entry.rank),
            _rank_interval(study, entry, total),
            format_percent(entry.mean),
            format_figure(entry.strength),
            *(_rank_cell(criterion, entry.system) for criterion in criteria),
        ]
        for entry in deciding.ranking
    ]
    yield html_table(join_html(["Ranking by ", protocol_label(deciding)]), head, rows)
    yield p(
        "By Bradley–Terry strength; a tie is half a win for each. Rank interval: 95 % of the draws of tasks. "
        "By each criterion: rank (rank interval).",
        class_="soft",
    )
    if deciding.parts:
        yield collapsible("All pairs by the combined criteria in numbers", pairs_table(deciding))


def _rank_interval(study: StudyResults, entry: RankedSystem, total: int) -> Html:
    """Return a picture of a rank's interval, with its numbers."""
    picture = draw_ranks(entry.best, entry.rank, entry.worst, total, study.systems.index(entry.system))
    return join_html([picture, f" {_rank_range(entry.best, entry.worst)}"])


def _rank_range(best: int, worst: int) -> str:
    """Return a range of ranks."""
    return str(best) if best == worst else f"{best}–{worst}"


def _rank_cell(criterion: CriterionResults, system: str) -> str:
    """Return a system's rank by one criterion."""
    return next(
        (
            f"{entry.rank} ({_rank_range(entry.best, entry.worst)})"
            for entry in criterion.ranking
            if entry.system == system
        ),
        "–",
    )


# -- measures of each answer


def claims_panel(study: StudyResults) -> Iterator[Html]:
    """Yield claim counts, cluster curves and comparisons."""
    measures = study.measures_in("claims")
    if not measures:
        return
    yield measures_table("Claims per answer: mean; n of N questions", study, measures)
    curves = {
        system: [
            (float(measure.name.partition("@")[2]), mean)
            for measure in measures
            if measure.name.startswith("clusters@") and (mean := measure.mean(system)) is not None
        ]
        for system in study.systems
    }
    curves = {system: points for system, points in curves.items() if points}
    if curves:
        title = f"Clusters of claims by distance: {study.name}"
        yield draw_curves(title, "distance at which clusters merge", "clusters", curves, study.systems)
    yield measure_pairs(measures)
    yield from _agreement_table(study)


def _agreement_table(study: StudyResults) -> Iterator[Html]:
    """Yield a table on whether judges prefer more claims."""
    rows = [
        [
            f"{agreement.criterion}, {agreement.protocol}",
            agreement.measure,
            f"{agreement.decided:,} of {agreement.pairs:,}",
            f"{agreement.n:,}",
            f"{agreement.equal:,}",
            "–" if agreement.share is None else format_percent(100 * agreement.share),
        ]
        for agreement in study.agreements
    ]
    if rows:
        head = [
            "Criterion",
            "Measure",
            "Pairs decided by majority",
            "Counted",
            "Equal counts",
            "Judge prefers more",
        ]
        yield html_table("Whether the judge prefers the answer with more of them", head, rows)


def ratings_panel(study: StudyResults) -> Iterator[Html]:
    """Yield the ratings and their comparisons."""
    measures = study.measures_in("ratings")
    if measures:
        sizes = sorted({pair.family for measure in measures for pair in measure.comparisons})
        yield measures_table("Ratings from 0 to 100 (MK-RAG): mean; n of N questions", study, measures)
        yield p(f"Families of {' or '.join(map(str, sizes)) or 'no'} comparisons.", class_="soft")
        yield measure_pairs(measures)


def scores_panel(study: StudyResults) -> Iterator[Html]:
    """Yield the scores and their comparisons."""
    measures = study.measures_in("scores")
    if measures:
        yield measures_table("Scores of the answers: mean; n of N questions", study, measures)
        yield measure_pairs(measures)


def retrieval_panel(study: StudyResults) -> Iterator[Html]:
    """Yield the retrieval measures and their comparisons."""
    measures = study.measures_in("retrieval")
    if measures:
        yield measures_table("Retrieval: mean; n of N questions", study, measures)
        yield measure_pairs(measures)


def measures_table(caption: str, study: StudyResults, measures: Sequence[ReportMeasure]) -> Html:
    """Return a table of means, with notes on missing values.

    Bold: the best. †: significantly worse than the best.
    """
    systems = [s for s in study.systems if any(s in measure.values or s in measure.undefined for measure in measures)]
    rows = [[system, *(_mean_cell(measure, system) for measure in measures)] for system in systems]
    reasons = [
        f"{measure.name}: {reason} ({pluralise(n, 'answer')})"
        for measure in measures
        for reason, n in _undefined_reasons(measure).items()
    ]
    note = p(
        "Bold: the best. † : significantly worse, p < .05 by Wilcoxon after Holm. ↓ : lower is better.", class_="soft"
    )
    details = collapsible("Reasons for missing values", bullet_list(reasons)) if reasons else Html("")
    return join_html(
        [
            html_table(
                caption, ["System", *(measure.name + " ↓" * measure.lower_is_better for measure in measures)], rows
            ),
            note,
            details,
        ]
    )


def _undefined_reasons(measure: ReportMeasure) -> dict[str, int]:
    """Count the reasons of missing values over all systems."""
    totals: dict[str, int] = {}
    for counts in measure.undefined.values():
        for reason, n in counts.items():
            totals[reason] = totals.get(reason, 0) + n
    return totals


def _mean_cell(measure: ReportMeasure, system: str) -> Html:
    """Return a mean with the number of questions."""
    mean = measure.mean(system)
    n = len(measure.values.get(system, ()))
    coverage = tag("small", f" {n}/{measure.total}")
    if mean is None:
        return join_html(["–", coverage])
    first = order_systems(measure)[0]
    pair = comparison_matrix(measure.comparisons).get((first, system))
    is_worse = pair is not None and pair.is_significant
    label = format_figure(mean)
    return join_html([tag("b", label) if system == first else label, "†" if is_worse else "", coverage])


def measure_pairs(measures: Sequence[ReportMeasure]) -> Html:
    """Return the comparisons of these measures, folded."""
    compared_measures = [measure for measure in measures if measure.comparisons]
    return collapsible(
        "All pairs in numbers", *(comparison_table(measure.name, measure.comparisons) for measure in compared_measures)
    )


# -- cost


def cost_panel(study: StudyResults) -> Iterator[Html]:
    """Yield quality against cost, and a table of costs."""
    answered = [row for row in study.costs if row.answered]
    if not answered:
        return
    qualities = list(_qualities(study))
    axes = {
        "tokens": {row.system: row.tokens for row in answered},
        "calls": {row.system: row.calls for row in answered},
        "cost": {row.system: row.cost for row in answered},
        "seconds, median": {row.system: row.median_seconds or 0.0 for row in answered},
    }
    scatters = [
        _cost_scatter(study, axes["tokens"], "tokens", name, values, baseline) for name, values, baseline in qualities
    ]
    yield tag("div", *scatters, class_="pictures")
    if scatters:
        yield p("The dotted line joins the systems that no other beats in both quality and tokens.", class_="soft")
    pictures = [
        _cost_scatter(study, xs, x_name, *qualities[0])
        for x_name, xs in axes.items()
        if qualities and x_name != "tokens" and any(xs.values())
    ]
    if any(pictures):
        yield collapsible("Against calls, cost and seconds", tag("div", *pictures, class_="pictures"))
    head = ["System", "Answered", "Failed", "Calls", "Tokens", "Cost", "Seconds p50", "p95", "timed"]
    rows = [
        [
            row.system,
            str(row.answered),
            str(row.failed),
            format_figure(row.calls, 1),
            f"{row.tokens:,.0f}",
            f"{row.cost:.4f}" if row.cost else "–",
            format_figure(row.median_seconds, 1),
            format_figure(row.p95_seconds, 1),
            str(row.timed),
        ]
        for row in study.costs
    ]
    yield html_table("Mean per question", head, rows, class_="numbers")
    yield p(
        "Costs are in the currency of your configured prices. Seconds cover only answers that were not cached; "
        "timed: their number.",
        class_="soft",
    )


def _qualities(study: StudyResults) -> Iterator[tuple[str, dict[str, float], float | None]]:
    """Yield quality measures with their values and baseline."""
    if study.deciding_criterion is not None and study.deciding_criterion.ranking:
        yield (
            "points against the others",
            {entry.system: entry.mean for entry in study.deciding_criterion.ranking},
            50.0,
        )
    measures = [measure for measure in (leading_measure(study), *study.measures_in("claims")[:1]) if measure]
    for measure in {measure.name: measure for measure in measures}.values():
        means = {system: mean for system in measure.values if (mean := measure.mean(system)) is not None}
        yield measure.name, means, None


def _cost_scatter(
    study: StudyResults, xs: dict[str, float], x_name: str, y_name: str, ys: dict[str, float], baseline: float | None
) -> Html:
    """Draw quality against one kind of cost."""
    points = {system: (xs[system], ys[system]) for system in study.systems if system in ys and xs.get(system)}
    title = f"{study.name}: {y_name} against {x_name} per question"
    return draw_scatter(title, f"{x_name} per question", y_name, points, list(study.systems), baseline=baseline)


PANELS: dict[str, tuple[str, Panel]] = {
    "ranking": ("Ranking", ranking_panel),
    "cost": ("Quality and cost", cost_panel),
    "bias": ("Bias", bias_panel),
    "claims": ("Claims", claims_panel),
    "ratings": ("Ratings", ratings_panel),
    "scores": ("Scores", scores_panel),
    "retrieval": ("Retrieval", retrieval_panel),
}
