"""questions + answers of several systems -> the calls of a judge, in a protocol's presentation orders."""

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
AnswersBySystem = Mapping[str, Mapping[str, SystemAnswer]]  # by system, by question id
NO_ANSWERS: AnswersBySystem = {}


@dataclass(frozen=True, slots=True)
class JudgeCall:
    """A comparison of two answers to a question, by one or several criteria."""

    question: EvalQuestion
    a: SystemAnswer
    b: SystemAnswer
    criteria: tuple[str, ...]
    first: FirstShown
    replicate: int

    @property
    def sample(self) -> int:
        """Return the sample number of the LLM call.

        It differs between the two orders, because the two answers may be identical.
        """
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
    """Plan the judge calls for each question and pair of answers.

    Calls with the same prompt prefix are adjacent. other_answers: another generation of the same systems; each is
    compared with the first. criteria, replicates, order: the protocol's own if empty. against: only pairs with that
    system. Raises SettingsError for an unknown criterion or an unsuitable option.
    """
    names = resolve_criteria(protocol, criteria)
    criteria_sets = [tuple(names)] if protocol.one_call else [(name,) for name in names]
    presentations = plan_presentations(resolve_order(protocol, order), replicates or protocol.replicates)
    pairs = [pair for pair in combinations(answers, 2) if not against or against in pair]
    planned: list[JudgeCall] = []
    for question in questions:
        answer_pairs = [(_valid_answer(answers, a, question), _valid_answer(answers, b, question)) for a, b in pairs]
        answer_pairs += [
            (_valid_answer(answers, system, question), _valid_answer(other_answers, system, question))
            for system in other_answers
        ]
        for first_answer, second_answer in answer_pairs:
            if first_answer and second_answer:
                planned += [
                    JudgeCall(question, first_answer, second_answer, criteria_set, first, n)
                    for first, n in presentations
                    for criteria_set in criteria_sets
                ]
    return planned


def _valid_answer(answers: AnswersBySystem, system: str, question: EvalQuestion) -> SystemAnswer | None:
    """Return the system's answer, or None if missing or failed.

    An empty answer counts as an answer.
    """
    answer = answers[system].get(question.id)
    return answer if answer and not answer.failed else None


def count_unanswered(questions: Sequence[EvalQuestion], answers: AnswersBySystem) -> dict[str, int]:
    """Count each system's unanswered questions; their pairs are not judged."""
    counts = {
        system: sum(1 for question in questions if not _valid_answer(answers, system, question)) for system in answers
    }
    return {system: count for system, count in counts.items() if count}


def resolve_criteria(protocol: JudgeProtocol, criteria: Sequence[str]) -> list[str]:
    """Return these criteria, or all of the protocol.

    Raises SettingsError for an unknown name, or if the protocol uses one call for all.
    """
    for name in criteria:
        if name not in protocol.criteria:
            raise SettingsError(describe_unknown("criterion", name, protocol.criteria))
    if criteria and protocol.one_call:
        raise SettingsError(f"{protocol.name} asks about all criteria in one call: leave out --criteria")
    return list(dict.fromkeys(criteria)) or list(protocol.criteria)


def resolve_order(protocol: JudgeProtocol, order: PresentationOrder | Literal[""]) -> PresentationOrder:
    """Return the given order, or the protocol's own.

    Raises SettingsError if another order would break the protocol.
    """
    if order and order != protocol.order and protocol.name in ("debiased", "mk"):
        raise SettingsError(f"{protocol.name} has its own order: leave out --order, or judge by another --protocol")
    return order or protocol.order


def plan_presentations(order: PresentationOrder, replicates: int) -> list[tuple[FirstShown, int]]:
    """Return the answer shown first and the replicate number of each call.

    >>> plan_presentations("alternate", 3)
    [('a', 0), ('b', 1), ('a', 2)]
    >>> plan_presentations("both", 2)
    [('a', 0), ('a', 1), ('b', 0), ('b', 1)]
    """
    numbers = range(replicates)
    if order == "alternate":
        return [("b" if n % 2 else "a", n) for n in numbers]
    return [("a", n) for n in numbers] + ([("b", n) for n in numbers] if order == "both" else [])


def sample_calls(calls: Iterable[JudgeCall], percent: float) -> list[JudgeCall]:
    """Return a fixed sample of the calls, chosen by their digests.

    The same call is chosen in every run, whatever else is planned.
    """
    bound = int(percent / 100 * 16**8)
    return [call for call in calls if int(_call_digest(call)[:8], 16) < bound]


def _call_digest(call: JudgeCall) -> str:
    """Return a digest that identifies the call."""
    names = (call.question.id, call.a.system, call.b.system, str(call.b.generation))
    return hash_parts(*names, *call.criteria, call.first, str(call.replicate))
