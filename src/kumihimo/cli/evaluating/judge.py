"""answers of a study -> verdicts on their pairs, or ratings; what they come to, and what else decided."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from kumihimo.cli import jsonl, terminal
from kumihimo.cli.cli_session import configure_logging, open_index
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
from kumihimo.llm.budget import Caps

ProtocolName = Annotated[str, typer.Option(help="debiased, graphrag, lightrag or mk.", metavar="NAME")]
StripOption = Annotated[
    Literal["none", "markdown", "citations", "all"] | None,
    typer.Option(help="Marks to take out of answers before they are shown; debiased: all, others: none."),
]
OrderOption = Annotated[
    Literal["fixed", "alternate", "both"] | None,
    typer.Option(help="Which answer is shown first: always the same, in turns, each replicate both ways."),
]
SampleOption = Annotated[
    int, typer.Option(help="Judge this many questions only, the same ones each time; 0: all.", min=0)
]
SelfCompared = Annotated[
    str, typer.Option(help="Compare these with another generation of themselves: all, none, names.", metavar="NAMES")
]


def judge(
    study: StudyFolder = DEFAULT_STUDY,
    protocol: ProtocolName = "debiased",
    methods: AnsweredSystems = "",
    criteria: Annotated[str, typer.Option(help="Criteria; none: all of the protocol.", metavar="NAMES")] = "",
    replicates: Annotated[int, typer.Option(help="In each order; 0: those of the protocol.", min=0, max=99)] = 0,
    order: OrderOption = None,
    against: Annotated[str, typer.Option(help="Only pairs with this system.", metavar="NAME")] = "",
    sample: SampleOption = 0,
    same: SelfCompared = "all",
    strip: StripOption = None,
    second: Annotated[float, typer.Option(help="Percent of calls for the second judge.", min=0, max=100)] = 10,
    max_invalid: Annotated[float, typer.Option(help="Percent of replies that may be unreadable.", min=0, max=100)] = 2,
    alone: Annotated[bool, typer.Option("--alone", help="mk: one system a call.")] = False,
    context_tokens: Annotated[int, typer.Option(help="mk: tokens shown of what each system found.", min=0)] = 2000,
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
    """Have a judge compare the answers of every pair of systems, or rate each of them."""
    from kumihimo.cli.evaluating.judge_steps import JudgingRun
    from kumihimo.evaluate.judging.protocols import PROTOCOLS
    from kumihimo.evaluate.judging.study_verdicts import select_judge_inputs
    from kumihimo.evaluate.study import Study

    configure_logging(verbose, show_prompts)
    if protocol not in PROTOCOLS:
        raise SettingsError(describe_unknown("protocol", protocol, PROTOCOLS))
    caps = Caps(max_calls, max_tokens, max_cost)
    where = Study(study)
    found = select_judge_inputs(
        where, systems=split_names(methods), against=against, sample=sample, aa_systems=split_names(same)
    )
    where.check_readable("ratings" if protocol == "mk" else "verdicts")
    given = {"criteria": split_names(criteria), "replicates": replicates, "order": order or "", "against": against}
    with open_index(folder, options, cache) as kumi, terminal.progress_bar(not (verbose or show_prompts)) as progress:
        run = JudgingRun(where, PROTOCOLS[protocol], found, kumi, caps, yes, as_json, progress, strip)
        if protocol == "mk":
            told = run.rate(replicates or 1, context_tokens, alone=alone)
        else:
            told = run.compare(given, second, max_invalid)
    if as_json:
        jsonl.print_json(told)
    _raise_failures(told, max_invalid)


def _raise_failures(told: dict[str, Any], max_invalid: float) -> None:
    """Raises ItemFailed where some could not be judged, or too many replies could not be read."""
    rows, why = told["rows"], told["why"]
    total = sum(rows.values())
    if rows["failed"]:
        raise ItemFailed(
            f"{rows['failed']:,} of {total:,} rows failed: the same command again asks for them alone; of the first: "
            f"{why['failed']}"
        )
    if rows["invalid"] * 100 > max_invalid * total:
        raise ItemFailed(
            f"{rows['invalid']:,} of {total:,} rows are invalid, more than {max_invalid:g} %: set another model under "
            f"[judge], or allow more by --max-invalid; of the first: {why['invalid']}"
        )
