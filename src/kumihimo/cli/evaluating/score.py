"""a study's answers -> scores.jsonl: what each is worth by itself, without another to compare it with."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

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
from kumihimo.cli.sanitize import replace_controls
from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import ItemFailed
from kumihimo.llm.budget import Caps
from kumihimo.llm.registry import SET_MODEL_HINT

if TYPE_CHECKING:
    from kumihimo.app.facade import Kumihimo
    from kumihimo.evaluate.records import Score
    from kumihimo.evaluate.scoring.run_scores import ScoreMean
    from kumihimo.evaluate.study import Study

_ROLE = "scorer"
_MAX_REASONS, _MAX_NAMES = 10, 3  # reasons, measures of one


def score(
    study: StudyFolder = DEFAULT_STUDY,
    methods: AnsweredSystems = "",
    measures: Annotated[
        str, typer.Option(help="These measures, or groups: words, ragas, assertions, claims, all.", metavar="NAMES")
    ] = "",
    repeats: Annotated[int, typer.Option(help="Score each answer so many times, and take the mean.", min=1)] = 1,
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
    """Score each answer: faithful, correct, its evidence relevant and complete; some measures need no model."""
    from kumihimo.evaluate.scoring.run_scores import mean_scores, resolve_measures
    from kumihimo.evaluate.study import Study

    configure_logging(verbose, show_prompts)
    held = Study(study)
    systems = held.select_systems(split_names(methods))
    held.check_readable("scores")
    with open_index(folder, options, cache) as kumi:
        names, left = _select_computable(kumi, resolve_measures(split_names(measures)), explicit=bool(measures))
        scores = _score_answers(
            kumi,
            held,
            systems,
            names,
            Caps(max_calls, max_tokens, max_cost),
            repeats,
            show_progress=not (verbose or show_prompts),
        )
    _show_scores(held, scores, mean_scores(scores, held.questions()), left, as_json=as_json)
    _raise_failures(scores)


def _select_computable(kumi: Kumihimo, names: Sequence[str], *, explicit: bool) -> tuple[list[str], list[str]]:
    """The measures that can be had, and those left out for want of a model, which nobody has asked for by name."""
    from kumihimo.evaluate.scoring import SCORE_MEASURES

    if explicit or kumi.models.chat(_ROLE):
        return list(names), []
    return [n for n in names if not SCORE_MEASURES[n].needs_model], [n for n in names if SCORE_MEASURES[n].needs_model]


def _score_answers(
    kumi: Kumihimo,
    held: Study,
    systems: Sequence[str],
    names: Sequence[str],
    caps: Caps,
    repeats: int,
    *,
    show_progress: bool,
) -> list[Score]:
    """The scores, written, with how they were made."""
    from kumihimo.evaluate.scoring import SCORE_MEASURES
    from kumihimo.evaluate.scoring.run_scores import build_cases, score_cases, scoring_prompt_digests
    from kumihimo.evaluate.study import row_to_json

    purse = kumi.models.budget(caps)
    ask = kumi.models.llm(_ROLE, purse) if any(SCORE_MEASURES[n].needs_model for n in names) else None
    embedder = kumi.models.embedder(purse) if any("embedder" in SCORE_MEASURES[n].needs for n in names) else None
    questions = held.questions()
    answers = [answer for system in systems for answer in held.answers(system)]
    cases = list(build_cases(questions, answers))
    if len(cases) < len(answers):
        print(f"(Left out, since the study does not ask that: {len(answers) - len(cases):,} answers.)", file=sys.stderr)
    with terminal.progress_bar(show_progress) as progress:
        made = list(score_cases(cases, names, ask, embedder, repeats=repeats, progress=progress))
    held.replace_rows("scores", made, lambda row: row.system in systems and row.name in names)
    marks = {"model": ask.fingerprint if ask else "", "embedder": embedder.fingerprint if embedder else ""}
    reads = {s: hash_parts(*(row_to_json(case.answer) for case in cases if case.answer.system == s)) for s in systems}
    told = {
        "repeats": repeats,
        **marks,
        "prompts": scoring_prompt_digests() if ask else {},
        "questions": hash_parts(*map(row_to_json, questions)),
    }
    ran = {"measures": list(names), "systems": reads, **told}
    held.record_stage("score", runs=[*_earlier_runs(held, systems, names), ran])
    return made


def _earlier_runs(held: Study, systems: Sequence[str], names: Sequence[str]) -> list[dict[str, Any]]:
    """How other scores were made: runs all of whose scores were made anew are not told any more."""
    runs = held.read_manifest().get("score", {}).get("runs", [])
    return [run for run in runs if not (set(run["systems"]) <= set(systems) and set(run["measures"]) <= set(names))]


def _show_scores(
    held: Study, scores: Sequence[Score], found: Sequence[ScoreMean], left: Sequence[str], *, as_json: bool
) -> None:
    if as_json:
        missed = {status: sum(score.status == status for score in scores) for status in ("invalid", "failed")}
        written = {"written": str(held.path("scores")), "scores": len(scores), **missed, "needs_a_model": list(left)}
        jsonl.print_json({**written, "means": [asdict(mean) for mean in found]})
        return
    head = ("measure", "system", "mean", "95 %", "n/N")
    again = any(mean.spread is not None for mean in found)
    defined = {mean.measure for mean in found if mean.n}
    rows = [
        (*_mean_row(mean), *([_format_number(mean.spread)] if again else []))
        for mean in found
        if mean.measure in defined
    ]
    terminal.show_rows(rows, head=(*head, "spread") if again else head, numeric=(2, 3, 4, 5))
    if nowhere := [name for name in dict.fromkeys(mean.measure for mean in found) if name not in defined]:
        print(f"Of no answer: {', '.join(nowhere)}.")
    for line in islice(_missing_values(scores), _MAX_REASONS):
        print(replace_controls(line), file=sys.stderr)
    if left:
        print(
            f"Not computed, since a chat model is needed: {', '.join(left)}. To have them, {SET_MODEL_HINT}.",
            file=sys.stderr,
        )
    print(f"{len(scores):,} scores are in {held.path('scores')}.")


def _missing_values(scores: Sequence[Score]) -> Iterator[str]:
    """Why scores have no value, the most frequent reason first."""
    why: dict[str, Counter[str]] = {}
    for score in scores:
        if score.value is None:
            why.setdefault(score.reason, Counter())[score.name] += 1
    for reason, names in sorted(why.items(), key=lambda each: -each[1].total()):
        which = ", ".join(list(names)[:_MAX_NAMES]) + (
            f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
        )
        yield f"No value for {names.total():,} of {len(scores):,}: {reason} ({which})."


def _mean_row(mean: ScoreMean) -> tuple[str, ...]:
    between = f"{_format_number(mean.low)}–{_format_number(mean.high)}" if mean.n else ""
    return mean.measure, mean.system, _format_number(mean.value), between, f"{mean.n:,}/{mean.of:,}"


def _format_number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _raise_failures(scores: Sequence[Score]) -> None:
    """Raises ItemFailed where a score could not be had from the model."""
    failed = [score for score in scores if score.status != "ok"]
    if failed:
        unread = sum(score.status == "invalid" for score in failed)
        raise ItemFailed(
            f"{len(failed):,} of {len(scores):,} scores could not be had, {unread:,} of them since replies cannot be "
            f"read; the same command tries them again. Of the first: {failed[0].reason}"
        )
