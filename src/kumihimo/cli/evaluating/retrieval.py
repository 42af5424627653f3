"""questions with gold + an index or TREC runs -> retrieval measures."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from kumihimo.app.safe_write import write_folder
from kumihimo.app.snapshot import Snapshot
from kumihimo.cli import jsonl, terminal
from kumihimo.cli.cli_session import configure_logging, open_index
from kumihimo.cli.evaluating.options import DEFAULT_STUDY, StudyFolder, SystemNames
from kumihimo.cli.evaluating.run import file_digest, warn_left_out
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
from kumihimo.core.errors import ItemFailed, SettingsError
from kumihimo.evaluate import retrieval as measuring
from kumihimo.evaluate.gold import read_index_layout, resolve_gold
from kumihimo.evaluate.records import EvalQuestion, Score
from kumihimo.evaluate.retrieval import BASELINES, TOKEN_BUDGETS, MeasureMean, average_measures, score_run
from kumihimo.evaluate.run_systems import check_questions, describe_index, describe_run
from kumihimo.evaluate.study import Study
from kumihimo.evaluate.systems import select_systems
from kumihimo.evaluate.trec import read_trec_qrels, read_trec_run, trec_qrels_lines, trec_run_lines
from kumihimo.llm.budget import Budget, Caps

TrecRuns = Annotated[
    list[Path] | None, typer.Option("--from-run", help="Measure a TREC run from elsewhere instead.", metavar="FILE")
]
RunFolder = Annotated[
    Path | None, typer.Option("--run", help="Write the results as TREC runs to this folder.", metavar="DIR")
]
Qrels = Annotated[
    Path | None, typer.Option(help="Write the gold as TREC qrels; with --from-run, read them.", metavar="FILE")
]


@dataclass(slots=True)
class RetrievalResults:
    """The scores of one command, and notes on them."""

    questions: list[EvalQuestion] = field(default_factory=list)  # those with gold
    scores: list[Score] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)  # mean per question, by system
    left_out: dict[str, str] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    without_gold: int = 0  # questions
    manifest: dict[str, dict[str, Any]] = field(default_factory=dict)  # by system
    index: dict[str, Any] = field(default_factory=dict)
    runs: dict[str, dict[str, list[str]]] = field(default_factory=dict)  # by system and question
    gold: dict[str, list[str]] = field(default_factory=dict)


def retrieval(
    methods: SystemNames = "",
    k: Annotated[str, typer.Option("--k", help="Cutoffs, such as 5,10,20.")] = "5,10,20",
    run: RunFolder = None,
    qrels: Qrels = None,
    from_run: TrecRuns = None,
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
    """Measure retrieval against gold: recall, MAP, MRR, nDCG, tokens read."""

    configure_logging(verbose, show_prompts)
    study_files, ks, results = Study(study), _parse_cutoffs(k), RetrievalResults()
    study_files.check_readable("retrieval")
    if from_run and qrels:
        if methods or run:
            raise SettingsError("--from-run with --qrels measures only runs: leave out --methods and --run")
        _measure_runs(results, from_run, qrels, ks)
    else:
        _load_questions(results, study_files)
        bar = terminal.progress_bar(not (verbose or show_prompts))
        with open_index(folder, options, cache) as kumi, kumi.snapshot() as snapshot, bar as progress:
            budget = kumi.models.budget(Caps(max_calls, max_tokens, max_cost))
            _measure_index(results, snapshot, methods, from_run or [], ks, budget, progress)
        inputs = {
            "index": {"folder": str(folder), **results.index},
            "questions": file_digest(study_files.path("questions")),
        }
        results.manifest = {system: {**entry, **inputs} for system, entry in results.manifest.items()}
        _write_trec(results, run, qrels)
    remeasured = {score.system for score in results.scores}
    study_files.replace_rows("retrieval", results.scores, lambda row: row.system in remeasured)
    study_files.update_stage("retrieval", **{system: {"k": ks, **entry} for system, entry in results.manifest.items()})
    _show_results(results, ks, as_json)
    if results.failed:
        message = f"{len(results.failed):,} searches failed; the first: {results.failed[0]}"
        raise ItemFailed(f"{message}. Run the same command to try them again")


def _parse_cutoffs(text: str) -> list[int]:
    """Parse cutoffs such as 5,10,20. Raises SettingsError."""
    try:
        ks = sorted({int(part) for part in text.split(",") if part.strip()})
    except ValueError:
        ks = []
    if not ks or ks[0] < 1:
        raise SettingsError(f"--k {text!r}: write whole numbers from 1, such as 5,10,20")
    return ks


def _load_questions(results: RetrievalResults, study: Study) -> None:

    questions = study.questions()
    results.questions = [question for question in questions if question.gold]
    results.without_gold = len(questions) - len(results.questions)
    if not results.questions:
        raise SettingsError(
            f"no question of {study.path('questions')} has gold: `gold` names the passages with its answer"
        )
    check_questions(results.questions)


def _measure_runs(results: RetrievalResults, runs: Iterable[Path], qrels: Path, ks: Sequence[int]) -> None:
    """Measure runs against qrels, without an index or a study."""

    results.gold = {question: names for question, names in read_trec_qrels(qrels).items() if names}
    if not results.gold:
        raise SettingsError(f"{qrels} marks nothing as relevant: use a relevance above 0")
    results.questions = [EvalQuestion(id, "") for id in results.gold]
    for system, path, rankings in _read_runs(runs):
        results.scores += score_run(system, rankings, results.gold, ks)
        results.manifest[system] = {"run": file_digest(path), "qrels": file_digest(qrels)}
        _warn_missing(system, rankings, results)


def _read_runs(runs: Iterable[Path]) -> list[tuple[str, Path, dict[str, list[str]]]]:
    """Read TREC runs. Raises SettingsError if two have one name."""

    run_by_system: dict[str, tuple[str, Path, dict[str, list[str]]]] = {}
    for path in runs:
        system, rankings = read_trec_run(path)
        if system in run_by_system:
            raise SettingsError(f"{path} is a run of {system!r}, as {run_by_system[system][1]} is: rename one of them")
        run_by_system[system] = system, path, rankings
    return list(run_by_system.values())


def _warn_missing(system: str, rankings: Mapping[str, object], results: RetrievalResults) -> None:
    missing = [id for id in results.gold if id not in rankings]
    if len(missing) == len(results.gold):
        examples = ", ".join(map(repr, list(rankings)[:3]))
        raise SettingsError(f"the run {system!r} ranks none of the questions with gold: its ids look like {examples}")
    if missing:
        print(f"({system} ranks nothing for {len(missing):,} questions, which score 0.)", file=sys.stderr)


def _measure_index(
    results: RetrievalResults,
    snapshot: Snapshot,
    methods: str,
    runs: Sequence[Path],
    ks: Sequence[int],
    budget: Budget,
    progress: Any,
) -> None:
    """Measure systems and runs against the gold of the study.

    With runs and no methods, only the runs.
    """

    given_runs = _read_runs(runs)
    systems, results.left_out = ([], {}) if runs and not methods else select_systems(snapshot, methods)
    if ambiguous := {system.name for system in systems} & {name for name, _, _ in given_runs}:
        raise SettingsError(f"{min(ambiguous)} is both a run and a system: rename the system in the run's last column")
    warn_left_out(results.left_out)
    index_layout = read_index_layout(snapshot)
    gold_places = resolve_gold(snapshot, index_layout, results.questions)
    results.gold = {question: [gold.name for gold in places] for question, places in gold_places.items()}
    results.index = describe_index(snapshot)
    results.manifest = {s.name: describe_run(snapshot, s) for s in systems} | {
        name: {"run": file_digest(path)} for name, path, _ in given_runs
    }
    follower = measuring.ChunkTracer(snapshot, index_layout)
    for system in systems:
        rows = measuring.retrieve_all(snapshot, system, results.questions, follower, budget, progress=progress)
        results.failed += [row.failed for row in rows if row.failed]
        results.seconds[system.name] = sum(row.seconds for row in rows) / len(rows)
        results.runs[system.name] = {
            row.question: measuring.unique_names(
                measuring.name_places(row.places, gold_places[row.question], index_layout)
            )
            for row in rows
            if not row.failed
        }
        results.scores += [
            score for row in rows for score in measuring.score_result(row, gold_places[row.question], index_layout, ks)
        ]
    for name, _, rankings in given_runs:
        _warn_missing(name, rankings, results)
        order, unmatched = measuring.translate_rankings(rankings, gold_places, index_layout)
        if unmatched:
            print(f"({name} ranks {unmatched:,} entries that the index does not have.)", file=sys.stderr)
        results.scores += measuring.score_run(name, order, results.gold, ks)


def _write_trec(results: RetrievalResults, runs: Path | None, qrels: Path | None) -> None:

    def fill(target: Path) -> None:
        for system, rankings in results.runs.items():
            text = "".join(f"{line}\n" for line in trec_run_lines(system, rankings))
            (target / f"{quote(system, safe='=+-_.,')}.run").write_text(text, encoding="utf-8")

    if qrels:
        qrels_text = [f"{line}\n" for line in trec_qrels_lines(results.gold)]
        if qrels.exists() and (qrels.is_dir() or qrels.read_bytes() != "".join(qrels_text).encode()):
            raise SettingsError(f"{qrels} already exists with other gold: choose another --qrels, or move it")
        jsonl.write_text_lines(qrels, [line.rstrip("\n") for line in qrels_text])
    if runs:
        write_folder(runs, fill)


# -- results


def _show_results(results: RetrievalResults, ks: Sequence[int], as_json: bool) -> None:

    means_by_system = average_measures(results.scores, results.questions)
    missing = [name for name in BASELINES if name not in means_by_system]
    if as_json:
        systems = {
            system: {name: asdict(mean) for name, mean in by_name.items()}
            for system, by_name in means_by_system.items()
        }
        summary = {
            "questions": len(results.questions),
            "without_gold": results.without_gold,
            "failed": len(results.failed),
        }
        details = {"seconds": results.seconds, "left_out": results.left_out, "missing_baselines": missing}
        jsonl.print_json({**summary, **details, "systems": systems})
        return
    _show_table(means_by_system, results.seconds, ks)
    print(
        f"\n{len(results.questions):,} questions with gold, {results.without_gold:,} without. "
        "Below means: 95 % intervals."
    )
    if missing:
        print(f"(Missing baselines: {', '.join(missing)}; compare with them.)", file=sys.stderr)


def _show_table(
    means_by_system: Mapping[str, Mapping[str, MeasureMean]], seconds: Mapping[str, float], ks: Sequence[int]
) -> None:
    """Print the main measures; the file and --json have all."""

    cutoffs = dict.fromkeys([ks[0], ks[-1]])
    ndcg = 10 if 10 in ks else ks[0]
    columns = [
        *(f"recall@{k}" for k in cutoffs),
        f"all-gold@{ks[0]}",
        "MAP",
        "MRR",
        f"nDCG@{ndcg}",
        f"recall@{TOKEN_BUDGETS[0]}tokens",
    ]
    rows = [
        (
            system,
            *(_format_mean(by_name.get(name)) for name in columns),
            *(_format_count(by_name.get(n)) for n in ("tokens", "chunks")),
            f"{1000 * seconds[system]:,.0f}" if system in seconds else "",
        )
        for system, by_name in means_by_system.items()
    ]
    head = ["system", *(name.replace("tokens", " tokens") for name in columns), "tokens", "chunks", "ms"]
    terminal.show_rows(rows, head=head, numeric=range(1, len(head)))


def _format_mean(mean: MeasureMean | None) -> str:
    return "" if mean is None else f"{mean.value:.3f}\n{mean.low:.2f}–{mean.high:.2f}"


def _format_count(mean: MeasureMean | None) -> str:
    return "" if mean is None else f"{mean.value:,.0f}"
