"""a file of questions or answers -> rows of a study."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kumihimo.cli import jsonl
from kumihimo.cli.evaluating.options import STUDY, Folder, Merge, Replace
from kumihimo.cli.evaluating.questions import _put, show_put
from kumihimo.cli.options import Json
from kumihimo.core.errors import SettingsError, unknown

if TYPE_CHECKING:
    from kumihimo.evaluate.importers import Joined
    from kumihimo.evaluate.records import Answered, Question
    from kumihimo.evaluate.study import Study

FORMATS = {"questions": "importers", "benchmarkqed": "benchmarkqed", "ragas": "ragas"}  # modules of evaluate


def module(name: str) -> Any:
    """The module that reads and writes a format. Raises SettingsError where there is none of that name."""
    known = [each for each, home in FORMATS.items() if find_spec(f"kumihimo.evaluate.{home}")]
    if name not in known:
        raise SettingsError(unknown("format", name, known))
    return import_module(f"kumihimo.evaluate.{FORMATS[name]}")


def import_(
    file: Annotated[Path, typer.Argument(help="JSONL, CSV, a question a line; JSON of BenchmarkQED.", metavar="FILE")],
    kind: Annotated[
        str,
        typer.Option("--format", help="questions, benchmarkqed or ragas; none: as the file is named.", metavar="NAME"),
    ] = "",
    system: Annotated[
        str, typer.Option(help="Take answers out of it, which are those of this system.", metavar="NAME")
    ] = "",
    merge: Merge = False,
    replace: Replace = False,
    study: Folder = STUDY,
    as_json: Json = False,
) -> None:
    """Take in questions of your own, or the answers of another system to be compared with ours."""
    from kumihimo.evaluate.study import Study

    held, put = Study(study), _put(merge, replace)
    kind = kind or ("benchmarkqed" if file.suffix.lower() == ".json" else "questions")
    given = {"answers": True} if system and kind == "questions" else {}
    read: Callable[..., tuple[list[Question], list[Answered]]] = module(kind).read
    asked, said = read(file, **given)
    if not asked:
        raise SettingsError(f"{file} holds no questions")
    if system:
        _take_answers(held, asked, said, system, file, replace=replace, as_json=as_json)
        return
    from kumihimo.evaluate.importers import joined

    found = joined(held.rows_if("questions"), asked, put)
    held.write("questions", found.questions)
    held.note("import", file=file.name, format=kind, read=len(asked))
    _show(held, found, said, as_json)


def _show(held: Study, found: Joined, said: Sequence[Answered], as_json: bool) -> None:
    if as_json:
        told = {"written": str(held.path("questions")), "questions": len(found.questions), "added": found.added}
        jsonl.show({**told, "again": found.again, "answers_left_out": len(said)})
        return
    show_put(held, found)
    if found.again:
        print(f"{found.again:,} of those in the file were there already, or came twice.")
    if said:
        named = ", ".join(dict.fromkeys(answer.system for answer in said if answer.system))
        print(f"It holds {len(said):,} answers, too{f' ({named})' if named else ''}: --system NAME takes them in.")


def _take_answers(
    held: Study,
    asked: Sequence[Question],
    said: Sequence[Answered],
    system: str,
    file: Path,
    *,
    replace: bool,
    as_json: bool,
) -> None:
    """Write a system's answers; where the study asks nothing yet, their questions become its own."""
    from kumihimo.evaluate.importers import joined, matched

    if not said:
        raise SettingsError(f"{file} holds no answers: without --system its questions are taken")
    if held.generations(system) and not replace:
        raise SettingsError(f"{system} has answered in this study already: --replace puts these answers in their place")
    new = not held.has("questions")
    if new and not all(question.text for question in asked):
        raise SettingsError(f"{file} does not say what was asked: import the questions first")
    questions = joined([], asked).questions if new else held.questions()
    answers, strange = matched(questions, asked, [a for a in said if a.system == system] or said, system)
    if new:
        held.write("questions", questions)
    held.write_answers(system, 0, answers)
    held.note(f"import {system}", file=file.name, answers=len(answers), strange=strange)
    _show_answers(system, questions, answers, strange, as_json)


def _show_answers(
    system: str, questions: Sequence[Question], answers: Sequence[Answered], strange: int, as_json: bool
) -> None:
    missing, failed = len(questions) - len(answers), sum(bool(answer.failed) for answer in answers)
    if as_json:
        told = {"system": system, "answers": len(answers), "failed": failed}
        jsonl.show({**told, "without_answer": missing, "to_other_questions": strange})
        return
    print(f"{system}: answers to {len(answers):,} of {len(questions):,} questions.")
    if failed:
        print(f"Without a text in the file, so that they count as failed: {failed:,}.")
    if missing:
        print(f"Questions without an answer of it, which it is not compared by: {missing:,}.")
    if strange:
        print(f"Left out, since the study does not ask that: {strange:,} answers.")
