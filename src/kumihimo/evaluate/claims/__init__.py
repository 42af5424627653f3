"""answers -> the claims they make, and what became of each of their sentences (Claimify, arXiv:2502.10855)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice

from kumihimo.core.task import Progress
from kumihimo.evaluate.claims.sentences import Piece, pieces
from kumihimo.evaluate.claims.stages import PAPER, Asked, Taken, Votes, key, taken
from kumihimo.evaluate.claims.voting import majority
from kumihimo.evaluate.records import Answered, Claim, Question, Sentence
from kumihimo.llm.concurrency import side_by_side
from kumihimo.llm.protocols import Ask

Found = tuple[list[Claim], list[Sentence]]


def claims(
    questions: Iterable[Question],
    answers: Iterable[Answered],
    ask: Ask,
    votes: Votes = PAPER,
    progress: Progress | None = None,
) -> Found:
    """The claims of the answers to these questions, each once for an answer; and every sentence, with its outcome.

    votes: how often selection, disambiguation and decomposition are asked; more than half have to agree.
    """
    asked = {question.id: question.text for question in questions}
    told = [(answer, pieces(answer.text)) for answer in answers if answer.question in asked]
    jobs = [Asked(asked[answer.question], held, i) for answer, held in told if not answer.failed for i in _asked(held)]
    made = _counting(side_by_side(partial(taken, ask=ask, votes=votes), jobs, ask.workers), len(jobs), progress)
    claimed: list[Claim] = []
    sentences: list[Sentence] = []
    for answer, held in told:
        mine = [] if answer.failed else _asked(held)
        found, rows = _of(answer, held, dict(zip(mine, islice(made, len(mine)), strict=True)))
        claimed += found
        sentences += rows
    return claimed, sentences


def calls(answers: Iterable[Answered], votes: Votes = PAPER) -> tuple[int, int]:
    """How often the model is asked at least, if nothing is selected, and at most, if nothing is remembered."""
    count = sum(len(_asked(pieces(answer.text))) for answer in answers if not answer.failed)
    return count * (votes[0] - majority(votes[0]) + 1), count * sum(votes)


def _asked(held: Sequence[Piece]) -> list[int]:
    return [i for i, piece in enumerate(held) if piece.kind == "sentence"]


def _counting(made: Iterator[Taken], total: int, progress: Progress | None) -> Iterator[Taken]:
    for done, each in enumerate(made, 1):
        if progress:
            progress("claims", done, total)
        yield each


def _of(answer: Answered, held: Sequence[Piece], made: dict[int, Taken]) -> Found:
    """Of one answer, whose sentences became this."""
    if answer.failed or not held:
        outcome, why = ("no answer", {"why": answer.failed}) if answer.failed else ("empty", {})
        return [], [Sentence(answer.system, answer.question, -1, "", outcome, why)]
    seen: set[str] = set()
    found: list[Claim] = []
    rows: list[Sentence] = []
    for i, piece in enumerate(held):
        became = made.get(i, Taken("heading"))
        new = [claim for claim in became.claims if key(claim) not in seen]
        seen |= set(map(key, new))
        found += [Claim(answer.system, answer.question, i, claim) for claim in new]
        repeated = len(became.claims) - len(new)
        outcome = "repeated" if repeated and not new else became.outcome
        trace = {**became.trace, "repeated": repeated} if repeated else became.trace
        rows.append(Sentence(answer.system, answer.question, i, piece.text, outcome, trace))
    return found, rows
