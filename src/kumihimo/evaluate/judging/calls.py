"""questions + answers of several systems -> Call: what a judge is asked, each pair in the orders of a protocol."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import SettingsError, describe_unknown
from kumihimo.evaluate.judging.protocols import JudgeProtocol, PresentationOrder
from kumihimo.evaluate.records import EvalQuestion, SystemAnswer

FirstShown = Literal["a", "b"]
AnswersBySystem = Mapping[str, Mapping[str, SystemAnswer]]  # by system, by question
NO_ANSWERS: AnswersBySystem = {}


@dataclass(frozen=True, slots=True)
class JudgeCall:
    """Two answers to a question, to be compared by one criterion, or by several together."""

    question: EvalQuestion
    a: SystemAnswer
    b: SystemAnswer
    criteria: tuple[str, ...]
    first: FirstShown
    replicate: int

    @property
    def sample(self) -> int:
        """Of several replies; another in each order, since two answers may be the same word for word."""
        return 2 * self.replicate + (self.first == "b")


def plan_judge_calls(
    protocol: JudgeProtocol,
    questions: Iterable[EvalQuestion],
    answers: AnswersBySystem,
    *,
    other_answers: AnswersBySystem = NO_ANSWERS,
    criteria: Sequence[str] = (),
    replicates: int = 0,
    order: PresentationOrder | Literal[""] = "",
    against: str = "",
) -> list[JudgeCall]:
    """Question by question all pairs that both have answered; prompts that begin alike follow each other.

    again: other generations of the same systems, each of which is compared with the first. criteria, replicates,
    order: none, those of the protocol. against: only pairs with that system. Raises SettingsError.
    """
    named = resolve_criteria(protocol, criteria)
    together = [tuple(named)] if protocol.one_call else [(name,) for name in named]
    shown = plan_presentations(resolve_order(protocol, order), replicates or protocol.replicates)
    pairs = [pair for pair in combinations(answers, 2) if not against or against in pair]
    made: list[JudgeCall] = []
    for question in questions:
        both = [(_valid_answer(answers, a, question), _valid_answer(answers, b, question)) for a, b in pairs]
        both += [
            (_valid_answer(answers, system, question), _valid_answer(other_answers, system, question))
            for system in other_answers
        ]
        for one, other in both:
            if one and other:
                made += [JudgeCall(question, one, other, c, first, n) for first, n in shown for c in together]
    return made


def _valid_answer(answers: AnswersBySystem, system: str, question: EvalQuestion) -> SystemAnswer | None:
    """The answer of that system, if there is one; an empty one is one."""
    found = answers[system].get(question.id)
    return found if found and not found.failed else None


def count_unanswered(questions: Sequence[EvalQuestion], answers: AnswersBySystem) -> dict[str, int]:
    """By system how many questions it has no answer to: their pairs are not judged."""
    found = {system: sum(1 for q in questions if not _valid_answer(answers, system, q)) for system in answers}
    return {system: count for system, count in found.items() if count}


def resolve_criteria(protocol: JudgeProtocol, criteria: Sequence[str]) -> list[str]:
    """Those criteria, or all. Raises SettingsError."""
    for name in criteria:
        if name not in protocol.criteria:
            raise SettingsError(describe_unknown("criterion", name, protocol.criteria))
    if criteria and protocol.one_call:
        raise SettingsError(f"{protocol.name} asks about all criteria in one call: leave out --criteria")
    return list(dict.fromkeys(criteria)) or list(protocol.criteria)


def resolve_order(protocol: JudgeProtocol, order: PresentationOrder | Literal[""]) -> PresentationOrder:
    """That order, or the protocol's own. Raises SettingsError where it would not be the protocol any more."""
    if order and order != protocol.order and protocol.name in ("debiased", "mk"):
        raise SettingsError(f"{protocol.name} has its own order: leave out --order, or judge by another --protocol")
    return order or protocol.order


def plan_presentations(order: PresentationOrder, replicates: int) -> list[tuple[FirstShown, int]]:
    """Which answer is shown first, and the number of the replicate, of each call for a pair.

    >>> showings("alternate", 3)
    [('a', 0), ('b', 1), ('a', 2)]
    >>> showings("both", 2)
    [('a', 0), ('a', 1), ('b', 0), ('b', 1)]
    """
    every = range(replicates)
    if order == "alternate":
        return [("b" if n % 2 else "a", n) for n in every]
    return [("a", n) for n in every] + ([("b", n) for n in every] if order == "both" else [])


def sample_calls(calls: Iterable[JudgeCall], percent: float) -> list[JudgeCall]:
    """A sample of them, the same ones each time, whatever else is asked: chosen by what they are."""
    bound = int(percent / 100 * 16**8)
    return [call for call in calls if int(_call_digest(call)[:8], 16) < bound]


def _call_digest(call: JudgeCall) -> str:
    of = (call.question.id, call.a.system, call.b.system, str(call.b.generation))
    return hash_parts(*of, *call.criteria, call.first, str(call.replicate))
