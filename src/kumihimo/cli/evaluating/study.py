"""the name of a study in the papers -> answers, verdicts, scores and a report, by the other commands."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import asdict, replace
from functools import partial
from io import StringIO
from typing import Annotated, Any

import typer

from kumihimo.app.results import CommunityLevel
from kumihimo.cli import jsonl, terminal
from kumihimo.cli.cli_session import configure_logging, open_index
from kumihimo.cli.evaluating.claims import claims
from kumihimo.cli.evaluating.confirm import confirm_plan
from kumihimo.cli.evaluating.gleanings import run_gleanings_study
from kumihimo.cli.evaluating.judge import judge
from kumihimo.cli.evaluating.options import DEFAULT_STUDY, StudyFolder, split_names
from kumihimo.cli.evaluating.plan import estimate_study
from kumihimo.cli.evaluating.report import report
from kumihimo.cli.evaluating.run import run
from kumihimo.cli.evaluating.score import score
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
from kumihimo.core.usage import Usage
from kumihimo.evaluate.judging.protocols import PROTOCOLS
from kumihimo.evaluate.studies import STUDIES, StudyDesign, window_systems
from kumihimo.evaluate.study import Study
from kumihimo.evaluate.study_plan import StudyRequest
from kumihimo.llm.budget import Caps

_DEFAULT_DOCUMENTS = 10  # for the gleanings study


def study(
    name: Annotated[str, typer.Argument(help="The study to run. Default: list them.", metavar="[NAME]")] = "",
    methods: Annotated[
        str,
        typer.Option("--methods", "-m", help="Only these of its systems; windows: the one to vary.", metavar="NAMES"),
    ] = "",
    protocol: Annotated[
        str, typer.Option(help="Judge by this protocol instead of the study's own.", metavar="NAME")
    ] = "",
    stages: Annotated[
        str, typer.Option(help="Stages: run, judge, claims, score. Default: those of the study.", metavar="NAMES")
    ] = "",
    generations: Annotated[int, typer.Option(help="Number of times each system answers all questions.", min=1)] = 1,
    documents: Annotated[int, typer.Option(help="gleanings: number of documents; 0: all.", min=0)] = _DEFAULT_DOCUMENTS,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Agree to more than 1,000 calls.")] = False,
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
    """Run a study of the papers: levels, windows, gleanings, ablations, arms, discourse."""

    configure_logging(verbose, show_prompts)
    if not name:
        _list_studies(as_json=as_json)
        return
    if name not in STUDIES:
        raise SettingsError(describe_unknown("study", name, STUDIES))
    study_files, caps = Study(study / name), Caps(max_calls, max_tokens, max_cost)
    index_options = {"folder": folder, "options": options, "cache": cache}
    output_options = {"verbose": verbose, "show_prompts": show_prompts, "as_json": as_json}
    if not STUDIES[name].systems:
        run_gleanings_study(study_files, index_options, caps, documents, yes=yes, quiet=as_json)
        return
    design = _adjust_design(name, methods, protocol, stages)
    index_options["options"] = [*design.settings, *(options or ())]
    _copy_questions(Study(study), study_files)
    _confirm_cost(design, study_files, index_options, caps, generations, yes=yes, quiet=as_json)
    levels = _read_levels(index_options) if name == "levels" else ()
    _run_stages(
        _stage_commands(design, study_files, generations), study_files, index_options, caps, output_options, levels
    )


def _list_studies(*, as_json: bool) -> None:

    if as_json:
        fields = ("summary", "paper", "systems", "measured", "stages", "protocol")
        jsonl.print_json(
            {name: {field: getattr(design, field) for field in fields} for name, design in STUDIES.items()}
        )
        return
    rows = [(name, f"{d.summary} By {d.measured}.", d.paper) for name, d in STUDIES.items()]
    terminal.show_rows(rows, head=("study", "", "paper"))
    print("\n`kumi eval study NAME` runs one, after an estimate of its cost.")


def _adjust_design(name: str, methods: str, protocol: str, stages: str) -> StudyDesign:
    """Return the design with the options applied. Raises SettingsError."""

    design = STUDIES[name]
    if name == "windows" and methods:
        design = replace(design, systems=window_systems(methods))
    elif methods:
        design = design.restrict_to(split_names(methods))
    if protocol and protocol not in PROTOCOLS:
        raise SettingsError(describe_unknown("protocol", protocol, PROTOCOLS))
    stage_names = ("run", "judge", "claims", "score")
    for stage in split_names(stages):
        if stage not in stage_names:
            raise SettingsError(describe_unknown("stage", stage, stage_names))
    selected = split_names(stages) or design.stages
    return replace(
        design, protocol=protocol or design.protocol, stages=[stage for stage in stage_names if stage in selected]
    )


def _copy_questions(parent: Study, study: Study) -> None:
    """Copy the questions of the parent study, so all studies share them."""
    questions = parent.questions()
    if study.rows_or_empty("questions") != questions:
        study.write("questions", questions)


def _confirm_cost(
    design: StudyDesign,
    study: Study,
    index_options: Mapping[str, Any],
    caps: Caps,
    generations: int,
    *,
    yes: bool,
    quiet: bool,
) -> None:
    """Show the cost and ask for consent.

    Raises ConsentRequired; IndexUnavailable if a system cannot be asked.
    """

    protocol = PROTOCOLS[design.protocol]
    request = StudyRequest(
        design.stages, protocol, against=design.against, generations=generations, measures=design.measures
    )
    with open_index(**index_options) as kumi:
        confirm_plan(estimate_study(kumi, study, design.method_list, request).plan, caps, yes=yes, quiet=quiet)


Stage = Callable[..., None]


def _stage_commands(design: StudyDesign, study: Study, generations: int) -> dict[str, Stage]:
    """Return the commands of the stages, with the study's options."""
    commands: dict[str, Stage] = {
        "run": partial(run, design.method_list, generations),
        "judge": partial(judge, protocol=design.protocol, methods=design.method_list, against=design.against, yes=True),
        "claims": partial(claims, methods=design.method_list, yes=True),
        "score": partial(score, methods=design.method_list, measures=",".join(design.measures)),
    }
    return {name: partial(commands[name], study=study.folder) for name in design.stages}


