"""a study -> Gathered: what a report says of it, computed once: pairs, ranks, measures, what was spent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from kumihimo.core.errors import SettingsError
from kumihimo.evaluate.agreement import CountAgreement, compare_with_counts
from kumihimo.evaluate.bias import BiasReport, measure_bias
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
from kumihimo.evaluate.fabrication import RATE_FIELDS
from kumihimo.evaluate.fabrication import fabrication_by_question as fabricated
from kumihimo.evaluate.judging.ratings import mean_ratings
from kumihimo.evaluate.points import points_by_pair
from kumihimo.evaluate.records import AnswerClaim, AnswerSentence, EvalQuestion, Rating, Score, SystemAnswer, Verdict
from kumihimo.evaluate.scoring import SCORE_MEASURES
from kumihimo.evaluate.study import FILE_COMMANDS, ROW_TYPES, Study

CONTROL_CRITERION = "directness"  # which no method should win along with all else
OVERALL_CRITERION = "overall"  # what some protocols ask for themselves
_PROTOCOL_ORDER = ("debiased", "graphrag", "lightrag")  # the protocol that decides, where there are several
LOWER_IS_BETTER = {
    *RATE_FIELDS,
    "tokens",
    "chunks",
    *(name for name, measure in SCORE_MEASURES.items() if measure.better == "less"),
}

StudyAnswers = Mapping[str, Mapping[str, SystemAnswer]]  # by system and question


@dataclass(frozen=True, slots=True)
class CriterionResults:
    """What a judge decided by one criterion; `parts`: of these together."""

    protocol: str
    name: str
    points: Mapping[SystemPair, Mapping[str, float]]
    comparisons: Sequence[Comparison]
    ranking: Sequence[RankedSystem]
    parts: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ReportMeasure:
    """A number of each answer. undefined: by system why it has none, how often. total: questions that were asked."""

    group: str
    name: str
    values: Mapping[str, Mapping[str, float]]
    undefined: Mapping[str, Counter[str]]
    total: int
    comparisons: Sequence[Comparison]
    lower_is_better: bool = False  # is better

    def mean(self, system: str) -> float | None:
        held = self.values.get(system)
        return sum(held.values()) / len(held) if held else None


@dataclass(frozen=True, slots=True)
class SystemCost:
    """By question, of those that were answered; seconds: of those that were not remembered."""

    system: str
    answered: int
    failed: int
    calls: float
    tokens: float
    cost: float
    timed: int
    median_seconds: float | None  # seconds
    p95_seconds: float | None  # 95 % take no longer


@dataclass(frozen=True)
class StudyResults:
    name: str
    study: Study
    questions: Sequence[EvalQuestion]
    systems: Sequence[str]
    answers: StudyAnswers
    verdicts: Sequence[Verdict]
    criteria: Sequence[CriterionResults]
    bias: BiasReport | None
    measures: Sequence[ReportMeasure]
    agreements: Sequence[CountAgreement]
    costs: Sequence[SystemCost]
    manifest: Mapping[str, Any]
    missing: Mapping[str, str] = field(default_factory=dict)  # what is not there: the command that adds it

    @cached_property
    def protocols(self) -> list[str]:
        """The one that decides comes first."""
        found = dict.fromkeys(criterion.protocol for criterion in self.criteria)
        return sorted(
            found,
            key=lambda name: (_PROTOCOL_ORDER.index(name) if name in _PROTOCOL_ORDER else len(_PROTOCOL_ORDER), name),
        )

    def criteria_of(self, protocol: str) -> list[CriterionResults]:
        return [criterion for criterion in self.criteria if criterion.protocol == protocol]

    @cached_property
    def deciding_criterion(self) -> CriterionResults | None:
        """What the report's first words are about."""
        return overall_criterion(self.criteria_of(self.protocols[0]), self.clusters) if self.protocols else None

    @cached_property
    def clusters(self) -> dict[str, str]:
        return {question.id: question.cluster for question in self.questions}

    def measures_in(self, name: str) -> list[ReportMeasure]:
        return [measure for measure in self.measures if measure.group == name]


