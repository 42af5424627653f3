"""Studies -> one HTML page with the ranking, its cost and its certainty; CSV tables beside it."""

import csv
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any

from kumihimo.evaluate import comparison, statistics
from kumihimo.evaluate.bias import BiasReport, Proportion
from kumihimo.evaluate.judging.refusals import Refusals
from kumihimo.evaluate.latex import latex_table
from kumihimo.evaluate.report import answer_details, charts
from kumihimo.evaluate.report.summary_data import (
    LEADING_MEASURES,
    CriterionResults,
    ReportMeasure,
    StudyResults,
    load_study_results,
)
from kumihimo.evaluate.study import Study
from kumihimo.page import render_template
from kumihimo.text.safe_write import write_file, write_folder

_PANEL_TITLES = {
    "ranking": "Ranking",
    "cost": "Quality and cost",
    "bias": "Bias",
    "claims": "Claims",
    "ratings": "Ratings",
    "scores": "Scores",
    "retrieval": "Retrieval",
}


@dataclass(frozen=True, slots=True)
class WrittenReport:
    """The written files. words: the headline of each study. cut: notes on omitted text. missing: part -> command."""

    page: Path
    size: int  # bytes
    tables: Path
    words: Mapping[str, Sequence[str]]
    cut: Sequence[str]
    missing: Mapping[str, Mapping[str, str]]


def write_evaluation_report(
    folders: Sequence[Path], out: Path, *, systems: Sequence[str] = (), neighbours: bool = False, force: bool = False
) -> WrittenReport:
    """Write the page, and a folder of tables beside it.

    force: replace files that `kumi` did not write. Raises SettingsError if there are such files, or a study is
    unusable.
    """
    studies = [
        load_study_results(Study(path), name, systems=systems, neighbours=neighbours)
        for path, name in zip(folders, name_studies(folders), strict=True)
    ]
    limits = answer_details.compute_detail_limits(studies)
    write_file(out, render_evaluation_page(studies, limits), force=force)
    tables = out.with_name(f"{out.stem}-csv")
    write_result_tables(studies, tables, force=force)
    headlines = {study.name: headline_texts(study) for study in studies}
    missing = {study.name: study.missing for study in studies if study.missing}
    return WrittenReport(out, out.stat().st_size, tables, headlines, limits.cut_notes, missing)


def name_studies(folders: Sequence[Path]) -> list[str]:
    """Return the studies' names: folder names, or paths if ambiguous.

    >>> name_studies([Path("news"), Path("studies/podcast")]), name_studies([Path("a/eval"), Path("b/eval")])
    (['news', 'podcast'], ['a/eval', 'b/eval'])
    """
    names = [path.resolve().name for path in folders]
    return names if len(set(names)) == len(names) else [path.as_posix() for path in folders]


def headline_texts(study: StudyResults) -> list[str]:
    """Return the paragraphs of the conclusion as plain text."""
    from selectolax.lexbor import LexborHTMLParser  # imported here: slow

    body = LexborHTMLParser("".join(_render("conclusion.html", study=study))).body
    return [re.sub(r"[ \n]+", " ", element.text()).strip() for element in body.iter()] if body else []


def render_evaluation_page(studies: Sequence[StudyResults], limits: answer_details.DetailLimits) -> Iterator[str]:
    """Yield the parts of the page."""
    criteria: dict[str, list[tuple[StudyResults, list[CriterionResults]]]] = defaultdict(list)
    missing: dict[tuple[str, str], list[str]] = defaultdict(list)
    for study in studies:
        for protocol in study.protocols:
            criteria[protocol].append((study, study.criteria_of(protocol)))
        for part, command in study.missing.items():
            missing[part, command].append(study.name)
    return _render(
        "report.html",
        studies=studies,
        limits=limits,
        totals={
            "questions": sum(len(study.questions) for study in studies),
            "systems": len({system for study in studies for system in study.systems}),
            "verdicts": sum(len(study.verdicts) for study in studies),
        },
        criteria_by_protocol=criteria,
        missing=missing,
        panels=[
            {"id": id, "title": title, "studies": [study for study in studies if id in _panel_ids(study)]}
            for id, title in _PANEL_TITLES.items()
        ],
        question_index=answer_details.build_question_index(studies, limits),
        question_details=answer_details.question_details(studies, limits),
    )  # fmt: skip


def _panel_ids(study: StudyResults) -> set[str]:
    """Return the panels that have content."""
    others = {"ranking": study.deciding_criterion, "cost": study.tokens, "bias": study.bias}
    return {measure.group for measure in study.measures} | {id for id, content in others.items() if content}


def family_sizes(families: Iterable[CriterionResults | ReportMeasure]) -> str:
    """Return the numbers of comparisons that are corrected together."""
    return " or ".join(map(str, sorted({pair.family for family in families for pair in family.comparisons})))


