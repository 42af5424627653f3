"""a study, or the name of a published one -> its estimated cost; its answers, verdicts, scores and report."""

import json
from collections.abc import Callable, Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import asdict, replace
from functools import partial
from io import StringIO
from math import comb
from typing import Annotated, Any

from typer import Argument, Option

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.facade import Kumihimo
from kumihimo.cli import builds, options, printing, terminal
from kumihimo.cli.evaluating import judge, options as shared, run, study_files
from kumihimo.core.errors import IndexUnavailable, ItemFailed, SettingsError
from kumihimo.core.usage import Usage
from kumihimo.evaluate.claims.stages import ECONOMY_VOTES, PAPER_VOTES
from kumihimo.evaluate.judging.protocols import PROTOCOLS
from kumihimo.evaluate.paper_studies import STUDY_NAMES, StudyDesign, read_design, window_systems
from kumihimo.evaluate.paper_tables import fill_tables, write_tables
from kumihimo.evaluate.power import (
    LARGEST_DEVIATION,
    SMALL_PILOT,
    SMALLEST_DIFFERENCE,
    QuestionsNeeded,
    find_questions_needed,
)
from kumihimo.evaluate.report.summary_data import load_study_results
from kumihimo.evaluate.scoring.run_scores import resolve_measures
from kumihimo.evaluate.statistics import questions_for
from kumihimo.evaluate.study_plan import STAGES, EstimationContext, StudyEstimate, StudyRequest, estimate_stages
from kumihimo.evaluate.systems import System, select_systems

# -- estimates


def plan(
    study: shared.StudyOption,
    session: options.IndexSession,
    methods: shared.SystemNames = "",
    stages: Annotated[
        str, Option(help="Stages: questions, run, judge, claims, score. Default: all.", metavar="NAMES")
    ] = "",
    protocol: shared.ProtocolName = "debiased",
    questions: Annotated[
        int, Option(help="Number of questions; 0: those of the study, or 125 if it has none.", min=0)
    ] = 0,
    criteria: shared.Criteria = "",
    replicates: shared.Replicates = 0,
    against: shared.Against = "",
    generations: shared.Generations = 1,
    economy: Annotated[bool, Option("--economy", help="Claims with one reply per stage.")] = False,
    measures: shared.MeasureNames = "",
    detect: Annotated[
        float, Option(help="Also say how many questions show a difference of D points of 100.", metavar="D", min=0)
    ] = 0,
) -> None:
    """Estimate the model calls and the cost of a study."""
    options.check_choice("protocol", protocol, PROTOCOLS)
    for name in options.split_names(stages):
        options.check_choice("stage", name, STAGES)
    if detect and not SMALLEST_DIFFERENCE <= detect <= 100:
        raise SettingsError(f"--detect {detect:g}: write points from {SMALLEST_DIFFERENCE} to 100")
    stage_names = options.split_names(stages) or STAGES
    votes = ECONOMY_VOTES if economy else PAPER_VOTES
    request = StudyRequest(stage_names, PROTOCOLS[protocol], questions, options.split_names(criteria))
    request = replace(request, replicates=replicates, against=against, generations=generations, votes=votes)
    request = replace(request, measures=resolve_measures(options.split_names(measures)))
    with session.open() as kumi:
        estimate = _estimate_study(kumi, study, methods, request)
    total = estimate.plan
    summary = {"questions": estimate.questions, "assumed": estimate.questions_assumed, "systems": estimate.systems}
    sums = {"calls": total.calls, "tokens": total.total.tokens, "cost": total.cost}
    needed = _questions_needed(study, detect, len(estimate.systems), against) if detect else []
    document = {**summary, **asdict(total), **sums} | ({"detect": needed} if detect else {})
    session.show(document, lambda _: _show_estimate(estimate, needed, detect))


