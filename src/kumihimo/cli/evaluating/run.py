"""the questions of a study + an index -> the answers of each system, a file each."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
from kumihimo.llm.budget import Budget, Caps

if TYPE_CHECKING:
    from kumihimo.evaluate.records import SystemAnswer
    from kumihimo.evaluate.study import Study
    from kumihimo.evaluate.systems import System

RepeatedSystems = Annotated[
    str, typer.Option(help="Ask these systems once more than the others: what differs is chance.", metavar="NAMES")
]


def run(
    methods: SystemNames = "",
    generations: Annotated[int, typer.Option(help="How often each system is asked all questions.", min=1)] = 1,
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
    """Ask the questions of a study of each system: answers, their evidence, what they took."""
    from kumihimo.evaluate.study import Study
    from kumihimo.evaluate.systems import select_systems

    configure_logging(verbose, show_prompts)
    held = Study(study)
    held.check_readable()
    with open_index(folder, options, cache) as kumi, kumi.snapshot() as reading:
        purse = kumi.models.budget(Caps(max_calls, max_tokens, max_cost))
        systems, left = select_systems(reading, methods)
        warn_left_out(left)
        times = _count_generations(systems, generations, again)
        if max(times.values()) > 1 and not reading.models.chat("answer"):
            print("(Without a chat model every generation says the same.)", file=sys.stderr)
        with terminal.progress_bar(not (verbose or show_prompts)) as progress:
            made = dict(_answer_questions(held, reading, systems, times, purse, str(folder), progress))
    shown = {name: _summarize_answers(rows, times[name]) for name, rows in made.items()}
    if as_json:
        saved = sum(purse.saved.values(), Usage())
        spent = {"paid": asdict(purse.total), "remembered": asdict(saved)}
        jsonl.print_json({"study": str(study), "systems": shown, "left_out": left, **spent})
    else:
        _show_answers(shown)
        if purse.total.calls:
            print(f"Paid now: {purse.total.calls:,} calls, {purse.total.tokens:,} tokens{_format_cost(purse.total)}.")
    failed = [row.failed for rows in made.values() for row in rows if row.failed]
    if failed:
        of = sum(map(len, made.values()))
        said = f"{len(failed):,} of {of:,} answers failed; of the first: {failed[0]}"
        raise ItemFailed(f"{said}. The same command goes on with them")


def _count_generations(systems: Sequence[System], generations: int, again: str) -> dict[str, int]:
    """How often each system is asked. Raises SettingsError where one is to be asked again that is not asked."""
    times = {system.name: generations for system in systems}
    for name in split_names(again):
        if name not in times:
            raise SettingsError(f"--again {name}: {describe_unknown('system', name, times)}")
        times[name] = max(generations, 2)
    return times


def _answer_questions(
    held: Study,
    reading: Snapshot,
    systems: Sequence[System],
    times: Mapping[str, int],
    purse: Budget,
    folder: str,
    progress: Progress | None,
) -> Iterator[tuple[str, list[SystemAnswer]]]:
    """Of each system all answers, written as soon as they are whole."""
    from kumihimo.evaluate.run_systems import (
        answer_questions,
        check_questions,
        describe_index,
        describe_run,
        keep_earlier_answers,
    )

    questions = held.questions()
    check_questions(questions)
    common = {"index": {"folder": folder, **describe_index(reading)}, "questions": file_digest(held.path("questions"))}
    for system in systems:
        all_rows: list[SystemAnswer] = []
        for n in range(times[system.name]):
            before = list(held.answers(system.name, n)) if n < held.count_generations(system.name) else []
            rows = answer_questions(reading, system, questions, purse, generation=n, earlier=before, progress=progress)
            held.write_answers(system.name, n, keep_earlier_answers(rows, before))
            all_rows += rows
        ran = {**describe_run(reading, system), **common, "generations": times[system.name]}
        held.update_stage("run", **{system.name: ran})
        yield system.name, all_rows


def warn_left_out(left: Mapping[str, str]) -> None:
    """Which of the index's methods are left out."""
    for name, why in left.items():
        print(f"(Left out: {name}. {why}.)", file=sys.stderr)


def file_digest(path: Path) -> str:
    """Of a file that a stage has read."""
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


def _show_answers(shown: Mapping[str, Mapping[str, Any]]) -> None:
    """A line a system. Of what answers took: the mean."""
    rows = []
    for name, told in shown.items():
        n = max(told["answered"] + told["failed"], 1)
        usage = Usage(**told["usage"])
        seconds = "" if told["median_seconds"] is None else f"{told['median_seconds']:.2f}"
        each = (f"{usage.calls / n:,.1f}", f"{usage.tokens / n:,.0f}", f"{usage.cost / n:,.4f}" if usage.cost else "")
        rows.append((name, f"{told['answered']:,}", f"{told['failed']:,}", *each, seconds))
    head = ("system", "answers", "failed", "calls each", "tokens each", "cost each", "median s")
    terminal.show_rows(rows, head=head, numeric=range(1, 7))


def _format_cost(usage: Usage) -> str:
    return f", cost {usage.cost:,.4f}" if usage.cost else ""
