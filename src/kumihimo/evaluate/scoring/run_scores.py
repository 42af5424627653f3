"""Questions and answers -> scores by the catalogue of measures; a failure becomes a row with its reason."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from kumihimo.core.errors import ItemFailed, SettingsError, describe_unknown
from kumihimo.core.task import Progress
from kumihimo.evaluate import statistics, study
from kumihimo.evaluate.records import EvalQuestion, ReplyStatus, Score, SystemAnswer
from kumihimo.evaluate.scoring import measures, word_measures
from kumihimo.evaluate.scoring.case import Case, ScoreResult, Tools
from kumihimo.llm import concurrency, protocols

MeasureGroup = Literal["words", "refusals", "ragas", "assertions", "claims"]
MeasureFunction = Callable[[Case, Tools], ScoreResult]


@dataclass(frozen=True, slots=True)
class ScoreMeasure:
    """A measure of the catalogue.

    needs: inputs besides the answer. better: whether `more` or `less` is better.
    """

    function: MeasureFunction
    group: MeasureGroup
    needs: tuple[str, ...]
    better: Literal["more", "less"] = "more"

    @property
    def needs_model(self) -> bool:
        """Return whether the measure calls an LLM."""
        return "model" in self.needs


_REFERENCE = "reference answer"
_LOWER_IS_BETTER = ("noise_in_relevant", "noise_in_irrelevant", "hallucination")


def _claim_measure(name: str, undefined: str = "the answer makes no statement") -> ScoreMeasure:
    """Return a measure of the claims of answer and reference."""
    function, needs = measures.build_claim_measure(name, undefined), ("model", _REFERENCE, "evidence")
    return ScoreMeasure(function, "claims", needs, "less" if name in _LOWER_IS_BETTER else "more")


_OTHER_MEASURES: dict[str, ScoreMeasure] = {
    "exact_match": ScoreMeasure(word_measures.exact_match, "words", (_REFERENCE,)),
    "token_f1": ScoreMeasure(word_measures.token_f1, "words", (_REFERENCE,)),
    "rouge_l": ScoreMeasure(word_measures.rouge_l, "words", (_REFERENCE,)),
    "refusal": ScoreMeasure(word_measures.refusal, "refusals", ("questions without an answer",)),
    "wrong_refusal": ScoreMeasure(word_measures.wrong_refusal, "refusals", (), "less"),
    "faithfulness": ScoreMeasure(measures.faithfulness, "ragas", ("model", "evidence")),
    "answer_correctness": ScoreMeasure(measures.answer_correctness, "ragas", ("model", "embedder", _REFERENCE)),
    "context_relevance_sentences": ScoreMeasure(measures.context_relevance_sentences, "ragas", ("model", "evidence")),
    "context_relevance_graded": ScoreMeasure(measures.context_relevance_graded, "ragas", ("model", "evidence")),
    "context_recall": ScoreMeasure(measures.context_recall, "ragas", ("model", _REFERENCE, "evidence")),
    "context_precision": ScoreMeasure(measures.context_precision, "ragas", ("model", _REFERENCE, "evidence")),
    "assertions": ScoreMeasure(measures.assertions_met, "assertions", ("model", "assertions")),
    "context_assertions": ScoreMeasure(measures.context_assertions, "assertions", ("model", "assertions", "evidence")),
}
_CLAIM_MEASURES = (  # name, and the undefined case if it is not the answer without statements
    ("claim_precision",),
    ("claim_recall", "the reference answer states nothing"),
    ("chunk_precision", "there is no evidence"),
    ("context_utilisation", "no chunk supports a claim of the reference"),
    ("noise_in_relevant",),
    ("noise_in_irrelevant",),
    ("hallucination",),
    ("self_knowledge",),
)
SCORE_MEASURES = _OTHER_MEASURES | {names[0]: _claim_measure(*names) for names in _CLAIM_MEASURES}
MEASURE_GROUPS: tuple[MeasureGroup, ...] = ("words", "refusals", "ragas", "assertions", "claims")
# without `claims`: these need two calls per chunk
DEFAULT_MEASURES: tuple[str, ...] = tuple(name for name, m in SCORE_MEASURES.items() if m.group != "claims")


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
    llm: protocols.LLM | None = None,
    embedder: protocols.Embedder | None = None,
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
    yield from chain.from_iterable(concurrency.map_with_progress(measure, cases, workers, "answers", progress))


def _score(name: str, case: Case, tools: Sequence[Tools]) -> Score:
    """Return one score of a case, as the mean of its repeats."""
    empty = Score(name, case.answer.system, case.question.id, None)
    if case.answer.failed:
        return replace(empty, reason=f"there is no answer: {case.answer.failed}")
    repeats = tools if SCORE_MEASURES[name].needs_model else tools[:1]
    attempts = [_attempt_score(name, case, repeat) for repeat in repeats]
    result, status = attempts[0] if len(attempts) == 1 else _combine_repeats(attempts)
    return replace(empty, value=result.value, reason=result.reason, detail=result.detail, status=status)


def _attempt_score(name: str, case: Case, tools: Tools) -> ScoreAttempt:
    """Compute one measure once, with its status."""
    try:
        return SCORE_MEASURES[name].function(case, tools), "ok"
    except ItemFailed as failure:
        return ScoreResult(None, str(failure)), failure.status


def _combine_repeats(attempts: Sequence[ScoreAttempt]) -> ScoreAttempt:
    """Combine repeats into the mean of the defined values.

    There is no value if one repeat failed, because the next run may complete it.
    """
    repeats = [{"value": result.value, "reason": result.reason, **result.detail} for result, _ in attempts]
    values = [result.value for result, _ in attempts if result.value is not None]
    reasons = [result.reason for result, _ in attempts if result.value is None]
    detail: dict[str, Any] = {"repeats": repeats}
    for result, status in attempts:
        if status != "ok":
            return ScoreResult(None, result.reason, detail), status
    if not values:
        return ScoreResult(None, reasons[0], detail), "ok"
    detail["spread"] = max(values) - min(values)
    reason = f"undefined in {len(reasons)} of {len(attempts)} repeats: {reasons[0]}" if reasons else ""
    return ScoreResult(fmean(values), reason, detail), "ok"


def scoring_prompt_digests() -> dict[str, str]:
    """Return the digest of each scoring prompt, for the manifest."""
    return study.prompt_digests(sorted(Path(__file__).parent.glob("scoring_*.md")))


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
    return [_mean(*key, groups[key], clusters) for key in sorted(groups, key=lambda key: order.index(key[0]))]


def _mean(measure: str, system: str, rows: Sequence[Score], clusters: Mapping[str, str]) -> ScoreMean:
    """Return the mean of one measure for one system."""

    reasons = dict(Counter(row.reason for row in rows if row.value is None).most_common())
    if not (valid := [(row.value, clusters[row.question]) for row in rows if row.value is not None]):
        return ScoreMean(measure, system, None, None, None, 0, len(rows), reasons)
    values, groups = zip(*valid, strict=True)
    spreads = [row.detail["spread"] for row in rows if row.value is not None and "spread" in row.detail]
    spread, interval = fmean(spreads) if spreads else None, statistics.bootstrap_interval(values, groups)
    return ScoreMean(measure, system, fmean(values), *interval, len(values), len(rows), reasons, spread)
