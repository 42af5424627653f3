"""A study -> the results for its report, computed once: pairs, ranks, measures, costs."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isclose
from typing import Any

from kumihimo.core.errors import SettingsError
from kumihimo.evaluate import comparison, fabrication
from kumihimo.evaluate.bias import BiasReport, measure_bias
from kumihimo.evaluate.claims.study_claims import measure_claims
from kumihimo.evaluate.comparison import Comparison, DecisiveTest, PairPoints, RankedSystem, SystemPair
from kumihimo.evaluate.judging.refusals import AnswersBySystem, comparable_verdicts
from kumihimo.evaluate.judging.verdicts import mean_ratings
from kumihimo.evaluate.points import CountAgreement, compare_with_counts, points_by_pair, with_swapped_pairs
from kumihimo.evaluate.records import AnswerClaim, Clusters, EvalQuestion, Rating, Score, SystemAnswer, Verdict
from kumihimo.evaluate.scoring.run_scores import SCORE_MEASURES
from kumihimo.evaluate.statistics import bootstrap_interval
from kumihimo.evaluate.study import FILE_COMMANDS, Study
from kumihimo.llm.local_embedder import LocalTokenizer

_PROTOCOL_ORDER = ("debiased", "differential", "graphrag", "lightrag")  # the first one present decides
LEADING_MEASURES = ("recall@5", "recall@10", "answer_correctness", "faithfulness")  # most informative first
_MEASURED_FILES = ("verdicts", "ratings", "claims", "scores", "retrieval")
_LOWER_IS_BETTER = {
    *fabrication.RATE_FIELDS,
    "tokens",
    "chunks",
    *(name for name, measure in SCORE_MEASURES.items() if measure.better == "less"),
}
_MeasureRow = tuple[str, str, str, float | None, str]  # measure, system, question, value, reason for a missing value


@dataclass(frozen=True)
class CriterionResults:
    """The judge's results by one criterion. parts: the combined criteria, if several."""

    protocol: str
    name: str
    points: PairPoints
    comparisons: Sequence[Comparison]
    ranking: Sequence[RankedSystem]
    parts: Sequence[str] = ()

    @property
    def is_control(self) -> bool:
        """Return whether this is the control criterion.

        No method should win by this and by all others.
        """
        return self.name.casefold() == "directness"

    @property
    def system_order(self) -> list[str]:
        """Return the systems by rank."""
        return [entry.system for entry in self.ranking]

    @property
    def has_clear_first(self) -> bool:
        """Return whether one system is first alone."""
        return [entry.rank for entry in self.ranking[:2]] == [1, 2]

    @property
    def best_system(self) -> str:
        """Return the system with the highest mean points."""
        return max(self.ranking, key=lambda entry: entry.mean).system if self.ranking else ""

    @cached_property
    def matrix(self) -> dict[SystemPair, Comparison]:
        """Return each comparison in both directions."""
        return comparison.comparison_matrix(self.comparisons)


@dataclass(frozen=True)
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

    @property
    def heading(self) -> str:
        """Return the name, with an arrow if lower is better."""
        return f"{self.name} ↓" if self.lower_is_better else self.name

    @property
    def systems(self) -> list[str]:
        """Return the systems with values or reasons for missing ones."""
        return [*self.values, *self.undefined]

    @property
    def missing_reasons(self) -> Counter[str]:
        """Count the reasons of missing values over all systems."""
        return sum(self.undefined.values(), Counter())

    def mean(self, system: str) -> float | None:
        """Return a system's mean, or None without values."""
        values = self.values.get(system)
        return sum(values.values()) / len(values) if values else None

    def interval(self, system: str, clusters: Mapping[str, str]) -> tuple[float, float]:
        """Return the 95 % interval of a system's mean.

        clusters: the task of each question.
        """
        values = self.values[system]
        return bootstrap_interval([*values.values()], [clusters[question] for question in values])

    @cached_property
    def order(self) -> list[str]:
        """Return the systems with values, best first."""
        means = {system: self.mean(system) or 0.0 for system in self.values}
        return sorted(means, key=lambda system: (means[system] if self.lower_is_better else -means[system], system))

    @property
    def first_systems(self) -> list[str]:
        """Return the systems that share the best mean."""
        best = self.mean(self.order[0]) if self.order else None
        return [system for system in self.order if best is not None and isclose(self.mean(system) or 0.0, best)]

    @cached_property
    def worse_systems(self) -> set[str]:
        """Return the systems that are significantly worse than the best."""
        best = self.order[0] if self.order else ""
        significant = [pair for pair in self.comparisons if pair.is_significant and best in (pair.a, pair.b)]
        return {pair.b if pair.a == best else pair.a for pair in significant}


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
        places = {name: place for place, name in enumerate(_PROTOCOL_ORDER)}
        return sorted({c.protocol for c in self.criteria}, key=lambda name: (places.get(name, len(places)), name))

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

    @property
    def tokens(self) -> dict[str, float]:
        """Return the mean tokens of each system with answers."""
        return {cost.system: cost.tokens for cost in self.costs if cost.answered}

    def measures_in(self, name: str) -> list[ReportMeasure]:
        """Return the measures of a group."""
        return [measure for measure in self.measures if measure.group == name]

    def systems_of(self, criterion: CriterionResults) -> list[str]:
        """Return the systems of a criterion."""
        return [system for system in self.systems if any(system in pair for pair in criterion.points)]

    def doubtful_systems(self, criterion: CriterionResults) -> set[str]:
        """Return the systems that differ from their own other answers."""
        names = (criterion.name, *criterion.parts)
        return {
            result.system
            for result in (self.bias.same if self.bias else ())
            if result.alarm and result.protocol == criterion.protocol and result.criterion in names
        }

    @property
    def leading_measure(self) -> ReportMeasure | None:
        """Return the most informative measure with values, or None."""
        by_name = {measure.name: measure for measure in self.measures if measure.order}
        leading = [by_name[name] for name in LEADING_MEASURES if name in by_name]
        return next(iter([*leading, *by_name.values()]), None)


