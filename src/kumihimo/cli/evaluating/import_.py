"""a file of questions or answers -> rows of a study."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from kumihimo.cli import jsonl
from kumihimo.cli.evaluating.options import DEFAULT_STUDY, Merge, Replace, StudyFolder
from kumihimo.cli.evaluating.questions import import_mode, show_study_questions
from kumihimo.cli.options import JsonOutput
from kumihimo.core.errors import SettingsError, describe_unknown
from kumihimo.evaluate.benchmarkqed import read_benchmarkqed
from kumihimo.evaluate.importers import MergeResult, match_answers, merge_questions, read_question_file
from kumihimo.evaluate.ragas import read_ragas
from kumihimo.evaluate.records import EvalQuestion, SystemAnswer
from kumihimo.evaluate.study import Study

StudyReader = Callable[..., tuple[list["EvalQuestion"], list["SystemAnswer"]]]


def study_reader(name: str) -> StudyReader:
    """Return the function that reads a file of this format. Raises SettingsError."""

    readers: dict[str, StudyReader] = {
        "questions": read_question_file,
        "benchmarkqed": read_benchmarkqed,
        "ragas": read_ragas,
    }
    if name not in readers:
        raise SettingsError(describe_unknown("format", name, readers))
    return readers[name]


def import_(
    file: Annotated[
        Path, typer.Argument(help="JSONL or CSV, one question per line; JSON of BenchmarkQED.", metavar="FILE")
    ],
    format_name: Annotated[
        str,
        typer.Option("--format", help="questions, benchmarkqed or ragas. Default: by the file name.", metavar="NAME"),
    ] = "",
    system: Annotated[
        str, typer.Option(help="Import the answers in the file, as those of this system.", metavar="NAME")
    ] = "",
    merge: Merge = False,
    replace: Replace = False,
    study: StudyFolder = DEFAULT_STUDY,
    as_json: JsonOutput = False,
) -> None:
    """Import your own questions, or the answers of another system."""

    study_files, mode = Study(study), import_mode(merge, replace)
    format_name = format_name or ("benchmarkqed" if file.suffix.lower() == ".json" else "questions")
    reader_options = {"answers": True} if system and format_name == "questions" else {}
    question_rows, answer_rows = study_reader(format_name)(file, **reader_options)
    if not question_rows:
        raise SettingsError(f"{file} holds no questions")
    if system:
        _import_answers(study_files, question_rows, answer_rows, system, file, replace=replace, as_json=as_json)
        return

    merged = merge_questions(study_files.rows_or_empty("questions"), question_rows, mode)
    study_files.write("questions", merged.questions)
    study_files.record_stage("import", file=file.name, format=format_name, read=len(question_rows))
    _show_imported(study_files, merged, answer_rows, as_json)


def _show_imported(study: Study, merged: MergeResult, answer_rows: Sequence[SystemAnswer], as_json: bool) -> None:
    if as_json:
        summary = {"written": str(study.path("questions")), "questions": len(merged.questions), "added": merged.added}
        jsonl.print_json({**summary, "again": merged.repeated, "answers_left_out": len(answer_rows)})
        return
    show_study_questions(study, merged)
    if merged.repeated:
        print(f"{merged.repeated:,} questions of the file were already there or came twice.")
    if answer_rows:
        systems = ", ".join(dict.fromkeys(answer.system for answer in answer_rows if answer.system))
        names = f" ({systems})" if systems else ""
        print(f"It holds {len(answer_rows):,} answers{names}: import them with --system NAME.")


def _import_answers(
    study: Study,
    question_rows: Sequence[EvalQuestion],
    answer_rows: Sequence[SystemAnswer],
    system: str,
    file: Path,
    *,
    replace: bool,
    as_json: bool,
) -> None:
    """Write a system's answers; an empty study takes their questions too."""

    if not answer_rows:
        raise SettingsError(f"{file} has no answers: leave out --system to import its questions")
    if study.count_generations(system) and not replace:
        raise SettingsError(f"{system} has already answered in this study: --replace overwrites its answers")
    is_new = not study.has("questions")
    if is_new and not all(question.text for question in question_rows):
        raise SettingsError(f"{file} has no question texts: import the questions first")
    questions = merge_questions([], question_rows).questions if is_new else study.questions()
    answers, unmatched = match_answers(
        questions, question_rows, [a for a in answer_rows if a.system == system] or answer_rows, system
    )
    if is_new:
        study.write("questions", questions)
    study.write_answers(system, 0, answers)
    study.record_stage(f"import {system}", file=file.name, answers=len(answers), strange=unmatched)
    _show_imported_answers(system, questions, answers, unmatched, as_json)


def _show_imported_answers(
    system: str, questions: Sequence[EvalQuestion], answers: Sequence[SystemAnswer], unmatched: int, as_json: bool
) -> None:
    missing, failed = len(questions) - len(answers), sum(bool(answer.failed) for answer in answers)
    if as_json:
        summary = {"system": system, "answers": len(answers), "failed": failed}
        jsonl.print_json({**summary, "without_answer": missing, "to_other_questions": unmatched})
        return
    print(f"{system}: answers to {len(answers):,} of {len(questions):,} questions.")
    if failed:
        print(f"Without a text in the file, counted as failed: {failed:,}.")
    if missing:
        print(f"Questions without an answer, left out of comparisons: {missing:,}.")
    if unmatched:
        print(f"Left out, because the study has no such question: {unmatched:,} answers.")
