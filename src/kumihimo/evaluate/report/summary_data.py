"""a study -> the results for its report, computed once: pairs, ranks, measures, costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from kumihimo.core.errors import SettingsError
from kumihimo.evaluate.agreement import CountAgreement, compare_with_counts
from kumihimo.evaluate.bias import measure_bias
from kumihimo.evaluate.bias_measures import BiasReport
from kumihimo.evaluate.claims.claim_counts import measure_claims
from kumihimo.evaluate.comparison import (
    Comparison,
    RankedSystem,
    SystemPair,
    average_criteria,
    compare_by_criterion,
    compare_by_measure,
    compare_by_measures,
    neighbouring_pairs,
    rank_systems,
    zero_method_for,
)
from kumihimo.evaluate.fabrication import RATE_FIELDS, fabrication_by_question
from kumihimo.evaluate.judging.calls import AnswersBySystem
from kumihimo.evaluate.judging.ratings import mean_ratings
from kumihimo.evaluate.points import points_by_pair
from kumihimo.evaluate.records import AnswerClaim, AnswerSentence, EvalQuestion, Rating, Score, SystemAnswer, Verdict
from kumihimo.evaluate.scoring import SCORE_MEASURES
from kumihimo.evaluate.study import FILE_COMMANDS, ROW_TYPES, Study
from kumihimo.llm.local_embedder import LocalTokenizer

CONTROL_CRITERION = "directness"  # no method should win by this and by all others
OVERALL_CRITERION = "overall"  # some protocols ask for it directly
_PROTOCOL_ORDER = ("debiased", "graphrag", "lightrag")  # the first one present decides
LOWER_IS_BETTER = {
    *RATE_FIELDS,
    "tokens",
    "chunks",
    *(name for name, measure in SCORE_MEASURES.items() if measure.better == "less"),
}


@dataclass(frozen=True, slots=True)
class CriterionResults:
    """The judge's results by one criterion. parts: the combined criteria, if several."""

    protocol: str
    name: str
    points: Mapping[SystemPair, Mapping[str, float]]
    comparisons: Sequence[Comparison]
    ranking: Sequence[RankedSystem]
    parts: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ReportMeasure:
    """A number for each answer.

    undefined: by system, the reasons of missing values with counts. total: the number of questions.
    """

    group: str
    name: str
    values: Mapping[str, Mapping[str, float]]
    undefined: Mapping[str, Counter[str]]
    total: int
    comparisons: Sequence[Comparison]
    lower_is_better: bool = False

    def mean(self, system: str) -> float | None:
        """Return a system's mean, or None without values."""
        values = self.values.get(system)
        return sum(values.values()) / len(values) if values else None


@dataclass(frozen=True, slots=True)
class SystemCost:
    """A system's mean cost per answered question. Seconds exclude cached answers."""

    system: str
    answered: int
    failed: int
    calls: float
    tokens: float
    cost: float
    timed: int
    median_seconds: float | None
    p95_seconds: float | None


@dataclass(frozen=True)
class StudyResults:
    """The results of a study."""

    name: str
    study: Study
    questions: Sequence[EvalQuestion]
    systems: Sequence[str]
    answers: AnswersBySystem
    verdicts: Sequence[Verdict]
    criteria: Sequence[CriterionResults]
    bias: BiasReport | None
    measures: Sequence[ReportMeasure]
    agreements: Sequence[CountAgreement]
    costs: Sequence[SystemCost]
    manifest: Mapping[str, Any]
    missing: Mapping[str, str] = field(default_factory=dict)  # missing part -> the command that adds it

    @cached_property
    def protocols(self) -> list[str]:
        """Return the protocols, the deciding one first."""
        names = dict.fromkeys(criterion.protocol for criterion in self.criteria)
        return sorted(
            names,
            key=lambda name: (_PROTOCOL_ORDER.index(name) if name in _PROTOCOL_ORDER else len(_PROTOCOL_ORDER), name),
        )

    def criteria_of(self, protocol: str) -> list[CriterionResults]:
        """Return the criteria of a protocol."""
        return [criterion for criterion in self.criteria if criterion.protocol == protocol]

    @cached_property
    def deciding_criterion(self) -> CriterionResults | None:
        """Return the overall criterion of the first protocol, used in the headline."""
        return overall_criterion(self.criteria_of(self.protocols[0]), self.clusters) if self.protocols else None

    @cached_property
    def clusters(self) -> dict[str, str]:
        """Return the cluster of each question."""
        return {question.id: question.cluster for question in self.questions}

    def measures_in(self, name: str) -> list[ReportMeasure]:
        """Return the measures of a group."""
        return [measure for measure in self.measures if measure.group == name]


