"""files for a study -> its questions and answers; a study -> its contents, an export or a report."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

from typer import Argument, Option

from kumihimo.cli import options, printing
from kumihimo.cli.evaluating.options import DEFAULT_STUDY, Merge, Replace, StudyOption
from kumihimo.cli.evaluating.questions import import_mode, show_study_questions
from kumihimo.core.errors import SettingsError
from kumihimo.evaluate import exchange, importers, records
from kumihimo.evaluate.report import WrittenReport, write_evaluation_report
from kumihimo.evaluate.study import FILE_COMMANDS, ROW_TYPES, Study
from kumihimo.text import safe_write

# -- import


def import_(
    study: StudyOption,
    output: options.Output,
    file: Annotated[Path, Argument(help="JSONL or CSV, one question per line; JSON of BenchmarkQED.", metavar="FILE")],
    format_name: Annotated[
        str, Option("--format", help="questions, benchmarkqed or ragas. Default: by the file name.", metavar="NAME")
    ] = "",
    system: Annotated[
        str, Option(help="Import the answers in the file, as those of this system.", metavar="NAME")
    ] = "",
    merge: Merge = False,
    replace: Replace = False,
) -> None:
    """Import your own questions, or the answers of another system."""
    mode = import_mode(merge, replace)
    format_name = format_name or ("benchmarkqed" if file.suffix.lower() == ".json" else "questions")
    options.check_choice("format", format_name, importers.FILE_FORMATS)
    questions, answers = importers.read_question_file(file, format_name, answers=bool(system))
    if system:
        _import_answers(study, (questions, answers), system, file, output, replace=replace)
        return
    merged = importers.merge_questions(study.rows_or_empty("questions"), questions, mode)
    study.write("questions", merged.questions)
    study.record_stage("import", file=file.name, format=format_name, read=len(questions))
    summary = {"written": str(study.path("questions")), "questions": len(merged.questions), "added": merged.added}
    summary |= {"again": merged.repeated, "answers_left_out": len(answers)}
    output.show(summary, lambda _: _show_imported(study, merged, answers))


def _show_imported(study: Study, merged: importers.MergeResult, answers: Sequence[records.SystemAnswer]) -> None:
    show_study_questions(study, merged)
    if merged.repeated:
        printing.print_message(f"{merged.repeated:,} questions of the file were already there or came twice.")
    if answers:
        systems = ", ".join(dict.fromkeys(answer.system for answer in answers if answer.system))
        names = f" ({systems})" if systems else ""
        printing.print_message(f"It holds {len(answers):,} answers{names}: import them with --system NAME.")


def _import_answers(
    study: Study, rows: importers.StudyRows, system: str, file: Path, output: options.Output, *, replace: bool
) -> None:
    """Write a system's answers; an empty study takes their questions too."""
    question_rows, answer_rows = rows
    if not answer_rows:
        raise SettingsError(f"{file} has no answers: leave out --system to import its questions")
    if study.count_generations(system) and not replace:
        raise SettingsError(f"{system} has already answered in this study: --replace overwrites its answers")
    is_new = not study.has("questions")
    if is_new and not all(question.text for question in question_rows):
        raise SettingsError(f"{file} has no question texts: import the questions first")
    questions = importers.merge_questions([], question_rows).questions if is_new else study.questions()
    own_rows = [answer for answer in answer_rows if answer.system == system] or answer_rows
    answers, unmatched = importers.match_answers(questions, question_rows, own_rows, system)
    if is_new:
        study.write("questions", questions)
    study.write_answers(system, 0, answers)
    study.record_stage(f"import {system}", file=file.name, answers=len(answers), strange=unmatched)
    failed, missing = sum(bool(answer.failed) for answer in answers), len(questions) - len(answers)
    summary = {"system": system, "answers": len(answers), "failed": failed}
    summary |= {"without_answer": missing, "to_other_questions": unmatched}
    remarks = {
        f"{system}: answers to {len(answers):,} of {len(questions):,} questions.": True,
        f"Without a text in the file, counted as failed: {failed:,}.": failed,
        f"Questions without an answer, left out of comparisons: {missing:,}.": missing,
        f"Left out, because the study has no such question: {unmatched:,} answers.": unmatched,
    }
    output.show(summary, "\n".join(remark for remark, count in remarks.items() if count))


# -- export


