"""A study -> StudyEstimate: LLM calls and cost of each stage, by arithmetic.

The number of calls follows from the numbers of questions, systems, criteria and so on. Their size follows from the
stored texts, or else from assumed ones. What the study already has costs nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.build.cost import PlanEstimator, RequestTally, usage_history
from kumihimo.app.build.estimate_query_cost import estimate_query_cost
from kumihimo.app.opened.results import Estimate, Plan, Range, UsageEntry, sum_ranges
from kumihimo.core.context import Tokenizer
from kumihimo.evaluate import grounded_questions, question_generation
from kumihimo.evaluate.claims import study_claims
from kumihimo.evaluate.claims.stages import CLAIM_PROMPTS, PAPER_VOTES, Votes
from kumihimo.evaluate.judging import protocols, verdicts
from kumihimo.evaluate.records import AnswerSource, EvalQuestion, SystemAnswer
from kumihimo.evaluate.scoring import case as cases, run_scores
from kumihimo.evaluate.study import Study
from kumihimo.evaluate.systems import System
from kumihimo.llm.prompts import fence_text, number_sources, prompt_frame
from kumihimo.llm.registry import ModelRegistry

STAGES = ("questions", "run", "judge", "claims", "score")
DEFAULT_QUESTIONS = 125  # five users, five tasks a user, five questions a task
_LISTS = 1 + 5 + 25  # of users, of tasks, of questions
_MAX_LIST_CALLS = 3  # calls for one list of questions
_EXCERPT_CHARS = 1200  # of the answer, around a sentence whose claims are extracted
_ASSUMED_QUESTION = "What are the main themes of these documents, and how are they related?"
_ASSUMED_TEXT = "A sentence of an assumed answer has as many words as this one, and it ends with a mark [1]. " * 20
_ASSUMED_EVIDENCE = tuple(AnswerSource(n, _ASSUMED_TEXT) for n in range(1, 9))

_CLAIM_MEASURES = {name for name, measure in run_scores.SCORE_MEASURES.items() if measure.group == "claims"}
_CORRECTNESS = {"answer_correctness", *_CLAIM_MEASURES}
_SCORE_PROMPTS = (  # the texts in a prompt, whether it is sent if a text states nothing, the measures that send it
    (("answer",), True, {"faithfulness", *_CORRECTNESS}),
    (("reference",), True, _CORRECTNESS),
    (("answer", "reference"), False, _CORRECTNESS),
    (("reference", "answer"), False, _CORRECTNESS),
    (("answer", "evidence"), False, {"faithfulness"}),
    (("evidence",), True, {"context_relevance_sentences"}),
    (("evidence",), True, {"context_relevance_graded"}),
    (("evidence",), True, {"context_relevance_graded"}),
    (("evidence", "reference"), True, {"context_recall"}),
    (("evidence", "reference"), True, {"context_precision"}),
    (("answer", "assertions"), True, {"assertions"}),
    (("evidence", "assertions"), True, {"context_assertions"}),
)
_RANGE_FIELDS = ("calls", "prompt_tokens", "completion_tokens", "cost", "seconds")  # of Estimate


@dataclass(frozen=True, slots=True)
class StudyRequest:
    """The stages to estimate and their settings.

    count: the number of questions if the study has none. second_percent: the share of the calls for the second judge.
    measures: names of scores.
    """

    stages: Sequence[str] = STAGES
    protocol: protocols.JudgeProtocol = protocols.DEBIASED
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


@dataclass(frozen=True, slots=True)
class EstimationContext:
    """The configured models and their past usage.

    snapshot: the index that answers the questions. token_counts: of texts counted before.
    """

    registry: ModelRegistry
    tokenizer: Tokenizer
    past_usage: Sequence[UsageEntry]
    snapshot: Snapshot | None = None
    token_counts: dict[str, int] = field(default_factory=dict)

    def start_tally(self, role: str) -> RequestTally:
        """Return an empty tally of requests to a role's model."""
        chat = self.registry.required_chat(role)
        return RequestTally(chat.fingerprint, chat.prices, chat.workers)

    def add_requests(self, tally: RequestTally, prompt: Path, *texts: str, times: int = 1) -> None:
        """Add requests with the same prompt and texts to a tally."""
        texts = (prompt_frame(prompt), *texts)
        for text in texts:
            if text not in self.token_counts:
                self.token_counts[text] = len(self.tokenizer(text))
        tally.calls += times
        tally.tokens += times * sum(self.token_counts[text] for text in texts)
        tally.bytes += times * sum(len(text.encode()) for text in texts)

    def estimate(self, name: str, role: str, fewest: RequestTally, most: RequestTally | None = None) -> list[Estimate]:
        """Return the row of a stage, none without requests.

        most: the requests at most; None: their number is known.
        """
        low, high = (self._estimate_tally(role, tally) for tally in (fewest, most or fewest))
        if not high:
            return []
        row = merge_estimates(name, (*(low or high), *high), lambda ranges: (ranges[0][0] if low else 0, ranges[1][1]))
        return [replace(row, exact=most is None)]

    def _estimate_tally(self, role: str, tally: RequestTally) -> Sequence[Estimate]:
        past = usage_history(self.past_usage, {role: tally})
        return PlanEstimator({role: tally}, past=past, spent=self.past_usage).estimates()