def load_study_results(
    study: Study, name: str, *, systems: Sequence[str] = (), neighbours: bool = False
) -> StudyResults:
    """Raises SettingsError where there are no questions, or a system is not in the study.

    systems: these alone, in this order. neighbours: ratings as MK-RAG compares them.
    """
    questions = study.questions()
    verdicts = list(study.rows("verdicts", Verdict)) if study.has("verdicts") else []
    order = _system_order(study, verdicts, systems)
    verdicts = [v for v in verdicts if v.a in order and v.b in order]
    answers = {s: {row.question: row for row in study.answers(s)} for s in order if s in study.systems()}
    of = {question.id: question.cluster for question in questions}
    claims = [c for c in study.rows("claims", AnswerClaim) if c.system in order] if study.has("claims") else []
    made = _MeasureBuilder(questions, order, of, answers, neighbours)
    measures = [*made.ratings(study), *made.scores(study), *made.retrieval(study), *made.claims(study, claims)]
    return StudyResults(
        name,
        study,
        questions,
        order,
        answers,
        verdicts,
        list(_criteria(verdicts, of, order)),
        _bias(verdicts, answers, questions),
        measures,
        _agreements(verdicts, measures),
        [_system_cost(system, answers[system].values()) for system in order if system in answers],
        study.read_manifest(),
        _missing_files(study, answers),
    )


def _system_order(study: Study, verdicts: Iterable[Verdict], chosen: Sequence[str]) -> list[str]:
    """In the order they were judged in, then those that were only asked, then those only retrieval was measured of."""
    found = dict.fromkeys(side for v in verdicts for side in (v.a, v.b)) | dict.fromkeys(study.systems())
    for name in ("retrieval", "scores", "ratings"):
        if study.has(name):
            found |= dict.fromkeys(row.system for row in study.rows(name, ROW_TYPES[name]))
    for system in chosen:
        if system not in found:
            raise SettingsError(f"{study.folder} holds no system {system!r}: there is {', '.join(found)}")
    return list(chosen or found)


def _missing_files(study: Study, answers: StudyAnswers) -> dict[str, str]:
    wanted = {name: name for name in ("verdicts", "ratings", "claims", "scores")} | {"retrieval": "retrieval measures"}
    found = {told: FILE_COMMANDS[name] for name, told in wanted.items() if not study.has(name)}
    return found | ({} if answers else {"answers": "kumi eval run"})


# -- what judges decided


def _criteria(
    verdicts: Sequence[Verdict], clusters: Mapping[str, str], order: Sequence[str]
) -> Iterator[CriterionResults]:
    """Sides in the order of the systems."""
    held: dict[tuple[str, str], dict[SystemPair, dict[str, float]]] = {}
    for pair, found in points_by_pair(verdicts).items():
        asked = {question: value for question, value in found.items() if question in clusters}
        sides = (pair.a, pair.b)
        if order.index(pair.a) > order.index(pair.b):
            sides, asked = (pair.b, pair.a), {question: 100 - value for question, value in asked.items()}
        held.setdefault((pair.protocol, pair.criterion), {})[sides] = asked
    for (protocol, name), pairs in held.items():
        yield _criterion(protocol, name, pairs, clusters)


def _criterion(
    protocol: str,
    name: str,
    pairs: Mapping[SystemPair, Mapping[str, float]],
    clusters: Mapping[str, str],
    parts: Sequence[str] = (),
) -> CriterionResults:
    compared = compare_by_criterion(name, pairs, clusters, zeros=zero_method_for(protocol))
    return CriterionResults(protocol, name, pairs, compared, rank_systems(pairs, clusters), parts)


def overall_criterion(criteria: Sequence[CriterionResults], clusters: Mapping[str, str]) -> CriterionResults:
    """What a protocol asked for as a whole; or the mean of its criteria without the control."""
    for criterion in criteria:
        if criterion.name.casefold() == OVERALL_CRITERION or len(criteria) == 1:
            return criterion
    chosen = [criterion for criterion in criteria if criterion.name.casefold() != CONTROL_CRITERION]
    if len(chosen) == 1:
        return chosen[0]
    pairs = average_criteria([criterion.points for criterion in chosen])
    return _criterion(chosen[0].protocol, "together", pairs, clusters, [criterion.name for criterion in chosen])


def _bias(verdicts: Sequence[Verdict], answers: StudyAnswers, questions: Sequence[EvalQuestion]) -> BiasReport | None:
    if not verdicts:
        return None
    from kumihimo.llm.local_embedder import LocalTokenizer

    return measure_bias(verdicts, questions, answers, LocalTokenizer())


def _agreements(verdicts: Iterable[Verdict], measures: Iterable[ReportMeasure]) -> list[CountAgreement]:
    """How often judges prefer the answer that claims more."""
    held: dict[str, dict[str, dict[str, float | None]]] = {}
    for measure in measures:
        if measure.group == "claims":
            for system, by_question in measure.values.items():
                held.setdefault(system, {})[measure.name] = dict(by_question)
    return compare_with_counts(verdicts, held) if held else []


# -- numbers of each answer


