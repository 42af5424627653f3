"""studies -> CSV files: every pair, every rank, every mean, every cost, and the points of every question."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from kumihimo.app.safe_write import write_folder
from kumihimo.evaluate.bias import BiasReport, Proportion, WinRate
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
]  # of Compared
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
    """A folder of tables."""
    tables = {
        "pairs": _pairs(studies),
        "ranks": _ranks(studies),
        "measures": _measures(studies),
        "values": _values(studies),
        "points": _points(studies),
        "cost": _cost(studies),
        "bias": (row for held in studies if held.bias for row in _bias(held.name, held.bias)),
    }

    def fill(made: Path) -> None:
        for name, rows in tables.items():
            with (made / f"{name}.csv").open("w", encoding="utf-8", newline="") as out:
                lines = csv.writer(out, lineterminator="\n")
                lines.writerow(_COLUMNS[name])
                lines.writerows(["" if cell is None else cell for cell in row] for row in rows)

    write_folder(path, fill)


def _all_criteria(studies: Iterable[StudyResults]) -> Iterator[tuple[StudyResults, CriterionResults]]:
    for held in studies:
        for criterion in held.criteria:
            yield held, criterion
        if held.deciding_criterion is not None and held.deciding_criterion not in held.criteria:
            yield held, held.deciding_criterion


def _pairs(studies: Sequence[StudyResults]) -> Iterator[CsvRow]:
    found = [(held, c.protocol, c.comparisons) for held, c in _all_criteria(studies)]
    found += [(held, m.group, m.comparisons) for held in studies for m in held.measures]
    for held, by, compared in found:
        for pair in compared:
            numbers = [getattr(pair, name) for name in _COMPARISON_FIELDS]
            shape = [pair.shape.w, pair.shape.p, pair.shape.why]
            yield [held.name, by, pair.metric, pair.a, pair.b, *numbers, *shape]


def _ranks(studies: Sequence[StudyResults]) -> Iterator[CsvRow]:
    for held, c in _all_criteria(studies):
        for one in c.ranking:
            place = [one.rank, one.best, one.worst, one.mean, one.strength]
            yield [held.name, c.protocol, c.name, one.system, *place]


def _measures(studies: Sequence[StudyResults]) -> Iterator[CsvRow]:
    for held in studies:
        for m in held.measures:
            for system in held.systems:
                if system in m.values or system in m.undefined:
                    why = "; ".join(f"{reason}: {n}" for reason, n in m.undefined.get(system, {}).items())
                    n = len(m.values.get(system, {}))
                    yield [held.name, m.group, m.name, system, m.mean(system), n, m.total, why]


def _values(studies: Sequence[StudyResults]) -> Iterator[CsvRow]:
    for held in studies:
        for m in held.measures:
            for system, values in m.values.items():
                for question, value in values.items():
                    yield [held.name, m.group, m.name, system, question, value]


def _points(studies: Sequence[StudyResults]) -> Iterator[CsvRow]:
    for held in studies:
        for c in held.criteria:
            for (a, b), values in c.points.items():
                for question, value in values.items():
                    yield [held.name, c.protocol, c.name, a, b, question, value]


def _cost(studies: Sequence[StudyResults]) -> Iterator[CsvRow]:
    for held in studies:
        for s in held.costs:
            yield [
                held.name,
                s.system,
                s.answered,
                s.failed,
                s.calls,
                s.tokens,
                s.cost,
                s.median_seconds,
                s.p95_seconds,
                s.timed,
            ]


def _bias(name: str, bias: BiasReport) -> Iterator[CsvRow]:
    for order in bias.orders:
        for panel in ("flips", "first", "ties", "invalid", "failed"):
            part: Proportion = getattr(order, panel)
            yield [name, panel, order.protocol, order.criterion, "", part.percent, None, None, part.of, ""]
    for aa in bias.same:
        yield [name, "A/A", aa.protocol, aa.criterion, aa.system, *_rate(aa.rate), aa.alarm]
    for length in bias.lengths:
        yield [name, "longer", length.protocol, length.criterion, "", *_rate(length.longer), length.alarm]
    for pair in bias.adjusted:
        of = [pair.protocol, pair.criterion, f"{pair.a} over {pair.b}"]
        for panel, rate in (("raw", pair.raw), ("matched", pair.matched), ("adjusted", pair.adjusted)):
            yield [name, panel, *of, *_rate(rate), pair.alarm if panel == "matched" else ""]
    for second in bias.agreement:
        yield [name, "kappa", second.protocol, second.criterion, "", second.kappa, None, None, second.alike.of, ""]


def _rate(rate: WinRate) -> CsvRow:
    return [rate.value, rate.low, rate.high, rate.n]
