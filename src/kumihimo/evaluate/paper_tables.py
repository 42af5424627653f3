"""A study and the design of a paper -> its tables in the paper's form, as HTML, CSV and LaTeX.

Figures of the paper stand beside ours only for the data set that the caller names.
"""

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from io import StringIO
from pathlib import Path
from statistics import fmean

from kumihimo.evaluate import report
from kumihimo.evaluate.comparison import Comparison
from kumihimo.evaluate.latex import latex_table
from kumihimo.evaluate.paper_studies import PaperTable, StudyDesign
from kumihimo.evaluate.report.summary_data import CriterionResults, ReportMeasure, StudyResults
from kumihimo.evaluate.study import Study
from kumihimo.page import render_template
from kumihimo.text.safe_write import write_file

_PACKAGE = Path(report.__file__).parent


@dataclass(frozen=True, slots=True)
class Cell:
    """A figure with its 95 % interval.

    published: that of the paper; None: not known. significant: a win rate that differs from 50, after correction.
    """

    value: float
    low: float
    high: float
    n: int
    published: float | None = None
    significant: bool = False

    def describe(self, digits: int) -> str:
        """Return the cell as text.

        >>> Cell(56.25, 48.1, 64.0, 125, 57).describe(1)
        '56.2 (48.1–64.0), paper: 57'
        """
        mark = "*" if self.significant else ""
        paper = "" if self.published is None else f", paper: {self.published:g}"
        return f"{self.value:.{digits}f}{mark} ({self.low:.{digits}f}–{self.high:.{digits}f}){paper}"


@dataclass(frozen=True, slots=True)
class FilledTable:
    """A table of figures by row and column."""

    title: str
    cites: str
    columns: Sequence[str]
    rows: Mapping[str, Mapping[str, Cell]]
    has_win_rates: bool

    def describe_cells(self, protocol: str, judges: str) -> str:
        """Return what the brackets and marks of the cells are."""
        if not self.has_win_rates:
            return "In brackets: the 95 % interval, by tasks."
        judged = f" Protocol {protocol}" + (f", judge {judges}." if judges else ".")
        return f"In brackets: the 95 % interval, for all pairs of a criterion together; *: p < .05 after Holm.{judged}"

    @property
    def digits(self) -> int:
        """Return the number of digits after the point."""
        return 1 if any(cell.value > 1 for cells in self.rows.values() for cell in cells.values()) else 3


def fill_tables(design: StudyDesign, results: StudyResults, dataset: str = "") -> list[FilledTable]:
    """Fill the tables of a design with the results of a study.

    dataset: the data set of the paper that was used; empty: another one, and no figure of the paper is shown.
    """
    return [_FORMS[table.form](table, design, results, dataset) for table in design.tables]


def _fill_pairs(table: PaperTable, design: StudyDesign, results: StudyResults, dataset: str) -> FilledTable:
    """Fill the win rates of each row's system over each column's."""
    rows: dict[str, dict[str, Cell]] = {}
    for criterion in results.criteria_of(design.protocol):
        for name, spec in design.systems.items():
            cells = {
                other: _win_rate(criterion.matrix[spec, other_spec])
                for other, other_spec in design.systems.items()
                if (spec, other_spec) in criterion.matrix
            }
            rows |= {f"{criterion.name}: {name}": cells} if cells else {}
    published = dict((table.published or {}).get(dataset, {}))
    for row, figures in list(published.items()):  # the other direction
        criterion_name, _, system = row.partition(": ")
        for other, value in figures.items():
            mirrored = f"{criterion_name}: {other}"
            published[mirrored] = {**published.get(mirrored, {}), system: 100 - value}
    return _cite(table, list(design.systems), rows, published)


