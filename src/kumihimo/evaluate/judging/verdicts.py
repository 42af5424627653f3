"""calls + a judge -> Verdict: who is better, and why; what cannot be read is invalid, and is counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import sqrt
from typing import Literal

from kumihimo.core.errors import ItemFailed, UnparsableReply
from kumihimo.evaluate.judging.calls import JudgeCall
from kumihimo.evaluate.judging.plain_text import StripMode, strip_markup
from kumihimo.evaluate.judging.protocols import Judgements, JudgeProtocol
from kumihimo.evaluate.records import ReplyStatus, Verdict, Winner
from kumihimo.llm.concurrency import map_concurrent
from kumihimo.llm.prompts import render_prompt
from kumihimo.llm.protocols import LLM, Messages

JudgeRole = Literal["judge", "second_judge"]
NO_ANSWER_TEXT = "(no answer was given)"
_MIN_REPLIES = 100  # replies, before it is said that too many cannot be read
_SIGMAS = 3  # standard deviations above what was allowed


def judge_pairs(
    protocol: JudgeProtocol,
    calls: Iterable[JudgeCall],
    llm: LLM,
    *,
    role: JudgeRole = "judge",
    strip: StripMode | None = None,
    max_invalid: float = 100.0,
) -> Iterator[Verdict]:
    """A row for each call and criterion, in their order.

    strip: marks that are taken out of the answers; None: those of the protocol. max_invalid: percent of replies that
    may be unreadable; ItemFailed is raised as soon as there are clearly more.
    """
    marks = protocol.strip if strip is None else strip

    def judged(call: JudgeCall) -> list[Verdict]:
        return _verdict_rows(protocol, call, llm, role, marks)

    counted = invalid = 0
    for rows in map_concurrent(judged, calls, llm.workers):
        yield from rows
        counted += rows[0].status != "failed"
        invalid += rows[0].status == "invalid"
        if exceeds_invalid_limit(invalid, counted, max_invalid):
            break
    else:
        return
    raise ItemFailed(
        f"stopped: {invalid:,} of {counted:,} replies of {llm.fingerprint} cannot be read, more than {max_invalid:g} %; what "
        "was paid is remembered: set another model under [judge], or go on with --max-invalid 100"
    )


def exceeds_invalid_limit(invalid: int, counted: int, percent: float) -> bool:
    """Whether so many invalid replies are no chance any more, where that percentage is allowed.

    >>> too_many(3, 100, 2.0), too_many(7, 100, 2.0), too_many(7, 99, 2.0)
    (False, True, False)
    """
    share = min(percent / 100, 1.0)
    allowed = counted * share + _SIGMAS * sqrt(counted * share * (1 - share))
    return counted >= _MIN_REPLIES and invalid > allowed


def _verdict_rows(
    protocol: JudgeProtocol, call: JudgeCall, llm: LLM, role: JudgeRole, strip: StripMode
) -> list[Verdict]:
    """The rows of one call. Raises ModelError, KeyboardInterrupt."""
    said, status, why = _request_verdict(protocol, call, llm, strip)

    def row(criterion: str, winner: Winner, reason: str) -> Verdict:
        of = (protocol.name, criterion, call.question.id, call.a.system, call.b.system, call.first, call.replicate)
        return Verdict(*of, winner, reason, status, why, role, llm.fingerprint)

    if status != "ok":
        return [row(criterion, "", "") for criterion in call.criteria]
    winners = [_winner(better, call) for better, _ in said]
    return [row(c, winner, reason) for c, winner, (_, reason) in zip(call.criteria, winners, said, strict=True)]


def _winner(better: int, call: JudgeCall) -> Winner:
    if not better:
        return "tie"
    return "a" if (better == 1) == (call.first == "a") else "b"


def _request_verdict(
    protocol: JudgeProtocol, call: JudgeCall, llm: LLM, strip: StripMode
) -> tuple[Judgements, ReplyStatus, str]:
    if protocol.parse is None:
        raise ItemFailed(f"{protocol.name} compares no pairs")
    try:
        reply = llm(build_verdict_prompt(protocol, call, strip), schema=protocol.schema, sample=call.sample)
        return protocol.parse(reply), "ok", ""
    except UnparsableReply as unreadable:
        return [], "invalid", str(unreadable)
    except ItemFailed as failed:
        return [], "failed", str(failed)


def build_verdict_prompt(protocol: JudgeProtocol, call: JudgeCall, strip: StripMode) -> Messages:
    """The prompt of a call: the two answers as their order has it."""
    shown = (call.a, call.b) if call.first == "a" else (call.b, call.a)
    one, other = (strip_markup(answer.text, strip) or NO_ANSWER_TEXT for answer in shown)
    told = {"question": call.question.text, "one": one, "other": other}
    if protocol.one_call:
        told |= {name: text for name, text in protocol.criteria.items() if name != "overall"}
    else:
        told["criterion"] = protocol.criteria[call.criteria[0]]
    return render_prompt(protocol.prompt, **told)
