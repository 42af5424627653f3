"""what an evaluation is made of -> Question, Answered, Verdict, Rating, Score, Claim: rows of the files of a study."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from kumihimo.core.usage import Usage

ReplyStatus = Literal["ok", "invalid", "failed"]  # invalid: replies that cannot be read; failed: no reply at all
Winner = Literal["a", "b", "tie", ""]  # "": none, since the verdict is not ok


@dataclass(frozen=True, slots=True)
class Gold:
    """Where the answer to a question stands: a document, `[start, end)` of it in characters, or a passage in its words.

    id: of a document, its uri, or what is after the # of it, or of a chunk. Empty: wherever the text stands.
    """

    id: str = ""
    start: int | None = None
    end: int | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class EvalQuestion:
    """What systems are asked.

    scope: whether it is about a detail, the whole, or things that have to be linked. source: what it was made from, the
    work of somebody (a persona and a task), the documents, or nobody knows: users bring their own.
    reference: an answer that is known to be right. assertions: what a good answer should say.
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
    more: Mapping[str, Any] = field(default_factory=dict)  # what else came with it, kept as it is

    @property
    def cluster(self) -> str:
        """Questions of the same cluster do not count as independent: those of one persona's task."""
        return f"{self.persona}\n{self.task}" if self.task else self.id


@dataclass(frozen=True, slots=True)
class SourceSpan:
    """`[start, end)` of a document, in characters; place: as one looks it up in the file."""

    uri: str
    start: int
    end: int
    place: str = ""


@dataclass(frozen=True, slots=True)
class AnswerSource:
    """A piece of the evidence of an answer, or what one of its citations quotes (then n is the citation's number).

    why: what each feature adds to its score, where the method says so. path: a passage that it hangs together with and
    the entity that both mention, by ids.
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
    """What a system said to a question.

    system: its name, such as `global:C0`. generation: which of several answers, 0 the first; another is had by asking
    all over again. usage: what it took, whether it was paid now or remembered; its seconds are those of all calls.
    seconds: from question to answer, None where it was remembered. failed: why there is no answer. decided: what the
    method took the question for, where it says so.
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
    """A judge's choice between the answers of two systems to a question, by one criterion.

    a, b: systems, in the order of their comparison; the same twice where a system is compared with another generation
    of itself. first: which of them was shown first, "a" or "b". role: `judge` or `second_judge`.
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
    why: str = ""  # it is not ok
    role: Literal["judge", "second_judge"] = "judge"
    judge: str = ""  # the model

    @property
    def points(self) -> float | None:
        """For a: 100, 50 or 0; for b what is missing to 100 (GraphRAG, section 3.3)."""
        return {"a": 100.0, "tie": 50.0, "b": 0.0}.get(self.winner)


@dataclass(frozen=True, slots=True)
class Rating:
    """A judge's score from 0 to 100 for what one system said or found (MK-RAG). place: of several shown, from 1."""

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
    """A measure of one answer, or of what was found for it; value None: undefined, and the reason why.

    detail: what it was computed from: statements, verdicts on them, so that one can look it up. status: whether a model
    failed to say what was needed; what is undefined for other reasons is ok.
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
    """A proposition that an answer makes, which can be checked (Claimify).

    supported, in_corpus: whether the evidence of the answer, or any document, says so; None: not asked, or undecided.
    doubt: by SelfCheck, from 0, all samples say so, to 1; None: not asked. sources: which of the answer's evidence says
    so, by n. why: the reason, where one of the three was asked for and is None, or rests on replies nobody can read.
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
    """What became of one sentence of an answer on its way to claims.

    outcome: claims, or why there are none: heading, not selected, ambiguous, nothing decomposed, repeated (all of them
    were made before), invalid, failed. Of an answer without sentences: empty, or no answer; sentence is -1. trace: what
    each stage made of it.
    """

    system: str
    question: str  # its id
    sentence: int
    text: str
    outcome: str
    trace: Mapping[str, Any] = field(default_factory=dict)
