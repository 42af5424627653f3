"""questions + answers -> scores: each measure of each answer; a failure becomes a row with its reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import ItemFailed, SettingsError, UnparsableReply, describe_unknown
from kumihimo.core.task import Progress
from kumihimo.evaluate.records import EvalQuestion, ReplyStatus, Score, SystemAnswer
from kumihimo.evaluate.scoring import DEFAULT_MEASURES, MEASURE_GROUPS, SCORE_MEASURES
from kumihimo.evaluate.scoring.case import Case, ScoreResult, Tools
from kumihimo.evaluate.statistics import bootstrap_interval
from kumihimo.llm.concurrency import map_concurrent
from kumihimo.llm.protocols import LLM, Embedder

ScoreAttempt = tuple[ScoreResult, ReplyStatus]


def resolve_measures(names: Sequence[str]) -> list[str]:
    """Return the measures with these names, or in these groups.

    `all` selects every measure; no names select the default ones. The catalogue sets the order. Raises SettingsError
    for an unknown name.
    """
    selected = set() if names else set(DEFAULT_MEASURES)
    for name in names:
        if name not in SCORE_MEASURES and name not in MEASURE_GROUPS and name != "all":
            raise SettingsError(describe_unknown("measure", name, [*SCORE_MEASURES, *MEASURE_GROUPS, "all"]))
        selected |= {key for key, measure in SCORE_MEASURES.items() if name in (key, measure.group, "all")}
    return [name for name in SCORE_MEASURES if name in selected]


def build_cases(questions: Iterable[EvalQuestion], answers: Iterable[SystemAnswer]) -> Iterator[Case]:
    """Yield each answer with its question; skip answers to unknown questions."""
    by_id = {question.id: question for question in questions}
    for answer in answers:
        if answer.question in by_id:
            yield Case(by_id[answer.question], answer)


def score_cases(
    cases: Sequence[Case],
    names: Sequence[str],
    llm: LLM | None = None,
    embedder: Embedder | None = None,
    *,
    repeats: int = 1,
    progress: Progress | None = None,
) -> Iterator[Score]:
    """Yield the scores in the order of cases, then of names.

    repeats: how often to score with LLM measures. The value is then the mean; the detail holds each repeat and the
    spread (maximum - minimum).
    """

    def measure(case: Case) -> list[Score]:
        """Return the scores of one case."""
        tools = [Tools(llm, embedder, sample) for sample in range(repeats)]
        return [_score(name, case, tools) for name in names]

    workers = llm.workers if llm else 1
    for done, rows in enumerate(map_concurrent(measure, cases, workers), 1):
        yield from rows
        if progress:
            progress("answers", done, len(cases))


def _score(name: str, case: Case, tools: Sequence[Tools]) -> Score:
    """Return one score of a case, as the mean of its repeats."""
    empty = Score(name, case.answer.system, case.question.id, None)
    if case.answer.failed:
        return replace(empty, reason=f"there is no answer: {case.answer.failed}")
    attempts = [
        _attempt_score(name, case, repeat) for repeat in (tools if SCORE_MEASURES[name].needs_model else tools[:1])
    ]
    if len(attempts) == 1:
        result, status = attempts[0]
        return replace(empty, value=result.value, reason=result.reason, detail=result.detail, status=status)
    return replace(empty, **_combine_repeats(attempts))


def _attempt_score(name: str, case: Case, tools: Tools) -> ScoreAttempt:
    """Compute one measure once, with its status."""
    try:
        return SCORE_MEASURES[name].function(case, tools), "ok"
    except UnparsableReply as failure:
        return ScoreResult(None, str(failure)), "invalid"
    except ItemFailed as failure:
        return ScoreResult(None, str(failure)), "failed"


def _combine_repeats(attempts: Sequence[ScoreAttempt]) -> dict[str, Any]:
    """Combine repeats into the mean of the defined values.

    There is no value if one repeat failed, because the next run may complete it.
    """
    repeats = [{"value": result.value, "reason": result.reason, **result.detail} for result, _ in attempts]
    values = [result.value for result, _ in attempts if result.value is not None]
    reasons = [result.reason for result, _ in attempts if result.value is None]
    detail: dict[str, Any] = {"repeats": repeats}
    for result, status in attempts:
        if status != "ok":
            return {"value": None, "reason": result.reason, "detail": detail, "status": status}
    if not values:
        return {"value": None, "reason": reasons[0], "detail": detail}
    detail["spread"] = max(values) - min(values)
    reason = f"undefined in {len(reasons)} of {len(attempts)} repeats: {reasons[0]}" if reasons else ""
    return {"value": sum(values) / len(values), "reason": reason, "detail": detail}


def scoring_prompt_digests() -> dict[str, str]:
    """Return the digest of each scoring prompt, for the manifest."""
    paths = sorted(Path(__file__).parent.glob("scoring_*.md"))
    return {path.stem: hash_parts(path.read_text(encoding="utf-8")) for path in paths}


@dataclass(frozen=True, slots=True)
class ScoreMean:
    """The mean of one measure for one system.

    n: the answers with a value, of `of` answers. reasons: why the others have none, with counts. low, high: the 95 %
    interval, by bootstrap over clusters of questions. spread: the mean spread between repeats of an answer.
    """

    measure: str
    system: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    of: int
    reasons: Mapping[str, int]
    spread: float | None = None


def mean_scores(scores: Iterable[Score], questions: Iterable[EvalQuestion]) -> list[ScoreMean]:
    """Return the means by measure, then system.

    Measures have the order of the catalogue, systems that of the scores.
    """
    clusters = {question.id: question.cluster for question in questions}
    groups: dict[tuple[str, str], list[Score]] = {}
    for score in scores:
        groups.setdefault((score.name, score.system), []).append(score)
    order = list(SCORE_MEASURES)
    return [
        _mean(*key, rows, clusters) for key, rows in sorted(groups.items(), key=lambda group: order.index(group[0][0]))
    ]


def _mean(measure: str, system: str, rows: Sequence[Score], clusters: Mapping[str, str]) -> ScoreMean:
    """Return the mean of one measure for one system."""

    valid = [(row.value, clusters[row.question]) for row in rows if row.value is not None]
    reasons = dict(Counter(row.reason for row in rows if row.value is None).most_common())
    if not valid:
        return ScoreMean(measure, system, None, None, None, 0, len(rows), reasons)
    values, clusters_of_values = [value for value, _ in valid], [cluster for _, cluster in valid]
    spreads = [row.detail["spread"] for row in rows if row.value is not None and "spread" in row.detail]
    spread = sum(spreads) / len(spreads) if spreads else None
    return ScoreMean(
        measure,
        system,
        sum(values) / len(values),
        *bootstrap_interval(values, clusters_of_values),
        len(values),
        len(rows),
        reasons,
        spread,
    )
