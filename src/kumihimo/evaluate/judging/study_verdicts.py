"""a study -> what of it is to be judged; verdicts -> its files, those of other protocols kept; how that was done."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar

from kumihimo.core.digests import hash_parts
from kumihimo.evaluate.judging.calls import AnswersBySystem
from kumihimo.evaluate.judging.protocols import PROTOCOLS, JudgeProtocol
from kumihimo.evaluate.records import EvalQuestion, Rating, SystemAnswer, Verdict
from kumihimo.evaluate.study import Study

R = TypeVar("R", Verdict, Rating)
ALL_SYSTEMS = ("all",)


@dataclass(frozen=True, slots=True)
class JudgeInputs:
    """What is judged. again: of some systems another generation of answers. alone: those of which there is none."""

    questions: Sequence[EvalQuestion]
    answers: AnswersBySystem
    other_answers: AnswersBySystem
    single_generation: Sequence[str]


def select_judge_inputs(
    study: Study,
    *,
    systems: Sequence[str] = (),
    against: str = "",
    sample: int = 0,
    aa_systems: Sequence[str] = ALL_SYSTEMS,
) -> JudgeInputs:
    """The questions and answers of a study. Raises SettingsError.

    systems: none, all that have answered. sample: so many questions, the same ones each time; 0: all. same: systems
    that are compared with another generation of themselves, where there is one.
    """
    named = study.select_systems(systems)
    repeated = named if tuple(aa_systems) == ALL_SYSTEMS else [system for system in aa_systems if system != "none"]
    study.select_systems([*repeated, *([against] if against else ())])
    if against and against not in named:
        named.append(against)
    questions = sample_judged_questions(study.questions(), sample)
    wanted = {question.id for question in questions}
    answers = {system: _answers_by_question(study.answers(system), wanted) for system in named}
    twice = [system for system in repeated if study.count_generations(system) > 1]
    again = {system: _answers_by_question(study.answers(system, 1), wanted) for system in twice if system in answers}
    return JudgeInputs(questions, answers, again, [system for system in repeated if system not in twice])


def sample_judged_questions(questions: Sequence[EvalQuestion], sample: int) -> list[EvalQuestion]:
    """So many of them, in their order, chosen by their ids; 0: all."""
    if not 0 < sample < len(questions):
        return list(questions)
    chosen = {q.id for q in sorted(questions, key=lambda q: hash_parts("sample", q.id))[:sample]}
    return [question for question in questions if question.id in chosen]


def _answers_by_question(answers: Iterable[SystemAnswer], wanted: set[str]) -> dict[str, SystemAnswer]:
    return {answer.question: answer for answer in answers if answer.question in wanted}


def write_judgements(study: Study, name: str, protocol: JudgeProtocol, rows: Iterable[R]) -> None:
    """The rows of that protocol in place of those it had; rows of others stay, in the order of the catalogue."""
    rank = {known: place for place, known in enumerate(PROTOCOLS)}

    def others(*, before: bool) -> Iterator[R]:
        mine = rank[protocol.name]
        kept = study.remaining_rows(name, lambda row: row.protocol == protocol.name)
        return (row for row in kept if (rank.get(row.protocol, -1) < mine) is before)

    study.write(name, chain(others(before=True), rows, others(before=False)))


def note_judging(study: Study, protocol: JudgeProtocol, found: JudgeInputs, **run_with: Any) -> None:
    """Into the manifest, beside the other protocols: settings, models, and digests of what was read and asked."""
    told = {
        **run_with,
        "prompt": hash_parts(protocol.prompt.read_text(encoding="utf-8"), *protocol.criteria.values()),
        "asked": len(found.questions),
        "questions": hash_parts(*(part for q in found.questions for part in (q.id, q.text))),
        "answers": {system: _answers_digest(answers) for system, answers in found.answers.items()},
        "again": {system: _answers_digest(answers) for system, answers in found.other_answers.items()},
    }
    study.update_stage("judge", **{protocol.name: told})


def _answers_digest(answers: Mapping[str, SystemAnswer]) -> str:
    return hash_parts(*(part for a in answers.values() for part in (a.question, a.text, a.failed)))
