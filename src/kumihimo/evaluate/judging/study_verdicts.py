"""a study -> the questions and answers to judge; judgements -> its files and manifest."""

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
    """The questions and answers to judge.

    other_answers: another generation, for comparison with the first. single_generation: systems without one.
    """

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
    """Select the questions and answers of a study.

    systems: all with answers if empty. sample: the number of questions, always the same ones; 0 for all. aa_systems:
    the systems to compare with another generation of their own answers (A/A), if there is one. Raises
    SettingsError.
    """
    names = study.select_systems(systems)
    repeated = names if tuple(aa_systems) == ALL_SYSTEMS else [system for system in aa_systems if system != "none"]
    study.select_systems([*repeated, *([against] if against else ())])
    if against and against not in names:
        names.append(against)
    questions = sample_judged_questions(study.questions(), sample)
    question_ids = {question.id for question in questions}
    answers = {system: _answers_by_question(study.answers(system), question_ids) for system in names}
    regenerated = [system for system in repeated if study.count_generations(system) > 1]
    other_answers = {
        system: _answers_by_question(study.answers(system, 1), question_ids)
        for system in regenerated
        if system in answers
    }
    return JudgeInputs(questions, answers, other_answers, [system for system in repeated if system not in regenerated])


def sample_judged_questions(questions: Sequence[EvalQuestion], sample: int) -> list[EvalQuestion]:
    """Return a fixed sample of the questions, in their order.

    sample: how many; 0 for all.
    """
    if not 0 < sample < len(questions):
        return list(questions)
    sampled_ids = {q.id for q in sorted(questions, key=lambda q: hash_parts("sample", q.id))[:sample]}
    return [question for question in questions if question.id in sampled_ids]


def _answers_by_question(answers: Iterable[SystemAnswer], question_ids: set[str]) -> dict[str, SystemAnswer]:
    """Return the answers by question, only for these questions."""
    return {answer.question: answer for answer in answers if answer.question in question_ids}


def write_judgements(study: Study, name: str, protocol: JudgeProtocol, rows: Iterable[R]) -> None:
    """Replace this protocol's rows; keep those of other protocols.

    The protocols stay in the order of the catalogue.
    """
    rank = {protocol_name: place for place, protocol_name in enumerate(PROTOCOLS)}

    def others(*, before: bool) -> Iterator[R]:
        """Yield the rows of protocols before or after this one."""
        position = rank[protocol.name]
        remaining = study.remaining_rows(name, lambda row: row.protocol == protocol.name)
        return (row for row in remaining if (rank.get(row.protocol, -1) < position) is before)

    study.write(name, chain(others(before=True), rows, others(before=False)))


def note_judging(study: Study, protocol: JudgeProtocol, inputs: JudgeInputs, **run_with: Any) -> None:
    """Note the settings and input digests of a protocol in the manifest."""
    entry = {
        **run_with,
        "prompt": hash_parts(protocol.prompt.read_text(encoding="utf-8"), *protocol.criteria.values()),
        "asked": len(inputs.questions),
        "questions": hash_parts(*(part for question in inputs.questions for part in (question.id, question.text))),
        "answers": {system: _answers_digest(answers) for system, answers in inputs.answers.items()},
        "again": {system: _answers_digest(answers) for system, answers in inputs.other_answers.items()},
    }
    study.update_stage("judge", **{protocol.name: entry})


def _answers_digest(answers: Mapping[str, SystemAnswer]) -> str:
    """Return a digest of the answers."""
    return hash_parts(*(part for answer in answers.values() for part in (answer.question, answer.text, answer.failed)))
