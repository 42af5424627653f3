"""studies -> one HTML page with the ranking, its cost and its certainty; CSV tables beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape, unescape
from importlib import metadata
from pathlib import Path
from re import sub

from kumihimo.app.safe_write import FILE_MARK, write_file
from kumihimo.evaluate.report import answer_details, csv_files
from kumihimo.evaluate.report.conclusion import render_headline
from kumihimo.evaluate.report.grid import render_grids
from kumihimo.evaluate.report.markup import Html, Part, bullet_list, collapsible, join_html, p, tag
from kumihimo.evaluate.report.panels import PANELS
from kumihimo.evaluate.report.summary_data import StudyResults, load_study_results
from kumihimo.evaluate.statistics import SEED
from kumihimo.evaluate.study import Study


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
    folders: Sequence[Path], out: Path, *, systems: Sequence[str] = (), neighbours: bool = False
) -> WrittenReport:
    """Write the page, and a folder of tables beside it.

    Raises SettingsError if a study is unusable, or the file was not written by `kumi`.
    """
    studies = [
        load_study_results(Study(path), name, systems=systems, neighbours=neighbours)
        for path, name in zip(folders, name_studies(folders), strict=True)
    ]
    limits = answer_details.compute_detail_limits(studies)
    write_file(out, render_evaluation_page(studies, limits))
    tables = out.with_name(f"{out.stem}-csv")
    csv_files.write_result_tables(studies, tables)
    headlines = {study.name: [strip_tags(paragraph) for paragraph in render_headline(study)] for study in studies}
    missing = {study.name: study.missing for study in studies if study.missing}
    return WrittenReport(out, out.stat().st_size, tables, headlines, limits.cut_notes, missing)


def name_studies(folders: Sequence[Path]) -> list[str]:
    """Return the studies' names: folder names, or paths if ambiguous.

    >>> name_studies([Path("news"), Path("studies/podcast")]), name_studies([Path("a/eval"), Path("b/eval")])
    (['news', 'podcast'], ['a/eval', 'b/eval'])
    """
    names = [path.resolve().name for path in folders]
    return names if len(set(names)) == len(names) else [path.as_posix() for path in folders]


def strip_tags(markup: Html) -> str:
    """Return the text of some HTML, without tags."""
    return " ".join(unescape(sub(r"<[^>]*>", "", sub(r"</(?:p|li)>", " ", markup))).split(" ")).strip()


def render_evaluation_page(studies: Sequence[StudyResults], limits: answer_details.DetailLimits) -> Iterator[str]:
    """Yield the parts of the page."""
    title = f"Evaluation: {', '.join(study.name for study in studies)}"
    sections = list(_sections(studies))
    links = [tag("a", name, href=f"#{anchor}") for anchor, name, _ in sections]
    parts: dict[str, str] = {
        "mark": FILE_MARK,
        "title": escape(title),
        "index": answer_details.build_question_index(studies, limits),
    }
    parts["links"] = join_html([*links, tag("a", "Questions", href="#questions"), tag("a", "Glossary", href="#words")])
    parts["counts"] = _summary_line(studies)
    parts["sections"] = join_html(
        tag("section", tag("h2", name), *inside, id=anchor) for anchor, name, inside in sections
    )
    parts["cut"] = bullet_list(limits.cut_notes, "soft") if limits.cut_notes else Html("")
    parts["how"] = _provenance(studies)
    parts |= {name: _read_asset(name) for name in ("page.css", "page.js", "glossary.html")}
    for i, piece in enumerate(_read_asset("page.html").split("%%")):
        if not i % 2:
            yield piece
        elif piece == "questions":
            yield from answer_details.render_question_elements(studies, limits)
        else:
            yield parts[piece]


def _read_asset(name: str) -> str:
    """Return the text of a file beside this module."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _summary_line(studies: Sequence[StudyResults]) -> Html:
    """Return the numbers of questions, systems and verdicts."""
    questions = sum(len(study.questions) for study in studies)
    systems = len({system for study in studies for system in study.systems})
    verdicts = sum(len(study.verdicts) for study in studies)
    sets = f"{len(studies)} data sets, " if len(studies) > 1 else ""
    return p(f"{sets}{questions:,} questions, {systems} systems, {verdicts:,} verdicts", class_="soft")


def _sections(studies: Sequence[StudyResults]) -> Iterator[tuple[str, str, list[Html]]]:
    """Yield each non-empty section: id, heading, content."""
    yield "answer", "The answer", [*_per_study(studies, render_headline), *_missing_box(studies)]
    grids = list(render_grids(studies))
    if grids:
        yield "grid", "Who beats whom", grids
    for anchor, (name, panel) in PANELS.items():
        inside = _per_study(studies, panel)
        if inside:
            yield anchor, name, inside


def _per_study(studies: Sequence[StudyResults], panel: Callable[[StudyResults], Iterable[Html]]) -> list[Html]:
    """Return the panel of each study, under headings if there are several."""
    panels = [(study, list(panel(study))) for study in studies]
    return [
        part
        for study, inside in panels
        if inside
        for part in ([tag("h3", study.name), *inside] if len(studies) > 1 else inside)
    ]


def _missing_box(studies: Sequence[StudyResults]) -> Iterator[Html]:
    """Yield a box with the missing parts and their commands."""
    by_command: dict[tuple[str, str], list[str]] = {}
    for study in studies:
        for part, command in study.missing.items():
            by_command.setdefault((part, command), []).append(study.name)
    if by_command:
        total = len(studies)
        lines = [
            join_html([part, "" if len(names) == total else f" of {', '.join(names)}", ": ", tag("code", command)])
            for (part, command), names in by_command.items()
        ]
        yield tag(
            "div", p("Missing from this report, with the command that adds it:"), bullet_list(lines), class_="missing"
        )


def _provenance(studies: Sequence[StudyResults]) -> Html:
    """Return the section on versions, families, models and settings."""
    version = f"kumihimo {metadata.version('kumihimo')}. Random seed: {SEED}."
    parts: list[Part] = [p(version)]
    for study in studies:
        parts.append(tag("h3", study.name, tag("span", f" {study.study.folder.name}/", class_="soft")))
        parts.append(_families(study))
        for stage, settings in study.manifest.items():
            parts.append(collapsible(f"kumi eval {stage}", tag("pre", answer_details.format_json(settings))))
    return join_html(parts)


def _families(study: StudyResults) -> Html:
    """Return the family sizes of comparisons, the judges and the models.

    A family is corrected together; there is one per protocol or group of measures.
    """
    sizes_by_family: dict[str, set[int]] = {}
    for criterion in study.criteria:
        sizes_by_family.setdefault(f"protocol {criterion.protocol}", set()).update(
            comparison.family for comparison in criterion.comparisons
        )
    for measure in study.measures:
        sizes_by_family.setdefault(measure.group, set()).update(comparison.family for comparison in measure.comparisons)
    families = [f"{name}: {' or '.join(map(str, sorted(sizes)))}" for name, sizes in sizes_by_family.items() if sizes]
    judges = sorted({verdict.judge for verdict in study.verdicts if verdict.judge})
    models = sorted({row.model for rows in study.answers.values() for row in rows.values() if row.model})
    facts = [f"Families of comparisons that Holm's method corrects together: {'; '.join(families) or 'none'}."]
    facts += [f"Judges: {', '.join(judges)}."] if judges else []
    facts += [f"Answers by: {', '.join(models)}."] if models else []
    return bullet_list(facts)