def load_study_results(
    study: Study, name: str, *, systems: Sequence[str] = (), neighbours: bool = False
) -> StudyResults:
    """Load a study and compute its results.

    systems: only these, in this order. neighbours: compare ratings like MK-RAG, each system with the one before.
    Raises SettingsError if there are no questions, or a system is unknown.
    """
    rows = {file: study.rows_or_empty(file) for file in _MEASURED_FILES}
    ids = dict.fromkeys(row.question for row in rows["retrieval"])  # of foreign runs, which have no texts
    without_texts = bool(ids) and not study.has("questions")
    questions = [EvalQuestion(id, id) for id in ids] if without_texts else study.questions()
    order = _system_order(study, rows, systems)
    answers = {s: {row.question: row for row in study.answers(s)} for s in order if s in study.systems()}
    verdicts = [verdict for verdict in rows["verdicts"] if verdict.a in order and verdict.b in order]
    verdicts = comparable_verdicts(verdicts, questions, answers)
    clusters = {question.id: question.cluster for question in questions}
    measures = [
        *_build_measures("ratings", _rating_rows(rows["ratings"]), order, clusters, neighbours),
        *_build_measures("scores", _score_rows(rows["scores"]), order, clusters),
        *_build_measures("retrieval", _score_rows(rows["retrieval"]), order, clusters),
        *_build_measures("claims", _claim_rows(study, rows["claims"], questions, order), order, clusters),
    ]
    labels = {name: name for name in _MEASURED_FILES} | {"retrieval": "retrieval measures"}
    missing = {label: FILE_COMMANDS[file] for file, label in labels.items() if not study.has(file)}
    return StudyResults(
        name,
        study,
        questions,
        order,
        answers,
        verdicts,
        list(_criteria(verdicts, clusters, order)),
        measure_bias(verdicts, questions, answers, LocalTokenizer()) if verdicts else None,
        measures,
        _agreements(verdicts, measures),
        [_system_cost(system, answers[system].values()) for system in order if system in answers],
        study.read_manifest(),
        missing | ({} if answers else {"answers": "kumi eval run"}),
    )


def _system_order(study: Study, rows: Mapping[str, Sequence[Any]], requested: Sequence[str]) -> list[str]:
    """Return the systems: judged first, then answered, then only measured.

    Raises SettingsError for an unknown system.
    """
    names = dict.fromkeys(side for verdict in rows["verdicts"] for side in (verdict.a, verdict.b))
    names |= dict.fromkeys(study.systems())
    names |= dict.fromkeys(row.system for file in ("retrieval", "scores", "ratings") for row in rows[file])
    for system in requested:
        if system not in names:
            raise SettingsError(f"{study.folder} has no system {system!r}: choose from {', '.join(names)}")
    return list(requested or names)


# -- results of judges


def _criteria(verdicts: Sequence[Verdict], clusters: Clusters, order: Sequence[str]) -> Iterator[CriterionResults]:
    """Yield each criterion's results, with sides in the systems' order."""
    pairs_by_criterion: dict[tuple[str, str], dict[SystemPair, dict[str, float]]] = {}
    for pair, points in with_swapped_pairs(points_by_pair(verdicts)).items():
        if order.index(pair.a) < order.index(pair.b):
            values = {question: value for question, value in points.items() if question in clusters}
            pairs_by_criterion.setdefault((pair.protocol, pair.criterion), {})[pair.a, pair.b] = values
    for (protocol, name), pairs in pairs_by_criterion.items():
        yield _criterion(protocol, name, pairs, clusters)