def _questions_needed(
    study: shared.StudyOption, difference: float, systems: int, against: str
) -> list[QuestionsNeeded]:
    """Return the questions needed by the study's spread, else the largest."""
    if study.has("questions") and (rows := list(find_questions_needed(study, difference))):
        return rows
    family = max(systems - 1 if against else comb(systems, 2), 1)
    largest = {"win rate, at most ±50": LARGEST_DEVIATION, "score from 0 to 1, at most ±1": 2 * LARGEST_DEVIATION}
    return [
        QuestionsNeeded(name, "", "", 0, family, questions_for(difference, deviation, family))
        for name, deviation in largest.items()
    ]


def _estimate_study(kumi: Kumihimo, study: shared.StudyOption, methods: str, request: StudyRequest) -> StudyEstimate:
    """Estimate the calls of a study for these systems.

    methods empty: the systems that have answered, else all methods of the index.
    """
    answered = study.systems()
    names = options.split_names(methods) or answered
    needs_index = {"run", "questions"} & {*request.stages} or not answered or {*names} - {*answered}
    with kumi.snapshot() if needs_index else nullcontext() as snapshot:
        systems = _resolve_systems(snapshot, names, answered) if snapshot else names
        models = EstimationContext(kumi.models, kumi.tokenizer, kumi.models.cache().usage(), snapshot)
        return estimate_stages(study, models, systems, request)


def _resolve_systems(snapshot: Snapshot, names: Sequence[str], answered: Sequence[str]) -> Sequence[System | str]:
    """Return the systems, by name if they have only answered elsewhere.

    Raises SettingsError for a name that is neither.
    """
    systems: list[System | str] = []
    for name in names:
        try:
            systems += select_systems(snapshot, name)[0]
        except SettingsError:
            if name not in answered:
                raise
            systems.append(name)
    return systems or select_systems(snapshot, "")[0]


def _show_estimate(estimate: StudyEstimate, needed: Sequence[QuestionsNeeded], difference: float) -> None:
    if estimate.questions_assumed:
        printing.print_message(f"The study has no questions yet: {estimate.questions:,} are assumed, all of one kind.")
    printing.print_message(
        f"{estimate.questions:,} questions, {len(estimate.systems):,} systems: {', '.join(estimate.systems)}.\n"
    )
    builds.show_plan(estimate.plan)
    if needed:
        printing.print_message(f"\nQuestions that show a difference of {difference:g} points in 4 of 5 studies:")
        head = ("by", "a", "b", "pilot", "pairs", "questions")
        largest = {n.metric: n for n in sorted(needed, key=lambda n: n.questions or 0)}  # of the pairs of a metric
        shown = [largest[metric] for metric in dict.fromkeys(n.metric for n in needed)]
        rows = [
            (n.metric, n.a, n.b, f"{n.pilot:,}", f"{n.family:,}", "–" if n.questions is None else f"{n.questions:,}")
            for n in shown
        ]
        printing.show_rows(rows, head=head, numeric=(3, 4, 5))
        if any(n.questions is None for n in shown):
            printing.print_message("–: the systems do not differ in any question of the pilot.")
        if small := [n.pilot for n in shown if 0 < n.pilot < SMALL_PILOT]:
            printing.print_note(
                f"(The pilot has {min(small):,} questions: these numbers are uncertain below {SMALL_PILOT}.)"
            )


# -- published studies


