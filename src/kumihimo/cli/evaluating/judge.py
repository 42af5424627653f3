"""the answers of a study -> verdicts on pairs or ratings, win rates and bias checks."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from kumihimo.cli import jsonl, terminal
from kumihimo.cli.cli_session import configure_logging, open_index
from kumihimo.cli.evaluating.judge_steps import JudgingRun
from kumihimo.cli.evaluating.options import DEFAULT_STUDY, AnsweredSystems, StudyFolder, split_names
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
from kumihimo.evaluate.judging.protocols import PROTOCOLS
from kumihimo.evaluate.judging.study_verdicts import select_judge_inputs
from kumihimo.evaluate.study import Study
from kumihimo.llm.budget import Caps

ProtocolName = Annotated[str, typer.Option(help="debiased, graphrag, lightrag or mk.", metavar="NAME")]
StripOption = Annotated[
    Literal["none", "markdown", "citations", "all"] | None,
    typer.Option(help="Marks to remove from answers before judging; debiased: all, others: none."),
]
OrderOption = Annotated[
    Literal["fixed", "alternate", "both"] | None,
    typer.Option(help="Order of the two answers: fixed, alternating, or both for each replicate."),
]
SampleOption = Annotated[int, typer.Option(help="Judge only this many questions, the same each time; 0: all.", min=0)]
SelfCompared = Annotated[
    str, typer.Option(help="Compare these systems with their own second generation: all, none, names.", metavar="NAMES")
]


def judge(
    study: StudyFolder = DEFAULT_STUDY,
    protocol: ProtocolName = "debiased",
    methods: AnsweredSystems = "",
    criteria: Annotated[str, typer.Option(help="Criteria. Default: all of the protocol.", metavar="NAMES")] = "",
    replicates: Annotated[
        int, typer.Option(help="Replicates in each order; 0: as the protocol says.", min=0, max=99)
    ] = 0,
    order: OrderOption = None,
    against: Annotated[str, typer.Option(help="Only pairs with this system.", metavar="NAME")] = "",
    sample: SampleOption = 0,
    same: SelfCompared = "all",
    strip: StripOption = None,
    second: Annotated[
        float, typer.Option(help="Percent of calls repeated with the second judge.", min=0, max=100)
    ] = 10,
    max_invalid: Annotated[float, typer.Option(help="Maximum percent of invalid replies.", min=0, max=100)] = 2,
    alone: Annotated[bool, typer.Option("--alone", help="mk: one system per call.")] = False,
    context_tokens: Annotated[int, typer.Option(help="mk: tokens of evidence shown per system.", min=0)] = 2000,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Agree to more than 1,000 calls.")] = False,
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
    """Let a judge model compare answers in pairs, or rate them."""

    configure_logging(verbose, show_prompts)
    if protocol not in PROTOCOLS:
        raise SettingsError(describe_unknown("protocol", protocol, PROTOCOLS))
    caps = Caps(max_calls, max_tokens, max_cost)
    study_files = Study(study)
    inputs = select_judge_inputs(
        study_files, systems=split_names(methods), against=against, sample=sample, aa_systems=split_names(same)
    )
    study_files.check_readable("ratings" if protocol == "mk" else "verdicts")
    judge_options = {
        "criteria": split_names(criteria),
        "replicates": replicates,
        "order": order or "",
        "against": against,
    }
    with open_index(folder, options, cache) as kumi, terminal.progress_bar(not (verbose or show_prompts)) as progress:
        run = JudgingRun(study_files, PROTOCOLS[protocol], inputs, kumi, caps, yes, as_json, progress, strip)
        if protocol == "mk":
            summary = run.rate(replicates or 1, context_tokens, alone=alone)
        else:
            summary = run.compare(judge_options, second, max_invalid)
    if as_json:
        jsonl.print_json(summary)
    _raise_failures(summary, max_invalid)


def _raise_failures(summary: dict[str, Any], max_invalid: float) -> None:
    """Raise ItemFailed if rows failed or too many were invalid."""
    rows, errors = summary["rows"], summary["why"]
    total = sum(rows.values())
    if rows["failed"]:
        raise ItemFailed(
            f"{rows['failed']:,} of {total:,} rows failed: run the same command to try them again; the first: "
            f"{errors['failed']}"
        )
    if rows["invalid"] * 100 > max_invalid * total:
        raise ItemFailed(
            f"{rows['invalid']:,} of {total:,} rows are invalid, more than {max_invalid:g} %: set another model under "
            f"[judge], or allow more with --max-invalid; the first: {errors['invalid']}"
        )
