"""a study -> the model calls still to make, and their cost."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from typing import Annotated

import typer

from kumihimo.app.facade import Kumihimo
from kumihimo.app.snapshot import Snapshot
from kumihimo.cli import jsonl, terminal
from kumihimo.cli.cli_session import open_index
from kumihimo.cli.evaluating.options import DEFAULT_STUDY, StudyFolder, SystemNames, split_names
from kumihimo.cli.options import DEFAULT_INDEX, CacheFile, IndexFolder, JsonOutput, SettingOverrides
from kumihimo.core.errors import SettingsError, describe_unknown
from kumihimo.evaluate.claims.stages import ECONOMY_VOTES, PAPER_VOTES
from kumihimo.evaluate.cost_estimates import EstimationContext
from kumihimo.evaluate.judging.protocols import PROTOCOLS
from kumihimo.evaluate.scoring.run_scores import resolve_measures
from kumihimo.evaluate.study import Study
from kumihimo.evaluate.study_plan import STAGES, StudyEstimate, StudyRequest, estimate_stages
from kumihimo.evaluate.systems import System, select_systems


def plan(
    methods: SystemNames = "",
    stages: Annotated[
        str, typer.Option(help="Stages: questions, run, judge, claims, score. Default: all.", metavar="NAMES")
    ] = "",
    protocol: Annotated[str, typer.Option(help="debiased, graphrag, lightrag or mk.", metavar="NAME")] = "debiased",
    questions: Annotated[
        int, typer.Option(help="Number of questions; 0: those of the study, or 125 if it has none.", min=0)
    ] = 0,
    criteria: Annotated[str, typer.Option(help="Criteria. Default: all of the protocol.", metavar="NAMES")] = "",
    replicates: Annotated[
        int, typer.Option(help="Replicates in each order; 0: as the protocol says.", min=0, max=99)
    ] = 0,
    against: Annotated[str, typer.Option(help="Only pairs with this system.", metavar="NAME")] = "",
    generations: Annotated[int, typer.Option(help="Number of times each system answers all questions.", min=1)] = 1,
    economy: Annotated[bool, typer.Option("--economy", help="Claims with one reply per stage.")] = False,
    measures: Annotated[
        str, typer.Option(help="Measures, or groups: words, ragas, assertions, claims, all.", metavar="NAMES")
    ] = "",
    study: StudyFolder = DEFAULT_STUDY,
    folder: IndexFolder = DEFAULT_INDEX,
    options: SettingOverrides = None,
    cache: CacheFile = None,
    as_json: JsonOutput = False,
) -> None:
    """Estimate the model calls and the cost of a study."""

    if protocol not in PROTOCOLS:
        raise SettingsError(describe_unknown("protocol", protocol, PROTOCOLS))
    for name in split_names(stages):
        if name not in STAGES:
            raise SettingsError(describe_unknown("stage", name, STAGES))
    request = StudyRequest(
        split_names(stages) or STAGES,
        PROTOCOLS[protocol],
        questions,
        split_names(criteria),
        replicates,
        against,
        generations=generations,
        votes=ECONOMY_VOTES if economy else PAPER_VOTES,
        measures=resolve_measures(split_names(measures)),
    )
    with open_index(folder, options, cache) as kumi:
        estimate = estimate_study(kumi, Study(study), methods, request)
    show_study_plan(estimate, as_json=as_json)


def estimate_study(kumi: Kumihimo, study: Study, methods: str, request: StudyRequest) -> StudyEstimate:
    """Estimate the calls of a study for these systems.

    methods empty: the systems that have answered, else all methods of the index.
    """

    answered = study.systems()
    names = methods or ",".join(answered)
    needs_index = {"run", "questions"} & {*request.stages} or not answered or {*split_names(names)} - {*answered}
    with ExitStack() as stack:
        snapshot = stack.enter_context(kumi.snapshot()) if needs_index else None
        systems = _resolve_systems(study, snapshot, names)
        models = EstimationContext(kumi.models, kumi.tokenizer, kumi.models.cache().usage(), snapshot)
        return estimate_stages(study, models, systems, request)


def _resolve_systems(study: Study, snapshot: Snapshot | None, names: str) -> Sequence[System | str]:
    """Return systems to ask, or the names of answered ones.

    Raises SettingsError for a name that is neither.
    """

    answered = study.systems()
    if snapshot is None:
        return split_names(names)
    systems: list[System | str] = []
    for name in split_names(names):
        try:
            systems += select_systems(snapshot, name)[0]
        except SettingsError:
            if name not in answered:
                raise
            systems.append(name)
    return systems or select_systems(snapshot, "")[0]


def show_study_plan(estimate: StudyEstimate, *, as_json: bool) -> None:
    total = estimate.plan
    if as_json:
        summary = {"questions": estimate.questions, "assumed": estimate.questions_assumed, "systems": estimate.systems}
        jsonl.print_json({**summary, **asdict(total), "calls": total.calls, "tokens": total.tokens, "cost": total.cost})
        return
    if estimate.questions_assumed:
        print(f"The study has no questions yet: {estimate.questions:,} are assumed, all of one kind.")
    print(f"{estimate.questions:,} questions, {len(estimate.systems):,} systems: {', '.join(estimate.systems)}.\n")
    terminal.show_plan(total)
    if total.estimates:
        calls, tokens = (terminal.format_range(bounds) for bounds in (total.calls, total.tokens))
        cost = f", cost {terminal.format_range(total.cost, '{:,.2f}')}" if all(e.cost for e in total.estimates) else ""
        print(f"In all: {calls} calls, {tokens} tokens{cost}.")
