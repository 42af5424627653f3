"""a file of questions or answers -> rows of a study."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kumihimo.cli import jsonl
from kumihimo.cli.evaluating.options import DEFAULT_STUDY, Merge, Replace, StudyFolder
from kumihimo.cli.evaluating.questions import import_mode, show_study_questions
from kumihimo.cli.options import JsonOutput
from kumihimo.core.errors import SettingsError, describe_unknown

if TYPE_CHECKING:
    from kumihimo.evaluate.importers import MergeResult
    from kumihimo.evaluate.records import EvalQuestion, SystemAnswer
    from kumihimo.evaluate.study import Study

StudyReader = Callable[..., tuple[list["EvalQuestion"], list["SystemAnswer"]]]


def study_reader(name: str) -> StudyReader:
    """Return the function that reads a file of this format. Raises SettingsError."""
    from kumihimo.evaluate.benchmarkqed import read_benchmarkqed
    from kumihimo.evaluate.importers import read_question_file
    from kumihimo.evaluate.ragas import read_ragas

    readers: dict[str, StudyReader] = {
        "questions": read_question_file,
        "benchmarkqed": read_benchmarkqed,
        "ragas": read_ragas,
    }
    if name not in readers:
        raise SettingsError(describe_unknown("format", name, readers))
    return readers[name]


def import_(
    file: Annotated[Path, typer.Argument(help="JSONL, CSV, a question a line; JSON of BenchmarkQED.", metavar="FILE")],
    format_name: Annotated[
        str,
        typer.Option("--format", help="questions, benchmarkqed or ragas; none: as the file is named.", metavar="NAME"),
    ] = "",
    system: Annotated[
        str, typer.Option(help="Take answers out of it, which are those of this system.", metavar="NAME")
    ] = "",
    merge: Merge = False,
    replace: Replace = False,
    study: StudyFolder = DEFAULT_STUDY,
    as_json: JsonOutput = False,
) -> None:
    """Take in questions of your own, or the answers of another system to be compared with ours."""
    from kumihimo.evaluate.study import Study

    held, put = Study(study), import_mode(merge, replace)
    format_name = format_name or ("benchmarkqed" if file.suffix.lower() == ".json" else "questions")
    given = {"answers": True} if system and format_name == "questions" else {}
    asked, said = study_reader(format_name)(file, **given)
    if not asked:
        raise SettingsError(f"{file} holds no questions")
    if system:
        _import_answers(held, asked, said, system, file, replace=replace, as_json=as_json)
        return
    from kumihimo.evaluate.importers import merge_questions

    found = merge_questions(held.rows_or_empty("questions"), asked, put)
    held.write("questions", found.questions)
    held.record_stage("import", file=file.name, format=format_name, read=len(asked))
    _show_imported(held, found, said, as_json)


def _show_imported(held: Study, found: MergeResult, said: Sequence[SystemAnswer], as_json: bool) -> None:
    if as_json:
        told = {"written": str(held.path("questions")), "questions": len(found.questions), "added": found.added}
        jsonl.print_json({**told, "again": found.repeated, "answers_left_out": len(said)})
        return
    show_study_questions(held, found)
    if found.repeated:
        print(f"{found.repeated:,} of those in the file were there already, or came twice.")
    if said:
        named = ", ".join(dict.fromkeys(answer.system for answer in said if answer.system))
        print(f"It holds {len(said):,} answers, too{f' ({named})' if named else ''}: --system NAME takes them in.")


def _import_answers(
    held: Study,
    asked: Sequence[EvalQuestion],
    said: Sequence[SystemAnswer],
    system: str,
    file: Path,
    *,
    replace: bool,
    as_json: bool,
) -> None:
    """Write a system's answers; where the study asks nothing yet, their questions become its own."""
    from kumihimo.evaluate.importers import match_answers, merge_questions

    if not said:
        raise SettingsError(f"{file} holds no answers: without --system its questions are taken")
    if held.count_generations(system) and not replace:
        raise SettingsError(f"{system} has answered in this study already: --replace puts these answers in their place")
    new = not held.has("questions")
    if new and not all(question.text for question in asked):
        raise SettingsError(f"{file} does not say what was asked: import the questions first")
    questions = merge_questions([], asked).questions if new else held.questions()
    answers, strange = match_answers(questions, asked, [a for a in said if a.system == system] or said, system)
    if new:
        held.write("questions", questions)
    held.write_answers(system, 0, answers)
    held.record_stage(f"import {system}", file=file.name, answers=len(answers), strange=strange)
    _show_imported_answers(system, questions, answers, strange, as_json)


def _show_imported_answers(
    system: str, questions: Sequence[EvalQuestion], answers: Sequence[SystemAnswer], strange: int, as_json: bool
) -> None:
    missing, failed = len(questions) - len(answers), sum(bool(answer.failed) for answer in answers)
    if as_json:
        told = {"system": system, "answers": len(answers), "failed": failed}
        jsonl.print_json({**told, "without_answer": missing, "to_other_questions": strange})
        return
    print(f"{system}: answers to {len(answers):,} of {len(questions):,} questions.")
    if failed:
        print(f"Without a text in the file, so that they count as failed: {failed:,}.")
    if missing:
        print(f"Questions without an answer of it, which it is not compared by: {missing:,}.")
    if strange:
        print(f"Left out, since the study does not ask that: {strange:,} answers.")