def provenance(study: StudyResults) -> dict[str, list[str]]:
    """Return the comparisons, judges and models of a study.

    A family is corrected together; there is one per protocol or group of measures.
    """
    groups: dict[str, list[CriterionResults | ReportMeasure]] = defaultdict(list)
    for criterion in study.criteria:
        groups[f"protocol {criterion.protocol}"].append(criterion)
    for measure in study.measures:
        groups[measure.group].append(measure)
    return {
        "families": [f"{name}: {sizes}" for name, group in groups.items() if (sizes := family_sizes(group))],
        "judges": sorted({verdict.judge for verdict in study.verdicts if verdict.judge}),
        "models": sorted({row.model for rows in study.answers.values() for row in rows.values() if row.model}),
    }


# -- numbers in words


def format_percent(value: float | None) -> str:
    r"""Return a percentage.

    >>> format_percent(56.6), format_percent(None)
    ('57\u202f%', '–')
    """
    return "–" if value is None else f"{round(value)}\u202f%"


def format_figure(value: float | None, digits: int = 2) -> str:
    """Return a number with the digits worth reading.

    >>> format_figure(1234.5), format_figure(31.42), format_figure(0.6666), format_figure(None)
    ('1,234', '31.4', '0.67', '–')
    """
    if value is None:
        return "–"
    size = abs(value)
    return f"{value:,.0f}" if size >= 100 else f"{value:.1f}" if size >= 10 else f"{value:.{digits}f}"


def format_p_value(p: float) -> str:
    """Return a p-value.

    >>> format_p_value(0.0001), format_p_value(0.0312), format_p_value(1.0)
    ('< .001', '.031', '1')
    """
    return "< .001" if p < 0.001 else "1" if p >= 0.9995 else f"{p:.3f}"[1:]


