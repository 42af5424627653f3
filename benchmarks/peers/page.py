"""figures -> docs/compare.md: the prose of the template, with a table at each marker.

A marker is a line such as `<!-- figures: insert -->`. Whoever changes the prose changes the template, `compare.md`
beside this module, and writes the page again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from textwrap import fill
from typing import Any

from benchmarks.peers.libraries import LIBRARIES, Library

TEMPLATE = Path(__file__).with_name("compare.md")
MARKER = re.compile(r"^<!-- figures: (\w+) -->\n", re.MULTILINE)
END = "<!-- end -->\n"
KINDS = ("extract", "glean", "summarise", "report")
Figures = Mapping[str, Any]


def write_page(path: Path, figures: Figures) -> None:
    path.write_text(fill_template(TEMPLATE.read_text(encoding="utf-8"), figures), encoding="utf-8")


def fill_template(template: str, figures: Figures) -> str:
    """Return the template with what belongs to each of its markers."""
    return MARKER.sub(lambda found: f"{found[0]}\n{TABLES[found[1]](figures)}\n\n{END}", template)


def page_prose(page: str) -> str:
    """Return a page without what stands between its markers: the template."""
    return re.sub(rf"({MARKER.pattern}).*?^{END}", r"\1", page, flags=re.MULTILINE | re.DOTALL)


def format_table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    names = list(header)
    return "\n".join(f"| {' | '.join(row)} |" for row in [names, ["---"] * len(names), *rows])


def _number(value: float) -> str:
    """Return a number with two digits, or whole.

    >>> _number(0.0213), _number(2.13), _number(1234567.0), _number(3)
    ('0.021', '2.1', '1,234,567', '3')
    """
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def _with(figures: Figures, part: str) -> list[tuple[Library, Figures]]:
    """Return the libraries that have a part of the figures."""
    return [(each, figures[each.driver][part]) for each in LIBRARIES if part in figures.get(each.driver, {})]


def _paragraph(text: str) -> str:
    return fill(text, 120, break_on_hyphens=False, break_long_words=False)


def _missing(row: Figures) -> str:
    """Return what stands in place of a figure."""
    return "failed" if "error" in row else "not measured"


def _cost_table(figures: Figures, task: str) -> str:
    header = ("library", "CPU s", "wall s", "peak MB", "calls", "tokens in", "tokens out", "texts embedded")
    rows = []
    for library, cost in _with(figures, "cost"):
        row = cost.get(task, {})
        if "cpu" not in row:
            rows.append([library.name, _missing(row), *["–"] * 8])
            continue
        values = [row["cpu"], row["wall"], row["peak"], row.get("calls", 0)]
        values += [row.get(name, 0) for name in ("prompt_tokens", "completion_tokens", "embedded")]
        rows.append([library.name, *map(_number, [*values, row["written"], row["size"]])])
    return format_table((*header, "MB written", "MB on disk"), rows)


def _calls_table(figures: Figures) -> str:
    """Return the calls of the first insertion by kind."""
    rows = [
        [library.name, *(_number(cost["insert"].get(f"calls: {kind}", 0)) for kind in KINDS)]
        for library, cost in _with(figures, "cost")
        if cost.get("insert", {}).get("calls")
    ]
    return format_table(("library", *KINDS), rows)


def _questions_table(figures: Figures) -> str:
    header = ("library", "mode", "wall ms", "CPU ms", "calls", "tokens in", "process CPU s", "peak MB")
    rows = []
    for library, cost in _with(figures, "cost"):
        for mode in library.modes:
            row = cost.get(mode, {})
            if "cpu" not in row:
                rows.append([library.name, f"`{mode}`", _missing(row), *["–"] * 5])
                continue
            each = [row.get(name, 0) / row["asked"] for name in ("calls", "prompt_tokens")]
            values = [1000 * row["question_wall"], 1000 * row["question_cpu"], *each]
            rows.append([library.name, f"`{mode}`", *map(_number, [*values, row["cpu"], row["peak"]])])
    return format_table(header, rows)


def _recall_table(figures: Figures) -> str:
    header = ("library", "mode", "recall@5", "95 % interval", "recall of all", "passages handed", "prompts")
    rows = []
    for library, recall in _with(figures, "recall"):
        for mode in library.reading:
            row = recall.get(mode, {})
            if "recall@5" not in row:
                rows.append([library.name, f"`{mode}`", _missing(row), *["–"] * 4])
                continue
            first = [f"{row['recall@5']:.2f}", f"{row['low']:.2f}–{row['high']:.2f}"]
            counts = [f"{row['recall']:.2f}", _number(row["passages"]), f"{row['prompts']}"]
            rows.append([library.name, f"`{mode}`", *(["–"] * 2 if mode in library.unordered else first), *counts])
    return format_table(header, rows)


def _sample(figures: Figures) -> str:
    sample = next((sample for _, sample in _with(figures, "sample")), None)
    if sample is None:
        return "Not measured."
    gold = sample["passages"] - sample["distractors"]
    return _paragraph(
        f"{len(sample['ids'])} questions, {gold} gold passages and {sample['distractors']} distractors, drawn with a "
        f"fixed seed. The questions: {', '.join(f'`{id}`' for id in sample['ids'])}."
    )


def _versions_table(figures: Figures) -> str:
    rows = []
    for library in LIBRARIES:
        if about := figures.get(library.driver, {}).get("about"):
            package = "kumihimo" if library.package == "." else library.package
            versions = ", ".join(f"`{name}`" for name in library.requirements if name != ".") or "this checkout"
            sizes = [_number(about["distributions"]), _number(about["size"])]
            rows.append([package, about["version"], versions, library.licence, *sizes])
    unique = list(dict.fromkeys(map(tuple, rows)))
    return format_table(("package", "version", "installed with pip", "licence", "distributions", "MB"), unique)


def _failures(figures: Figures) -> str:
    """Return what could not be installed or run, with its error."""
    lines = []
    for library in LIBRARIES:
        found = figures.get(library.driver)
        if found is None:
            lines.append(f"* {library.name}: not measured")
            continue
        if "error" in found:
            lines.append(f"* {library.name}: could not be installed: `{found['error']}`")
        tasks = {"cost": ("insert", *library.modes, "add"), "recall": library.reading}
        for part, names in tasks.items():
            rows = found.get(part, {})
            errors = {task: f"`{row['error']}`" for task, row in rows.items() if "error" in row}
            errors |= {task: "not measured" for task in names if task not in rows}
            lines += [f"* {library.name}, {part}, {task}: {error}" for task, error in errors.items()]
    return "\n".join(lines) or "All of them could be installed, and every task came to its end."


def _machine(figures: Figures) -> str:
    first = next(iter(figures.values()), None)
    if first is None:
        return "Not measured."
    machine = first["machine"]
    loads = sorted(each["machine"]["load"] for each in figures.values())
    dates = sorted({each["date"] for each in figures.values()})
    corpus = next(
        (f"{each['documents']} documents, {each['megabytes']:.2f} MB" for _, each in _with(figures, "corpus")), "none"
    )
    return _paragraph(
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory']} GB; {machine['system']}; "
        f"Python {machine['python']}. Measured on {' and '.join(dates)}. Corpus: {corpus}. Other work ran on the "
        f"machine: its load was {loads[0]:.0f} to {loads[-1]:.0f}, so wall times of two libraries cannot be compared."
    )


TABLES: dict[str, Callable[[Figures], str]] = {
    "insert": lambda figures: _cost_table(figures, "insert"),
    "add": lambda figures: _cost_table(figures, "add"),
    "calls": _calls_table,
    "questions": _questions_table,
    "recall": _recall_table,
    "sample": _sample,
    "versions": _versions_table,
    "failures": _failures,
    "machine": _machine,
}
