"""A study and stub models -> StudyEstimate: LLM calls and cost of each stage.

The real stages run on a sample with stub models. Cached replies cost nothing.
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
from kumihimo.evaluate.corpus_description import describe_documents, sample_pieces
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
DEFAULT_QUESTIONS = 125  # five users, five tasks a user, five questions a task
_LIST_LENGTH = 5
_MAX_LIST_CALLS = 3  # calls for one list of questions
_SAMPLE_QUESTIONS, _SAMPLE_CALLS, _SAMPLE_ANSWERS = 3, 40, 8  # sizes of the samples that are run
_DESCRIPTION_LENGTH = 1600  # characters of a description that is still missing


@dataclass(frozen=True, slots=True)
class StudyRequest:
    """The stages to estimate and their settings.

    count: the number of questions if the study has none. second_percent: the share of the calls for the second judge.
    measures: names of scores.
    """

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
    """The estimate, one row for each stage and each system asked.

    questions: their number; questions_assumed: the study has none yet.
    """

    plan: Plan
    questions: int
    questions_assumed: bool
    systems: tuple[str, ...]


AvailableAnswers = dict[str, dict[str, SystemAnswer]]  # by system and question: stored, or else invented


def estimate_stages(
    study: Study, context: EstimationContext, systems: Sequence[System | str], request: StudyRequest
) -> StudyEstimate:
    """Estimate the LLM calls and cost of the unfinished stages.

    systems: a name stands for a system that cannot be asked here.
    """
    existing: list[EvalQuestion] = study.rows_or_empty("questions")
    questions = existing[: request.count or None] or _placeholder_questions(
        context.snapshot, request.count or DEFAULT_QUESTIONS
    )
    estimates: list[Estimate] = []
    if "questions" in request.stages and not existing:
        estimates += _estimate_questions(study, context)
    first_answers: AvailableAnswers = {}
    other_answers: AvailableAnswers = {}
    for system in systems:
        estimates += _estimate_system(study, context, system, questions, request, first_answers, other_answers)
    if "judge" in request.stages:
        judge = _estimate_ratings if request.protocol.name == "mk" else _estimate_verdicts
        estimates += judge(context, questions, first_answers, other_answers, request)
    estimates += (
        _estimate_claims(context, questions, first_answers, request.votes) if "claims" in request.stages else []
    )
    estimates += (
        _estimate_scores(context, questions, first_answers, request.measures) if "score" in request.stages else []
    )
    names = tuple(system if isinstance(system, str) else system.name for system in systems)
    return StudyEstimate(Plan(tuple(estimates)), len(questions), not existing, names)


def _placeholder_questions(snapshot: Snapshot | None, count: int) -> list[EvalQuestion]:
    text = sample_question(snapshot) if snapshot else "What are the main themes?"
    return [EvalQuestion(f"assumed-{n}", f"{n}. {text}") for n in range(1, count + 1)]


# -- the stages


def _estimate_questions(study: Study, context: EstimationContext) -> list[Estimate]:
    """Estimate the calls for users, tasks and questions.

    One call for the users, one for the tasks of each user, one for the questions of each task. Similar items are asked
    for again, up to three calls a list.
    """

    dry_run = DryRunModels(context.registry, context.tokenizer)
    llm, description, draft_calls = dry_run.llm("questioner"), study.read_text("description.md"), 0
    if not description and context.snapshot:
        samples = sample_pieces(context.snapshot)
        try:
            description = describe_documents(samples, llm)
        except ItemFailed:
            description, draft_calls = "\n".join(samples)[:_DESCRIPTION_LENGTH], 1
    generate_global_questions(description, llm, personas=_LIST_LENGTH, tasks=_LIST_LENGTH, questions=_LIST_LENGTH)
    counts = dry_run.tallies["questioner"]
    expected = counts.calls + counts.followups
    estimates = [
        _scale_calls(estimate, expected, _MAX_LIST_CALLS * (expected - draft_calls) + draft_calls)
        for estimate in context.plan_from_tally(dry_run.tallies).estimates
    ]
    return merge_estimates("questions", estimates)


def _scale_calls(estimate: Estimate, least: float, most: float) -> Estimate:
    """Return the estimate with more calls of the same maximum size."""
    low, high = (scale_estimate(estimate, n / estimate.calls[1]) for n in (least, most))
    return replace(merge_plans(Plan((low,)), Plan((high,))).estimates[0], calls=(least, most), exact=False)


def _estimate_system(
    study: Study,
    context: EstimationContext,
    system: System | str,
    questions: Sequence[EvalQuestion],
    request: StudyRequest,
    first_answers: AvailableAnswers,
    other_answers: AvailableAnswers,
) -> list[Estimate]:
    """Estimate asking a system.

    Its answers for the later stages go into `first_answers` and `other_answers`.
    """
    name = system if isinstance(system, str) else system.name
    estimates: list[Estimate] = []
    for n in range(max(request.generations, min(study.count_generations(name), 2))):
        stored = _stored_answers(study, name, n)
        invented: list[SystemAnswer] = []
        for group in ([q for q in questions if q.id not in stored], [q for q in questions if q.id in stored]):
            if isinstance(system, System) and group and context.snapshot:
                sample = pick_evenly(group, _SAMPLE_QUESTIONS)
                parts = context.estimate_range(partial(_run_sample, context.snapshot, system, sample, n, invented))
                estimates += [scale_estimate(part, len(group) / len(sample)) for part in parts]
        if n < 2:
            (other_answers if n else first_answers)[name] = _fill_answers(name, questions, stored, invented, n)
    return merge_estimates(f"run {name}", estimates) if "run" in request.stages else []


def _run_sample(
    snapshot: Snapshot,
    system: System,
    sample: Sequence[EvalQuestion],
    generation: int,
    answers: list[SystemAnswer],
    stubs: StubModels,
    full: bool,
) -> None:
    dry_snapshot = replace(snapshot, models=stubs, line_ends={}, lazy_rows={})
    rows = answer_questions(dry_snapshot, system, sample, Budget(), generation=generation)
    answers += rows if full else []


def _stored_answers(study: Study, name: str, generation: int) -> dict[str, SystemAnswer]:
    rows = study.answers(name, generation) if generation < study.count_generations(name) else ()
    return {row.question: row for row in rows if not row.failed}


def _fill_answers(
    name: str,
    questions: Sequence[EvalQuestion],
    stored: Mapping[str, SystemAnswer],
    invented: Sequence[SystemAnswer],
    generation: int,
) -> dict[str, SystemAnswer]:
    """Return stored answers, and invented ones for all other questions."""
    invented = [row for row in invented if row.text] or [SystemAnswer(name, "", "no")]
    fillers = (
        replace(invented[i % len(invented)], question=q.id, generation=generation) for i, q in enumerate(questions)
    )
    return {row.question: stored.get(row.question, row) for row in fillers}


def _estimate_verdicts(
    context: EstimationContext,
    questions: Sequence[EvalQuestion],
    first_answers: AvailableAnswers,
    other_answers: AvailableAnswers,
    request: StudyRequest,
) -> list[Estimate]:
    """Count the calls exactly and measure their size on a sample."""
    protocol = request.protocol
    judge_calls = plan_judge_calls(
        protocol,
        questions,
        first_answers,
        other_answers=other_answers,
        criteria=request.criteria,
        replicates=request.replicates,
        against=request.against,
    )
    roles = {"judge": 100.0}
    if context.registry.settings.get("second_judge", {}).get("model") and request.second_percent:
        roles["second_judge"] = request.second_percent
    criteria_per_call = len(judge_calls[0].criteria) if judge_calls else 1
    stage, estimates = partial(judge_pairs, protocol), list[Estimate]()
    for role, percent in roles.items():
        role_calls = sample_calls(judge_calls, percent) if percent < 100 else judge_calls
        estimates += _estimate_calls(
            f"{role.replace('_', ' ')} {protocol.name}", role, context, role_calls, stage, criteria_per_call
        )
    return estimates


def _estimate_ratings(
    context: EstimationContext,
    questions: Sequence[EvalQuestion],
    first_answers: AvailableAnswers,
    _other_answers: AvailableAnswers,
    request: StudyRequest,
) -> list[Estimate]:
    calls = plan_rating_calls(questions, first_answers, replicates=request.replicates or 1)
    stage = partial(rate_answers, request.protocol, tokenizer=context.tokenizer)
    rows = len(first_answers) * len(request.protocol.criteria)
    return _estimate_calls(f"judge {request.protocol.name}", "judge", context, calls, stage, rows)


def _estimate_calls(
    name: str, role: str, context: EstimationContext, calls: Sequence[Any], stage: Any, rows: int
) -> list[Estimate]:
    """Return a row with the number of uncached calls.

    rows: the number of rows the stage makes of a call.
    """
    uncached = context.uncached_items(role, calls, stage, rows)
    sample = pick_evenly(uncached, _SAMPLE_CALLS)

    def run_stage(stubs: StubModels, _: bool) -> None:
        list(stage(sample, stubs.llm(role, Budget())))

    estimates = (
        [scale_estimate(estimate, len(uncached) / len(sample)) for estimate in context.estimate_range(run_stage)]
        if sample
        else []
    )
    n = float(len(uncached))
    return [replace(estimate, calls=(n, n), exact=True) for estimate in merge_estimates(name, estimates)]


def _estimate_claims(
    context: EstimationContext, questions: Sequence[EvalQuestion], first_answers: AvailableAnswers, votes: Votes
) -> list[Estimate]:
    """Estimate the extraction of claims, without the checks."""
    answers = _successful_answers(first_answers)

    def run_stage(stubs: StubModels, _: bool) -> None:
        extract_answer_claims(questions, pick_evenly(answers, _SAMPLE_ANSWERS), stubs.llm("claimer", Budget()), votes)

    fewest_votes = sum(map(votes_needed, votes[:2])) + votes[2]
    return _scale_to_answers("claims", context.estimate_range(run_stage, sum(votes) / fewest_votes), len(answers))


def _estimate_scores(
    context: EstimationContext,
    questions: Sequence[EvalQuestion],
    first_answers: AvailableAnswers,
    measures: Sequence[str],
) -> list[Estimate]:
    paid, answers = [name for name in measures if SCORE_MEASURES[name].needs_model], _successful_answers(first_answers)

    def run_stage(stubs: StubModels, _: bool) -> None:
        cases = list(build_cases(questions, pick_evenly(answers, _SAMPLE_ANSWERS)))
        list(score_cases(cases, paid, stubs.llm("scorer", Budget()), stubs.embedder(Budget())))

    return _scale_to_answers("score", context.estimate_range(run_stage), len(answers)) if paid else []


def _successful_answers(answers: AvailableAnswers) -> list[SystemAnswer]:
    return [answer for by_question in answers.values() for answer in by_question.values() if not answer.failed]


def _scale_to_answers(name: str, estimates: Sequence[Estimate], count: int) -> list[Estimate]:
    return merge_estimates(name, [scale_estimate(e, count / min(count, _SAMPLE_ANSWERS)) for e in estimates])