def _criterion(
    protocol: str, name: str, pairs: PairPoints, clusters: Clusters, parts: Sequence[str] = ()
) -> CriterionResults:
    """Return the results of one criterion."""
    zeros = comparison.zero_method_for(protocol)
    comparisons = comparison.compare_by_criterion(name, pairs, clusters, zeros=zeros)
    return CriterionResults(protocol, name, pairs, comparisons, comparison.rank_systems(pairs, clusters), parts)


def overall_criterion(criteria: Sequence[CriterionResults], clusters: Clusters) -> CriterionResults:
    """Return the protocol's overall criterion, else the mean without the control."""
    for criterion in criteria:
        if criterion.name.casefold() == "overall" or len(criteria) == 1:
            return criterion
    combined = [criterion for criterion in criteria if not criterion.is_control]
    if len(combined) == 1:
        return combined[0]
    pairs = comparison.average_criteria([criterion.points for criterion in combined])
    return _criterion(combined[0].protocol, "together", pairs, clusters, [criterion.name for criterion in combined])


def _agreements(verdicts: Iterable[Verdict], measures: Iterable[ReportMeasure]) -> list[CountAgreement]:
    """Return how often judges prefer the answer with more claims."""
    values: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for measure in measures:
        if measure.group == "claims":
            for system, by_question in measure.values.items():
                values[system][measure.name] = by_question
    return compare_with_counts(verdicts, values) if values else []


# -- measures of each answer


def _build_measures(
    group: str, rows: Iterable[_MeasureRow], systems: Sequence[str], clusters: Clusters, neighbours: bool = False
) -> Iterator[ReportMeasure]:
    """Yield the measures of some rows, with their comparisons.

    neighbours: compare each system with the one before, all measures as one family.
    """
    values: dict[str, dict[str, dict[str, float]]] = {}
    undefined: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for name, system, question, value, reason in rows:
        if system in systems and question in clusters:
            by_system = values.setdefault(name, {})
            if value is None:
                undefined[name][system][reason] += 1
            else:
                by_system.setdefault(system, {})[question] = value
    pairs = comparison.neighbouring_pairs(systems) if neighbours else []
    family = comparison.compare_by_measures(values, clusters, pairs)
    zeros = comparison.zero_method_for("mk" if group == "ratings" else "")
    test: DecisiveTest = "sign flips" if group in ("scores", "retrieval") else "signed ranks"
    for name, by_system in values.items():
        ordered = {system: by_system[system] for system in systems if system in by_system}
        own_family = (
            family if neighbours else comparison.compare_by_measures({name: ordered}, clusters, zeros=zeros, test=test)
        )
        comparisons = [pair for pair in own_family if pair.metric == name]
        yield ReportMeasure(group, name, ordered, undefined[name], len(clusters), comparisons, name in _LOWER_IS_BETTER)


def _score_rows(rows: Iterable[Score]) -> Iterator[_MeasureRow]:
    """Yield the values of score rows."""
    for row in rows:
        yield row.name, row.system, row.question, row.value, row.reason or "no reason given"


def _rating_rows(rows: Sequence[Rating]) -> Iterator[_MeasureRow]:
    """Yield the means of the readable replicates, and the unreadable ones."""
    for name, by_system in mean_ratings(rows).items():
        for system, by_question in by_system.items():
            for question, value in by_question.items():
                yield name, system, question, value, ""
    for row in rows:
        if row.value is None:
            yield row.criterion, row.system, row.question, None, row.why or row.status


def _claim_rows(
    study: Study, claims: Sequence[AnswerClaim], questions: Sequence[EvalQuestion], systems: Sequence[str]
) -> Iterator[_MeasureRow]:
    """Yield claim counts, clusters and fabrication rates."""
    sentences = study.rows_or_empty("sentences") if study.has("sentences") else None
    for system in systems:
        if any(claim.system == system for claim in claims):
            counts = measure_claims(claims, questions, system, sentences)
            rates = fabrication.fabrication_by_question(claims, questions, system)
            counts |= {name: own for name, own in rates.items() if any(rate is not None for rate in own.values())}
            for name, by_question in counts.items():
                for question, value in by_question.items():
                    yield name, system, question, value, "its claims are unknown"


def _system_cost(system: str, rows: Collection[SystemAnswer]) -> SystemCost:
    """Return a system's mean costs over its successful answers."""
    answered = [row for row in rows if not row.failed]
    count = max(len(answered), 1)
    seconds = sorted(row.seconds for row in answered if row.seconds is not None)
    median, p95 = (seconds[min(len(seconds) - 1, int(q * len(seconds)))] if seconds else None for q in (0.5, 0.95))
    calls, tokens, cost = (
        sum(getattr(row.usage, unit) for row in answered) / count for unit in ("calls", "tokens", "cost")
    )
    failed = len(rows) - len(answered)
    return SystemCost(system, len(answered), failed, calls, tokens, cost, len(seconds), median, p95)
