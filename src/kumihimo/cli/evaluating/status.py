"""a study -> what it holds, and which command adds to it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from kumihimo.cli import jsonl, terminal
from kumihimo.cli.evaluating.options import DEFAULT_STUDY, StudyFolder
from kumihimo.cli.options import JsonOutput


def status(study: StudyFolder = DEFAULT_STUDY, as_json: JsonOutput = False) -> None:
    """Show what a study holds: questions, answers, verdicts, scores, and the commands that add to it."""
    from kumihimo.evaluate.study import FILE_COMMANDS, ROW_TYPES, Study

    held = Study(study)
    held.check_folder()
    rows: dict[str, Any] = {
        name: sum(1 for _ in held.rows(name, ROW_TYPES[name])) for name in ROW_TYPES if held.has(name)
    }
    answers: dict[str, dict[str, int]] = {}
    for system in held.systems():
        found: Counter[str] = Counter(_outcome(row) for row in held.answers(system))
        answers[system] = {"generations": held.count_generations(system), **found}
    made_by = {"questions": FILE_COMMANDS["questions"], "answers": "kumi eval run", **FILE_COMMANDS}
    missing = {name: by for name, by in made_by.items() if name not in rows and (name != "answers" or not answers)}
    if as_json:
        jsonl.print_json({"folder": str(study), "rows": rows, "answers": answers, "missing": missing})
        return
    listed = [(name, f"{count:,} rows") for name, count in rows.items()]
    listed += [(system, _describe_answers(told)) for system, told in answers.items()]
    listed += [(name, f"not there yet: `{command}`") for name, command in missing.items()]
    terminal.show_rows(listed)


def _describe_answers(told: dict[str, int]) -> str:
    times = told["generations"]
    found = ", ".join(f"{n:,} {what}" for what, n in told.items() if what != "generations")
    return found + (f", asked {times} times" if times > 1 else "")


def _outcome(row: Any) -> str:
    return "failed" if row.failed else "answered"
