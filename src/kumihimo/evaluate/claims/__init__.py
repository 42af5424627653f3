"""answers -> their claims, and one outcome for every sentence (Claimify, arXiv:2502.10855)."""

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
    """Extract the claims of these answers, and record each sentence's outcome.

    Each claim counts once per answer. Answers to unknown questions are skipped.
    votes: LLM replies for selection, disambiguation and decomposition; more than half must agree.
    """
    question_texts = {question.id: question.text for question in questions}
    split_answers = [(answer, split_answer(answer.text)) for answer in answers if answer.question in question_texts]
    jobs = [
        SentenceJob(question_texts[answer.question], pieces, i)
        for answer, pieces in split_answers
        if not answer.failed
        for i in _sentence_positions(pieces)
    ]
    results = _report_progress(
        map_concurrent(partial(extract_sentence_claims, llm=llm, votes=votes), jobs, llm.workers), len(jobs), progress
    )
    claims: list[AnswerClaim] = []
    sentences: list[AnswerSentence] = []
    for answer, pieces in split_answers:
        positions = [] if answer.failed else _sentence_positions(pieces)
        answer_claims, rows = _assemble_answer(
            answer, pieces, dict(zip(positions, islice(results, len(positions)), strict=True))
        )
        claims += answer_claims
        sentences += rows
    return claims, sentences


def estimate_claim_calls(answers: Iterable[SystemAnswer], votes: Votes = PAPER_VOTES) -> tuple[int, int]:
    """Return the minimum and maximum number of LLM calls.

    Minimum: selection rejects every sentence. Maximum: no reply is cached.
    """
    count = sum(len(_sentence_positions(split_answer(answer.text))) for answer in answers if not answer.failed)
    return count * (votes[0] - votes_needed(votes[0]) + 1), count * sum(votes)


def _sentence_positions(pieces: Sequence[Piece]) -> list[int]:
    """Return the positions of the pieces that are sentences."""
    return [i for i, piece in enumerate(pieces) if piece.kind == "sentence"]


def _report_progress(
    results: Iterator[SentenceResult], total: int, progress: Progress | None
) -> Iterator[SentenceResult]:
    """Yield the results and report the progress of each."""
    for done, result in enumerate(results, 1):
        if progress:
            progress("claims", done, total)
        yield result


def _assemble_answer(
    answer: SystemAnswer, pieces: Sequence[Piece], results: dict[int, SentenceResult]
) -> ClaimExtraction:
    """Build the claims and sentence rows of one answer.

    results: the result of each sentence, by its position in `pieces`.
    """
    if answer.failed or not pieces:
        outcome, reasons = ("no answer", {"why": answer.failed}) if answer.failed else ("empty", {})
        return [], [AnswerSentence(answer.system, answer.question, -1, "", outcome, reasons)]
    keys: set[str] = set()
    claims: list[AnswerClaim] = []
    rows: list[AnswerSentence] = []
    for i, piece in enumerate(pieces):
        result = results.get(i, SentenceResult("heading"))
        new = [claim for claim in result.claims if claim_key(claim) not in keys]
        keys |= set(map(claim_key, new))
        claims += [AnswerClaim(answer.system, answer.question, i, claim) for claim in new]
        repeated = len(result.claims) - len(new)
        outcome = "repeated" if repeated and not new else result.outcome
        trace = {**result.trace, "repeated": repeated} if repeated else result.trace
        rows.append(AnswerSentence(answer.system, answer.question, i, piece.text, outcome, trace))
    return claims, rows
