"""a study -> what of it is to be judged; verdicts -> its files, those of other protocols kept; how that was done."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar

from kumihimo.core.digests import digest
from kumihimo.evaluate.judging.calls import Answers
from kumihimo.evaluate.judging.protocols import PROTOCOLS, Protocol
from kumihimo.evaluate.records import Answered, Question, Rating, Verdict
from kumihimo.evaluate.study import Study

R = TypeVar("R", Verdict, Rating)
ALL = ("all",)


@dataclass(frozen=True, slots=True)
class Held:
    """What is judged. again: of some systems another generation of answers. alone: those of which there is none."""

    questions: Sequence[Question]
    answers: Answers
    again: Answers
    alone: Sequence[str]


def held(
    study: Study, *, systems: Sequence[str] = (), against: str = "", sample: int = 0, same: Sequence[str] = ALL
) -> Held:
    """The questions and answers of a study. Raises SettingsError.

    systems: none, all that have answered. sample: so many questions, the same ones each time; 0: all. same: systems
    that are compared with another generation of themselves, where there is one.
    """
    named = study.chosen(systems)
    repeated = named if tuple(same) == ALL else [system for system in same if system != "none"]
    study.chosen([*repeated, *([against] if against else ())])
    if against and against not in named:
        named.append(against)
    questions = some(study.questions(), sample)
    wanted = {question.id for question in questions}
    answers = {system: _by_question(study.answers(system), wanted) for system in named}
    twice = [system for system in repeated if study.generations(system) > 1]
    again = {system: _by_question(study.answers(system, 1), wanted) for system in twice if system in answers}
    return Held(questions, answers, again, [system for system in repeated if system not in twice])


def some(questions: Sequence[Question], sample: int) -> list[Question]:
    """So many of them, in their order, chosen by their ids; 0: all."""
    if not 0 < sample < len(questions):
        return list(questions)
    chosen = {q.id for q in sorted(questions, key=lambda q: digest("sample", q.id))[:sample]}
    return [question for question in questions if question.id in chosen]


def _by_question(answers: Iterable[Answered], wanted: set[str]) -> dict[str, Answered]:
    return {answer.question: answer for answer in answers if answer.question in wanted}


def write(study: Study, name: str, protocol: Protocol, rows: Iterable[R]) -> None:
    """The rows of that protocol in place of those it had; rows of others stay, in the order of the catalogue."""
    rank = {known: place for place, known in enumerate(PROTOCOLS)}

    def others(*, before: bool) -> Iterator[R]:
        mine = rank[protocol.name]
        kept = study.kept(name, lambda row: row.protocol == protocol.name)
        return (row for row in kept if (rank.get(row.protocol, -1) < mine) is before)

    study.write(name, chain(others(before=True), rows, others(before=False)))


def note(study: Study, protocol: Protocol, found: Held, **run_with: Any) -> None:
    """Into the manifest, beside the other protocols: settings, models, and digests of what was read and asked."""
    told = {
        **run_with,
        "prompt": digest(protocol.prompt.read_text(encoding="utf-8"), *protocol.criteria.values()),
        "asked": len(found.questions),
        "questions": digest(*(part for q in found.questions for part in (q.id, q.text))),
        "answers": {system: _digest(answers) for system, answers in found.answers.items()},
        "again": {system: _digest(answers) for system, answers in found.again.items()},
    }
    study.note_beside("judge", **{protocol.name: told})


def _digest(answers: Mapping[str, Answered]) -> str:
    return digest(*(part for a in answers.values() for part in (a.question, a.text, a.failed)))