def merge_estimates(name: str, rows: Sequence[Estimate], merge: Callable[[Sequence[Range]], Range]) -> Estimate:
    """Merge rows into one.

    A number that one of them lacks is unknown.
    """
    columns = {name: [getattr(row, name) for row in rows] for name in _RANGE_FIELDS}
    merged: dict[str, Any] = {name: merge(ranges) if all(ranges) else None for name, ranges in columns.items()}
    model = " + ".join(dict.fromkeys(row.model for row in rows))
    return replace(rows[0], step=name, model=model, exact=all(row.exact for row in rows), **merged)


def estimate_stages(
    study: Study, context: EstimationContext, systems: Sequence[System | str], request: StudyRequest
) -> StudyEstimate:
    """Estimate the LLM calls and cost of the unfinished stages.

    systems: a name stands for a system that cannot be asked here.
    """
    existing: list[EvalQuestion] = study.rows_or_empty("questions")
    assumed = [EvalQuestion(f"assumed-{n}", _ASSUMED_QUESTION) for n in range(request.count or DEFAULT_QUESTIONS)]
    questions = existing[: request.count or None] or assumed
    names = tuple(system if isinstance(system, str) else system.name for system in systems)
    estimator = _StudyEstimator(study, context, systems, request, questions, names)
    stages = {
        "questions": estimator.estimate_questions if not existing else list,
        "run": estimator.estimate_answers,
        "judge": estimator.estimate_ratings if request.protocol.name == "mk" else estimator.estimate_verdicts,
        "claims": estimator.estimate_claims,
        "score": estimator.estimate_scores,
    }
    estimates = [row for name in STAGES if name in request.stages for row in stages[name]()]
    return StudyEstimate(Plan(tuple(estimates)), len(questions), not existing, names)


