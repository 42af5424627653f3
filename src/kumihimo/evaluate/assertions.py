"""questions + what their answers stand on -> assertions: what a good answer should say."""

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
MAX_ASSERTIONS, MIN_RATING = 20, 3  # assertions of a question; of 5, in each of the three ratings
GoldTexts = Callable[[EvalQuestion], Sequence[str]]  # what the answer to a question stands on


@dataclass(frozen=True, slots=True)
class Written:
    """What a good answer says, the most important first."""

    assertions: list[str]


@dataclass(frozen=True, slots=True)
class Rated:
    """Of 5: whether the text says it, the question asks for it, and one can tell whether an answer says it."""

    number: int
    reason: str
    grounding: int
    relevance: int
    verifiability: int

    @property
    def is_sufficient(self) -> bool:
        return min(self.grounding, self.relevance, self.verifiability) >= MIN_RATING


@dataclass(frozen=True, slots=True)
class AssertionResult:
    """A question with its assertions. dropped: those that were rated too low, and how. why: there are none."""

    question: EvalQuestion
    dropped: tuple[tuple[str, Rated], ...] = ()
    status: ReplyStatus = "ok"
    why: str = ""


def generate_assertions(
    questions: Sequence[EvalQuestion], texts: GoldTexts, llm: LLM, *, progress: Progress | None = None
) -> Iterator[AssertionResult]:
    """Each question, in their order; those that carry assertions keep theirs (after BenchmarkQED).

    But: what is read is the gold passages, and the reference answer where there is one, not claims taken from them.
    """

    def one(question: EvalQuestion) -> AssertionResult:
        if question.assertions:
            return AssertionResult(question)
        read = [text for text in (*texts(question), question.reference) if text.strip()]
        if not read:
            return AssertionResult(question, why="no gold passage and no reference answer to take assertions from")
        try:
            return _generate_for_question(question, join_passages(read), Tools(llm))
        except UnparsableReply as failure:
            return AssertionResult(question, status="invalid", why=str(failure))
        except ItemFailed as failure:
            return AssertionResult(question, status="failed", why=str(failure))

    for done, row in enumerate(map_concurrent(one, questions, llm.workers), 1):
        yield row
        if progress:
            progress("questions", done, len(questions))


def _generate_for_question(question: EvalQuestion, text: str, tools: Tools) -> AssertionResult:
    said = tools.ask(WRITE_PROMPT, Written, question=question.text, text=text, most=str(MAX_ASSERTIONS)).assertions
    written = list(dict.fromkeys(each.strip() for each in said if each.strip()))[:MAX_ASSERTIONS]
    rated = ask_by_item(tools, RATE_PROMPT, written, Rated, question=question.text, text=text)
    pairs = list(zip(written, rated, strict=True))
    kept = tuple(each for each, rating in pairs if rating.is_sufficient)
    dropped = tuple((each, rating) for each, rating in pairs if not rating.is_sufficient)
    why = "" if kept else "none was rated high enough" if written else "the model wrote none"
    return AssertionResult(replace(question, assertions=kept), dropped, why=why)
