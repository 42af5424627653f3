"""The rows of a study's files -> EvalQuestion, SystemAnswer, Verdict, Rating, Score, AnswerClaim."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from kumihimo.core.usage import Usage

ByQuestion = Mapping[str, float]  # values by question
Clusters = Mapping[str, str]  # question -> the group of questions that it belongs to
ValuesByMeasure = dict[str, dict[str, float | None]]  # by measure, by question
ReplyStatus = Literal["ok", "invalid", "failed"]  # invalid: unreadable replies; failed: no reply
Winner = Literal["a", "b", "tie", ""]  # "": the verdict is not ok
DOCUMENT_END = 2**62  # stands for the end of any document
_ENOUGH = 0.5  # of the characters of a range: a shorter part does not hold the answer


@dataclass(frozen=True, slots=True)
class Gold:
    """The place of an answer: document, character range `[start, end)` or quote.

    id: a document's uri, the part after its #, or a chunk id. If it is empty, the text may stand in any document.
    alternatives: other places with the same answer; one of all these is enough.
    """

    id: str = ""
    start: int | None = None
    end: int | None = None
    text: str = ""
    alternatives: tuple["Gold", ...] = ()

    @property
    def options(self) -> tuple["Gold", ...]:
        """Return this place and its alternatives."""
        return self, *self.alternatives


@dataclass(frozen=True, slots=True)
class EvalQuestion:
    """A question for the systems under test.

    scope: it concerns a detail (local), the whole corpus (global) or linked facts (linked). source: it was made from a
    persona and a task (activity), from the documents (data), or supplied by a user. reference: a known right answer.
    assertions: statements a good answer should make.
    """

    id: str
    text: str
    scope: Literal["global", "local", "linked"] = "global"
    source: Literal["activity", "data", "user"] = "user"
    persona: str = ""
    task: str = ""
    reference: str = ""
    assertions: tuple[str, ...] = ()
    gold: tuple[Gold, ...] = ()
    more: Mapping[str, Any] = field(default_factory=dict)  # other keys of an imported row

    @property
    def cluster(self) -> str:
        """Return the persona and task, or else the id.

        Questions of one cluster are not independent.
        """
        return f"{self.persona}\n{self.task}" if self.task else self.id


@dataclass(frozen=True, slots=True, order=True)
class SourceSpan:
    """A character range `[start, end)` of a document.

    place: its location in words, such as a page or a section.
    """

    uri: str
    start: int
    end: int
    place: str = field(default="", compare=False)

    @property
    def is_document(self) -> bool:
        """Return whether the range is a whole document."""
        return self.end == DOCUMENT_END

    def overlaps(self, other: Self) -> bool:
        """Return whether two ranges of one document overlap."""
        return self.uri == other.uri and self.start < other.end and other.start < self.end

    def is_covered(self, read: Iterable[Self]) -> bool:
        """Return whether the ranges read hold enough of this one.

        Any part of a whole document is enough; of another range, half of its characters.

        >>> part = SourceSpan("a", 10, 20)
        >>> part.is_covered([SourceSpan("a", 0, 13)]), part.is_covered([SourceSpan("a", 0, 13), part])
        (False, True)
        """
        characters, last = 0, self.start
        for place in sorted(filter(self.overlaps, read)):
            if self.is_document:
                return True
            end = min(place.end, self.end)
            characters += max(0, end - max(place.start, last))
            last = max(last, end)
        return characters >= _ENOUGH * (self.end - self.start)


@dataclass(frozen=True, slots=True)
class AnswerSource:
    """A piece of an answer's evidence, or the quote of a citation.

    n: the rank of the evidence, or the number of the citation. why: the contribution of each feature to the score, if
    the method reports it. path: ids of a linked passage and of the entity that both mention.
    """

    n: int  # its rank, from 1
    text: str
    id: str = ""
    table: str = ""
    score: float = 0.0
    places: tuple[SourceSpan, ...] = ()
    why: Mapping[str, float] = field(default_factory=dict)
    path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SystemAnswer:
    """The answer of one system to one question.

    system: its name, such as `global:C0`. generation: the number of the answer; 0 is the first, each further one comes
    from asking again from scratch. usage: the total usage, paid now or cached; its seconds are the sum over all calls.
    seconds: time from question to answer, None if the answer was cached. failed: the reason for a missing answer.
    decided: the query type the method detected, if it reports one.
    """

    system: str
    question: str  # its id
    text: str
    contexts: tuple[AnswerSource, ...] = ()
    citations: tuple[AnswerSource, ...] = ()
    usage: Usage = field(default_factory=Usage)
    seconds: float | None = None
    model: str = ""
    generation: int = 0
    failed: str = ""
    decided: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judge's choice between two answers by one criterion.

    a, b: the systems, in the order of the comparison; equal if a system is compared with another generation of itself.
    first: the answer shown first, "a" or "b". role: `judge` or `second_judge`.
    """

    protocol: str
    criterion: str
    question: str  # its id
    a: str
    b: str
    first: Literal["a", "b"]
    replicate: int
    winner: Winner
    reason: str = ""
    status: ReplyStatus = "ok"
    why: str = ""  # the reason for another status than ok
    role: Literal["judge", "second_judge"] = "judge"
    judge: str = ""  # the model

    @property
    def points(self) -> float | None:
        """Return the points of a: 100, 50 or 0.

        b gets the rest of 100 (GraphRAG, section 3.3).
        """
        return {"a": 100.0, "tie": 50.0, "b": 0.0}.get(self.winner)


@dataclass(frozen=True, slots=True)
class Rating:
    """A judge's score for an answer or its evidence (MK-RAG).

    value: 0 to 100. place: the position of the system in the prompt, from 1.
    """

    protocol: str
    criterion: str
    question: str  # its id
    system: str
    place: int
    replicate: int
    value: float | None
    reason: str = ""
    status: ReplyStatus = "ok"
    why: str = ""
    judge: str = ""


@dataclass(frozen=True, slots=True)
class Score:
    """A measure of one answer or of its evidence.

    value: None if it is undefined; reason says why. detail: the data behind the value, such as statements and verdicts
    on them. status: "invalid" or "failed" if a model did not give the needed reply; values that are undefined for
    other reasons are "ok".
    """

    name: str
    system: str
    question: str  # its id
    value: float | None
    reason: str = ""
    detail: Mapping[str, Any] = field(default_factory=dict)
    status: ReplyStatus = "ok"


@dataclass(frozen=True, slots=True)
class AnswerClaim:
    """A checkable proposition of an answer (Claimify).

    supported, in_corpus: the answer's evidence, or any document, entails it; None: not checked, or undecided. doubt:
    SelfCheck score from 0 (all samples agree) to 1; None: not checked. sources: the supporting evidence, by n. why:
    the reason for each requested value that is None or rests on unreadable replies.
    """

    system: str
    question: str  # its id
    sentence: int  # of the answer, from 0
    text: str
    supported: bool | None = None
    in_corpus: bool | None = None
    doubt: float | None = None
    sources: tuple[int, ...] = ()
    why: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AnswerSentence:
    """The path of one answer sentence through claim extraction.

    outcome: claims, or the reason for having none: heading, not selected, ambiguous, nothing decomposed, repeated
    (every claim was made before), invalid, failed. An answer without sentences has the outcome empty or no answer, and
    sentence -1. trace: the result of each stage.
    """

    system: str
    question: str  # its id
    sentence: int
    text: str
    outcome: str
    trace: Mapping[str, Any] = field(default_factory=dict)
