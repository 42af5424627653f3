"""questions + answers of several systems -> Call: what a judge is asked, each pair in the orders of a protocol."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from kumihimo.core.digests import digest
from kumihimo.core.errors import SettingsError, unknown
from kumihimo.evaluate.judging.protocols import Orders, Protocol
from kumihimo.evaluate.records import Answered, Question

First = Literal["a", "b"]
Answers = Mapping[str, Mapping[str, Answered]]  # by system, by question
NONE: Answers = {}


@dataclass(frozen=True, slots=True)
class Call:
    """Two answers to a question, to be compared by one criterion, or by several together."""

    question: Question
    a: Answered
    b: Answered
    criteria: tuple[str, ...]
    first: First
    replicate: int

    @property
    def sample(self) -> int:
        """Of several replies; another in each order, since two answers may be the same word for word."""
        return 2 * self.replicate + (self.first == "b")


def calls(
    protocol: Protocol,
    questions: Iterable[Question],
    answers: Answers,
    *,
    again: Answers = NONE,
    criteria: Sequence[str] = (),
    replicates: int = 0,
    order: Orders | Literal[""] = "",
    against: str = "",
) -> list[Call]:
    """Question by question all pairs that both have answered; prompts that begin alike follow each other.

    again: other generations of the same systems, each of which is compared with the first. criteria, replicates,
    order: none, those of the protocol. against: only pairs with that system. Raises SettingsError.
    """
    named = chosen(protocol, criteria)
    together = [tuple(named)] if protocol.together else [(name,) for name in named]
    shown = showings(order_of(protocol, order), replicates or protocol.replicates)
    pairs = [pair for pair in combinations(answers, 2) if not against or against in pair]
    made: list[Call] = []
    for question in questions:
        both = [(_of(answers, a, question), _of(answers, b, question)) for a, b in pairs]
        both += [(_of(answers, system, question), _of(again, system, question)) for system in again]
        for one, other in both:
            if one and other:
                made += [Call(question, one, other, c, first, n) for first, n in shown for c in together]
    return made


def _of(answers: Answers, system: str, question: Question) -> Answered | None:
    """The answer of that system, if there is one; an empty one is one."""
    found = answers[system].get(question.id)
    return found if found and not found.failed else None


def unanswered(questions: Sequence[Question], answers: Answers) -> dict[str, int]:
    """By system how many questions it has no answer to: their pairs are not judged."""
    found = {system: sum(1 for q in questions if not _of(answers, system, q)) for system in answers}
    return {system: count for system, count in found.items() if count}


def chosen(protocol: Protocol, criteria: Sequence[str]) -> list[str]:
    """Those criteria, or all. Raises SettingsError."""
    for name in criteria:
        if name not in protocol.criteria:
            raise SettingsError(unknown("criterion", name, protocol.criteria))
    if criteria and protocol.together:
        raise SettingsError(f"{protocol.name} asks about all criteria in one call: leave out --criteria")
    return list(dict.fromkeys(criteria)) or list(protocol.criteria)


def order_of(protocol: Protocol, order: Orders | Literal[""]) -> Orders:
    """That order, or the protocol's own. Raises SettingsError where it would not be the protocol any more."""
    if order and order != protocol.order and protocol.name in ("debiased", "mk"):
        raise SettingsError(f"{protocol.name} has its own order: leave out --order, or judge by another --protocol")
    return order or protocol.order


def showings(order: Orders, replicates: int) -> list[tuple[First, int]]:
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


def some(calls: Iterable[Call], percent: float) -> list[Call]:
    """A sample of them, the same ones each time, whatever else is asked: chosen by what they are."""
    bound = int(percent / 100 * 16**8)
    return [call for call in calls if int(_name(call)[:8], 16) < bound]


def _name(call: Call) -> str:
    of = (call.question.id, call.a.system, call.b.system, str(call.b.generation))
    return digest(*of, *call.criteria, call.first, str(call.replicate))
