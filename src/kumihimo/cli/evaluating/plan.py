"""a study as it stands -> what is still to be asked of models for it, and what that costs; nobody is asked."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from kumihimo.cli import jsonl, terminal
from kumihimo.cli.cli_session import opened
from kumihimo.cli.evaluating.options import STUDY, Folder, Systems, split
from kumihimo.cli.options import HOME, Index, Json, Memo, Set
from kumihimo.core.errors import SettingsError, unknown

if TYPE_CHECKING:
    from kumihimo.app.facade import Kumihimo
    from kumihimo.app.snapshot import Reading
    from kumihimo.evaluate.study import Study
    from kumihimo.evaluate.study_plan import Foreseen, Wanted
    from kumihimo.evaluate.systems import System


def plan(
    methods: Systems = "",
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
    study: Folder = STUDY,
    folder: Index = HOME,
    options: Set = None,
    memo: Memo = None,
    as_json: Json = False,
) -> None:
    """Say what a study would ask of models, and cost, without doing it."""
    from kumihimo.evaluate.claims.stages import ECONOMY, PAPER
    from kumihimo.evaluate.judging.protocols import PROTOCOLS
    from kumihimo.evaluate.scoring.run_scores import chosen
    from kumihimo.evaluate.study import Study
    from kumihimo.evaluate.study_plan import STAGES, Wanted

    if protocol not in PROTOCOLS:
        raise SettingsError(unknown("protocol", protocol, PROTOCOLS))
    for name in split(stages):
        if name not in STAGES:
            raise SettingsError(unknown("stage", name, STAGES))
    wanted = Wanted(
        split(stages) or STAGES,
        PROTOCOLS[protocol],
        questions,
        split(criteria),
        replicates,
        against,
        generations=generations,
        votes=ECONOMY if economy else PAPER,
        measures=chosen(split(measures)),
    )
    with opened(folder, options, memo) as kumi:
        found = foretold(kumi, Study(study), methods, wanted)
    show(found, as_json=as_json)


def foretold(kumi: Kumihimo, held: Study, methods: str, wanted: Wanted) -> Foreseen:
    """Of these systems; none named: those that have answered, or else all that the index was built for."""
    from kumihimo.evaluate.cost_estimates import Models
    from kumihimo.evaluate.study_plan import foreseen

    there = held.systems()
    named = methods or ",".join(there)
    asks = {"run", "questions"} & {*wanted.stages} or not there or {*split(named)} - {*there}
    with ExitStack() as stack:
        reading = stack.enter_context(kumi.reading()) if asks else None
        systems = _systems(held, reading, named)
        models = Models(kumi.models, kumi.ruler, kumi.models.memo().usage(), reading)
        return foreseen(held, models, systems, wanted)


def _systems(held: Study, reading: Reading | None, named: str) -> Sequence[System | str]:
    """Those of ours that can be asked, and by name those that have answered and cannot, or need not."""
    from kumihimo.evaluate.systems import chosen

    there = held.systems()
    if reading is None:
        return split(named)
    found: list[System | str] = []
    for name in split(named):
        try:
            found += chosen(reading, name)[0]
        except SettingsError:
            if name not in there:
                raise
            found.append(name)
    return found or chosen(reading, "")[0]


def show(found: Foreseen, *, as_json: bool) -> None:
    many = found.plan
    if as_json:
        shown = {"questions": found.questions, "assumed": found.assumed, "systems": found.systems}
        jsonl.show({**shown, **asdict(many), "calls": many.calls, "tokens": many.tokens, "cost": many.cost})
        return
    if found.assumed:
        print(f"The study has no questions yet: {found.questions:,} are assumed, of one kind.")
    print(f"{found.questions:,} questions, {len(found.systems):,} systems: {', '.join(found.systems)}.\n")
    terminal.show_plan(many)
    if many.estimates:
        calls, tokens = (terminal.ranged(much) for much in (many.calls, many.tokens))
        cost = f", cost {terminal.ranged(many.cost, '{:,.2f}')}" if all(e.cost for e in many.estimates) else ""
        print(f"In all: {calls} calls, {tokens} tokens{cost}.")
