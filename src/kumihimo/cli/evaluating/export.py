"""the questions and answers of a study -> a folder for another program."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer

from kumihimo.app import safe_write
from kumihimo.cli import jsonl
from kumihimo.cli.evaluating.options import DEFAULT_STUDY, StudyFolder
from kumihimo.cli.options import JsonOutput
from kumihimo.core.errors import SettingsError
from kumihimo.evaluate.benchmarkqed import benchmarkqed_files
from kumihimo.evaluate.ragas import ragas_lines
from kumihimo.evaluate.study import Study


def export(
    out: Annotated[Path, typer.Option(help="The folder to write.", metavar="DIR")],
    format_name: Annotated[
        str, typer.Option("--format", help="benchmarkqed or ragas.", metavar="NAME")
    ] = "benchmarkqed",
    study: StudyFolder = DEFAULT_STUDY,
    as_json: JsonOutput = False,
) -> None:
    """Export questions and answers for BenchmarkQED or ragas."""

    study_files = Study(study)
    if format_name == "questions":
        raise SettingsError(f"{study_files.path('questions')} is already such a file: export benchmarkqed or ragas")
    written: list[str] = []

    def fill(target: Path) -> None:
        for name, text in _export_files(study_files, format_name):
            path = target / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
            written.append(name)

    safe_write.write_folder(out, fill)
    failed = {system: sum(bool(a.failed) for a in study_files.answers(system)) for system in study_files.systems()}
    if as_json:
        jsonl.print_json({"written": str(out), "files": written, "failed": failed})
        return
    print(f"Wrote {out}: {', '.join(written)}.")
    for system, count in failed.items():
        if count:
            print(f"Left out, because they failed: {count:,} answers of {system}.")


def _export_files(study: Study, kind: str) -> Iterator[tuple[str, str]]:
    """Yield (name, text) of each file; ragas: one file for all systems."""

    questions, systems = study.questions(), study.systems()
    if kind == "ragas":
        answers = (answer for system in systems for answer in study.answers(system) if not answer.failed)
        yield "ragas.jsonl", "".join(f"{line}\n" for line in ragas_lines(questions, answers))
        return
    answers_by_name = {quote(system, safe=" =,+-_."): study.answers(system) for system in systems}
    yield from benchmarkqed_files(questions, answers_by_name)
