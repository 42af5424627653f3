"""the questions of a study + an index -> one answer file per system."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

import typer

from kumihimo.app.snapshot import Snapshot
from kumihimo.cli import jsonl, terminal
from kumihimo.cli.cli_session import configure_logging, open_index
from kumihimo.cli.evaluating.options import DEFAULT_STUDY, StudyFolder, SystemNames, split_names
from kumihimo.cli.options import (
    DEFAULT_INDEX,
    CacheFile,
    IndexFolder,
    JsonOutput,
    MaxCalls,
    MaxCost,
    MaxTokens,
    SettingOverrides,
    ShowPrompts,
    Verbose,
)
from kumihimo.core.errors import ItemFailed, SettingsError, describe_unknown
from kumihimo.core.task import Progress
from kumihimo.core.usage import Usage
from kumihimo.evaluate.records import SystemAnswer
from kumihimo.evaluate.run_systems import (
    answer_questions,
    check_questions,
    describe_index,
    describe_run,
    keep_earlier_answers,
)
from kumihimo.evaluate.study import Study
from kumihimo.evaluate.systems import System, select_systems
from kumihimo.llm.budget import Budget, Caps

RepeatedSystems = Annotated[
    str, typer.Option(help="Run these systems twice, to measure variation by chance.", metavar="NAMES")
]


def run(
    methods: SystemNames = "",
    generations: Annotated[int, typer.Option(help="Number of times each system answers all questions.", min=1)] = 1,
    again: RepeatedSystems = "",
    study: StudyFolder = DEFAULT_STUDY,
    folder: IndexFolder = DEFAULT_INDEX,
    options: SettingOverrides = None,
    max_calls: MaxCalls = None,
    max_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    cache: CacheFile = None,
    verbose: Verbose = False,
    show_prompts: ShowPrompts = False,
    as_json: JsonOutput = False,
) -> None:
    """Ask each system the questions of a study, and keep its answers."""

    configure_logging(verbose, show_prompts)
    study_files = Study(study)
    study_files.check_readable()
    with open_index(folder, options, cache) as kumi, kumi.snapshot() as snapshot:
        budget = kumi.models.budget(Caps(max_calls, max_tokens, max_cost))
        systems, left_out = select_systems(snapshot, methods)
        warn_left_out(left_out)
        times = _count_generations(systems, generations, again)
        if max(times.values()) > 1 and not snapshot.models.chat("answer"):
            print("(Without a chat model, all generations are identical.)", file=sys.stderr)
        with terminal.progress_bar(not (verbose or show_prompts)) as progress:
            answers = dict(_answer_questions(study_files, snapshot, systems, times, budget, str(folder), progress))
    summaries = {name: _summarize_answers(rows, times[name]) for name, rows in answers.items()}
    if as_json:
        saved = sum(budget.saved.values(), Usage())
        spent = {"paid": asdict(budget.total), "remembered": asdict(saved)}
        jsonl.print_json({"study": str(study), "systems": summaries, "left_out": left_out, **spent})
    else:
        _show_answers(summaries)
        if budget.total.calls:
            print(
                f"Paid now: {budget.total.calls:,} calls, {budget.total.tokens:,} tokens{_format_cost(budget.total)}."
            )
    failed = [row.failed for rows in answers.values() for row in rows if row.failed]
    if failed:
        total = sum(map(len, answers.values()))
        message = f"{len(failed):,} of {total:,} answers failed; the first: {failed[0]}"
        raise ItemFailed(f"{message}. Run the same command to try them again")


def _count_generations(systems: Sequence[System], generations: int, again: str) -> dict[str, int]:
    """Return the number of generations per system.

    Raises SettingsError if --again names an unknown system.
    """
    times = {system.name: generations for system in systems}
    for name in split_names(again):
        if name not in times:
            raise SettingsError(f"--again {name}: {describe_unknown('system', name, times)}")
        times[name] = max(generations, 2)
    return times


def _answer_questions(
    study: Study,
    snapshot: Snapshot,
    systems: Sequence[System],
    times: Mapping[str, int],
    budget: Budget,
    folder: str,
    progress: Progress | None,
) -> Iterator[tuple[str, list[SystemAnswer]]]:
    """Yield each system's answers, after writing them."""

    questions = study.questions()
    check_questions(questions)
    common = {
        "index": {"folder": folder, **describe_index(snapshot)},
        "questions": file_digest(study.path("questions")),
    }
    for system in systems:
        all_rows: list[SystemAnswer] = []
        for n in range(times[system.name]):
            earlier = list(study.answers(system.name, n)) if n < study.count_generations(system.name) else []
            rows = answer_questions(
                snapshot, system, questions, budget, generation=n, earlier=earlier, progress=progress
            )
            study.write_answers(system.name, n, keep_earlier_answers(rows, earlier))
            all_rows += rows
        entry = {**describe_run(snapshot, system), **common, "generations": times[system.name]}
        study.update_stage("run", **{system.name: entry})
        yield system.name, all_rows


def warn_left_out(left_out: Mapping[str, str]) -> None:
    """Print the methods of the index that were left out."""
    for name, reason in left_out.items():
        print(f"(Left out: {name}. {reason}.)", file=sys.stderr)


def file_digest(path: Path) -> str:
    """Return the digest of a file that a stage reads."""
    return sha256(path.read_bytes()).hexdigest()[:20]


def _summarize_answers(rows: Sequence[SystemAnswer], generations: int) -> dict[str, Any]:
    from statistics import median

    usage = sum((row.usage for row in rows), Usage())
    seconds = [row.seconds for row in rows if row.seconds is not None]
    failed = sum(bool(row.failed) for row in rows)
    return {
        "answered": len(rows) - failed,
        "failed": failed,
        "generations": generations,
        "usage": asdict(usage),
        "median_seconds": median(seconds) if seconds else None,
    }


def _show_answers(summaries: Mapping[str, Mapping[str, Any]]) -> None:
    """Print one line per system, with mean cost."""
    rows = []
    for name, summary in summaries.items():
        n = max(summary["answered"] + summary["failed"], 1)
        usage = Usage(**summary["usage"])
        seconds = "" if summary["median_seconds"] is None else f"{summary['median_seconds']:.2f}"
        costs = (f"{usage.calls / n:,.1f}", f"{usage.tokens / n:,.0f}", f"{usage.cost / n:,.4f}" if usage.cost else "")
        rows.append((name, f"{summary['answered']:,}", f"{summary['failed']:,}", *costs, seconds))
    head = ("system", "answers", "failed", "calls each", "tokens each", "cost each", "median s")
    terminal.show_rows(rows, head=head, numeric=range(1, 7))


def _format_cost(usage: Usage) -> str:
    return f", cost {usage.cost:,.4f}" if usage.cost else ""
