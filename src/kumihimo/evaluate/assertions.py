"""Questions and their gold texts -> assertions: statements a good answer should make."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kumihimo.core.errors import ItemFailed, UnparsableReply
from kumihimo.core.task import Progress
from kumihimo.evaluate.records import EvalQuestion, ReplyStatus
from kumihimo.evaluate.scoring.case import Tools, join_passages
from kumihimo.evaluate.scoring.support_check import ask_by_item
from kumihimo.llm.concurrency import map_concurrent
from kumihimo.llm.protocols import LLM

WRITE_PROMPT, RATE_PROMPT = (Path(__file__).with_name(name) for name in ("assertions.md", "assertions_rated.md"))
MAX_ASSERTIONS = 20  # a question
MIN_RATING = 3  # of 5, for each of the three ratings
GoldTexts = Callable[[EvalQuestion], Sequence[str]]  # a question -> the texts that contain its answer


@dataclass(frozen=True, slots=True)
class Written:
    """The statements of a good answer, most important first."""

    assertions: list[str]


@dataclass(frozen=True, slots=True)
class Rated:
    """Ratings of an assertion from 1 to 5.

    grounding: the text says it. relevance: the question asks for it. verifiability: a reader can check it.
    """

    number: int
    reason: str
    grounding: int
    relevance: int
    verifiability: int

    @property
    def is_sufficient(self) -> bool:
        """Return whether all three ratings reach MIN_RATING."""
        return min(self.grounding, self.relevance, self.verifiability) >= MIN_RATING


@dataclass(frozen=True, slots=True)
class AssertionResult:
    """A question with its assertions.

    dropped: rejected assertions with their ratings. why: the reason for having no assertions.
    """

    question: EvalQuestion
    dropped: tuple[tuple[str, Rated], ...] = ()
    status: ReplyStatus = "ok"
    why: str = ""


def generate_assertions(
    questions: Sequence[EvalQuestion], texts: GoldTexts, llm: LLM, *, progress: Progress | None = None
) -> Iterator[AssertionResult]:
    """Yield each question with assertions, in order (after BenchmarkQED).

    Questions that already have assertions keep them. Unlike BenchmarkQED, the model reads the gold passages and the
    reference answer, not claims extracted from them.
    """

    def process(question: EvalQuestion) -> AssertionResult:
        if question.assertions:
            return AssertionResult(question)
        available = [text for text in (*texts(question), question.reference) if text.strip()]
        if not available:
            return AssertionResult(question, why="no gold passage and no reference answer to take assertions from")
        try:
            return _generate_for_question(question, join_passages(available), Tools(llm))
        except UnparsableReply as failure:
            return AssertionResult(question, status="invalid", why=str(failure))
        except ItemFailed as failure:
            return AssertionResult(question, status="failed", why=str(failure))

    for done, row in enumerate(map_concurrent(process, questions, llm.workers), 1):
        yield row
        if progress:
            progress("questions", done, len(questions))


def _generate_for_question(question: EvalQuestion, text: str, tools: Tools) -> AssertionResult:
    replies = tools.ask(WRITE_PROMPT, Written, question=question.text, text=text, most=str(MAX_ASSERTIONS)).assertions
    statements = list(dict.fromkeys(statement.strip() for statement in replies if statement.strip()))[:MAX_ASSERTIONS]
    ratings = ask_by_item(tools, RATE_PROMPT, statements, Rated, question=question.text, text=text)
    pairs = list(zip(statements, ratings, strict=True))
    accepted = tuple(statement for statement, rating in pairs if rating.is_sufficient)
    dropped = tuple((statement, rating) for statement, rating in pairs if not rating.is_sufficient)
    why = "" if accepted else "none was rated high enough" if statements else "the model wrote none"
    return AssertionResult(replace(question, assertions=accepted), dropped, why=why)