def load_study_results(
    study: Study, name: str, *, systems: Sequence[str] = (), neighbours: bool = False
) -> StudyResults:
    """Load a study and compute its results.

    systems: only these, in this order. neighbours: compare ratings like MK-RAG, each system with the one before.
    Raises SettingsError if there are no questions, or a system is unknown.
    """
    questions = study.questions()
    verdicts = list(study.rows("verdicts", Verdict)) if study.has("verdicts") else []
    order = _system_order(study, verdicts, systems)
    verdicts = [verdict for verdict in verdicts if verdict.a in order and verdict.b in order]
    answers = {s: {row.question: row for row in study.answers(s)} for s in order if s in study.systems()}
    clusters = {question.id: question.cluster for question in questions}
    claims = (
        [claim for claim in study.rows("claims", AnswerClaim) if claim.system in order] if study.has("claims") else []
    )
    builder = _MeasureBuilder(questions, order, clusters, answers, neighbours)
    measures = [
        *builder.ratings(study),
        *builder.scores(study),
        *builder.retrieval(study),
        *builder.claims(study, claims),
    ]
    return StudyResults(
        name,
        study,
        questions,
        order,
        answers,
        verdicts,
        list(_criteria(verdicts, clusters, order)),
        _bias(verdicts, answers, questions),
        measures,
        _agreements(verdicts, measures),
        [_system_cost(system, answers[system].values()) for system in order if system in answers],
        study.read_manifest(),
        _missing_files(study, answers),
    )


def _system_order(study: Study, verdicts: Iterable[Verdict], requested: Sequence[str]) -> list[str]:
    """Return the systems: judged first, then answered, then only measured.

    Raises SettingsError for an unknown system.
    """
    names = dict.fromkeys(side for verdict in verdicts for side in (verdict.a, verdict.b)) | dict.fromkeys(
        study.systems()
    )
    for name in ("retrieval", "scores", "ratings"):
        if study.has(name):
            names |= dict.fromkeys(row.system for row in study.rows(name, ROW_TYPES[name]))
    for system in requested:
        if system not in names:
            raise SettingsError(f"{study.folder} has no system {system!r}: choose from {', '.join(names)}")
    return list(requested or names)


def _missing_files(study: Study, answers: AnswersBySystem) -> dict[str, str]:
    """Return the missing parts with the commands that add them."""
    names = {name: name for name in ("verdicts", "ratings", "claims", "scores")} | {"retrieval": "retrieval measures"}
    missing = {label: FILE_COMMANDS[name] for name, label in names.items() if not study.has(name)}
    return missing | ({} if answers else {"answers": "kumi eval run"})


# -- results of judges


def _criteria(
    verdicts: Sequence[Verdict], clusters: Mapping[str, str], order: Sequence[str]
) -> Iterator[CriterionResults]:
    """Yield each criterion's results, with sides in the systems' order."""
    pairs_by_criterion: dict[tuple[str, str], dict[SystemPair, dict[str, float]]] = {}
    for pair, points in points_by_pair(verdicts).items():
        values = {question: value for question, value in points.items() if question in clusters}
        sides = (pair.a, pair.b)
        if order.index(pair.a) > order.index(pair.b):
            sides, values = (pair.b, pair.a), {question: 100 - value for question, value in values.items()}
        pairs_by_criterion.setdefault((pair.protocol, pair.criterion), {})[sides] = values
    for (protocol, name), pairs in pairs_by_criterion.items():
        yield _criterion(protocol, name, pairs, clusters)


def _criterion(
    protocol: str,
    name: str,
    pairs: Mapping[SystemPair, Mapping[str, float]],
    clusters: Mapping[str, str],
    parts: Sequence[str] = (),
) -> CriterionResults:
    """Return the results of one criterion."""
    comparisons = compare_by_criterion(name, pairs, clusters, zeros=zero_method_for(protocol))
    return CriterionResults(protocol, name, pairs, comparisons, rank_systems(pairs, clusters), parts)


def overall_criterion(criteria: Sequence[CriterionResults], clusters: Mapping[str, str]) -> CriterionResults:
    """Return the protocol's overall criterion, else the mean without the control."""
    for criterion in criteria:
        if criterion.name.casefold() == OVERALL_CRITERION or len(criteria) == 1:
            return criterion
    combined = [criterion for criterion in criteria if criterion.name.casefold() != CONTROL_CRITERION]
    if len(combined) == 1:
        return combined[0]
    pairs = average_criteria([criterion.points for criterion in combined])
    return _criterion(combined[0].protocol, "together", pairs, clusters, [criterion.name for criterion in combined])


def _bias(
    verdicts: Sequence[Verdict], answers: AnswersBySystem, questions: Sequence[EvalQuestion]
) -> BiasReport | None:
    """Return the bias checks, or None without verdicts."""
    if not verdicts:
        return None

    return measure_bias(verdicts, questions, answers, LocalTokenizer())


def _agreements(verdicts: Iterable[Verdict], measures: Iterable[ReportMeasure]) -> list[CountAgreement]:
    """Return how often judges prefer the answer with more claims."""
    values: dict[str, dict[str, dict[str, float | None]]] = {}
    for measure in measures:
        if measure.group == "claims":
            for system, by_question in measure.values.items():
                values.setdefault(system, {})[measure.name] = dict(by_question)
    return compare_with_counts(verdicts, values) if values else []


# -- measures of each answer


