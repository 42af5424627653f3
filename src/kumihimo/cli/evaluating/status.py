"""a study -> its contents, and the commands that add to it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from kumihimo.cli import jsonl, terminal
from kumihimo.cli.evaluating.options import DEFAULT_STUDY, StudyFolder
from kumihimo.cli.options import JsonOutput
from kumihimo.evaluate.study import FILE_COMMANDS, ROW_TYPES, Study


def status(study: StudyFolder = DEFAULT_STUDY, as_json: JsonOutput = False) -> None:
    """Show the contents of a study and the commands for more."""

    study_files = Study(study)
    study_files.check_folder()
    rows: dict[str, Any] = {
        name: sum(1 for _ in study_files.rows(name, ROW_TYPES[name])) for name in ROW_TYPES if study_files.has(name)
    }
    answers: dict[str, dict[str, int]] = {}
    for system in study_files.systems():
        outcomes: Counter[str] = Counter(_outcome(row) for row in study_files.answers(system))
        answers[system] = {"generations": study_files.count_generations(system), **outcomes}
    made_by = {"questions": FILE_COMMANDS["questions"], "answers": "kumi eval run", **FILE_COMMANDS}
    missing = {
        name: adding_command
        for name, adding_command in made_by.items()
        if name not in rows and (name != "answers" or not answers)
    }
    if as_json:
        jsonl.print_json({"folder": str(study), "rows": rows, "answers": answers, "missing": missing})
        return
    table = [(name, f"{count:,} rows") for name, count in rows.items()]
    table += [(system, _describe_answers(counts)) for system, counts in answers.items()]
    table += [(name, f"not there yet: `{command}`") for name, command in missing.items()]
    terminal.show_rows(table)


def _describe_answers(counts: dict[str, int]) -> str:
    times = counts["generations"]
    parts = ", ".join(f"{n:,} {outcome}" for outcome, n in counts.items() if outcome != "generations")
    return parts + (f", {times} generations" if times > 1 else "")


def _outcome(row: Any) -> str:
    return "failed" if row.failed else "answered"
