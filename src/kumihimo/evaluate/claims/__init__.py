"""answers -> the claims they make, and what became of each of their sentences (Claimify, arXiv:2502.10855)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice

from kumihimo.core.task import Progress
from kumihimo.evaluate.claims.sentences import Piece, split_answer
from kumihimo.evaluate.claims.stages import (
    PAPER_VOTES,
    SentenceJob,
    SentenceResult,
    Votes,
    claim_key,
    extract_sentence_claims,
)
from kumihimo.evaluate.claims.voting import votes_needed
from kumihimo.evaluate.records import AnswerClaim, AnswerSentence, EvalQuestion, SystemAnswer
from kumihimo.llm.concurrency import map_concurrent
from kumihimo.llm.protocols import LLM

ClaimExtraction = tuple[list[AnswerClaim], list[AnswerSentence]]


def extract_answer_claims(
    questions: Iterable[EvalQuestion],
    answers: Iterable[SystemAnswer],
    llm: LLM,
    votes: Votes = PAPER_VOTES,
    progress: Progress | None = None,
) -> ClaimExtraction:
    """The claims of the answers to these questions, each once for an answer; and every sentence, with its outcome.

    votes: how often selection, disambiguation and decomposition are asked; more than half have to agree.
    """
    asked = {question.id: question.text for question in questions}
    told = [(answer, split_answer(answer.text)) for answer in answers if answer.question in asked]
    jobs = [
        SentenceJob(asked[answer.question], held, i)
        for answer, held in told
        if not answer.failed
        for i in _sentence_positions(held)
    ]
    made = _report_progress(
        map_concurrent(partial(extract_sentence_claims, llm=llm, votes=votes), jobs, llm.workers), len(jobs), progress
    )
    claimed: list[AnswerClaim] = []
    sentences: list[AnswerSentence] = []
    for answer, held in told:
        mine = [] if answer.failed else _sentence_positions(held)
        found, rows = _assemble_answer(answer, held, dict(zip(mine, islice(made, len(mine)), strict=True)))
        claimed += found
        sentences += rows
    return claimed, sentences


def estimate_claim_calls(answers: Iterable[SystemAnswer], votes: Votes = PAPER_VOTES) -> tuple[int, int]:
    """How often the model is asked at least, if nothing is selected, and at most, if nothing is remembered."""
    count = sum(len(_sentence_positions(split_answer(answer.text))) for answer in answers if not answer.failed)
    return count * (votes[0] - votes_needed(votes[0]) + 1), count * sum(votes)


def _sentence_positions(held: Sequence[Piece]) -> list[int]:
    return [i for i, piece in enumerate(held) if piece.kind == "sentence"]


def _report_progress(made: Iterator[SentenceResult], total: int, progress: Progress | None) -> Iterator[SentenceResult]:
    for done, each in enumerate(made, 1):
        if progress:
            progress("claims", done, total)
        yield each


def _assemble_answer(answer: SystemAnswer, held: Sequence[Piece], made: dict[int, SentenceResult]) -> ClaimExtraction:
    """Of one answer, whose sentences became this."""
    if answer.failed or not held:
        outcome, why = ("no answer", {"why": answer.failed}) if answer.failed else ("empty", {})
        return [], [AnswerSentence(answer.system, answer.question, -1, "", outcome, why)]
    seen: set[str] = set()
    found: list[AnswerClaim] = []
    rows: list[AnswerSentence] = []
    for i, piece in enumerate(held):
        became = made.get(i, SentenceResult("heading"))
        new = [claim for claim in became.claims if claim_key(claim) not in seen]
        seen |= set(map(claim_key, new))
        found += [AnswerClaim(answer.system, answer.question, i, claim) for claim in new]
        repeated = len(became.claims) - len(new)
        outcome = "repeated" if repeated and not new else became.outcome
        trace = {**became.trace, "repeated": repeated} if repeated else became.trace
        rows.append(AnswerSentence(answer.system, answer.question, i, piece.text, outcome, trace))
    return found, rows
