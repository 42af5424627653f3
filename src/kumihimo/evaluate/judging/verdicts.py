"""calls + a judge -> verdicts: the winner and the reason; unreadable replies are invalid and counted."""

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
_MIN_REPLIES = 100  # replies before the rate of invalid ones is tested
_SIGMAS = 3  # standard deviations above the allowed rate


def judge_pairs(
    protocol: JudgeProtocol,
    calls: Iterable[JudgeCall],
    llm: LLM,
    *,
    role: JudgeRole = "judge",
    strip: StripMode | None = None,
    max_invalid: float = 100.0,
) -> Iterator[Verdict]:
    """Yield a row for each call and criterion, in order.

    strip: the markup to remove from answers; None for the protocol's own. max_invalid: the percentage of replies that
    may be unreadable. Raises ItemFailed as soon as the rate is significantly higher.
    """
    strip_mode = protocol.strip if strip is None else strip

    def judge(call: JudgeCall) -> list[Verdict]:
        """Return the rows of one call."""
        return _verdict_rows(protocol, call, llm, role, strip_mode)

    replies = invalid = 0
    for rows in map_concurrent(judge, calls, llm.workers):
        yield from rows
        replies += rows[0].status != "failed"
        invalid += rows[0].status == "invalid"
        if exceeds_invalid_limit(invalid, replies, max_invalid):
            break
    else:
        return
    raise ItemFailed(
        f"stopped: {invalid:,} of {replies:,} replies of {llm.fingerprint} are unreadable, more than "
        f"{max_invalid:g} %; paid replies are cached: set another model under [judge], "
        "or continue with --max-invalid 100"
    )


def exceeds_invalid_limit(invalid: int, replies: int, percent: float) -> bool:
    """Return whether the invalid replies significantly exceed the allowed percentage.

    >>> exceeds_invalid_limit(3, 100, 2.0), exceeds_invalid_limit(7, 100, 2.0), exceeds_invalid_limit(7, 99, 2.0)
    (False, True, False)
    """
    share = min(percent / 100, 1.0)
    allowed = replies * share + _SIGMAS * sqrt(replies * share * (1 - share))
    return replies >= _MIN_REPLIES and invalid > allowed


def _verdict_rows(
    protocol: JudgeProtocol, call: JudgeCall, llm: LLM, role: JudgeRole, strip: StripMode
) -> list[Verdict]:
    """Return the rows of one call.

    Raises ModelError, KeyboardInterrupt.
    """
    judgements, status, why = _request_verdict(protocol, call, llm, strip)

    def row(criterion: str, winner: Winner, reason: str) -> Verdict:
        """Return the row of one criterion."""
        key = (protocol.name, criterion, call.question.id, call.a.system, call.b.system, call.first, call.replicate)
        return Verdict(*key, winner, reason, status, why, role, llm.fingerprint)

    if status != "ok":
        return [row(criterion, "", "") for criterion in call.criteria]
    winners = [_winner(better, call) for better, _ in judgements]
    return [row(c, winner, reason) for c, winner, (_, reason) in zip(call.criteria, winners, judgements, strict=True)]


def _winner(position: int, call: JudgeCall) -> Winner:
    """Return the winner by side, from its position as shown."""
    if not position:
        return "tie"
    return "a" if (position == 1) == (call.first == "a") else "b"


def _request_verdict(
    protocol: JudgeProtocol, call: JudgeCall, llm: LLM, strip: StripMode
) -> tuple[Judgements, ReplyStatus, str]:
    """Return the judgements, their status, and why it is not ok."""
    if protocol.parse is None:
        raise ItemFailed(f"{protocol.name} compares no pairs")
    try:
        reply = llm(build_verdict_prompt(protocol, call, strip), schema=protocol.schema, sample=call.sample)
        return protocol.parse(reply), "ok", ""
    except UnparsableReply as error:
        return [], "invalid", str(error)
    except ItemFailed as failure:
        return [], "failed", str(failure)


def build_verdict_prompt(protocol: JudgeProtocol, call: JudgeCall, strip: StripMode) -> Messages:
    """Build the prompt of a call, with the answers in its order."""
    answers = (call.a, call.b) if call.first == "a" else (call.b, call.a)
    first, second = (strip_markup(answer.text, strip) or NO_ANSWER_TEXT for answer in answers)
    values = {"question": call.question.text, "one": first, "other": second}
    if protocol.one_call:
        values |= {name: text for name, text in protocol.criteria.items() if name != "overall"}
    else:
        values["criterion"] = protocol.criteria[call.criteria[0]]
    return render_prompt(protocol.prompt, **values)
