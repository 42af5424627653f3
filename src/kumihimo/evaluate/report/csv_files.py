"""studies -> CSV files: all pairs, ranks, means, costs, and points per question."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from kumihimo.app.safe_write import write_folder
from kumihimo.evaluate.bias_measures import BiasReport, Proportion, WinRate
from kumihimo.evaluate.report.summary_data import CriterionResults, StudyResults

CsvRow = Sequence[Any]
_COMPARISON_FIELDS = [
    "kind",
    "mean",
    "low",
    "high",
    "n",
    "left_out",
    "z",
    "p",
    "corrected",
    "family",
    "effect",
    "flipped",
    "detectable",
    "corrected_detectable",
]  # names of columns and of fields of Comparison
_COLUMNS = {
    "pairs": ["study", "by", "metric", "a", "b", *_COMPARISON_FIELDS, "shapiro_w", "shapiro_p", "shapiro_why"],
    "ranks": ["study", "protocol", "criterion", "system", "rank", "best", "worst", "mean", "strength"],
    "measures": ["study", "group", "name", "system", "mean", "n", "of", "undefined"],
    "values": ["study", "group", "name", "system", "question", "value"],
    "points": ["study", "protocol", "criterion", "a", "b", "question", "points_of_a"],
    "cost": ["study", "system", "answered", "failed", "calls", "tokens", "cost", "seconds_p50", "seconds_p95", "timed"],
    "bias": ["study", "panel", "protocol", "criterion", "of", "value", "low", "high", "n", "alarm"],
}


def write_result_tables(studies: Sequence[StudyResults], path: Path) -> None:
    """Write the tables into a folder."""
    tables = {
        "pairs": _pairs(studies),
        "ranks": _ranks(studies),
        "measures": _measures(studies),
        "values": _values(studies),
        "points": _points(studies),
        "cost": _cost(studies),
        "bias": (row for study in studies if study.bias for row in _bias(study.name, study.bias)),
    }

    def fill(target: Path) -> None:
        """Write each table."""
        for name, rows in tables.items():
            with (target / f"{name}.csv").open("w", encoding="utf-8", newline="") as out:
                lines = csv.writer(out, lineterminator="\n")
                lines.writerow(_COLUMNS[name])
                lines.writerows(["" if cell is None else cell for cell in row] for row in rows)

    write_folder(path, fill)


def _all_criteria(studies: Iterable[StudyResults]) -> Iterator[tuple[StudyResults, CriterionResults]]:
    """Yield each study's criteria, including the combined one."""
    for study in studies:
        for criterion in study.criteria:
            yield study, criterion
        if study.deciding_criterion is not None and study.deciding_criterion not in study.criteria:
            yield study, study.deciding_criterion


def _pairs(studies: Sequence[StudyResults]) -> Iterator[CsvRow]:
    """Yield a row for each comparison."""
    groups = [(study, criterion.protocol, criterion.comparisons) for study, criterion in _all_criteria(studies)]
    groups += [(study, measure.group, measure.comparisons) for study in studies for measure in study.measures]
    for study, by, comparisons in groups:
        for pair in comparisons:
            numbers = [getattr(pair, name) for name in _COMPARISON_FIELDS]
            shape = [pair.shape.w, pair.shape.p, pair.shape.why]
            yield [study.name, by, pair.metric, pair.a, pair.b, *numbers, *shape]


def _ranks(studies: Sequence[StudyResults]) -> Iterator[CsvRow]:
    """Yield a row for each criterion and system."""
    for study, criterion in _all_criteria(studies):
        for entry in criterion.ranking:
            place = [entry.rank, entry.best, entry.worst, entry.mean, entry.strength]
            yield [study.name, criterion.protocol, criterion.name, entry.system, *place]


def _measures(studies: Sequence[StudyResults]) -> Iterator[CsvRow]:
    """Yield a row for each measure and system."""
    for study in studies:
        for measure in study.measures:
            for system in study.systems:
                if system in measure.values or system in measure.undefined:
                    why = "; ".join(f"{reason}: {n}" for reason, n in measure.undefined.get(system, {}).items())
                    n = len(measure.values.get(system, {}))
                    yield [study.name, measure.group, measure.name, system, measure.mean(system), n, measure.total, why]


def _values(studies: Sequence[StudyResults]) -> Iterator[CsvRow]:
    """Yield a row for each measured value."""
    for study in studies:
        for measure in study.measures:
            for system, values in measure.values.items():
                for question, value in values.items():
                    yield [study.name, measure.group, measure.name, system, question, value]


def _points(studies: Sequence[StudyResults]) -> Iterator[CsvRow]:
    """Yield a row for each pair and question."""
    for study in studies:
        for criterion in study.criteria:
            for (a, b), values in criterion.points.items():
                for question, value in values.items():
                    yield [study.name, criterion.protocol, criterion.name, a, b, question, value]


def _cost(studies: Sequence[StudyResults]) -> Iterator[CsvRow]:
    """Yield a row for each system's cost."""
    for study in studies:
        for cost in study.costs:
            yield [
                study.name,
                cost.system,
                cost.answered,
                cost.failed,
                cost.calls,
                cost.tokens,
                cost.cost,
                cost.median_seconds,
                cost.p95_seconds,
                cost.timed,
            ]


def _bias(name: str, bias: BiasReport) -> Iterator[CsvRow]:
    """Yield a row for each bias check."""
    for order in bias.orders:
        for panel in ("flips", "first", "ties", "invalid", "failed"):
            share: Proportion = getattr(order, panel)
            yield [name, panel, order.protocol, order.criterion, "", share.percent, None, None, share.of, ""]
    for result in bias.same:
        yield [name, "A/A", result.protocol, result.criterion, result.system, *_rate(result.rate), result.alarm]
    for length in bias.lengths:
        yield [name, "longer", length.protocol, length.criterion, "", *_rate(length.longer), length.alarm]
    for pair in bias.adjusted:
        key = [pair.protocol, pair.criterion, f"{pair.a} over {pair.b}"]
        for panel, rate in (("raw", pair.raw), ("matched", pair.matched), ("adjusted", pair.adjusted)):
            yield [name, panel, *key, *_rate(rate), pair.alarm if panel == "matched" else ""]
    for second in bias.agreement:
        yield [name, "kappa", second.protocol, second.criterion, "", second.kappa, None, None, second.alike.of, ""]


def _rate(rate: WinRate) -> CsvRow:
    """Return the cells of a rate."""
    return [rate.value, rate.low, rate.high, rate.n]