@dataclass(frozen=True, slots=True)
class _MeasureBuilder:
    questions: Sequence[EvalQuestion]
    systems: Sequence[str]
    clusters: Mapping[str, str]
    answers: StudyAnswers
    neighbours: bool

    def scores(self, study: Study) -> Iterator[ReportMeasure]:
        return self._from_scores("scores", study.rows("scores", Score) if study.has("scores") else ())

    def retrieval(self, study: Study) -> Iterator[ReportMeasure]:
        return self._from_scores("retrieval", study.rows("retrieval", Score) if study.has("retrieval") else ())

    def _from_scores(self, group: str, rows: Iterable[Score]) -> Iterator[ReportMeasure]:
        values: dict[str, dict[str, dict[str, float]]] = {}
        undefined: dict[str, dict[str, Counter[str]]] = {}
        for row in rows:
            if row.system in self.systems and row.question in self.clusters:
                held = values.setdefault(row.name, {}).setdefault(row.system, {})
                if row.value is None:
                    why = undefined.setdefault(row.name, {}).setdefault(row.system, Counter())
                    why[row.reason or "no reason given"] += 1
                else:
                    held[row.question] = row.value
        for name, by_system in values.items():
            yield self._measure(group, name, by_system, undefined.get(name, {}))

    def ratings(self, study: Study) -> Iterator[ReportMeasure]:
        """The means of the replicates that could be read. As neighbours all are one family."""
        held = study.rows("ratings", Rating) if study.has("ratings") else ()
        rows = [row for row in held if row.system in self.systems and row.question in self.clusters]
        undefined: dict[str, dict[str, Counter[str]]] = {}
        for row in rows:
            if row.value is None:
                why = undefined.setdefault(row.criterion, {}).setdefault(row.system, Counter())
                why[row.why or row.status] += 1
        found = mean_ratings(rows)
        family: Sequence[Comparison] | None = None
        if self.neighbours:
            family = compare_by_measures(found, self.clusters, neighbouring_pairs(self.systems))
        for name, by_system in found.items():
            compared = None if family is None else [one for one in family if one.metric == name]
            yield self._measure("ratings", name, by_system, undefined.get(name, {}), compared, protocol="mk")

    def claims(self, study: Study, claims: Sequence[AnswerClaim]) -> Iterator[ReportMeasure]:
        """How many claims each answer makes, how many different things they say; how many are supported by nothing."""
        sentences = list(study.rows("sentences", AnswerSentence)) if study.has("sentences") else None
        counted = [system for system in self.systems if any(claim.system == system for claim in claims)]
        held: dict[str, dict[str, dict[str, float]]] = {}
        undefined: dict[str, dict[str, Counter[str]]] = {}
        for system in counted:
            whole = measure_claims(claims, self.questions, system, sentences)
            wrong = {
                name: found for name, found in fabricated(claims, self.questions, system).items() if _any_value(found)
            }
            for name, by_question in (whole | wrong).items():
                held.setdefault(name, {})[system] = {q: v for q, v in by_question.items() if v is not None}
                if unknown := sum(v is None for v in by_question.values()):
                    undefined.setdefault(name, {})[system] = Counter({"nothing is known of its claims": unknown})
        for name, by_system in held.items():
            yield self._measure("claims", name, by_system, undefined.get(name, {}))

    def _measure(
        self,
        group: str,
        name: str,
        values: Mapping[str, Mapping[str, float]],
        undefined: Mapping[str, Counter[str]],
        compared: Sequence[Comparison] | None = None,
        protocol: str = "",
    ) -> ReportMeasure:
        ordered = {system: values[system] for system in self.systems if system in values}
        if compared is None:
            compared = compare_by_measure(name, ordered, self.clusters, zeros=zero_method_for(protocol))
        return ReportMeasure(group, name, ordered, undefined, len(self.questions), compared, name in LOWER_IS_BETTER)


def _any_value(found: Mapping[str, float | None]) -> bool:
    return any(value is not None for value in found.values())


def _system_cost(system: str, rows: Iterable[SystemAnswer]) -> SystemCost:
    all_rows = list(rows)
    done = [row for row in all_rows if not row.failed]
    n = max(len(done), 1)
    seconds = sorted(row.seconds for row in done if row.seconds is not None)

    def at(part: float) -> float | None:
        return seconds[min(len(seconds) - 1, int(part * len(seconds)))] if seconds else None

    return SystemCost(
        system,
        len(done),
        len(all_rows) - len(done),
        sum(row.usage.calls for row in done) / n,
        sum(row.usage.tokens for row in done) / n,
        sum(row.usage.cost for row in done) / n,
        len(seconds),
        at(0.5),
        at(0.95),
    )
