"""calls + a judge -> Verdict: who is better, and why; what cannot be read is invalid, and is counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import sqrt
from typing import Literal

from kumihimo.core.errors import ItemFailed, Unreadable
from kumihimo.evaluate.judging.calls import Call
from kumihimo.evaluate.judging.plain_text import Strip, plain
from kumihimo.evaluate.judging.protocols import Protocol, Said
from kumihimo.evaluate.records import Status, Verdict, Winner
from kumihimo.llm.concurrency import side_by_side
from kumihimo.llm.prompts import prompt
from kumihimo.llm.protocols import Ask, Messages

Role = Literal["judge", "second_judge"]
NOTHING = "(no answer was given)"
_ENOUGH = 100  # replies, before it is said that too many cannot be read
_CLEARLY = 3  # standard deviations above what was allowed


def verdicts(
    protocol: Protocol,
    calls: Iterable[Call],
    ask: Ask,
    *,
    role: Role = "judge",
    strip: Strip | None = None,
    max_invalid: float = 100.0,
) -> Iterator[Verdict]:
    """A row for each call and criterion, in their order.

    strip: marks that are taken out of the answers; None: those of the protocol. max_invalid: percent of replies that
    may be unreadable; ItemFailed is raised as soon as there are clearly more.
    """
    marks = protocol.strip if strip is None else strip

    def judged(call: Call) -> list[Verdict]:
        return _judged(protocol, call, ask, role, marks)

    counted = invalid = 0
    for rows in side_by_side(judged, calls, ask.workers):
        yield from rows
        counted += rows[0].status != "failed"
        invalid += rows[0].status == "invalid"
        if too_many(invalid, counted, max_invalid):
            break
    else:
        return
    raise ItemFailed(
        f"stopped: {invalid:,} of {counted:,} replies of {ask.mark} cannot be read, more than {max_invalid:g} %; what "
        "was paid is remembered: set another model under [judge], or go on with --max-invalid 100"
    )


def too_many(invalid: int, counted: int, percent: float) -> bool:
    """Whether so many invalid replies are no chance any more, where that percentage is allowed.

    >>> too_many(3, 100, 2.0), too_many(7, 100, 2.0), too_many(7, 99, 2.0)
    (False, True, False)
    """
    share = min(percent / 100, 1.0)
    allowed = counted * share + _CLEARLY * sqrt(counted * share * (1 - share))
    return counted >= _ENOUGH and invalid > allowed


def _judged(protocol: Protocol, call: Call, ask: Ask, role: Role, strip: Strip) -> list[Verdict]:
    """The rows of one call. Raises ModelError, KeyboardInterrupt."""
    said, status, why = _asked(protocol, call, ask, strip)

    def row(criterion: str, winner: Winner, reason: str) -> Verdict:
        of = (protocol.name, criterion, call.question.id, call.a.system, call.b.system, call.first, call.replicate)
        return Verdict(*of, winner, reason, status, why, role, ask.mark)

    if status != "ok":
        return [row(criterion, "", "") for criterion in call.criteria]
    winners = [_winner(better, call) for better, _ in said]
    return [row(c, winner, reason) for c, winner, (_, reason) in zip(call.criteria, winners, said, strict=True)]


def _winner(better: int, call: Call) -> Winner:
    if not better:
        return "tie"
    return "a" if (better == 1) == (call.first == "a") else "b"


def _asked(protocol: Protocol, call: Call, ask: Ask, strip: Strip) -> tuple[Said, Status, str]:
    if protocol.read is None:
        raise ItemFailed(f"{protocol.name} compares no pairs")
    try:
        reply = ask(asked_for(protocol, call, strip), into=protocol.form, sample=call.sample)
        return protocol.read(reply), "ok", ""
    except Unreadable as unreadable:
        return [], "invalid", str(unreadable)
    except ItemFailed as failed:
        return [], "failed", str(failed)


def asked_for(protocol: Protocol, call: Call, strip: Strip) -> Messages:
    """The prompt of a call: the two answers as their order has it."""
    shown = (call.a, call.b) if call.first == "a" else (call.b, call.a)
    one, other = (plain(answer.text, strip) or NOTHING for answer in shown)
    told = {"question": call.question.text, "one": one, "other": other}
    if protocol.together:
        told |= {name: text for name, text in protocol.criteria.items() if name != "overall"}
    else:
        told["criterion"] = protocol.criteria[call.criteria[0]]
    return prompt(protocol.prompt, **told)
