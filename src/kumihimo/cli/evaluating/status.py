"""a study -> what it holds, and which command adds to it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from kumihimo.cli import jsonl, terminal
from kumihimo.cli.evaluating.options import STUDY, Folder
from kumihimo.cli.options import Json


def status(study: Folder = STUDY, as_json: Json = False) -> None:
    """Show what a study holds: questions, answers, verdicts, scores, and the commands that add to it."""
    from kumihimo.evaluate.study import FILES, MADE_BY, Study

    held = Study(study)
    held.check()
    rows: dict[str, Any] = {name: sum(1 for _ in held.rows(name, FILES[name])) for name in FILES if held.has(name)}
    answers: dict[str, dict[str, int]] = {}
    for system in held.systems():
        found: Counter[str] = Counter(_outcome(row) for row in held.answers(system))
        answers[system] = {"generations": held.generations(system), **found}
    made_by = {"questions": MADE_BY["questions"], "answers": "kumi eval run", **MADE_BY}
    missing = {name: by for name, by in made_by.items() if name not in rows and (name != "answers" or not answers)}
    if as_json:
        jsonl.show({"folder": str(study), "rows": rows, "answers": answers, "missing": missing})
        return
    listed = [(name, f"{count:,} rows") for name, count in rows.items()]
    listed += [(system, _told(told)) for system, told in answers.items()]
    listed += [(name, f"not there yet: `{command}`") for name, command in missing.items()]
    terminal.show_rows(listed)


def _told(told: dict[str, int]) -> str:
    times = told["generations"]
    found = ", ".join(f"{n:,} {what}" for what, n in told.items() if what != "generations")
    return found + (f", asked {times} times" if times > 1 else "")


def _outcome(row: Any) -> str:
    return "failed" if row.failed else "answered"