@dataclass(frozen=True, slots=True)
class _MeasureBuilder:
    """A builder of report measures from the files of a study."""

    questions: Sequence[EvalQuestion]
    systems: Sequence[str]
    clusters: Mapping[str, str]
    answers: AnswersBySystem
    neighbours: bool

    def scores(self, study: Study) -> Iterator[ReportMeasure]:
        """Yield the measures of `scores.jsonl`."""
        return self._from_scores("scores", study.rows("scores", Score) if study.has("scores") else ())

    def retrieval(self, study: Study) -> Iterator[ReportMeasure]:
        """Yield the measures of `retrieval.jsonl`."""
        return self._from_scores("retrieval", study.rows("retrieval", Score) if study.has("retrieval") else ())

    def _from_scores(self, group: str, rows: Iterable[Score]) -> Iterator[ReportMeasure]:
        """Yield the measures of score rows."""
        values: dict[str, dict[str, dict[str, float]]] = {}
        undefined: dict[str, dict[str, Counter[str]]] = {}
        for row in rows:
            if row.system in self.systems and row.question in self.clusters:
                by_question = values.setdefault(row.name, {}).setdefault(row.system, {})
                if row.value is None:
                    reasons = undefined.setdefault(row.name, {}).setdefault(row.system, Counter())
                    reasons[row.reason or "no reason given"] += 1
                else:
                    by_question[row.question] = row.value
        for name, by_system in values.items():
            yield self._measure(group, name, by_system, undefined.get(name, {}))

    def ratings(self, study: Study) -> Iterator[ReportMeasure]:
        """Yield the rating measures: means of the readable replicates.

        With `neighbours` all comparisons are one family.
        """
        rating_rows = study.rows("ratings", Rating) if study.has("ratings") else ()
        rows = [row for row in rating_rows if row.system in self.systems and row.question in self.clusters]
        undefined: dict[str, dict[str, Counter[str]]] = {}
        for row in rows:
            if row.value is None:
                reasons = undefined.setdefault(row.criterion, {}).setdefault(row.system, Counter())
                reasons[row.why or row.status] += 1
        means = mean_ratings(rows)
        family: Sequence[Comparison] | None = None
        if self.neighbours:
            family = compare_by_measures(means, self.clusters, neighbouring_pairs(self.systems))
        for name, by_system in means.items():
            comparisons = None if family is None else [comparison for comparison in family if comparison.metric == name]
            yield self._measure("ratings", name, by_system, undefined.get(name, {}), comparisons, protocol="mk")

    def claims(self, study: Study, claims: Sequence[AnswerClaim]) -> Iterator[ReportMeasure]:
        """Yield claim counts, clusters and fabrication rates."""
        sentences = list(study.rows("sentences", AnswerSentence)) if study.has("sentences") else None
        systems = [system for system in self.systems if any(claim.system == system for claim in claims)]
        values: dict[str, dict[str, dict[str, float]]] = {}
        undefined: dict[str, dict[str, Counter[str]]] = {}
        for system in systems:
            counts = measure_claims(claims, self.questions, system, sentences)
            fabrication = {
                name: rates
                for name, rates in fabrication_by_question(claims, self.questions, system).items()
                if _any_value(rates)
            }
            for name, by_question in (counts | fabrication).items():
                values.setdefault(name, {})[system] = {
                    question: value for question, value in by_question.items() if value is not None
                }
                if missing := sum(value is None for value in by_question.values()):
                    undefined.setdefault(name, {})[system] = Counter({"its claims are unknown": missing})
        for name, by_system in values.items():
            yield self._measure("claims", name, by_system, undefined.get(name, {}))

    def _measure(
        self,
        group: str,
        name: str,
        values: Mapping[str, Mapping[str, float]],
        undefined: Mapping[str, Counter[str]],
        comparisons: Sequence[Comparison] | None = None,
        protocol: str = "",
    ) -> ReportMeasure:
        """Return a measure with its comparisons."""
        ordered = {system: values[system] for system in self.systems if system in values}
        if comparisons is None:
            comparisons = compare_by_measure(name, ordered, self.clusters, zeros=zero_method_for(protocol))
        return ReportMeasure(group, name, ordered, undefined, len(self.questions), comparisons, name in LOWER_IS_BETTER)


def _any_value(values: Mapping[str, float | None]) -> bool:
    """Return whether any value is known."""
    return any(value is not None for value in values.values())


def _system_cost(system: str, rows: Iterable[SystemAnswer]) -> SystemCost:
    """Return a system's mean costs over its successful answers."""
    all_rows = list(rows)
    answered = [row for row in all_rows if not row.failed]
    count = max(len(answered), 1)
    seconds = sorted(row.seconds for row in answered if row.seconds is not None)

    def quantile(fraction: float) -> float | None:
        """Return a quantile of the seconds, or None."""
        return seconds[min(len(seconds) - 1, int(fraction * len(seconds)))] if seconds else None

    return SystemCost(
        system,
        len(answered),
        len(all_rows) - len(answered),
        sum(row.usage.calls for row in answered) / count,
        sum(row.usage.tokens for row in answered) / count,
        sum(row.usage.cost for row in answered) / count,
        len(seconds),
        quantile(0.5),
        quantile(0.95),
    )
