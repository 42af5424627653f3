"""the name of a study of the papers -> its systems asked, judged, scored, and a report: the other commands in a row."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import asdict, replace
from functools import partial
from io import StringIO
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kumihimo.cli import jsonl, terminal
from kumihimo.cli.cli_session import configure_logging, open_index
from kumihimo.cli.evaluating.claims import claims
from kumihimo.cli.evaluating.confirm import confirm_plan
from kumihimo.cli.evaluating.judge import judge
from kumihimo.cli.evaluating.options import DEFAULT_STUDY, StudyFolder, split_names
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
from kumihimo.llm.budget import Caps

if TYPE_CHECKING:
    from kumihimo.app.results import CommunityLevel
    from kumihimo.evaluate.studies import StudyDesign
    from kumihimo.evaluate.study import Study

_DEFAULT_DOCUMENTS = 10  # that gleanings are tried on


def study(
    name: Annotated[str, typer.Argument(help="Which study; none: list them.", metavar="[NAME]")] = "",
    methods: Annotated[
        str,
        typer.Option("--methods", "-m", help="Of its systems only these; windows: the one to vary.", metavar="NAMES"),
    ] = "",
    protocol: Annotated[str, typer.Option(help="Judge by this one instead of the study's own.", metavar="NAME")] = "",
    stages: Annotated[
        str, typer.Option(help="Of run, judge, claims, score; none: those of the study.", metavar="NAMES")
    ] = "",
    generations: Annotated[int, typer.Option(help="How often each system is asked all questions.", min=1)] = 1,
    documents: Annotated[
        int, typer.Option(help="gleanings: of so many documents; 0: all.", min=0)
    ] = _DEFAULT_DOCUMENTS,
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
    from kumihimo.evaluate.studies import STUDIES
    from kumihimo.evaluate.study import Study

    configure_logging(verbose, show_prompts)
    if not name:
        _list_studies(as_json=as_json)
        return
    if name not in STUDIES:
        raise SettingsError(describe_unknown("study", name, STUDIES))
    held, caps = Study(study / name), Caps(max_calls, max_tokens, max_cost)
    given = {"folder": folder, "options": options, "cache": cache}
    shown = {"verbose": verbose, "show_prompts": show_prompts, "as_json": as_json}
    if not STUDIES[name].systems:
        from kumihimo.cli.evaluating.gleanings import run_gleanings_study

        run_gleanings_study(held, given, caps, documents, yes=yes, quiet=as_json)
        return
    design = _adjust_design(name, methods, protocol, stages)
    given["options"] = [*design.settings, *(options or ())]
    _copy_questions(Study(study), held)
    _confirm_cost(design, held, given, caps, generations, yes=yes, quiet=as_json)
    levels = _read_levels(given) if name == "levels" else ()
    _run_stages(_stage_commands(design, held, generations), held, given, caps, shown, levels)


def _list_studies(*, as_json: bool) -> None:
    from kumihimo.evaluate.studies import STUDIES

    if as_json:
        told = ("summary", "paper", "systems", "measured", "stages", "protocol")
        jsonl.print_json({name: {field: getattr(design, field) for field in told} for name, design in STUDIES.items()})
        return
    rows = [(name, f"{d.summary} By {d.measured}.", d.paper) for name, d in STUDIES.items()]
    terminal.show_rows(rows, head=("study", "", "paper"))
    print("\n`kumi eval study NAME` runs one: it says first what it costs.")


def _adjust_design(name: str, methods: str, protocol: str, stages: str) -> StudyDesign:
    """With what is to be otherwise. Raises SettingsError."""
    from kumihimo.evaluate.judging.protocols import PROTOCOLS
    from kumihimo.evaluate.studies import STUDIES, window_systems

    design = STUDIES[name]
    if name == "windows" and methods:
        design = replace(design, systems=window_systems(methods))
    elif methods:
        design = design.restrict_to(split_names(methods))
    if protocol and protocol not in PROTOCOLS:
        raise SettingsError(describe_unknown("protocol", protocol, PROTOCOLS))
    known = ("run", "judge", "claims", "score")
    for stage in split_names(stages):
        if stage not in known:
            raise SettingsError(describe_unknown("stage", stage, known))
    chosen = split_names(stages) or design.stages
    return replace(design, protocol=protocol or design.protocol, stages=[stage for stage in known if stage in chosen])


def _copy_questions(given: Study, held: Study) -> None:
    """Those of the study above, so that all studies of the papers are about the same ones."""
    questions = given.questions()
    if held.rows_or_empty("questions") != questions:
        held.write("questions", questions)


def _confirm_cost(
    design: StudyDesign,
    held: Study,
    given: Mapping[str, Any],
    caps: Caps,
    generations: int,
    *,
    yes: bool,
    quiet: bool,
) -> None:
    """What it costs, and whether that is wanted. Raises NeedsConsent; Unusable where a system cannot be asked."""
    from kumihimo.cli.evaluating.plan import estimate_study
    from kumihimo.evaluate.judging.protocols import PROTOCOLS
    from kumihimo.evaluate.study_plan import StudyRequest

    protocol = PROTOCOLS[design.protocol]
    wanted = StudyRequest(
        design.stages, protocol, against=design.against, generations=generations, measures=design.measures
    )
    with open_index(**given) as kumi:
        confirm_plan(estimate_study(kumi, held, design.method_list, wanted).plan, caps, yes=yes, quiet=quiet)


Stage = Callable[..., None]


def _stage_commands(design: StudyDesign, held: Study, generations: int) -> dict[str, Stage]:
    """The commands, with what the study says of them."""
    found: dict[str, Stage] = {
        "run": partial(run, design.method_list, generations),
        "judge": partial(judge, protocol=design.protocol, methods=design.method_list, against=design.against, yes=True),
        "claims": partial(claims, methods=design.method_list, yes=True),
        "score": partial(score, methods=design.method_list, measures=",".join(design.measures)),
    }
    return {name: partial(found[name], study=held.folder) for name in design.stages}


def _run_stages(
    stages: Mapping[str, Stage],
    held: Study,
    given: Mapping[str, Any],
    caps: Caps,
    shown: Mapping[str, bool],
    levels: Sequence[CommunityLevel] = (),
) -> None:
    """One after the other, and the report. Raises ItemFailed at the end, where some of it failed."""
    told: dict[str, Any] = {}
    failed: list[str] = []
    before = _total_spent(given)
    for name, stage in stages.items():
        left = _remaining_caps(caps, _total_spent(given), before)
        each = {"max_calls": left.calls, "max_tokens": left.tokens, "max_cost": left.cost}
        print(f"{name} ...", file=sys.stderr)
        try:
            _run_stage(partial(stage, **given, **each, **shown), name, told, quiet=shown["as_json"])
        except ItemFailed as failure:
            failed.append(f"{name}: {failure}")
            if _remaining_caps(caps, _total_spent(given), before).reached_by(Usage()):
                break
    neighbours = "mk" in str(stages.get("judge", ""))
    page = held.folder / "report.html"
    written = partial(report, [held.folder], page, neighbours=neighbours, as_json=shown["as_json"])
    _run_stage(written, "report", told, quiet=shown["as_json"])
    if shown["as_json"]:
        more = {"levels": [asdict(level) for level in levels]} if levels else {}
        jsonl.print_json({"study": str(held.folder), "stages": told, "failed": failed, **more})
    elif levels:
        print("\nWhat a question to each level reads:")
        terminal.show_levels(levels)
    if failed:
        raise ItemFailed("; ".join(failed))


def _run_stage(stage: Stage, name: str, told: dict[str, Any], *, quiet: bool) -> None:
    """Run it; for a program what it prints is kept, to be one document with the rest."""
    said = StringIO()
    try:
        with redirect_stdout(said) if quiet else nullcontext():
            stage()
    finally:
        if said.getvalue():
            told[name] = json.loads(said.getvalue())


def _total_spent(given: Mapping[str, Any]) -> Usage:
    with open_index(**given) as kumi:
        return sum((spent.usage for spent in kumi.spent() if spent.kind == "spent"), Usage())


def _remaining_caps(caps: Caps, now: Usage, before: Usage) -> Caps:
    """What is left to be spent, of what the whole study may."""
    calls = None if caps.calls is None else max(caps.calls - now.calls + before.calls, 0)
    tokens = None if caps.tokens is None else max(caps.tokens - now.tokens + before.tokens, 0)
    cost = None if caps.cost is None else max(caps.cost - now.cost + before.cost, 0.0)
    return Caps(calls, tokens, cost)


def _read_levels(given: Mapping[str, Any]) -> Sequence[CommunityLevel]:
    """What a question to each level reads."""
    with open_index(**given) as kumi:
        return kumi.status(levels=True).levels