def _run_stages(
    stages: Mapping[str, Stage],
    study: Study,
    index_options: Mapping[str, Any],
    caps: Caps,
    output_options: Mapping[str, bool],
    levels: Sequence[CommunityLevel] = (),
) -> None:
    """Run the stages and write the report. Raises ItemFailed at the end."""
    outputs: dict[str, Any] = {}
    failed: list[str] = []
    spent_before = _total_spent(index_options)
    for name, stage in stages.items():
        remaining = _remaining_caps(caps, _total_spent(index_options), spent_before)
        limits = {"max_calls": remaining.calls, "max_tokens": remaining.tokens, "max_cost": remaining.cost}
        print(f"{name} ...", file=sys.stderr)
        try:
            _run_stage(
                partial(stage, **index_options, **limits, **output_options),
                name,
                outputs,
                quiet=output_options["as_json"],
            )
        except ItemFailed as failure:
            failed.append(f"{name}: {failure}")
            if _remaining_caps(caps, _total_spent(index_options), spent_before).reached_by(Usage()):
                break
    neighbours = "mk" in str(stages.get("judge", ""))
    page = study.folder / "report.html"
    write_report = partial(report, [study.folder], page, neighbours=neighbours, as_json=output_options["as_json"])
    _run_stage(write_report, "report", outputs, quiet=output_options["as_json"])
    if output_options["as_json"]:
        extra = {"levels": [asdict(level) for level in levels]} if levels else {}
        jsonl.print_json({"study": str(study.folder), "stages": outputs, "failed": failed, **extra})
    elif levels:
        print("\nWhat a question to each level reads:")
        terminal.show_levels(levels)
    if failed:
        raise ItemFailed("; ".join(failed))


def _run_stage(stage: Stage, name: str, outputs: dict[str, Any], *, quiet: bool) -> None:
    """Run a stage; quiet: capture its JSON to print with the rest."""
    captured = StringIO()
    try:
        with redirect_stdout(captured) if quiet else nullcontext():
            stage()
    finally:
        if captured.getvalue():
            outputs[name] = json.loads(captured.getvalue())


def _total_spent(index_options: Mapping[str, Any]) -> Usage:
    with open_index(**index_options) as kumi:
        return sum((spent.usage for spent in kumi.spent() if spent.kind == "spent"), Usage())


def _remaining_caps(caps: Caps, now: Usage, before: Usage) -> Caps:
    """Return what is left of the caps of the whole study."""
    calls = None if caps.calls is None else max(caps.calls - now.calls + before.calls, 0)
    tokens = None if caps.tokens is None else max(caps.tokens - now.tokens + before.tokens, 0)
    cost = None if caps.cost is None else max(caps.cost - now.cost + before.cost, 0.0)
    return Caps(calls, tokens, cost)


def _read_levels(index_options: Mapping[str, Any]) -> Sequence[CommunityLevel]:
    """Return what a question to each community level reads."""
    with open_index(**index_options) as kumi:
        return kumi.status(levels=True).levels
