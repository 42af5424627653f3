"""studies -> one HTML page that says which system answers best, at what cost, how sure that is; and CSV beside it."""

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
from kumihimo.evaluate.report.markup import Html, Part, collapsible, join_html, p, tag
from kumihimo.evaluate.report.markup import bullet_list as items
from kumihimo.evaluate.report.panels import PANELS
from kumihimo.evaluate.report.summary_data import StudyResults, load_study_results
from kumihimo.evaluate.statistics import SEED
from kumihimo.evaluate.study import Study


@dataclass(frozen=True, slots=True)
class WrittenReport:
    """words: of each study what the page says first. cut: what there was no room for. missing: command by what."""

    page: Path
    size: int  # bytes
    tables: Path
    words: Mapping[str, Sequence[str]]
    cut: Sequence[str]
    missing: Mapping[str, Mapping[str, str]]


def write_evaluation_report(
    folders: Sequence[Path], out: Path, *, systems: Sequence[str] = (), neighbours: bool = False
) -> WrittenReport:
    """The page, and the folder of tables beside it. Raises SettingsError."""
    studies = [
        load_study_results(Study(path), name, systems=systems, neighbours=neighbours)
        for path, name in zip(folders, name_studies(folders), strict=True)
    ]
    told = answer_details.compute_detail_limits(studies)
    write_file(out, render_evaluation_page(studies, told))
    tables = out.with_name(f"{out.stem}-csv")
    csv_files.write_result_tables(studies, tables)
    words = {held.name: [strip_tags(said) for said in render_headline(held)] for held in studies}
    missing = {held.name: held.missing for held in studies if held.missing}
    return WrittenReport(out, out.stat().st_size, tables, words, told.cut_notes, missing)


def name_studies(folders: Sequence[Path]) -> list[str]:
    """Each by its last part; by all of it where two have the same.

    >>> named([Path("news"), Path("studies/podcast")]), named([Path("a/eval"), Path("b/eval")])
    (['news', 'podcast'], ['a/eval', 'b/eval'])
    """
    short = [path.resolve().name for path in folders]
    return short if len(set(short)) == len(short) else [path.as_posix() for path in folders]


def strip_tags(said: Html) -> str:
    """Without its markup."""
    return " ".join(unescape(sub(r"<[^>]*>", "", sub(r"</(?:p|li)>", " ", said))).split(" ")).strip()


def render_evaluation_page(studies: Sequence[StudyResults], told: answer_details.DetailLimits) -> Iterator[str]:
    title = f"Evaluation: {', '.join(held.name for held in studies)}"
    sections = list(_sections(studies))
    links = [tag("a", name, href=f"#{id}") for id, name, _ in sections]
    parts: dict[str, str] = {
        "mark": FILE_MARK,
        "title": escape(title),
        "index": answer_details.build_question_index(studies, told),
    }
    parts["links"] = join_html(
        [*links, tag("a", "Questions", href="#questions"), tag("a", "In plain words", href="#words")]
    )
    parts["counts"] = _summary_line(studies)
    parts["sections"] = join_html(tag("section", tag("h2", name), *inside, id=id) for id, name, inside in sections)
    parts["cut"] = items(told.cut_notes, "soft") if told.cut_notes else Html("")
    parts["how"] = _provenance(studies)
    parts |= {name: _read_asset(name) for name in ("page.css", "page.js", "conclusion.html")}
    for i, piece in enumerate(_read_asset("page.html").split("%%")):
        if not i % 2:
            yield piece
        elif piece == "questions":
            yield from answer_details.render_question_elements(studies, told)
        else:
            yield parts[piece]


def _read_asset(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _summary_line(studies: Sequence[StudyResults]) -> Html:
    questions = sum(len(held.questions) for held in studies)
    systems = len({system for held in studies for system in held.systems})
    verdicts = sum(len(held.verdicts) for held in studies)
    sets = f"{len(studies)} data sets, " if len(studies) > 1 else ""
    return p(f"{sets}{questions:,} questions, {systems} systems, {verdicts:,} verdicts", class_="soft")


def _sections(studies: Sequence[StudyResults]) -> Iterator[tuple[str, str, list[Html]]]:
    """What there is something to say of: its id, its heading, its inside."""
    yield "answer", "The answer", [*_per_study(studies, render_headline), *_missing_box(studies)]
    drawn = list(render_grids(studies))
    if drawn:
        yield "grid", "Who beats whom", drawn
    for id, (name, panel) in PANELS.items():
        inside = _per_study(studies, panel)
        if inside:
            yield id, name, inside


def _per_study(studies: Sequence[StudyResults], panel: Callable[[StudyResults], Iterable[Html]]) -> list[Html]:
    """With a heading for each study, where there are several."""
    found = [(held, list(panel(held))) for held in studies]
    return [
        part
        for held, inside in found
        if inside
        for part in ([tag("h3", held.name), *inside] if len(studies) > 1 else inside)
    ]


def _missing_box(studies: Sequence[StudyResults]) -> Iterator[Html]:
    by_command: dict[tuple[str, str], list[str]] = {}
    for held in studies:
        for what, command in held.missing.items():
            by_command.setdefault((what, command), []).append(held.name)
    if by_command:
        whole = len(studies)
        told = [
            join_html([what, "" if len(names) == whole else f" of {', '.join(names)}", ": ", tag("code", command)])
            for (what, command), names in by_command.items()
        ]
        yield tag("div", p("Not in this report yet, and what adds it:"), items(told), class_="missing")


def _provenance(studies: Sequence[StudyResults]) -> Html:
    """How all this was made."""
    version = f"kumihimo {metadata.version('kumihimo')}. Seed of all draws: {SEED}."
    parts: list[Part] = [p(version)]
    for held in studies:
        parts.append(tag("h3", held.name, tag("span", f" {held.study.folder.name}/", class_="soft")))
        parts.append(_families(held))
        for stage, run_with in held.manifest.items():
            parts.append(collapsible(f"kumi eval {stage}", tag("pre", answer_details.format_json(run_with))))
    return join_html(parts)


def _families(held: StudyResults) -> Html:
    """By each protocol and group of measures how many comparisons were corrected together."""
    told: dict[str, set[int]] = {}
    for criterion in held.criteria:
        told.setdefault(f"protocol {criterion.protocol}", set()).update(one.family for one in criterion.comparisons)
    for measure in held.measures:
        told.setdefault(measure.group, set()).update(one.family for one in measure.comparisons)
    said = [f"{name}: {' or '.join(map(str, sorted(sizes)))}" for name, sizes in told.items() if sizes]
    judges = sorted({v.judge for v in held.verdicts if v.judge})
    models = sorted({row.model for by in held.answers.values() for row in by.values() if row.model})
    facts = [f"Families of comparisons that Holm's method corrects together: {'; '.join(said) or 'none'}."]
    facts += [f"Judges: {', '.join(judges)}."] if judges else []
    facts += [f"Answers by: {', '.join(models)}."] if models else []
    return items(facts)