def study(
    study: shared.StudyOption,
    session: options.PaidSession,
    name: Annotated[str, Argument(help="The study to run. Default: list them.", metavar="[NAME]")] = "",
    methods: Annotated[
        str, Option("--methods", "-m", help="Only these of its systems; windows: the one to vary.", metavar="NAMES")
    ] = "",
    protocol: Annotated[str, Option(help="Judge by this protocol instead of the study's own.", metavar="NAME")] = "",
    stages: Annotated[
        str, Option(help="Stages: run, judge, claims, score. Default: those of the study.", metavar="NAMES")
    ] = "",
    generations: shared.Generations = 1,
    dataset: Annotated[
        str,
        Option(help="Your documents and questions are this data set of the paper: show its figures.", metavar="NAME"),
    ] = "",
    dry_run: Annotated[bool, Option("--dry-run", help="Show what the study needs and costs, and stop.")] = False,
    yes: shared.Yes = False,
) -> None:
    """Run a study of a paper, and write its tables."""
    if not name:
        given: dict[str, object] = {
            "--methods": methods,
            "--protocol": protocol,
            "--stages": stages,
            "--set": session.settings,
        }
        given |= {"--dataset": dataset, "--dry-run": dry_run}
        if option := next((option for option, value in given.items() if value), ""):
            raise SettingsError(f"{option} is of one study: name it, `kumi eval study NAME`")
        _list_designs(session)
        return
    options.check_choice("study", name, STUDY_NAMES)
    own_study = shared.StudyOption(study.folder / name)
    design = _adjust_design(name, methods, protocol, stages)
    session = replace(session, settings=[*design.settings, *(session.settings or ())])
    questions = study.rows_or_empty("questions") if dry_run else study.questions()
    _check_dataset(design, dataset, len(questions))
    if questions and own_study.rows_or_empty("questions") != questions:
        own_study.write("questions", questions)
    request = StudyRequest(design.stages, PROTOCOLS[design.protocol], against=design.against, measures=design.measures)
    request = replace(request, generations=generations)
    if dry_run:
        _show_needs(own_study, session, design, request)
        return
    with session.open() as kumi:
        estimate = _estimate_study(kumi, own_study, design.method_list, request)
        levels = kumi.status(levels=True).levels if name == "levels" else ()
    builds.announce_plan(estimate.plan)
    shared.confirm_calls(estimate.plan.calls[1], session, yes=yes)
    outputs, failed = _run_stages(own_study, session, design, generations)
    results = load_study_results(own_study, name)
    paths = write_tables(own_study, design, fill_tables(design, results, dataset), dataset)
    document = {"study": str(own_study.folder), "stages": outputs, "failed": failed, "tables": paths}
    session.show({**document, **({"levels": levels} if levels else {})}, lambda _: _show_tables(paths, levels))
    if failed:
        raise ItemFailed("; ".join(failed))


def _check_dataset(design: StudyDesign, dataset: str, questions: int) -> None:
    """Check a data set, and note another number of questions.

    Raises SettingsError if the paper has no figures on it.
    """
    design.check_dataset(dataset)
    if dataset and questions and design.questions not in (0, questions):
        printing.print_note(
            f"The paper asked {design.questions:,} questions about {dataset}, this study asks {questions:,}: "
            "are they its data set?"
        )


def _show_tables(paths: Sequence[str], levels: Sequence[Any]) -> None:
    printing.print_message(f"The tables of the paper: {', '.join(paths)}")
    if levels:
        printing.print_message("\nWhat a question to each level reads:")
        terminal.show_levels(levels)


def _list_designs(session: options.PaidSession) -> None:
    designs = {name: read_design(name) for name in STUDY_NAMES}
    if session.as_json:
        printing.print_json({name: asdict(design) for name, design in designs.items()})
        return
    rows = [(name, f"{design.summary} By {design.measured}.", design.paper) for name, design in designs.items()]
    printing.show_rows(rows, ("study", "", "paper"))
    printing.print_message("\n`kumi eval study NAME` runs one, after an estimate of its cost.")


def _show_needs(
    study: shared.StudyOption, session: options.PaidSession, design: StudyDesign, request: StudyRequest
) -> None:
    """Print the needs and the cost of a study."""
    estimate, missing = None, ""
    try:
        with session.open() as kumi:
            estimate = _estimate_study(kumi, study, design.method_list, request)
    except (IndexUnavailable, SettingsError) as error:
        missing = str(error)
    cost = asdict(estimate.plan) if estimate else {"missing": missing}
    session.show({**asdict(design), **cost}, lambda _: _show_design(design))
    if session.as_json:
        return
    if estimate:
        builds.show_plan(estimate.plan)
    else:
        printing.print_message(f"Not estimated yet: {missing}")


