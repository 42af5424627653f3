"""a study -> the part of a report on bias: order, A/A, answer length, second judge."""

from __future__ import annotations

from collections.abc import Iterator

from kumihimo.evaluate.bias_measures import Proportion, WinRate
from kumihimo.evaluate.report.charts import draw_interval
from kumihimo.evaluate.report.markup import (
    Html,
    bullet_list,
    code,
    collapsible,
    format_figure,
    html_table,
    p,
    pluralise,
    tag,
)
from kumihimo.evaluate.report.summary_data import StudyResults


def bias_panel(study: StudyResults) -> Iterator[Html]:
    """Yield the bias checks, alarms first."""
    if study.bias is None:
        return
    alarms = study.bias.alarms
    if alarms:
        yield tag("div", p(tag("b", f"{pluralise(len(alarms), 'alarm')}:")), bullet_list(alarms), class_="alarm")
    else:
        yield p("There are no alarms.")
    yield _order_table(study)
    yield from _aa_table(study)
    yield from _length_tables(study)
    yield from _second_judge_table(study)


def _order_table(study: StudyResults) -> Html:
    """Return the table of order effects, ties and unreadable replies."""
    assert study.bias
    rows = [
        [
            f"{order.criterion}, {order.protocol}",
            *map(_share_cell, (order.flips, order.first, order.ties, order.invalid, order.failed)),
        ]
        for order in study.bias.orders
    ]
    head = ["Criterion", "Winner changes when swapped", "Wins of the first shown", "Ties", "Invalid", "Failed"]
    return html_table("Order effects, ties and unreadable replies", head, rows)


def _share_cell(share: Proportion) -> str:
    """Return a share as a percentage of its count."""
    return "–" if share.percent is None else f"{share.percent:.1f}\u202f% of {share.of:,}"


def _aa_table(study: StudyResults) -> Iterator[Html]:
    """Yield the A/A comparisons, or how to add them."""
    assert study.bias
    if not study.bias.same:
        yield p("No system was compared with another answer of its own (A/A): ", code("kumi eval run --generations 2"),
                " and ", code("kumi eval judge"), " add this check.")  # fmt: skip
        return
    rows = [
        [
            f"{result.system}, {result.criterion}, {result.protocol}",
            _interval_picture(study, result.rate, result.system),
            _rate_cell(result.rate),
            str(result.rate.n),
            "yes" if result.alarm else "no",
        ]
        for result in study.bias.same
    ]
    yield html_table(
        "A system against another answer of its own (A/A): 50 is expected", ["System", "", "Points", "n", "Alarm"], rows
    )


def _interval_picture(study: StudyResults, rate: WinRate, system: str) -> Html:
    """Return a picture of a rate with its interval."""
    if rate.value is None or rate.low is None or rate.high is None:
        return Html("")
    return draw_interval(rate.low, rate.value, rate.high, study.systems.index(system))


def _rate_cell(rate: WinRate) -> str:
    """Return a rate with its interval."""
    if rate.value is None:
        return f"– ({rate.why})"
    return f"{rate.value:.1f}" + (f" ({rate.low:.1f}–{rate.high:.1f})" if rate.low is not None else "")


def _length_tables(study: StudyResults) -> Iterator[Html]:
    """Yield tables of answer lengths and their effect."""
    assert study.bias
    bias = study.bias
    tokens = [[system, format_figure(bias.tokens[system])] for system in study.systems if system in bias.tokens]
    yield html_table("Mean length of the answers", ["System", "Tokens"], tokens)
    gaps = list(dict.fromkeys((gap.least, gap.most) for result in bias.lengths for gap in result.gaps))
    head = ["Criterion", "All", *(f"{least:g}–{most:g}\u202f% longer" for least, most in gaps)]
    rows = [
        [
            f"{result.criterion}, {result.protocol}",
            _rate_cell(result.longer),
            *(_rate_cell(gap.rate) for gap in result.gaps),
        ]
        for result in bias.lengths
    ]
    if rows:
        yield html_table("Points of the longer answer: 50 if length does not matter", head, rows)
    pairs = [
        [
            f"{result.a} – {result.b}, {result.criterion}",
            _rate_cell(result.raw),
            _rate_cell(result.matched),
            str(result.matched.n),
            _rate_cell(result.adjusted),
        ]
        for result in bias.adjusted
    ]
    if pairs:
        head = ["Pair", "Raw", "Answers of similar length", "n", "Adjusted for length"]
        yield collapsible(
            "Win rates without the effect of length", html_table("Win rates, raw, matched and adjusted", head, pairs)
        )


def _second_judge_table(study: StudyResults) -> Iterator[Html]:
    """Yield the agreement with the second judge, or how to add one."""
    assert study.bias
    if not study.bias.agreement:
        yield p("There is no second judge: set a model under ", code("[second_judge]"), " and run ",
                code("kumi eval judge"), " again.", class_="soft")  # fmt: skip
        return
    rows = [
        [
            f"{result.criterion}, {result.protocol}",
            _share_cell(result.alike),
            format_figure(result.kappa) if result.kappa is not None else result.why,
        ]
        for result in study.bias.agreement
    ]
    yield html_table("A second judge on a sample", ["Criterion", "Agrees", "Cohen's kappa"], rows)
