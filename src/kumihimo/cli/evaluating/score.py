"""a study's answers -> scores.jsonl: a score of each answer by itself."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from typing import Annotated, Any

import typer

from kumihimo.app.facade import Kumihimo
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
from kumihimo.cli.sanitize import replace_controls
from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import ItemFailed
from kumihimo.evaluate.records import Score
from kumihimo.evaluate.scoring import SCORE_MEASURES
from kumihimo.evaluate.scoring.run_scores import (
    ScoreMean,
    build_cases,
    mean_scores,
    resolve_measures,
    score_cases,
    scoring_prompt_digests,
)
from kumihimo.evaluate.study import Study, row_to_json
from kumihimo.llm.budget import Caps
from kumihimo.llm.registry import SET_MODEL_HINT

_ROLE = "scorer"
_MAX_REASONS, _MAX_NAMES = 10, 3  # names: measures per reason


def score(
    study: StudyFolder = DEFAULT_STUDY,
    methods: AnsweredSystems = "",
    measures: Annotated[
        str, typer.Option(help="Measures, or groups: words, ragas, assertions, claims, all.", metavar="NAMES")
    ] = "",
    repeats: Annotated[int, typer.Option(help="Score each answer this many times; report the mean.", min=1)] = 1,
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
    """Score each answer: faithfulness, correctness, evidence; some measures need no model."""

    configure_logging(verbose, show_prompts)
    study_files = Study(study)
    systems = study_files.select_systems(split_names(methods))
    study_files.check_readable("scores")
    with open_index(folder, options, cache) as kumi:
        names, skipped = _select_computable(kumi, resolve_measures(split_names(measures)), explicit=bool(measures))
        scores = _score_answers(
            kumi,
            study_files,
            systems,
            names,
            Caps(max_calls, max_tokens, max_cost),
            repeats,
            show_progress=not (verbose or show_prompts),
        )
    _show_scores(study_files, scores, mean_scores(scores, study_files.questions()), skipped, as_json=as_json)
    _raise_failures(scores)


def _select_computable(kumi: Kumihimo, names: Sequence[str], *, explicit: bool) -> tuple[list[str], list[str]]:
    """Return the computable measures, and the ones without a model.

    A measure chosen by name is always computable: a missing model raises an error later.
    """

    if explicit or kumi.models.chat(_ROLE):
        return list(names), []
    return [name for name in names if not SCORE_MEASURES[name].needs_model], [
        name for name in names if SCORE_MEASURES[name].needs_model
    ]


def _score_answers(
    kumi: Kumihimo,
    study: Study,
    systems: Sequence[str],
    names: Sequence[str],
    caps: Caps,
    repeats: int,
    *,
    show_progress: bool,
) -> list[Score]:
    """Score the answers, and write the scores and the manifest."""

    budget = kumi.models.budget(caps)
    llm = kumi.models.llm(_ROLE, budget) if any(SCORE_MEASURES[name].needs_model for name in names) else None
    embedder = kumi.models.embedder(budget) if any("embedder" in SCORE_MEASURES[name].needs for name in names) else None
    questions = study.questions()
    answers = [answer for system in systems for answer in study.answers(system)]
    cases = list(build_cases(questions, answers))
    if len(cases) < len(answers):
        print(
            f"(Left out, because the study has no such question: {len(answers) - len(cases):,} answers.)",
            file=sys.stderr,
        )
    with terminal.progress_bar(show_progress) as progress:
        results = list(score_cases(cases, names, llm, embedder, repeats=repeats, progress=progress))
    study.replace_rows("scores", results, lambda row: row.system in systems and row.name in names)
    fingerprints = {"model": llm.fingerprint if llm else "", "embedder": embedder.fingerprint if embedder else ""}
    answer_digests = {
        s: hash_parts(*(row_to_json(case.answer) for case in cases if case.answer.system == s)) for s in systems
    }
    settings = {
        "repeats": repeats,
        **fingerprints,
        "prompts": scoring_prompt_digests() if llm else {},
        "questions": hash_parts(*map(row_to_json, questions)),
    }
    entry = {"measures": list(names), "systems": answer_digests, **settings}
    study.record_stage("score", runs=[*_earlier_runs(study, systems, names), entry])
    return results


def _earlier_runs(study: Study, systems: Sequence[str], names: Sequence[str]) -> list[dict[str, Any]]:
    """Return earlier runs with scores that this run did not replace."""
    runs = study.read_manifest().get("score", {}).get("runs", [])
    return [run for run in runs if not (set(run["systems"]) <= set(systems) and set(run["measures"]) <= set(names))]


def _show_scores(
    study: Study, scores: Sequence[Score], mean_rows: Sequence[ScoreMean], skipped: Sequence[str], *, as_json: bool
) -> None:
    if as_json:
        missed = {status: sum(score.status == status for score in scores) for status in ("invalid", "failed")}
        written = {
            "written": str(study.path("scores")),
            "scores": len(scores),
            **missed,
            "needs_a_model": list(skipped),
        }
        jsonl.print_json({**written, "means": [asdict(mean) for mean in mean_rows]})
        return
    head = ("measure", "system", "mean", "95 %", "n/N")
    repeated = any(mean.spread is not None for mean in mean_rows)
    defined = {mean.measure for mean in mean_rows if mean.n}
    rows = [
        (*_mean_row(mean), *([_format_number(mean.spread)] if repeated else []))
        for mean in mean_rows
        if mean.measure in defined
    ]
    terminal.show_rows(rows, head=(*head, "spread") if repeated else head, numeric=(2, 3, 4, 5))
    if undefined := [name for name in dict.fromkeys(mean.measure for mean in mean_rows) if name not in defined]:
        print(f"Undefined for every answer: {', '.join(undefined)}.")
    for line in islice(_missing_values(scores), _MAX_REASONS):
        print(replace_controls(line), file=sys.stderr)
    if skipped:
        print(
            f"Not computed without a chat model: {', '.join(skipped)}. To compute them, {SET_MODEL_HINT}.",
            file=sys.stderr,
        )
    print(f"{len(scores):,} scores are in {study.path('scores')}.")


def _missing_values(scores: Sequence[Score]) -> Iterator[str]:
    """Yield the reasons for missing values, most frequent first."""
    reasons: dict[str, Counter[str]] = {}
    for score in scores:
        if score.value is None:
            reasons.setdefault(score.reason, Counter())[score.name] += 1
    for reason, names in sorted(reasons.items(), key=lambda each: -each[1].total()):
        measures = ", ".join(list(names)[:_MAX_NAMES]) + (
            f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
        )
        yield f"No value for {names.total():,} of {len(scores):,}: {reason} ({measures})."


def _mean_row(mean: ScoreMean) -> tuple[str, ...]:
    interval = f"{_format_number(mean.low)}–{_format_number(mean.high)}" if mean.n else ""
    return mean.measure, mean.system, _format_number(mean.value), interval, f"{mean.n:,}/{mean.of:,}"


def _format_number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _raise_failures(scores: Sequence[Score]) -> None:
    """Raise ItemFailed if the model failed to give scores."""
    failed = [score for score in scores if score.status != "ok"]
    if failed:
        invalid = sum(score.status == "invalid" for score in failed)
        raise ItemFailed(
            f"{len(failed):,} of {len(scores):,} scores failed, {invalid:,} of them because replies cannot be "
            f"read; run the same command to try again. The first: {failed[0].reason}"
        )