def _show_design(design: StudyDesign) -> None:
    rows = [(f"{name}: {spec}",) for name, spec in design.systems.items()]
    printing.show_rows(rows, head=("systems",))
    printing.show_rows(((text,) for text in design.needs), head=("needs",))
    printing.show_rows(((text,) for text in design.fixed), head=("as in the paper",))
    printing.show_rows(((text,) for text in design.differs), head=("differs",))


def _adjust_design(name: str, methods: str, protocol: str, stages: str) -> StudyDesign:
    """Return the design with the options applied. Raises SettingsError."""
    design = read_design(name)
    if name == "windows" and methods:
        design = replace(design, systems=window_systems(methods))
    elif methods:
        design = design.restrict_to(options.split_names(methods))
    if protocol:
        options.check_choice("protocol", protocol, PROTOCOLS)
    stage_names = ("run", "judge", "claims", "score")
    for stage in options.split_names(stages):
        options.check_choice("stage", stage, stage_names)
    selected = options.split_names(stages) or design.stages
    ordered = [stage for stage in stage_names if stage in selected]
    return replace(design, protocol=protocol or design.protocol, stages=ordered)


def _run_stages(
    study: shared.StudyOption, session: options.PaidSession, design: StudyDesign, generations: int
) -> tuple[dict[str, Any], list[str]]:
    """Run the stages and write the report; return their JSON, and failures."""
    methods = design.method_list
    commands: dict[str, Callable[..., None]] = {
        "run": partial(run.run, methods=methods, generations=generations),
        "judge": partial(judge.judge, methods=methods, protocol=design.protocol, against=design.against, yes=True),
        "claims": partial(run.claims, methods=methods, yes=True),
        "score": partial(run.score, methods=methods, measures=",".join(design.measures)),
    }
    outputs: dict[str, Any] = {}
    failed: list[str] = []
    before = _total_spent(session)
    for name in design.stages:
        printing.print_message(f"{name} ...", errors=True)
        command = partial(commands[name], study, _with_remaining_caps(session, before))
        try:
            _run_stage(name, command, outputs, quiet=session.as_json)
        except ItemFailed as failure:
            failed.append(f"{name}: {failure}")
            if _with_remaining_caps(session, before).caps.reached_by(Usage()):
                break
    neighbours = design.protocol == "mk" and "judge" in design.stages
    page = study.folder / "report.html"
    write_report = partial(study_files.report, session, options.Writing(), [study.folder], page, neighbours=neighbours)
    _run_stage("report", write_report, outputs, quiet=session.as_json)
    return outputs, failed


def _run_stage(name: str, command: Callable[[], None], outputs: dict[str, Any], *, quiet: bool) -> None:
    """Run a stage; quiet: capture its JSON to print with the rest."""
    captured = StringIO()
    try:
        with redirect_stdout(captured) if quiet else nullcontext():
            command()
    finally:
        if captured.getvalue():
            outputs[name] = json.loads(captured.getvalue())


def _total_spent(session: options.PaidSession) -> Usage:
    with session.open() as kumi:
        return sum((spent.usage for spent in kumi.spent() if spent.kind == "spent"), Usage())


def _with_remaining_caps(session: options.PaidSession, before: Usage) -> options.PaidSession:
    """Return the session with the rest of the study's caps."""
    now = _total_spent(session)
    remaining: dict[str, Any] = {
        f"max_{unit}": max(cap - getattr(now, unit) + getattr(before, unit), 0)
        for unit, cap in asdict(session.caps).items()
        if cap is not None
    }
    return replace(session, **remaining)
