"""questions + answers -> Scores: each measure of each answer, one after another; what failed is a row that says so."""

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
from kumihimo.llm.concurrency import map_concurrent
from kumihimo.llm.protocols import LLM, Embedder

ScoreAttempt = tuple[ScoreResult, ReplyStatus]


def resolve_measures(names: Sequence[str]) -> list[str]:
    """The measures of these names, or of groups of that name, or `all`; none named: the usual ones, in their order.

    Raises SettingsError for what there is not.
    """
    wanted = set() if names else set(DEFAULT_MEASURES)
    for name in names:
        if name not in SCORE_MEASURES and name not in MEASURE_GROUPS and name != "all":
            raise SettingsError(describe_unknown("measure", name, [*SCORE_MEASURES, *MEASURE_GROUPS, "all"]))
        wanted |= {n for n, measure in SCORE_MEASURES.items() if name in (n, measure.group, "all")}
    return [name for name in SCORE_MEASURES if name in wanted]


def build_cases(questions: Iterable[EvalQuestion], answers: Iterable[SystemAnswer]) -> Iterator[Case]:
    """Each answer with its question; one to what is not asked any more is left out."""
    known = {question.id: question for question in questions}
    for answer in answers:
        if answer.question in known:
            yield Case(known[answer.question], answer)


def score_cases(
    cases: Sequence[Case],
    names: Sequence[str],
    llm: LLM | None = None,
    embedder: Embedder | None = None,
    *,
    repeats: int = 1,
    progress: Progress | None = None,
) -> Iterator[Score]:
    """In the order of the cases, of each in the order of the names. repeats: of measures that ask a model, of which
    the mean is given, and in the detail each one and the spread, from the least to the most."""

    def measure(case: Case) -> list[Score]:
        tools = [Tools(llm, embedder, sample) for sample in range(repeats)]
        return [_score(name, case, tools) for name in names]

    workers = llm.workers if llm else 1
    for done, rows in enumerate(map_concurrent(measure, cases, workers), 1):
        yield from rows
        if progress:
            progress("answers", done, len(cases))


def _score(name: str, case: Case, tools: Sequence[Tools]) -> Score:
    none = Score(name, case.answer.system, case.question.id, None)
    if case.answer.failed:
        return replace(none, reason=f"there is no answer: {case.answer.failed}")
    found = [_attempt_score(name, case, each) for each in (tools if SCORE_MEASURES[name].needs_model else tools[:1])]
    if len(found) == 1:
        once, status = found[0]
        return replace(none, value=once.value, reason=once.reason, detail=once.detail, status=status)
    return replace(none, **_combine_repeats(found))


def _attempt_score(name: str, case: Case, tools: Tools) -> ScoreAttempt:
    try:
        return SCORE_MEASURES[name].function(case, tools), "ok"
    except UnparsableReply as failure:
        return ScoreResult(None, str(failure)), "invalid"
    except ItemFailed as failure:
        return ScoreResult(None, str(failure)), "failed"


def _combine_repeats(found: Sequence[ScoreAttempt]) -> dict[str, Any]:
    """The mean of those that are defined; none where one has failed, for the next run may have it."""
    each = [{"value": one.value, "reason": one.reason, **one.detail} for one, _ in found]
    values = [one.value for one, _ in found if one.value is not None]
    reasons = [one.reason for one, _ in found if one.value is None]
    detail: dict[str, Any] = {"repeats": each}
    for one, status in found:
        if status != "ok":
            return {"value": None, "reason": one.reason, "detail": detail, "status": status}
    if not values:
        return {"value": None, "reason": reasons[0], "detail": detail}
    detail["spread"] = max(values) - min(values)
    reason = f"undefined in {len(reasons)} of {len(found)} repeats: {reasons[0]}" if reasons else ""
    return {"value": sum(values) / len(values), "reason": reason, "detail": detail}


def scoring_prompt_digests() -> dict[str, str]:
    """The digest of each prompt, so that one can tell whether two scorings asked the same."""
    found = sorted(Path(__file__).parent.glob("scoring_*.md"))
    return {path.stem: hash_parts(path.read_text(encoding="utf-8")) for path in found}


@dataclass(frozen=True, slots=True)
class ScoreMean:
    """Of one measure and one system. n: the answers it is defined for, of `of`. reasons: of the others, how many each.

    low, high: the 95 % interval, drawn by clusters of questions. spread: between repeats of one answer, on average.
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
    """By measure in the order of the catalogue, then by system in that of the scores."""
    clusters = {question.id: question.cluster for question in questions}
    groups: dict[tuple[str, str], list[Score]] = {}
    for score in scores:
        groups.setdefault((score.name, score.system), []).append(score)
    order = list(SCORE_MEASURES)
    return [_mean(*key, rows, clusters) for key, rows in sorted(groups.items(), key=lambda g: order.index(g[0][0]))]


def _mean(measure: str, system: str, rows: Sequence[Score], clusters: Mapping[str, str]) -> ScoreMean:
    from kumihimo.evaluate.statistics import bootstrap_interval

    valid = [(row.value, clusters[row.question]) for row in rows if row.value is not None]
    reasons = dict(Counter(row.reason for row in rows if row.value is None).most_common())
    if not valid:
        return ScoreMean(measure, system, None, None, None, 0, len(rows), reasons)
    values, of = [value for value, _ in valid], [cluster for _, cluster in valid]
    spreads = [row.detail["spread"] for row in rows if row.value is not None and "spread" in row.detail]
    spread = sum(spreads) / len(spreads) if spreads else None
    return ScoreMean(
        measure,
        system,
        sum(values) / len(values),
        *bootstrap_interval(values, of),
        len(values),
        len(rows),
        reasons,
        spread,
    )
