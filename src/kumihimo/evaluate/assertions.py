"""questions + what their answers stand on -> assertions: what a good answer should say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kumihimo.core.errors import ItemFailed, Unreadable
from kumihimo.core.task import Progress
from kumihimo.evaluate.records import Question, Status
from kumihimo.evaluate.scoring.case import Tools, joined
from kumihimo.evaluate.scoring.support_check import by_item
from kumihimo.llm.concurrency import side_by_side
from kumihimo.llm.protocols import Ask

WRITE, RATE = (Path(__file__).with_name(name) for name in ("assertions.md", "assertions_rated.md"))
MOST, LEAST = 20, 3  # assertions of a question; of 5, in each of the three ratings
Texts = Callable[[Question], Sequence[str]]  # what the answer to a question stands on


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
    def kept(self) -> bool:
        return min(self.grounding, self.relevance, self.verifiability) >= LEAST


@dataclass(frozen=True, slots=True)
class Asserted:
    """A question with its assertions. dropped: those that were rated too low, and how. why: there are none."""

    question: Question
    dropped: tuple[tuple[str, Rated], ...] = ()
    status: Status = "ok"
    why: str = ""


def asserted(
    questions: Sequence[Question], texts: Texts, ask: Ask, *, progress: Progress | None = None
) -> Iterator[Asserted]:
    """Each question, in their order; those that carry assertions keep theirs (after BenchmarkQED).

    But: what is read is the gold passages, and the reference answer where there is one, not claims taken from them.
    """

    def one(question: Question) -> Asserted:
        if question.assertions:
            return Asserted(question)
        read = [text for text in (*texts(question), question.reference) if text.strip()]
        if not read:
            return Asserted(question, why="no gold passage and no reference answer to take assertions from")
        try:
            return _asserted(question, joined(read), Tools(ask))
        except Unreadable as failure:
            return Asserted(question, status="invalid", why=str(failure))
        except ItemFailed as failure:
            return Asserted(question, status="failed", why=str(failure))

    for done, row in enumerate(side_by_side(one, questions, ask.workers), 1):
        yield row
        if progress:
            progress("questions", done, len(questions))


def _asserted(question: Question, text: str, tools: Tools) -> Asserted:
    said = tools.ask(WRITE, Written, question=question.text, text=text, most=str(MOST)).assertions
    written = list(dict.fromkeys(each.strip() for each in said if each.strip()))[:MOST]
    rated = by_item(tools, RATE, written, Rated, question=question.text, text=text)
    pairs = list(zip(written, rated, strict=True))
    kept = tuple(each for each, rating in pairs if rating.kept)
    dropped = tuple((each, rating) for each, rating in pairs if not rating.kept)
    why = "" if kept else "none was rated high enough" if written else "the model wrote none"
    return Asserted(replace(question, assertions=kept), dropped, why=why)
