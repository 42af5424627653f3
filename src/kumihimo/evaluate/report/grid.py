"""studies -> Figure 2 of GraphRAG: a row per study, a matrix per criterion, row against column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kumihimo.evaluate.bias_measures import BiasReport
from kumihimo.evaluate.comparison import Comparison, SystemPair, comparison_matrix, zero_method_for
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
    """Yield a grid for each protocol, the deciding one first."""
    for protocol in dict.fromkeys(name for study in studies for name in study.protocols):
        yield tag("h3", "Protocol ", protocol)
        yield tag(
            "div", *(_study_row(study, protocol) for study in studies if study.criteria_of(protocol)), class_="figure2"
        )
        yield p(_family_note(protocol, studies), class_="soft")
        for study in studies:
            if study.criteria_of(protocol):
                yield collapsible(
                    f"All pairs of {study.name} in numbers",
                    *(pairs_table(criterion) for criterion in study.criteria_of(protocol)),
                )


def _study_row(study: StudyResults, protocol: str) -> Html:
    """Return the row of one study."""
    criteria = study.criteria_of(protocol)
    cells = (_matrix(study, criterion) for criterion in criteria)
    name = f"{study.name}: win rates by each criterion"
    return join_html(
        [
            tag("h4", study.name, tag("span", f" {pluralise(len(study.questions), 'question')}", class_="soft")),
            tag("div", *cells, class_="scroll", tabindex="0", role="group", aria_label=name),
        ]
    )


def _family_note(protocol: str, studies: Sequence[StudyResults]) -> str:
    """Return the note below a grid: test, correction and legend."""
    sizes = sorted(
        {
            pair.family
            for study in studies
            for criterion in study.criteria_of(protocol)
            for pair in criterion.comparisons
        }
    )
    zeros = "left out before ranking, as published" if _drops_zeros(protocol) else "ranked, then left out (Pratt)"
    count = " or ".join(map(str, sizes)) or "no"
    return (
        f"Protocol {protocol}. Each number: the row's mean points against the column, from 0 to 100; a tie is 50. "
        f"* : p < .05 by Wilcoxon's signed-rank test (questions without a difference {zeros}), corrected by Holm "
        f"among the {count} pairs of one criterion and one data set. Bold: the best row. Hatched: the system differs "
        "significantly from another answer of its own (A/A)."
    )


def _drops_zeros(protocol: str) -> bool:
    """Return whether the protocol's test drops zero differences before ranking."""

    return zero_method_for(protocol) == "wilcox"


def _matrix(study: StudyResults, criterion: CriterionResults) -> Html:
    """Return the win rates of one criterion."""
    systems = [system for system in study.systems if any(system in pair for pair in criterion.points)]
    cells = comparison_matrix(criterion.comparisons)
    alarmed = doubtful_systems(study.bias, criterion)
    means = {entry.system: entry.mean for entry in criterion.ranking}
    best = max(means, key=lambda system: means[system], default="")
    head = tag("tr", tag("td"), *(tag("th", tag("span", system), scope="col") for system in systems))
    rows = [
        tag(
            "tr",
            tag("th", row, scope="row"),
            *(_cell(cells, (row, column), doubtful=bool(alarmed & {row, column})) for column in systems),
            class_="best" if row == best else None,
        )
        for row in systems
    ]
    return tag("table", tag("caption", criterion.name), tag("thead", head), tag("tbody", *rows), class_="matrix")


def _cell(cells: Mapping[SystemPair, Comparison], sides: SystemPair, *, doubtful: bool) -> Html:
    """Return a cell of the matrix."""
    if sides[0] == sides[1]:
        return tag("td", "50", class_="self")
    pair = cells.get(sides)
    if pair is None:
        return tag("td", "–", class_="self", title=f"{sides[0]} and {sides[1]} were not compared")
    strength = min(1.0, abs(pair.mean - 50) / 40)
    kind = "more" if pair.mean > 50 else "less"
    label = f"{round(pair.mean)}{'*' if pair.is_significant else ''}"
    title = (
        f"{pair.a} over {pair.b}: {format_percent(pair.mean)}, interval {round(pair.low)}–{round(pair.high)}, "
        f"p {format_p_value(pair.corrected)} after Holm, {pluralise(pair.n, 'question')}"
    )
    return tag("td", label, class_=f"{kind} doubted" if doubtful else kind, style=f"--by:{strength:.2f}", title=title)


def doubtful_systems(bias: BiasReport | None, criterion: CriterionResults) -> set[str]:
    """Return the systems that differ from their own other answers."""
    aa_results = bias.same if bias else ()
    names = (criterion.name, *criterion.parts)
    return {
        result.system
        for result in aa_results
        if result.protocol == criterion.protocol and result.criterion in names and result.alarm
    }


COMPARISON_COLUMNS = (
    "Pair", "Mean", "95 %", "n", "Not shared", "Z", "p", "p Holm", "m", "Effect r", "p by sign flips", "Detectable",
    "Detectable, m", "Shapiro–Wilk p",
)  # fmt: skip


def pairs_table(criterion: CriterionResults) -> Html:
    """Return the table of a criterion's comparisons."""
    return comparison_table(f"{criterion.name}, {criterion.protocol}", criterion.comparisons)


def comparison_table(caption: str, comparisons: Sequence[Comparison]) -> Html:
    """Return a table of comparisons."""
    return html_table(caption, COMPARISON_COLUMNS, (_comparison_cells(pair) for pair in comparisons), class_="numbers")


def _comparison_cells(pair: Comparison) -> list[str]:
    """Return the cells of one comparison."""
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