def _fill_against(table: PaperTable, design: StudyDesign, results: StudyResults, dataset: str) -> FilledTable:
    """Fill the win rates over one system, a row for each criterion."""
    others = {name: spec for name, spec in design.systems.items() if spec != design.against}

    def cells(criterion: CriterionResults) -> dict[str, Cell]:
        matrix, against = criterion.matrix, design.against
        return {n: _win_rate(matrix[spec, against]) for n, spec in others.items() if (spec, against) in matrix}

    rows = {criterion.name: cells(criterion) for criterion in results.criteria_of(design.protocol)}
    return _cite(table, list(others), rows, (table.published or {}).get(dataset, {}))


def _fill_means(table: PaperTable, design: StudyDesign, results: StudyResults, dataset: str) -> FilledTable:
    """Fill the means of each system."""
    names = table.measures or {}
    measures = {names[measure.name]: measure for measure in results.measures if measure.name in names}
    rows = {
        name: {column: cell for column, measure in measures.items() if (cell := _mean(measure, spec, results.clusters))}
        for name, spec in design.systems.items()
    }
    return _cite(table, list(names.values()), rows, (table.published or {}).get(dataset, {}))


_FORMS: Mapping[str, Callable[[PaperTable, StudyDesign, StudyResults, str], FilledTable]] = {
    "pairs": _fill_pairs,
    "against": _fill_against,
    "means": _fill_means,
}


def _win_rate(pair: Comparison) -> Cell:
    return Cell(pair.mean, pair.corrected_low, pair.corrected_high, pair.n, significant=pair.is_significant)


def _mean(measure: ReportMeasure, system: str, clusters: Mapping[str, str]) -> Cell | None:
    if not (values := measure.values.get(system)):
        return None
    return Cell(fmean(values.values()), *measure.interval(system, clusters), len(values))


def _cite(
    table: PaperTable,
    columns: Sequence[str],
    rows: Mapping[str, Mapping[str, Cell]],
    published: Mapping[str, Mapping[str, float]],
) -> FilledTable:
    """Add the figures of the paper to the cells."""
    cited = {
        row: {column: replace(cell, published=published.get(row, {}).get(column)) for column, cell in cells.items()}
        for row, cells in rows.items()
    }
    return FilledTable(table.title, table.cites, columns, cited, table.form != "means")


# -- files


def write_tables(study: Study, design: StudyDesign, tables: Sequence[FilledTable], dataset: str = "") -> list[str]:
    """Write tables.html, tables.csv and tables.tex into a study; return the paths."""
    page = render_template(_PACKAGE, "paper_tables.html", design=design, tables=tables, dataset=dataset)
    written: list[str] = []
    judges = ", ".join(sorted({row.judge for row in study.rows_or_empty("verdicts") if row.judge}))
    latex = _latex_lines(tables, design, judges)
    for suffix, parts in (("html", page), ("csv", _csv_lines(tables)), ("tex", latex)):
        path = study.folder / f"tables.{suffix}"
        write_file(path, parts, force=True)
        written.append(str(path))
    return written


def _csv_lines(tables: Iterable[FilledTable]) -> Iterator[str]:
    """Yield a line for each cell."""
    text = StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(["table", "cites", "row", "column", "value", "low", "high", "n", "published", "significant"])
    for table in tables:
        for row, cells in table.rows.items():
            lines.writerows([table.title, table.cites, row, column, *astuple(cell)] for column, cell in cells.items())
    yield text.getvalue()


def _latex_lines(tables: Iterable[FilledTable], design: StudyDesign, judges: str) -> Iterator[str]:
    """Yield a table environment for each table."""
    paper = ", ".join(design.paper.split(", ")[:2])  # without its sections: the table cites one
    for table in tables:
        sizes = sorted({cell.n for cells in table.rows.values() for cell in cells.values()})
        caption = f"{table.title}. After {paper}, {table.cites}. {table.describe_cells(design.protocol, judges)}"
        caption += f" n = {'–'.join(map(str, dict.fromkeys((sizes[0], sizes[-1]))))} questions." if sizes else ""
        rows = (
            [name, *(cells[c].describe(table.digits) if c in cells else "–" for c in table.columns)]
            for name, cells in table.rows.items()
        )
        yield from latex_table(caption, ["", *table.columns], rows)
