"""answers of several systems + a judge -> ratings: six scores of evidence and answer (MK-RAG, section 4).

But: the paper shows all systems in one order. Here each system appears equally often in each place, without its name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kumihimo.core.context import Tokenizer
from kumihimo.core.errors import ItemFailed, UnparsableReply
from kumihimo.evaluate.judging.calls import AnswersBySystem
from kumihimo.evaluate.judging.forms import build_rating_form
from kumihimo.evaluate.judging.plain_text import StripMode, strip_markup
from kumihimo.evaluate.judging.protocols import JudgeProtocol
from kumihimo.evaluate.judging.verdicts import NO_ANSWER_TEXT
from kumihimo.evaluate.records import EvalQuestion, Rating, ReplyStatus, SystemAnswer
from kumihimo.llm.concurrency import map_concurrent
from kumihimo.llm.prompts import render_prompt
from kumihimo.llm.protocols import LLM, Messages

NO_EVIDENCE_TEXT = "(nothing was found)"
CONTEXT_TOKENS = 2000  # tokens of evidence to show per system


@dataclass(frozen=True, slots=True)
class RatingCall:
    """The answers to a question, in presentation order."""

    question: EvalQuestion
    answers: tuple[SystemAnswer, ...]
    replicate: int


def plan_rating_calls(
    questions: Iterable[EvalQuestion], answers: AnswersBySystem, *, replicates: int = 1, one_system: bool = False
) -> list[RatingCall]:
    """Plan the rating calls for each question and replicate.

    A Latin square over questions and replicates sets the places. Failed answers are left out.
    one_system: one system per call.
    """
    planned: list[RatingCall] = []
    for i, question in enumerate(questions):
        answers_found = [by_question[question.id] for by_question in answers.values() if question.id in by_question]
        valid = [answer for answer in answers_found if not answer.failed]
        for n in range(replicates if valid else 0):
            shift = (i + n) % len(valid)
            rotated = valid[shift:] + valid[:shift]
            planned += (
                [RatingCall(question, (a,), n) for a in rotated]
                if one_system
                else [RatingCall(question, tuple(rotated), n)]
            )
    return planned


def rate_answers(
    protocol: JudgeProtocol,
    calls: Iterable[RatingCall],
    llm: LLM,
    *,
    tokenizer: Tokenizer,
    context: int = CONTEXT_TOKENS,
    strip: StripMode | None = None,
) -> Iterator[Rating]:
    """Yield a row for each call, system and criterion.

    context: tokens of evidence to show per system. strip: the markup to remove; None for the protocol's own.
    """
    strip_mode = protocol.strip if strip is None else strip

    def rate(call: RatingCall) -> list[Rating]:
        """Return the rows of one call."""
        return _rating_rows(protocol, call, llm, render_systems(call.answers, tokenizer, context, strip_mode))

    for rows in map_concurrent(rate, calls, llm.workers):
        yield from rows


def _rating_rows(protocol: JudgeProtocol, call: RatingCall, llm: LLM, systems: str) -> list[Rating]:
    """Request the scores of one call and return its rows."""
    reply, status, why = _request_ratings(protocol, call, llm, systems)
    rows: list[Rating] = []
    for place, answer in enumerate(call.answers, 1):
        for criterion in protocol.criteria:
            score = getattr(getattr(reply, f"system_{place}"), criterion) if reply else None
            value, reason = (float(score.score), score.justification) if score else (None, "")
            key = (protocol.name, criterion, call.question.id, answer.system, place, call.replicate)
            rows.append(Rating(*key, value, reason, status, why, llm.fingerprint))
    return rows


def _request_ratings(protocol: JudgeProtocol, call: RatingCall, llm: LLM, systems: str) -> tuple[Any, ReplyStatus, str]:
    """Return the reply, its status, and why it is not ok."""
    form = build_rating_form(tuple(protocol.criteria), len(call.answers))
    try:
        return llm(build_rating_prompt(protocol, call, systems), schema=form, sample=call.replicate), "ok", ""
    except UnparsableReply as error:
        return None, "invalid", str(error)
    except ItemFailed as failure:
        return None, "failed", str(failure)


def build_rating_prompt(protocol: JudgeProtocol, call: RatingCall, systems: str) -> Messages:
    """Build the prompt of a rating call."""
    return render_prompt(protocol.prompt, question=call.question.text, systems=systems, **protocol.criteria)


def render_systems(
    answers: Sequence[SystemAnswer], tokenizer: Tokenizer, context: int, strip: StripMode = "none"
) -> str:
    """Render the evidence and answer of each system, without its name.

    context: tokens of evidence to show per system.
    """
    parts = []
    for place, answer in enumerate(answers, 1):
        evidence = (
            truncate_tokens("\n\n".join(source.text for source in answer.contexts), tokenizer, context)
            or NO_EVIDENCE_TEXT
        )
        text = strip_markup(answer.text, strip) or NO_ANSWER_TEXT
        name = f"system_{place}"
        parts.append(
            f"=== {name} found ===\n\n{evidence}\n\n=== {name} answered ===\n\n{text}\n\n=== end of {name} ==="
        )
    return "\n\n".join(parts)


def truncate_tokens(text: str, tokenizer: Tokenizer, tokens: int) -> str:
    """Return the first tokens of a text."""
    starts = tokenizer(text)
    return text if len(starts) <= tokens else text[: starts[tokens]].rstrip()


RatingMeans = Mapping[str, Mapping[str, Mapping[str, float]]]  # by criterion, system and question


def mean_ratings(rows: Iterable[Rating]) -> RatingMeans:
    """Return the mean over readable replicates, by criterion, system and question.

    A system without readable ratings has no questions.
    """
    values: dict[str, dict[str, defaultdict[str, list[float]]]] = {}
    for row in rows:
        by_question = values.setdefault(row.criterion, {}).setdefault(row.system, defaultdict(list))
        if row.value is not None:
            by_question[row.question].append(row.value)
    return {
        c: {s: {q: sum(v) / len(v) for q, v in by_question.items()} for s, by_question in by_system.items()}
        for c, by_system in values.items()
    }
