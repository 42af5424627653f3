"""questions with gold + an index, or runs made elsewhere -> what is found, measured."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

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
from kumihimo.llm.budget import Budget, Caps

if TYPE_CHECKING:
    from kumihimo.evaluate.records import EvalQuestion, Score
    from kumihimo.evaluate.retrieval import MeasureMean
    from kumihimo.evaluate.study import Study

TrecRuns = Annotated[
    list[Path] | None, typer.Option("--from-run", help="Measure a run of TREC instead, made elsewhere.", metavar="FILE")
]
RunFolder = Annotated[
    Path | None, typer.Option("--run", help="Write what was found as runs of TREC, into this folder.", metavar="DIR")
]
Qrels = Annotated[
    Path | None, typer.Option(help="Write the gold as qrels of TREC; with --from-run, read it there.", metavar="FILE")
]


@dataclass(slots=True)
class RetrievalResults:
    """What a command has measured, and what it has to say of it."""

    questions: list[EvalQuestion] = field(default_factory=list)  # those with gold
    scores: list[Score] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)  # by system, of a question
    left_out: dict[str, str] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    without_gold: int = 0  # questions that have no gold
    manifest: dict[str, dict[str, Any]] = field(default_factory=dict)  # how, for the manifest, by system
    index: dict[str, Any] = field(default_factory=dict)  # whose documents were searched
    runs: dict[str, dict[str, list[str]]] = field(default_factory=dict)  # by system and question
    gold: dict[str, list[str]] = field(default_factory=dict)


def retrieval(
    methods: SystemNames = "",
    k: Annotated[str, typer.Option("--k", help="Of how many of the first, such as 5,10,20.")] = "5,10,20",
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
    """Measure what each system finds of the gold of the questions: recall, MAP, MRR, nDCG, tokens read."""
    from kumihimo.evaluate.study import Study

    configure_logging(verbose, show_prompts)
    held, ks, made = Study(study), _parse_cutoffs(k), RetrievalResults()
    held.check_readable("retrieval")
    if from_run and qrels:
        if methods or run:
            raise SettingsError("--from-run with --qrels measures runs alone: leave out --methods and --run")
        _measure_runs(made, from_run, qrels, ks)
    else:
        _load_questions(made, held)
        shown = terminal.progress_bar(not (verbose or show_prompts))
        with open_index(folder, options, cache) as kumi, kumi.snapshot() as reading, shown as progress:
            purse = kumi.models.budget(Caps(max_calls, max_tokens, max_cost))
            _measure_index(made, reading, methods, from_run or [], ks, purse, progress)
        read = {"index": {"folder": str(folder), **made.index}, "questions": file_digest(held.path("questions"))}
        made.manifest = {system: {**ran, **read} for system, ran in made.manifest.items()}
        _write_trec(made, run, qrels)
    anew = {score.system for score in made.scores}
    held.replace_rows("retrieval", made.scores, lambda row: row.system in anew)
    held.update_stage("retrieval", **{system: {"k": ks, **ran} for system, ran in made.manifest.items()})
    _show_results(made, ks, as_json)
    if made.failed:
        said = f"{len(made.failed):,} searches failed; of the first: {made.failed[0]}"
        raise ItemFailed(f"{said}. The same command goes on with them")


def _parse_cutoffs(said: str) -> list[int]:
    try:
        ks = sorted({int(part) for part in said.split(",") if part.strip()})
    except ValueError:
        ks = []
    if not ks or ks[0] < 1:
        raise SettingsError(f"--k {said!r}: write whole numbers from 1, such as 5,10,20")
    return ks


def _load_questions(made: RetrievalResults, held: Study) -> None:
    from kumihimo.evaluate.run_systems import check_questions

    questions = held.questions()
    made.questions = [question for question in questions if question.gold]
    made.without_gold = len(questions) - len(made.questions)
    if not made.questions:
        raise SettingsError(f"no question of {held.path('questions')} has gold: `gold` says where its answer stands")
    check_questions(made.questions)


def _measure_runs(made: RetrievalResults, runs: Iterable[Path], qrels: Path, ks: Sequence[int]) -> None:
    """Runs against qrels: no index is needed, and no questions but those that are named there."""
    from kumihimo.evaluate.records import EvalQuestion
    from kumihimo.evaluate.retrieval import score_run
    from kumihimo.evaluate.trec import read_trec_qrels

    made.gold = {question: names for question, names in read_trec_qrels(qrels).items() if names}
    if not made.gold:
        raise SettingsError(f"{qrels} says of nothing that it is relevant: a relevance above 0 does")
    made.questions = [EvalQuestion(id, "") for id in made.gold]
    for system, path, rankings in _read_runs(runs):
        made.scores += score_run(system, rankings, made.gold, ks)
        made.manifest[system] = {"run": file_digest(path), "qrels": file_digest(qrels)}
        _warn_missing(system, rankings, made)


def _read_runs(runs: Iterable[Path]) -> list[tuple[str, Path, dict[str, list[str]]]]:
    from kumihimo.evaluate.trec import read_trec_run

    found: dict[str, tuple[str, Path, dict[str, list[str]]]] = {}
    for path in runs:
        system, rankings = read_trec_run(path)
        if system in found:
            raise SettingsError(f"{path} is a run of {system!r}, as {found[system][1]} is: rename one of them")
        found[system] = system, path, rankings
    return list(found.values())


def _warn_missing(system: str, rankings: Mapping[str, object], made: RetrievalResults) -> None:
    missing = [id for id in made.gold if id not in rankings]
    if len(missing) == len(made.gold):
        some = ", ".join(map(repr, list(rankings)[:3]))
        raise SettingsError(f"the run {system!r} ranks none of the questions with gold: its ids are such as {some}")
    if missing:
        print(f"({system} ranks nothing for {len(missing):,} questions, which count 0.)", file=sys.stderr)


def _measure_index(
    made: RetrievalResults,
    reading: Snapshot,
    methods: str,
    runs: Sequence[Path],
    ks: Sequence[int],
    purse: Budget,
    progress: Any,
) -> None:
    """Systems, unless there are runs and none is named; and runs, against the gold of the study."""
    from kumihimo.evaluate import retrieval as of
    from kumihimo.evaluate.gold import read_index_layout, resolve_gold
    from kumihimo.evaluate.run_systems import describe_index, describe_run
    from kumihimo.evaluate.systems import select_systems

    given = _read_runs(runs)
    systems, made.left_out = ([], {}) if runs and not methods else select_systems(reading, methods)
    if same := {system.name for system in systems} & {name for name, _, _ in given}:
        raise SettingsError(f"{min(same)} is a run and a system: name the run's system otherwise in its last column")
    warn_left_out(made.left_out)
    there = read_index_layout(reading)
    meant = resolve_gold(reading, there, made.questions)
    made.gold = {question: [one.name for one in each] for question, each in meant.items()}
    made.index = describe_index(reading)
    made.manifest = {s.name: describe_run(reading, s) for s in systems} | {
        name: {"run": file_digest(path)} for name, path, _ in given
    }
    follow = of.ChunkTracer(reading, there)
    for system in systems:
        rows = of.retrieve_all(reading, system, made.questions, follow, purse, progress=progress)
        made.failed += [row.failed for row in rows if row.failed]
        made.seconds[system.name] = sum(row.seconds for row in rows) / len(rows)
        made.runs[system.name] = {
            row.question: of.unique_names(of.name_places(row.places, meant[row.question], there))
            for row in rows
            if not row.failed
        }
        made.scores += [score for row in rows for score in of.score_result(row, meant[row.question], there, ks)]
    for name, _, rankings in given:
        _warn_missing(name, rankings, made)
        order, strange = of.translate_rankings(rankings, meant, there)
        if strange:
            print(f"({name} ranks {strange:,} times what the index does not hold under that name.)", file=sys.stderr)
        made.scores += of.score_run(name, order, made.gold, ks)


def _write_trec(made: RetrievalResults, runs: Path | None, qrels: Path | None) -> None:
    from kumihimo.app.safe_write import write_folder
    from kumihimo.evaluate.trec import trec_qrels_lines, trec_run_lines

    def fill(into: Path) -> None:
        for system, rankings in made.runs.items():
            text = "".join(f"{line}\n" for line in trec_run_lines(system, rankings))
            (into / f"{quote(system, safe='=+-_.,')}.run").write_text(text, encoding="utf-8")

    if qrels:
        said = [f"{line}\n" for line in trec_qrels_lines(made.gold)]
        if qrels.exists() and (qrels.is_dir() or qrels.read_bytes() != "".join(said).encode()):
            raise SettingsError(f"{qrels} is there already, with other gold: choose another --qrels, or move it away")
        jsonl.write_text_lines(qrels, [line.rstrip("\n") for line in said])
    if runs:
        write_folder(runs, fill)


# -- what is told of it


def _show_results(made: RetrievalResults, ks: Sequence[int], as_json: bool) -> None:
    from kumihimo.evaluate.retrieval import BASELINES, average_measures

    found = average_measures(made.scores, made.questions)
    missing = [name for name in BASELINES if name not in found]
    if as_json:
        systems = {system: {name: asdict(mean) for name, mean in by.items()} for system, by in found.items()}
        told = {"questions": len(made.questions), "without_gold": made.without_gold, "failed": len(made.failed)}
        seconds = {"seconds": made.seconds, "left_out": made.left_out, "missing_baselines": missing}
        jsonl.print_json({**told, **seconds, "systems": systems})
        return
    _show_table(found, made.seconds, ks)
    print(f"\n{len(made.questions):,} questions with gold, {made.without_gold:,} without. Below means: 95 % intervals.")
    if missing:
        print(f"(Not among them: {', '.join(missing)}, without which a figure says little.)", file=sys.stderr)


def _show_table(
    found: Mapping[str, Mapping[str, MeasureMean]], seconds: Mapping[str, float], ks: Sequence[int]
) -> None:
    """Some of the measures; all are in the file, and in --json."""
    from kumihimo.evaluate.retrieval import TOKEN_BUDGETS

    few = dict.fromkeys([ks[0], ks[-1]])
    ndcg = 10 if 10 in ks else ks[0]
    shown = [
        *(f"recall@{k}" for k in few),
        f"all-gold@{ks[0]}",
        "MAP",
        "MRR",
        f"nDCG@{ndcg}",
        f"recall@{TOKEN_BUDGETS[0]}tokens",
    ]
    rows = [
        (
            system,
            *(_format_mean(by.get(name)) for name in shown),
            *(_format_count(by.get(n)) for n in ("tokens", "chunks")),
            f"{1000 * seconds[system]:,.0f}" if system in seconds else "",
        )
        for system, by in found.items()
    ]
    head = ["system", *(name.replace("tokens", " tokens") for name in shown), "tokens", "chunks", "ms"]
    terminal.show_rows(rows, head=head, numeric=range(1, len(head)))


def _format_mean(mean: MeasureMean | None) -> str:
    return "" if mean is None else f"{mean.value:.3f}\n{mean.low:.2f}–{mean.high:.2f}"


def _format_count(mean: MeasureMean | None) -> str:
    return "" if mean is None else f"{mean.value:,.0f}"
