"""answers of several systems + a judge -> Rating: six scores for what each found and said (MK-RAG, section 4).

But: the paper shows all systems in one order. Here each stands in each place equally often, without its name.
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
CONTEXT_TOKENS = 2000  # tokens shown of what each system found


@dataclass(frozen=True, slots=True)
class RatingCall:
    """The answers to a question, in the order in which they are shown."""

    question: EvalQuestion
    answers: tuple[SystemAnswer, ...]
    replicate: int


def plan_rating_calls(
    questions: Iterable[EvalQuestion], answers: AnswersBySystem, *, replicates: int = 1, one_system: bool = False
) -> list[RatingCall]:
    """Each question so many times: places by a Latin square over questions and replicates; failed answers left out.

    alone: one system a call.
    """
    made: list[RatingCall] = []
    for i, question in enumerate(questions):
        found = [held[question.id] for held in answers.values() if question.id in held]
        there = [answer for answer in found if not answer.failed]
        for n in range(replicates if there else 0):
            turn = (i + n) % len(there)
            turned = there[turn:] + there[:turn]
            made += (
                [RatingCall(question, (a,), n) for a in turned]
                if one_system
                else [RatingCall(question, tuple(turned), n)]
            )
    return made


def rate_answers(
    protocol: JudgeProtocol,
    calls: Iterable[RatingCall],
    llm: LLM,
    *,
    tokenizer: Tokenizer,
    context: int = CONTEXT_TOKENS,
    strip: StripMode | None = None,
) -> Iterator[Rating]:
    """A row for each system and criterion of each call. context: tokens shown of what each system found."""
    marks = protocol.strip if strip is None else strip

    def judged(call: RatingCall) -> list[Rating]:
        return _rating_rows(protocol, call, llm, render_systems(call.answers, tokenizer, context, marks))

    for rows in map_concurrent(judged, calls, llm.workers):
        yield from rows


def _rating_rows(protocol: JudgeProtocol, call: RatingCall, llm: LLM, systems: str) -> list[Rating]:
    reply, status, why = _request_ratings(protocol, call, llm, systems)
    made: list[Rating] = []
    for place, answer in enumerate(call.answers, 1):
        for criterion in protocol.criteria:
            scored = getattr(getattr(reply, f"system_{place}"), criterion) if reply else None
            value, reason = (float(scored.score), scored.justification) if scored else (None, "")
            of = (protocol.name, criterion, call.question.id, answer.system, place, call.replicate)
            made.append(Rating(*of, value, reason, status, why, llm.fingerprint))
    return made


def _request_ratings(protocol: JudgeProtocol, call: RatingCall, llm: LLM, systems: str) -> tuple[Any, ReplyStatus, str]:
    form = build_rating_form(tuple(protocol.criteria), len(call.answers))
    try:
        return llm(build_rating_prompt(protocol, call, systems), schema=form, sample=call.replicate), "ok", ""
    except UnparsableReply as unreadable:
        return None, "invalid", str(unreadable)
    except ItemFailed as failed:
        return None, "failed", str(failed)


def build_rating_prompt(protocol: JudgeProtocol, call: RatingCall, systems: str) -> Messages:
    return render_prompt(protocol.prompt, question=call.question.text, systems=systems, **protocol.criteria)


def render_systems(
    answers: Sequence[SystemAnswer], tokenizer: Tokenizer, context: int, strip: StripMode = "none"
) -> str:
    """What each system found, the first `context` tokens of it, and what it answered; their names are not told."""
    parts = []
    for place, answer in enumerate(answers, 1):
        found = (
            truncate_tokens("\n\n".join(source.text for source in answer.contexts), tokenizer, context)
            or NO_EVIDENCE_TEXT
        )
        said = strip_markup(answer.text, strip) or NO_ANSWER_TEXT
        name = f"system_{place}"
        parts.append(f"=== {name} found ===\n\n{found}\n\n=== {name} answered ===\n\n{said}\n\n=== end of {name} ===")
    return "\n\n".join(parts)


def truncate_tokens(text: str, tokenizer: Tokenizer, tokens: int) -> str:
    """Its first tokens."""
    begins = tokenizer(text)
    return text if len(begins) <= tokens else text[: begins[tokens]].rstrip()


RatingMeans = Mapping[str, Mapping[str, Mapping[str, float]]]  # by criterion, system and question


def mean_ratings(rows: Iterable[Rating]) -> RatingMeans:
    """The mean of replicates, of those that could be read; a system of which none could has no questions."""
    said: dict[str, dict[str, defaultdict[str, list[float]]]] = {}
    for row in rows:
        held = said.setdefault(row.criterion, {}).setdefault(row.system, defaultdict(list))
        if row.value is not None:
            held[row.question].append(row.value)
    return {c: {s: {q: sum(v) / len(v) for q, v in held.items()} for s, held in of.items()} for c, of in said.items()}