def pluralise(n: int, noun: str) -> str:
    """Return a number with its noun, in the plural if needed."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def enumerate_words(words: Sequence[str]) -> str:
    """Return words with commas and a final `and`.

    >>> enumerate_words(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


# -- templates

_FILTERS: dict[str, Callable[..., str]] = {
    "count": pluralise,
    "enumeration": enumerate_words,
    "figure": format_figure,
    "fixed": "{:.{}f}".format,
    "indented_json": partial(json.dumps, ensure_ascii=False, indent=2, sort_keys=True),
    "p_value": format_p_value,
    "percent": format_percent,
    "thousands": "{:,.0f}".format,
    "whole": "{:.0f}".format,
}
_GLOBALS = {
    "cluster_chart": charts.cluster_chart,
    "cost_charts": charts.cost_charts,
    "family_sizes": family_sizes,
    "find_cheaper": comparison.find_cheaper,
    "find_leader": comparison.find_leader,
    "leading_measures": LEADING_MEASURES,
    "marker_shapes": charts.MARKER_SHAPES,
    "protocols_dropping_zeros": comparison.PROTOCOLS_DROPPING_ZEROS,
    "provenance": provenance,
    "seed": statistics.SEED,
}


def _render(name: str, **values: object) -> Iterator[str]:
    """Yield the parts of a rendered template."""
    return render_template(Path(__file__).parent, name, _FILTERS, **_GLOBALS, **values)


# -- tables

CsvRow = Sequence[Any]
_rate = attrgetter("value", "low", "high", "n")  # the cells of a rate
_COMPARISON_FIELDS = [
    "kind",
    "mean",
    "low",
    "high",
    "corrected_low",
    "corrected_high",
    "higher",
    "n",
    "left_out",
    "z",
    "p",
    "test",
    "corrected",
    "family",
    "effect",
    "flipped",
    "detectable",
    "corrected_detectable",
]  # names of columns and of fields of Comparison
_comparison_cells = attrgetter("metric", "a", "b", *_COMPARISON_FIELDS, "shape.w", "shape.p", "shape.why")
_COST_FIELDS = ["system", "answered", "failed", "calls", "tokens", "cost", "median_seconds", "p95_seconds", "timed"]
_COLUMNS = {
    "pairs": ["by", "metric", "a", "b", *_COMPARISON_FIELDS, "shapiro_w", "shapiro_p", "shapiro_why"],
    "ranks": ["protocol", "criterion", "system", "rank", "best", "worst", "mean", "strength"],
    "measures": ["group", "name", "system", "mean", "low", "high", "n", "of", "undefined"],
    "values": ["group", "name", "system", "question", "value"],
    "points": ["protocol", "criterion", "a", "b", "question", "points_of_a"],
    "cost": ["system", "answered", "failed", "calls", "tokens", "cost", "seconds_p50", "seconds_p95", "timed"],
    "bias": ["panel", "protocol", "criterion", "of", "value", "low", "high", "n", "alarm"],
}  # after the name of the study


def write_result_tables(studies: Sequence[StudyResults], path: Path, *, force: bool = False) -> None:
    """Write the tables into a folder."""

    def fill(target: Path) -> None:
        """Write each table."""
        tables = {study.name: _table_rows(study) for study in studies}
        for name, columns in _COLUMNS.items():
            with (target / f"{name}.csv").open("w", encoding="utf-8", newline="") as out:
                lines = csv.writer(out, lineterminator="\n")
                lines.writerow(["study", *columns])
                for study, rows in tables.items():
                    lines.writerows([study, *row] for row in rows[name])
        (target / "measures.tex").write_text("".join(_latex_tables(studies)), encoding="utf-8", newline="\n")

    write_folder(path, fill, force=force)


def _table_rows(study: StudyResults) -> dict[str, Iterator[CsvRow]]:
    """Return the rows of each table."""
    deciding = study.deciding_criterion
    criteria = [*study.criteria, *([deciding] if deciding and deciding not in study.criteria else [])]
    pairs = [(criterion.protocol, pair) for criterion in criteria for pair in criterion.comparisons]
    pairs += [(measure.group, pair) for measure in study.measures for pair in measure.comparisons]
    return {
        "pairs": ([by, *_comparison_cells(pair)] for by, pair in pairs),
        "ranks": (
            [c.protocol, c.name, row.system, row.rank, row.best, row.worst, row.mean, row.strength]
            for c in criteria
            for row in c.ranking
        ),
        "measures": (
            [measure.group, measure.name, system, *_mean_cells(study, measure, system)]
            for measure in study.measures
            for system in study.systems
            if system in measure.systems
        ),
        "values": (
            [measure.group, measure.name, system, question, value]
            for measure in study.measures
            for system, values in measure.values.items()
            for question, value in values.items()
        ),
        "points": (
            [criterion.protocol, criterion.name, *sides, question, value]
            for criterion in study.criteria
            for sides, values in criterion.points.items()
            for question, value in values.items()
        ),
        "cost": map(attrgetter(*_COST_FIELDS), study.costs),
        "bias": _bias_rows(study.bias) if study.bias else iter(()),
    }


def _mean_cells(study: StudyResults, measure: ReportMeasure, system: str) -> CsvRow:
    """Return a system's mean, interval, counts and reasons of missing values."""
    why = "; ".join(f"{reason}: {n}" for reason, n in measure.undefined.get(system, {}).items())
    values = measure.values.get(system, {})
    low, high = measure.interval(system, study.clusters) if values else (None, None)
    return [measure.mean(system), low, high, len(values), measure.total, why]


def _latex_tables(studies: Iterable[StudyResults]) -> Iterator[str]:
    """Yield a table for each group of measures of each study."""
    for study in studies:
        for group in dict.fromkeys(measure.group for measure in study.measures):
            measures = study.measures_in(group)
            caption = f"{study.name}: {group}. Means with the 95 % interval, by tasks, of each system alone;"
            caption += f" {len(study.questions):,} questions."
            rows = ([system, *(_latex_cell(study, m, system) for m in measures)] for system in study.systems)
            yield from latex_table(caption, ["", *(measure.name for measure in measures)], rows)


def _latex_cell(study: StudyResults, measure: ReportMeasure, system: str) -> str:
    """Return a mean with its interval.

    It names n if some questions have no value.
    """
    if not (values := measure.values.get(system)):
        return "–"
    low, high = measure.interval(system, study.clusters)
    few = f", n = {len(values)}" if len(values) < measure.total else ""
    return f"{measure.mean(system):.3f} ({low:.3f}–{high:.3f}{few})"


def _bias_rows(bias: BiasReport) -> Iterator[CsvRow]:
    """Yield a row for each bias check."""
    for order in bias.orders:
        for panel in ("flips", "first", "ties", "invalid", "failed"):
            share: Proportion = getattr(order, panel)
            yield [panel, order.protocol, order.criterion, "", share.percent, None, None, share.of, ""]
    for result in bias.same:
        yield ["A/A", result.protocol, result.criterion, result.system, *_rate(result.rate), result.alarm]
    for length in bias.lengths:
        yield ["longer", length.protocol, length.criterion, "", *_rate(length.longer), length.alarm]
    for pair in bias.adjusted:
        key = [pair.protocol, pair.criterion, f"{pair.a} over {pair.b}"]
        for panel, rate in (("raw", pair.raw), ("matched", pair.matched), ("adjusted", pair.adjusted)):
            yield [panel, *key, *_rate(rate), pair.alarm if panel == "matched" else ""]
    for second in bias.agreement:
        yield ["kappa", second.protocol, second.criterion, "", second.kappa, None, None, second.alike.of, ""]
    yield from chain.from_iterable(map(_refusal_rows, bias.refusals))


def _refusal_rows(row: Refusals) -> Iterator[CsvRow]:
    """Yield the shares of refused questions, without an answer and others."""
    for panel, count, total in (
        ("refused", row.unanswerable, row.of_unanswerable),
        ("refused wrongly", row.answerable, row.of_answerable),
    ):
        yield [panel, "", "", row.system, Proportion(count, total).percent, None, None, total, ""]
