"""questions with gold + an index or TREC runs -> retrieval measures."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

from typer import Option

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.cli import options, printing
from kumihimo.cli.evaluating.options import StudyOption, SystemNames, named_methods, raise_failures
from kumihimo.cli.evaluating.run import describe_inputs, file_digest, warn_left_out
from kumihimo.core.errors import SettingsError
from kumihimo.core.task import Progress
from kumihimo.evaluate import rankings as trec, records, retrieval as measuring, run_systems
from kumihimo.evaluate.gold import read_index_layout, resolve_gold
from kumihimo.evaluate.systems import System, select_systems
from kumihimo.llm.budget import Budget
from kumihimo.text.safe_write import write_file, write_folder

Rankings = dict[str, list[str]]  # by question
TrecRun = tuple[str, Path, Rankings]  # its system


@dataclass(slots=True)
class RetrievalResults:
    """The scores of one command, and notes on them."""

    ks: list[int]
    questions: list[records.EvalQuestion] = field(default_factory=list)  # those with gold
    scores: list[records.Score] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)  # mean per question, by system
    left_out: dict[str, str] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    without_gold: int = 0  # questions
    manifest: dict[str, dict[str, Any]] = field(default_factory=dict)  # by system
    runs: dict[str, Rankings] = field(default_factory=dict)  # by system
    gold: Rankings = field(default_factory=dict)


def retrieval(
    study: StudyOption,
    session: options.PaidSession,
    writing: options.Writing,
    methods: SystemNames = "",
    k: Annotated[str, Option("--k", help="Cutoffs, such as 5,10,20.")] = "5,10,20",
    run: Annotated[
        Path | None, Option("--run", help="Write the results as TREC runs to this folder.", metavar="DIR")
    ] = None,
    qrels: Annotated[
        Path | None, Option(help="Write the gold as TREC qrels; with --from-run, read them.", metavar="FILE")
    ] = None,
    from_run: Annotated[
        list[Path] | None, Option("--from-run", help="Measure a TREC run from elsewhere instead.", metavar="FILE")
    ] = None,
) -> None:
    """Measure retrieval against gold: recall, MAP, MRR, nDCG, tokens read."""
    results = RetrievalResults(_parse_cutoffs(k))
    study.check_readable("retrieval")
    if from_run and qrels:
        if methods or run:
            raise SettingsError("--from-run with --qrels measures only runs: leave out --methods and --run")
        _measure_runs(results, from_run, qrels)
    else:
        _load_questions(results, study)
        with (
            session.open() as kumi,
            session.read(kumi, *named_methods(kumi, methods)) as snapshot,
            session.progress_bar() as progress,
        ):
            runs = _read_runs(from_run or [])
            systems, results.left_out = ([], {}) if runs and not methods else select_systems(snapshot, methods)
            warn_left_out(results.left_out)
            _measure_index(results, snapshot, systems, runs, kumi.models.budget(session.caps), progress)
            inputs = describe_inputs(study, session, snapshot)
        results.manifest = {system: {**entry, **inputs} for system, entry in results.manifest.items()}
        _write_trec(results, run, qrels, force=writing.force)
    _write_scores(study, results)
    _show_results(results, session.as_json)
    raise_failures(len(results.failed), len(results.questions) * len(results.runs), "".join(results.failed[:1]))


def _write_scores(study: StudyOption, results: RetrievalResults) -> None:
    """Write the scores, and keep comparable ones at other cutoffs.

    Those of another index, other settings or other questions are removed, with a note.
    """
    before = study.read_manifest().get("retrieval", {})
    manifest = json.loads(json.dumps(results.manifest))  # as it is read
    same = {name for name, entry in manifest.items() if {**before.get(name, {}), "k": 0} == {**entry, "k": 0}}
    measured = {(score.system, score.name) for score in results.scores}

    def is_replaced(row: records.Score) -> bool:
        return (row.system, row.name) in measured or (row.system in manifest and row.system not in same)

    new_names = {name for _, name in measured}
    rows = study.rows_or_empty("retrieval")
    if removed := {row.name: True for row in rows if is_replaced(row) and row.name not in new_names}:
        names = ", ".join(removed)
        printing.print_note(f"(Removed, because the index, the settings or the questions have changed: {names}.)")
    study.replace_rows("retrieval", results.scores, is_replaced)
    ks = {name: {*results.ks, *(before[name]["k"] if name in same else ())} for name in manifest}
    study.update_stage("retrieval", **{name: {"k": sorted(ks[name]), **entry} for name, entry in manifest.items()})


def _parse_cutoffs(text: str) -> list[int]:
    """Parse cutoffs such as 5,10,20. Raises SettingsError."""
    try:
        ks = sorted({int(part) for part in text.split(",") if part.strip()})
    except ValueError:
        ks = []
    if not ks or ks[0] < 1:
        raise SettingsError(f"--k {text!r}: write whole numbers from 1, such as 5,10,20")
    return ks


def _load_questions(results: RetrievalResults, study: StudyOption) -> None:
    """Load the questions with gold. Raises SettingsError if there are none."""
    questions = study.questions()
    results.questions = [question for question in questions if question.gold]
    results.without_gold = len(questions) - len(results.questions)
    if not results.questions:
        path = study.path("questions")
        raise SettingsError(f"no question of {path} has gold: `gold` names the passages with its answer")
    run_systems.check_questions(results.questions)


def _measure_runs(results: RetrievalResults, runs: Iterable[Path], qrels: Path) -> None:
    """Measure runs against qrels, without an index or a study."""
    results.gold = {question: names for question, names in trec.read_trec_qrels(qrels).items() if names}
    if not results.gold:
        raise SettingsError(f"{qrels} marks nothing as relevant: use a relevance above 0")
    results.questions = [records.EvalQuestion(id, "") for id in results.gold]
    for system, path, rankings in _read_runs(runs):
        results.scores += measuring.score_run(system, rankings, results.gold, results.ks)
        results.manifest[system] = {"run": file_digest(path), "qrels": file_digest(qrels)}
        _warn_missing(system, rankings, results)


def _read_runs(paths: Iterable[Path]) -> list[TrecRun]:
    """Read TREC runs. Raises SettingsError if two have one name."""
    runs: dict[str, TrecRun] = {}
    for path in paths:
        system, rankings = trec.read_trec_run(path)
        if system in runs:
            raise SettingsError(f"{path} is a run of {system!r}, as {runs[system][1]} is: rename one of them")
        runs[system] = system, path, rankings
    return list(runs.values())


def _warn_missing(system: str, rankings: Mapping[str, object], results: RetrievalResults) -> None:
    missing = [id for id in results.gold if id not in rankings]
    if len(missing) == len(results.gold):
        examples = ", ".join(map(repr, list(rankings)[:3]))
        raise SettingsError(f"the run {system!r} ranks none of the questions with gold: its ids look like {examples}")
    if missing:
        printing.print_note(f"({system} ranks nothing for {len(missing):,} questions, which score 0.)")


def _measure_index(
    results: RetrievalResults,
    snapshot: Snapshot,
    systems: Sequence[System],
    runs: Sequence[TrecRun],
    budget: Budget,
    progress: Progress | None,
) -> None:
    """Measure systems and runs against the gold of the study."""
    if ambiguous := {system.name for system in systems} & {name for name, _, _ in runs}:
        raise SettingsError(f"{min(ambiguous)} is both a run and a system: rename the system in the run's last column")
    layout = read_index_layout(snapshot)
    passages = resolve_gold(snapshot, layout, results.questions)
    results.gold = {question: [*gold] for question, gold in passages.items()}
    tracer = measuring.ChunkTracer(snapshot, layout)
    for system in systems:
        results.manifest[system.name] = run_systems.describe_run(snapshot, system)
        rows = measuring.retrieve_all(snapshot, system, results.questions, tracer, budget, progress=progress)
        results.failed += [row.failed for row in rows if row.failed]
        results.seconds[system.name] = sum(row.seconds for row in rows) / len(rows)
        ranking = results.runs[system.name] = {}
        for row in rows:
            gold = passages[row.question]
            results.scores += measuring.score_result(row, gold, results.ks)
            if not row.failed:
                ranking[row.question] = measuring.unique_names(measuring.name_places(row.places, gold))
    for name, path, rankings in runs:
        results.manifest[name] = {"run": file_digest(path)}
        _warn_missing(name, rankings, results)
        translated, unmatched = measuring.translate_rankings(rankings, passages, layout)
        if unmatched:
            printing.print_note(f"({name} ranks {unmatched:,} entries that the index does not have.)")
        results.scores += measuring.score_run(name, translated, results.gold, results.ks)


def _write_trec(results: RetrievalResults, runs: Path | None, qrels: Path | None, *, force: bool) -> None:
    """Write the runs and the gold.

    Raises SettingsError if other gold is there.
    """

    def fill(target: Path) -> None:
        for system, rankings in results.runs.items():
            name = f"{quote(system, safe='=+-_.,')}.run"
            lines = (f"{line}\n" for line in trec.trec_run_lines(system, rankings))
            write_file(target / name, lines)

    if qrels:
        text = "".join(f"{line}\n" for line in trec.trec_qrels_lines(results.gold))
        write_file(qrels, [text], force=force, is_ours=lambda path: path.read_bytes() == text.encode())
    if runs:
        write_folder(runs, fill, force=force)


# -- results


def _show_results(results: RetrievalResults, as_json: bool) -> None:
    means_by_system = measuring.average_measures(results.scores, results.questions)
    missing = [name for name in measuring.BASELINES if name not in means_by_system]
    if as_json:
        counts = {"questions": len(results.questions), "without_gold": results.without_gold}
        details = {"failed": len(results.failed), "seconds": results.seconds, "left_out": results.left_out}
        printing.print_json({**counts, **details, "missing_baselines": missing, "systems": means_by_system})
        return
    _show_table(means_by_system, results)
    counted = f"{len(results.questions):,} questions with gold, {results.without_gold:,} without"
    printing.print_message(f"\n{counted}. Below means: 95 % intervals.")
    if len(means_by_system) > 1:
        printing.print_message("`kumi eval report` shows which differences are significant.")
    if missing:
        printing.print_note(f"(Missing baselines: {', '.join(missing)}; compare with them.)")


def _show_table(means_by_system: Mapping[str, Mapping[str, measuring.MeasureMean]], results: RetrievalResults) -> None:
    """Print the main measures; the file and --json have all."""
    ks, budget = results.ks, measuring.TOKEN_BUDGETS[0]
    cutoff = 10 if 10 in ks else ks[-1]
    columns = [f"recall@{k}" for k in ks]
    columns += [f"all-gold@{cutoff}", "MAP", "MRR", f"nDCG@{cutoff}", f"recall@{budget}tokens"]
    rows = []
    for system, means in means_by_system.items():
        shown = [means.get(name) for name in columns]
        cells = [f"{mean.value:.3f}\n{mean.low:.2f}–{mean.high:.2f}" if mean else "" for mean in shown]
        cells += [f"{means[name].value:,.0f}" if name in means else "" for name in ("tokens", "chunks")]
        seconds = results.seconds.get(system)
        rows.append((system, *cells, "" if seconds is None else f"{1000 * seconds:,.0f}"))
    head = ["system", *(name.replace("tokens", " tokens") for name in columns), "tokens", "chunks", "ms"]
    printing.show_rows(rows, head=head, numeric=range(1, len(head)))
