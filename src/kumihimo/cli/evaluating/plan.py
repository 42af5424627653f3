"""a study as it stands -> what is still to be asked of models for it, and what that costs; nobody is asked."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from kumihimo.cli import jsonl, terminal
from kumihimo.cli.cli_session import open_index
from kumihimo.cli.evaluating.options import DEFAULT_STUDY, StudyFolder, SystemNames, split_names
from kumihimo.cli.options import DEFAULT_INDEX, CacheFile, IndexFolder, JsonOutput, SettingOverrides
from kumihimo.core.errors import SettingsError, describe_unknown

if TYPE_CHECKING:
    from kumihimo.app.facade import Kumihimo
    from kumihimo.app.snapshot import Snapshot
    from kumihimo.evaluate.study import Study
    from kumihimo.evaluate.study_plan import StudyEstimate, StudyRequest
    from kumihimo.evaluate.systems import System


def plan(
    methods: SystemNames = "",
    stages: Annotated[
        str, typer.Option(help="Of questions, run, judge, claims, score; none: all of them.", metavar="NAMES")
    ] = "",
    protocol: Annotated[str, typer.Option(help="debiased, graphrag, lightrag or mk.", metavar="NAME")] = "debiased",
    questions: Annotated[
        int, typer.Option(help="For so many questions; 0: those of the study, or 125 where it has none.", min=0)
    ] = 0,
    criteria: Annotated[str, typer.Option(help="Criteria; none: all of the protocol.", metavar="NAMES")] = "",
    replicates: Annotated[int, typer.Option(help="In each order; 0: those of the protocol.", min=0, max=99)] = 0,
    against: Annotated[str, typer.Option(help="Only pairs with this system.", metavar="NAME")] = "",
    generations: Annotated[int, typer.Option(help="How often each system is asked all questions.", min=1)] = 1,
    economy: Annotated[bool, typer.Option("--economy", help="Claims by one reply for each stage.")] = False,
    measures: Annotated[
        str, typer.Option(help="Scores, or groups: words, ragas, assertions, claims, all.", metavar="NAMES")
    ] = "",
    study: StudyFolder = DEFAULT_STUDY,
    folder: IndexFolder = DEFAULT_INDEX,
    options: SettingOverrides = None,
    cache: CacheFile = None,
    as_json: JsonOutput = False,
) -> None:
    """Say what a study would ask of models, and cost, without doing it."""
    from kumihimo.evaluate.claims.stages import ECONOMY_VOTES, PAPER_VOTES
    from kumihimo.evaluate.judging.protocols import PROTOCOLS
    from kumihimo.evaluate.scoring.run_scores import resolve_measures
    from kumihimo.evaluate.study import Study
    from kumihimo.evaluate.study_plan import STAGES, StudyRequest

    if protocol not in PROTOCOLS:
        raise SettingsError(describe_unknown("protocol", protocol, PROTOCOLS))
    for name in split_names(stages):
        if name not in STAGES:
            raise SettingsError(describe_unknown("stage", name, STAGES))
    wanted = StudyRequest(
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
        found = estimate_study(kumi, Study(study), methods, wanted)
    show_study_plan(found, as_json=as_json)


def estimate_study(kumi: Kumihimo, held: Study, methods: str, wanted: StudyRequest) -> StudyEstimate:
    """Of these systems; none named: those that have answered, or else all that the index was built for."""
    from kumihimo.evaluate.cost_estimates import EstimationContext
    from kumihimo.evaluate.study_plan import estimate_stages

    there = held.systems()
    named = methods or ",".join(there)
    asks = {"run", "questions"} & {*wanted.stages} or not there or {*split_names(named)} - {*there}
    with ExitStack() as stack:
        reading = stack.enter_context(kumi.snapshot()) if asks else None
        systems = _resolve_systems(held, reading, named)
        models = EstimationContext(kumi.models, kumi.tokenizer, kumi.models.cache().usage(), reading)
        return estimate_stages(held, models, systems, wanted)


def _resolve_systems(held: Study, reading: Snapshot | None, named: str) -> Sequence[System | str]:
    """Those of ours that can be asked, and by name those that have answered and cannot, or need not."""
    from kumihimo.evaluate.systems import select_systems

    there = held.systems()
    if reading is None:
        return split_names(named)
    found: list[System | str] = []
    for name in split_names(named):
        try:
            found += select_systems(reading, name)[0]
        except SettingsError:
            if name not in there:
                raise
            found.append(name)
    return found or select_systems(reading, "")[0]


def show_study_plan(found: StudyEstimate, *, as_json: bool) -> None:
    many = found.plan
    if as_json:
        shown = {"questions": found.questions, "assumed": found.questions_assumed, "systems": found.systems}
        jsonl.print_json({**shown, **asdict(many), "calls": many.calls, "tokens": many.tokens, "cost": many.cost})
        return
    if found.questions_assumed:
        print(f"The study has no questions yet: {found.questions:,} are assumed, of one kind.")
    print(f"{found.questions:,} questions, {len(found.systems):,} systems: {', '.join(found.systems)}.\n")
    terminal.show_plan(many)
    if many.estimates:
        calls, tokens = (terminal.format_range(much) for much in (many.calls, many.tokens))
        cost = f", cost {terminal.format_range(many.cost, '{:,.2f}')}" if all(e.cost for e in many.estimates) else ""
        print(f"In all: {calls} calls, {tokens} tokens{cost}.")