@dataclass(frozen=True)
class _StudyEstimator:
    """The inputs of all stages."""

    study: Study
    context: EstimationContext
    systems: Sequence[System | str]
    request: StudyRequest
    questions: Sequence[EvalQuestion]
    names: Sequence[str]

    def stored_answers(self, name: str, generation: int) -> dict[str, SystemAnswer]:
        """Return the answers of a system by question."""
        exists = generation < self.study.count_generations(name)
        rows = self.study.answers(name, generation) if exists else ()
        return {row.question: row for row in rows if not row.failed}

    def answers(self, names: Sequence[str], generation: int = 0) -> dict[str, dict[str, SystemAnswer]]:
        """Return the stored answers by system and question, and assumed ones."""
        by_system: dict[str, dict[str, SystemAnswer]] = {}
        for name in names:
            stored = self.stored_answers(name, generation)
            assumed = SystemAnswer(name, "", _ASSUMED_TEXT, _ASSUMED_EVIDENCE, generation=generation)
            by_system[name] = {q.id: stored.get(q.id, replace(assumed, question=q.id)) for q in self.questions}
        return by_system

    def cases(self) -> Iterator[cases.Case]:
        """Yield each question with each answer to it."""
        for by_question in self.answers(self.names).values():
            yield from run_scores.build_cases(self.questions, by_question.values())

    def estimate_questions(self) -> list[Estimate]:
        """Estimate a missing description, and up to three calls for each list."""
        description, snapshot = self.study.read_text("description.md"), self.context.snapshot
        pieces = grounded_questions.sample_pieces(snapshot) if snapshot and not description else []
        fewest, most = (self.context.start_tally("questioner") for _ in range(2))
        for tally, calls in ((fewest, 1), (most, _MAX_LIST_CALLS)):
            if pieces:
                self.context.add_requests(tally, grounded_questions.DESCRIPTION_PROMPT, *pieces)
            texts = (description or _ASSUMED_TEXT, _ASSUMED_QUESTION)
            self.context.add_requests(tally, question_generation.QUESTIONS_PROMPT, *texts, times=_LISTS * calls)
        return self.context.estimate("questions", "questioner", fewest, most)

    def estimate_answers(self) -> list[Estimate]:
        """Estimate one question of each system, times the open ones."""
        estimates: list[Estimate] = []
        for system in self.systems:
            if isinstance(system, System) and self.context.snapshot:
                stored = [self.stored_answers(system.name, n) for n in range(self.request.generations)]
                if unanswered := [q.text for answers in stored for q in self.questions if q.id not in answers]:
                    snapshot, question = self.context.snapshot, unanswered[0]
                    plan = estimate_query_cost(snapshot, question, system.method, settings=system.settings)
                    rows = plan.estimates * len(unanswered)
                    estimates += [merge_estimates(f"run {system.name}", rows, sum_ranges)] if rows else []
        return estimates

    def estimate_verdicts(self) -> list[Estimate]:
        """Count the calls that lack a verdict."""
        request, protocol = self.request, self.request.protocol
        repeated = [n for n in self.names if max(request.generations, self.study.count_generations(n)) > 1]
        options: dict[str, Any] = {name: getattr(request, name) for name in ("criteria", "replicates", "against")}
        answers, other_answers = self.answers(self.names), self.answers(repeated, 1)
        planned = verdicts.plan_judge_calls(protocol, self.questions, answers, other_answers=other_answers, **options)
        judged = {
            (v.role, v.criterion, v.question, v.a, v.b, v.first, v.replicate)
            for v in self.study.rows_or_empty("verdicts")
            if v.protocol == protocol.name and v.status == "ok"
        }
        roles = {"judge": 100.0}
        if self.context.registry.settings.get("second_judge", {}).get("model") and request.second_percent:
            roles["second_judge"] = request.second_percent
        estimates: list[Estimate] = []
        for role, percent in roles.items():
            tally = self.context.start_tally(role)
            for call in verdicts.sample_calls(planned, percent):
                pair = (call.question.id, call.a.system, call.b.system)
                if (role, call.criteria[0], *pair, call.first, call.replicate) not in judged:
                    texts = (call.question.text, call.a.text, call.b.text)
                    criteria = (protocol.criteria[name] for name in call.criteria)
                    self.context.add_requests(tally, protocol.prompt, *texts, *criteria)
            estimates += self.context.estimate(f"{role.replace('_', ' ')} {protocol.name}", role, tally)
        return estimates

    def estimate_ratings(self) -> list[Estimate]:
        """Count the calls that lack a rating."""
        protocol, tally = self.request.protocol, self.context.start_tally("judge")
        rows = self.study.rows_or_empty("ratings")
        rated = {(row.question, row.system, row.replicate) for row in rows if row.status == "ok"}
        replicates = self.request.replicates or protocol.replicates
        for call in verdicts.plan_rating_calls(self.questions, self.answers(self.names), replicates=replicates):
            if any((call.question.id, answer.system, call.replicate) not in rated for answer in call.answers):
                systems = verdicts.render_systems(call, self.context.tokenizer, verdicts.CONTEXT_TOKENS)
                texts = (call.question.text, fence_text("system", "", systems), *protocol.criteria.values())
                self.context.add_requests(tally, protocol.prompt, *texts)
        return self.context.estimate(f"judge {protocol.name}", "judge", tally)

    def estimate_claims(self) -> list[Estimate]:
        """Estimate the extraction of claims, without the checks."""
        sentences = self.study.rows_or_empty("sentences")
        extracted = {name: study_claims.find_complete_answers(sentences, name) for name in self.names}
        fewest, most = (self.context.start_tally("claimer") for _ in range(2))
        for case in self.cases():
            if case.question.id not in extracted[case.answer.system]:
                texts = (case.question.text, case.answer.text[:_EXCERPT_CHARS])
                calls = study_claims.estimate_claim_calls([case.answer], self.request.votes)
                for tally, times in zip((fewest, most), calls, strict=True):
                    self.context.add_requests(tally, CLAIM_PROMPTS[0], *texts, times=times)
        return self.context.estimate("claims", "claimer", fewest, most)

    def estimate_scores(self) -> list[Estimate]:
        """Estimate the calls of measures that lack a score, without embeddings."""
        if not (measures := {name for name in self.request.measures if run_scores.SCORE_MEASURES[name].needs_model}):
            return []
        rows = self.study.rows_or_empty("scores")
        scored = {(row.name, row.system, row.question) for row in rows if row.status == "ok"}
        fewest, most = (self.context.start_tally("scorer") for _ in range(2))
        for case in self.cases():
            names = {name for name in measures if (name, case.answer.system, case.question.id) not in scored}
            for parts, certain in _score_prompts(case, names):
                for tally in (fewest, most) if certain else (most,):
                    self.context.add_requests(tally, cases.SUPPORT_PROMPT, case.question.text, *parts)
        return self.context.estimate("score", "scorer", fewest, most)


def _score_prompts(case: cases.Case, names: Iterable[str]) -> Iterator[tuple[Sequence[str], bool]]:
    """Yield the texts of each prompt, and whether it is certain."""
    reference = case.question.reference
    measures = {name for name in names if reference or "reference answer" not in run_scores.SCORE_MEASURES[name].needs}
    texts = {
        "answer": case.answer_text,
        "reference": reference,
        "evidence": fence_text("text", "", number_sources(case.contexts)),
        "assertions": "\n".join(case.question.assertions),
    }
    for parts, certain, senders in _SCORE_PROMPTS:
        prompt_texts = [texts[part] for part in parts]
        if measures & senders and all(prompt_texts):
            yield prompt_texts, certain
    if measures & _CLAIM_MEASURES:
        yield from (((claims, chunk), False) for chunk in case.contexts for claims in (case.answer_text, reference))