def export(
    study: StudyOption,
    output: options.Output,
    writing: options.Writing,
    out: Annotated[Path, Option(help="The folder to write.", metavar="DIR")],
    format_name: Annotated[str, Option("--format", help="benchmarkqed or ragas.", metavar="NAME")] = "benchmarkqed",
) -> None:
    """Export questions and answers for BenchmarkQED or ragas."""
    if format_name == "questions":
        raise SettingsError(f"{study.path('questions')} is already such a file: export benchmarkqed or ragas")
    written: list[str] = []

    def fill(target: Path) -> None:
        for name, text in _export_files(study, format_name):
            path = target / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
            written.append(name)

    safe_write.write_folder(out, fill, force=writing.force)
    failed = {system: sum(bool(a.failed) for a in study.answers(system)) for system in study.systems()}
    lines = [f"Wrote {out}: {', '.join(written)}."]
    losses = {system: count for system, count in failed.items() if count}
    lines += [f"Left out, because they failed: {count:,} answers of {system}." for system, count in losses.items()]
    output.show({"written": str(out), "files": written, "failed": failed}, "\n".join(lines))


def _export_files(study: Study, kind: str) -> Iterator[tuple[str, str]]:
    """Yield (name, text) of each file; ragas: one file for all systems."""
    questions, systems = study.questions(), study.systems()
    if kind == "ragas":
        answers = (answer for system in systems for answer in study.answers(system) if not answer.failed)
        yield "ragas.jsonl", "".join(f"{line}\n" for line in exchange.ragas_lines(questions, answers))
        return
    answers_by_name = {quote(system, safe=" =,+-_."): study.answers(system) for system in systems}
    yield from exchange.benchmarkqed_files(questions, answers_by_name)


# -- contents and report


def status(study: StudyOption, output: options.Output) -> None:
    """Show the contents of a study and the commands for more."""
    study.check_folder()
    rows = {name: sum(1 for _ in study.rows(name, ROW_TYPES[name])) for name in ROW_TYPES if study.has(name)}
    answers: dict[str, dict[str, int]] = {}
    for system in study.systems():
        outcomes = Counter("failed" if row.failed else "answered" for row in study.answers(system))
        answers[system] = {"generations": study.count_generations(system), **outcomes}
    there = {*rows, *(["answers"] if answers else [])}
    commands = {"questions": FILE_COMMANDS["questions"], "answers": "kumi eval run", **FILE_COMMANDS}
    missing = {name: command for name, command in commands.items() if name not in there}
    document = {"folder": str(study.folder), "rows": rows, "answers": answers, "missing": missing}
    output.show(document, lambda _: _show_contents(rows, answers, missing))


def _show_contents(rows: dict[str, int], answers: dict[str, dict[str, int]], missing: dict[str, str]) -> None:
    table = [(name, f"{count:,} rows") for name, count in rows.items()]
    for system, counts in answers.items():
        times = counts["generations"]
        parts = ", ".join(f"{n:,} {outcome}" for outcome, n in counts.items() if outcome != "generations")
        table.append((system, parts + (f", {times} generations" if times > 1 else "")))
    table += [(name, f"not there yet: `{command}`") for name, command in missing.items()]
    printing.show_rows(table)


def report(
    output: options.Output,
    writing: options.Writing,
    studies: Annotated[
        list[Path] | None,
        Option(
            "--study",
            envvar="KUMI_STUDY",
            help="A study folder; give several for one grid row each.",
            metavar="DIR",
            show_default=str(DEFAULT_STUDY),
        ),
    ] = None,
    out: Annotated[Path, Option(help="The page to write, with its tables beside it.", metavar="FILE")] = Path(
        "report.html"
    ),
    systems: Annotated[
        str, Option(help="Only these systems, in this order: naive,global:C2.", metavar="NAMES", show_default="all")
    ] = "",
    neighbours: Annotated[
        bool, Option("--neighbours", help="Compare ratings as MK-RAG does: each system with the previous one.")
    ] = False,
) -> None:
    """Write the results of studies to an HTML page and CSV tables."""
    folders = studies or [DEFAULT_STUDY]
    written = write_evaluation_report(
        folders, out, systems=options.split_names(systems), neighbours=neighbours, force=writing.force
    )
    document: dict[str, Any] = asdict(written) | {"page": str(written.page), "tables": str(written.tables)}
    output.show(document, lambda _: _show_headlines(written))


def _show_headlines(written: WrittenReport) -> None:
    for name, sentences in written.words.items():
        printing.show_rows([(name if not i else "", sentence) for i, sentence in enumerate(sentences)])
    for sentence in written.cut:
        printing.print_text(sentence)
    for name, missing in written.missing.items():
        printing.show_rows([(f"{name}: {part}", f"not there yet: `{command}`") for part, command in missing.items()])
    printing.print_message(f"{written.page} ({written.size / 1e6:.1f} MB), and its tables in {written.tables}/")
