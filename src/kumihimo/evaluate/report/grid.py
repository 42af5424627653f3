"""studies -> Figure 2 of GraphRAG for them: a row for each data set, a column for each criterion, row beats column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kumihimo.evaluate.bias import BiasReport
from kumihimo.evaluate.comparison import Comparison, SystemPair, comparison_matrix
from kumihimo.evaluate.report.markup import (
    Html,
    collapsible,
    format_figure,
    format_p_value,
    format_percent,
    html_table,
    join_html,
    p,
    pluralise,
    tag,
)
from kumihimo.evaluate.report.summary_data import CriterionResults, StudyResults


def render_grids(studies: Sequence[StudyResults]) -> Iterator[Html]:
    """Of each protocol one, the one that decides first."""
    for protocol in dict.fromkeys(name for held in studies for name in held.protocols):
        yield tag("h3", "Protocol ", protocol)
        yield tag(
            "div", *(_study_row(held, protocol) for held in studies if held.criteria_of(protocol)), class_="figure2"
        )
        yield p(_family_note(protocol, studies), class_="soft")
        for held in studies:
            if held.criteria_of(protocol):
                yield collapsible(
                    f"All pairs of {held.name} in numbers", *(pairs_table(c) for c in held.criteria_of(protocol))
                )


def _study_row(held: StudyResults, protocol: str) -> Html:
    criteria = held.criteria_of(protocol)
    cells = (_matrix(held, criterion) for criterion in criteria)
    name = f"{held.name}: win rates by each criterion"
    return join_html(
        [
            tag("h4", held.name, tag("span", f" {pluralise(len(held.questions), 'question')}", class_="soft")),
            tag("div", *cells, class_="scroll", tabindex="0", role="group", aria_label=name),
        ]
    )


def _family_note(protocol: str, studies: Sequence[StudyResults]) -> str:
    sizes = sorted({pair.family for held in studies for c in held.criteria_of(protocol) for pair in c.comparisons})
    zeros = "left out before ranking, as published" if _drops_zeros(protocol) else "ranked, then left out (Pratt)"
    of = " or ".join(map(str, sizes)) or "no"
    return (
        f"Protocol {protocol}. Each number: how many points of 100 the row has against the column, a tie 50, the mean "
        f"of the questions. * : p < .05 by Wilcoxon's signed-rank test (questions without a difference {zeros}), "
        f"corrected by Holm among the {of} pairs of one criterion and one data set. Bold: the best row. Hatched: "
        "of a system that does not come out even against another answer of its own (A/A)."
    )


def _drops_zeros(protocol: str) -> bool:
    from kumihimo.evaluate.comparison import zero_method_for

    return zero_method_for(protocol) == "wilcox"


def _matrix(held: StudyResults, criterion: CriterionResults) -> Html:
    systems = [s for s in held.systems if any(s in pair for pair in criterion.points)]
    cells = comparison_matrix(criterion.comparisons)
    rung = doubtful_systems(held.bias, criterion)
    means = {one.system: one.mean for one in criterion.ranking}
    first = max(means, key=lambda s: means[s], default="")
    head = tag("tr", tag("td"), *(tag("th", tag("span", s), scope="col") for s in systems))
    rows = [
        tag(
            "tr",
            tag("th", row, scope="row"),
            *(_cell(cells, (row, column), doubtful=bool(rung & {row, column})) for column in systems),
            class_="best" if row == first else None,
        )
        for row in systems
    ]
    return tag("table", tag("caption", criterion.name), tag("thead", head), tag("tbody", *rows), class_="matrix")


def _cell(cells: Mapping[SystemPair, Comparison], sides: SystemPair, *, doubtful: bool) -> Html:
    if sides[0] == sides[1]:
        return tag("td", "50", class_="self")
    pair = cells.get(sides)
    if pair is None:
        return tag("td", "–", class_="self", title=f"{sides[0]} and {sides[1]} were not compared")
    strength = min(1.0, abs(pair.mean - 50) / 40)
    kind = "more" if pair.mean > 50 else "less"
    shown = f"{round(pair.mean)}{'*' if pair.is_significant else ''}"
    told = (
        f"{pair.a} over {pair.b}: {format_percent(pair.mean)}, interval {round(pair.low)}–{round(pair.high)}, "
        f"p {format_p_value(pair.corrected)} after Holm, {pluralise(pair.n, 'question')}"
    )
    return tag("td", shown, class_=f"{kind} doubted" if doubtful else kind, style=f"--by:{strength:.2f}", title=told)


def doubtful_systems(bias: BiasReport | None, criterion: CriterionResults) -> set[str]:
    """Systems that do not come out even against themselves."""
    same = bias.same if bias else ()
    names = (criterion.name, *criterion.parts)
    return {one.system for one in same if one.protocol == criterion.protocol and one.criterion in names and one.alarm}


COMPARISON_COLUMNS = ("Pair", "Mean", "95 %", "n", "Not shared", "Z", "p", "p Holm", "m", "Effect r", "p by flips", "Detectable",
        "… by m", "Shapiro–Wilk p")  # fmt: skip


def pairs_table(criterion: CriterionResults) -> Html:
    return comparison_table(f"{criterion.name}, {criterion.protocol}", criterion.comparisons)


def comparison_table(caption: str, compared: Sequence[Comparison]) -> Html:
    return html_table(caption, COMPARISON_COLUMNS, (_comparison_cells(pair) for pair in compared), class_="numbers")


def _comparison_cells(pair: Comparison) -> list[str]:
    digits = 1 if pair.kind == "points" else 3
    return [
        f"{pair.a} – {pair.b}",
        f"{pair.mean:.{digits}f}{'*' if pair.is_significant else ''}",
        f"{pair.low:.{digits}f} to {pair.high:.{digits}f}",
        str(pair.n),
        str(pair.left_out),
        f"{pair.z:.2f}",
        format_p_value(pair.p),
        format_p_value(pair.corrected),
        str(pair.family),
        f"{pair.effect:.2f}",
        format_p_value(pair.flipped),
        format_figure(pair.detectable, digits),
        format_figure(pair.corrected_detectable, digits),
        pair.shape.why if pair.shape.p is None else format_p_value(pair.shape.p),
    ]
