"""a study as it stands + models that answer from nothing -> Foreseen: what each of its stages would ask, and cost.

The stages themselves are run, on a sample, by models that nobody asks; what is remembered costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from kumihimo.app.cost import DryRunModels
from kumihimo.app.estimate_query_cost import StubModels, merge_plans, sample_question
from kumihimo.app.results import Estimate, Plan
from kumihimo.app.snapshot import Snapshot
from kumihimo.core.errors import ItemFailed
from kumihimo.evaluate.claims import extract_answer_claims
from kumihimo.evaluate.claims.stages import PAPER_VOTES, Votes
from kumihimo.evaluate.claims.voting import votes_needed
from kumihimo.evaluate.cost_estimates import EstimationContext, merge_estimates, pick_evenly, scale_estimate
from kumihimo.evaluate.judging.calls import plan_judge_calls, sample_calls
from kumihimo.evaluate.judging.protocols import DEBIASED, JudgeProtocol
from kumihimo.evaluate.judging.ratings import plan_rating_calls, rate_answers
from kumihimo.evaluate.judging.verdicts import judge_pairs
from kumihimo.evaluate.question_generation import generate_global_questions
from kumihimo.evaluate.records import EvalQuestion, SystemAnswer
from kumihimo.evaluate.run_systems import answer_questions
from kumihimo.evaluate.scoring import SCORE_MEASURES
from kumihimo.evaluate.scoring.run_scores import build_cases, score_cases
from kumihimo.evaluate.study import Study
from kumihimo.evaluate.systems import System
from kumihimo.llm.budget import Budget

STAGES = ("questions", "run", "judge", "claims", "score")
DEFAULT_QUESTIONS = 125  # questions: of five users, five tasks of each, five of each task
_LIST_LENGTH = 5
_MAX_LIST_CALLS = 3  # times a list of questions is asked for at most
_SAMPLE_QUESTIONS, _SAMPLE_CALLS, _SAMPLE_ANSWERS = (
    3,
    40,
    8,
)  # questions of a system, calls of a judge, answers: those that are looked at
_DESCRIPTION_LENGTH = 1600  # characters of a description that nobody has written yet


@dataclass(frozen=True, slots=True)
class StudyRequest:
    """What is to be done. count: of questions, if the study has none. second: percent of the calls, for the second
    judge. measures: names of scores."""

    stages: Sequence[str] = STAGES
    protocol: JudgeProtocol = DEBIASED
    count: int = 0
    criteria: Sequence[str] = ()
    replicates: int = 0
    against: str = ""
    second_percent: float = 10
    generations: int = 1
    votes: Votes = PAPER_VOTES
    measures: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class StudyEstimate:
    """A row for each stage and each system asked. questions: how many; assumed: of which there are none yet."""

    plan: Plan
    questions: int
    questions_assumed: bool
    systems: tuple[str, ...]


AvailableAnswers = dict[
    str, dict[str, SystemAnswer]
]  # by system, by question: those that are there, or else made up at full length


def estimate_stages(
    study: Study, context: EstimationContext, systems: Sequence[System | str], request: StudyRequest
) -> StudyEstimate:
    """What the stages would ask, those that are not done yet. systems: names are of those that nobody can ask."""
    held: list[EvalQuestion] = study.rows_or_empty("questions")
    questions = held[: request.count or None] or _placeholder_questions(
        context.snapshot, request.count or DEFAULT_QUESTIONS
    )
    found: list[Estimate] = []
    if "questions" in request.stages and not held:
        found += _estimate_questions(study, context)
    first: AvailableAnswers = {}
    again: AvailableAnswers = {}
    for one in systems:
        found += _estimate_system(study, context, one, questions, request, first, again)
    if "judge" in request.stages:
        judge = _estimate_ratings if request.protocol.name == "mk" else _estimate_verdicts
        found += judge(context, questions, first, again, request)
    found += _estimate_claims(context, questions, first, request.votes) if "claims" in request.stages else []
    found += _estimate_scores(context, questions, first, request.measures) if "score" in request.stages else []
    names = tuple(one if isinstance(one, str) else one.name for one in systems)
    return StudyEstimate(Plan(tuple(found)), len(questions), not held, names)


def _placeholder_questions(snapshot: Snapshot | None, count: int) -> list[EvalQuestion]:
    text = sample_question(snapshot) if snapshot else "What are the main themes?"
    return [EvalQuestion(f"assumed-{n}", f"{n}. {text}") for n in range(1, count + 1)]


# -- the stages


def _estimate_questions(study: Study, models: EstimationContext) -> list[Estimate]:
    """A call for the users, for the tasks of each, for the questions of each task; up to three where they are alike."""
    from kumihimo.evaluate.corpus_description import describe_documents, sample_pieces

    tally = DryRunModels(models.registry, models.tokenizer)
    ask, description, drafted = tally.llm("questioner"), study.read_text("description.md"), 0
    if not description and models.snapshot:
        shown = sample_pieces(models.snapshot)
        try:
            description = describe_documents(shown, ask)
        except ItemFailed:
            description, drafted = "\n".join(shown)[:_DESCRIPTION_LENGTH], 1
    generate_global_questions(description, ask, personas=_LIST_LENGTH, tasks=_LIST_LENGTH, questions=_LIST_LENGTH)
    of = tally.tallies["questioner"]
    usual = of.calls + of.followups
    made = [
        _scale_calls(e, usual, _MAX_LIST_CALLS * (usual - drafted) + drafted)
        for e in models.plan_from_tally(tally.tallies).estimates
    ]
    return merge_estimates("questions", made)


def _scale_calls(e: Estimate, least: float, most: float) -> Estimate:
    """As many calls, each as large as the largest of them on average."""
    low, high = (scale_estimate(e, n / e.calls[1]) for n in (least, most))
    return replace(merge_plans(Plan((low,)), Plan((high,))).estimates[0], calls=(least, most), exact=False)


def _estimate_system(
    study: Study,
    models: EstimationContext,
    one: System | str,
    questions: Sequence[EvalQuestion],
    wanted: StudyRequest,
    first: AvailableAnswers,
    again: AvailableAnswers,
) -> list[Estimate]:
    """What asking it costs; and its answers for the stages to come, in `first` and `again`."""
    name = one if isinstance(one, str) else one.name
    found: list[Estimate] = []
    for n in range(max(wanted.generations, min(study.count_generations(name), 2))):
        there = _stored_answers(study, name, n)
        made: list[SystemAnswer] = []
        for group in ([q for q in questions if q.id not in there], [q for q in questions if q.id in there]):
            if isinstance(one, System) and group and models.snapshot:
                sample = pick_evenly(group, _SAMPLE_QUESTIONS)
                parts = models.estimate_range(partial(_run_sample, models.snapshot, one, sample, n, made))
                found += [scale_estimate(part, len(group) / len(sample)) for part in parts]
        if n < 2:
            (again if n else first)[name] = _fill_answers(name, questions, there, made, n)
    return merge_estimates(f"run {name}", found) if "run" in wanted.stages else []


def _run_sample(
    snapshot: Snapshot,
    one: System,
    sample: Sequence[EvalQuestion],
    generation: int,
    made: list[SystemAnswer],
    models: StubModels,
    full: bool,
) -> None:
    asked = replace(snapshot, models=models, line_ends={}, lazy_rows={})
    rows = answer_questions(asked, one, sample, Budget(), generation=generation)
    made += rows if full else []


def _stored_answers(study: Study, name: str, generation: int) -> dict[str, SystemAnswer]:
    rows = study.answers(name, generation) if generation < study.count_generations(name) else ()
    return {row.question: row for row in rows if not row.failed}


def _fill_answers(
    name: str,
    questions: Sequence[EvalQuestion],
    there: Mapping[str, SystemAnswer],
    like: Sequence[SystemAnswer],
    generation: int,
) -> dict[str, SystemAnswer]:
    """Those that are there, the others like what was made up."""
    like = [row for row in like if row.text] or [SystemAnswer(name, "", "no")]
    made = (replace(like[i % len(like)], question=q.id, generation=generation) for i, q in enumerate(questions))
    return {row.question: there.get(row.question, row) for row in made}


def _estimate_verdicts(
    models: EstimationContext,
    questions: Sequence[EvalQuestion],
    first: AvailableAnswers,
    again: AvailableAnswers,
    wanted: StudyRequest,
) -> list[Estimate]:
    """The calls are counted one by one, what they hold is measured on some of them."""
    protocol = wanted.protocol
    listed = plan_judge_calls(
        protocol,
        questions,
        first,
        other_answers=again,
        criteria=wanted.criteria,
        replicates=wanted.replicates,
        against=wanted.against,
    )
    roles = {"judge": 100.0}
    if models.registry.settings.get("second_judge", {}).get("model") and wanted.second_percent:
        roles["second_judge"] = wanted.second_percent
    each = len(listed[0].criteria) if listed else 1
    stage, found = partial(judge_pairs, protocol), list[Estimate]()
    for role, percent in roles.items():
        its = sample_calls(listed, percent) if percent < 100 else listed
        found += _estimate_calls(f"{role.replace('_', ' ')} {protocol.name}", role, models, its, stage, each)
    return found


def _estimate_ratings(
    models: EstimationContext,
    questions: Sequence[EvalQuestion],
    first: AvailableAnswers,
    _again: AvailableAnswers,
    wanted: StudyRequest,
) -> list[Estimate]:
    listed = plan_rating_calls(questions, first, replicates=wanted.replicates or 1)
    stage = partial(rate_answers, wanted.protocol, tokenizer=models.tokenizer)
    rows = len(first) * len(wanted.protocol.criteria)
    return _estimate_calls(f"judge {wanted.protocol.name}", "judge", models, listed, stage, rows)


def _estimate_calls(
    name: str, role: str, models: EstimationContext, listed: Sequence[Any], stage: Any, rows: int
) -> list[Estimate]:
    """A row with the number of calls that are left. rows: that the stage makes of a call."""
    left = models.uncached_items(role, listed, stage, rows)
    sample = pick_evenly(left, _SAMPLE_CALLS)

    def by(stand_in: StubModels, _: bool) -> None:
        list(stage(sample, stand_in.llm(role, Budget())))

    made = [scale_estimate(e, len(left) / len(sample)) for e in models.estimate_range(by)] if sample else []
    n = float(len(left))
    return [replace(e, calls=(n, n), exact=True) for e in merge_estimates(name, made)]


def _estimate_claims(
    models: EstimationContext, questions: Sequence[EvalQuestion], first: AvailableAnswers, votes: Votes
) -> list[Estimate]:
    """Claims alone, not what they are checked against."""
    answers = _successful_answers(first)

    def by(stand_in: StubModels, _: bool) -> None:
        extract_answer_claims(
            questions, pick_evenly(answers, _SAMPLE_ANSWERS), stand_in.llm("claimer", Budget()), votes
        )

    agreed = sum(map(votes_needed, votes[:2])) + votes[2]
    return _scale_to_answers("claims", models.estimate_range(by, sum(votes) / agreed), len(answers))


def _estimate_scores(
    models: EstimationContext, questions: Sequence[EvalQuestion], first: AvailableAnswers, measures: Sequence[str]
) -> list[Estimate]:
    paid, answers = [name for name in measures if SCORE_MEASURES[name].needs_model], _successful_answers(first)

    def by(stand_in: StubModels, _: bool) -> None:
        cases = list(build_cases(questions, pick_evenly(answers, _SAMPLE_ANSWERS)))
        list(score_cases(cases, paid, stand_in.llm("scorer", Budget()), stand_in.embedder(Budget())))

    return _scale_to_answers("score", models.estimate_range(by), len(answers)) if paid else []


def _successful_answers(answers: AvailableAnswers) -> list[SystemAnswer]:
    return [answer for mine in answers.values() for answer in mine.values() if not answer.failed]


def _scale_to_answers(name: str, found: Sequence[Estimate], count: int) -> list[Estimate]:
    return merge_estimates(name, [scale_estimate(e, count / min(count, _SAMPLE_ANSWERS)) for e in found])
