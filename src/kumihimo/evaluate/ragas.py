"""ragas' EvaluationDataset as JSONL -> questions, answers; and back.

The names are those of SingleTurnSample since ragas 0.2; those before it are read, too. ragas passes over keys that it
does not know, so `id` and `system` are written beside its own: without them nobody could tell whose answer it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar

from kumihimo.core.errors import SettingsError
from kumihimo.evaluate.records import AnswerSource, EvalQuestion, Gold, SystemAnswer
from kumihimo.evaluate.study import read_jsonl_rows as rows

DEFAULT_SYSTEM = "ragas"  # of answers that nobody has named


@dataclass
class _Sample:
    """A line. What is not named here is kept as it came."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "allow"}
    user_input: str | list[Any] | None = None
    retrieved_contexts: list[str] | None = None
    retrieved_context_ids: list[str | int] | None = None
    reference_contexts: list[str] | None = None
    reference_context_ids: list[str | int] | None = None
    response: str | None = None
    reference: str | None = None
    persona_name: str | None = None
    question: str | None = None  # before 0.2, as are the next four
    contexts: list[str] | None = None
    answer: str | None = None
    ground_truth: str | None = None
    ground_truths: list[str] | None = None
    id: str | int | None = None
    system: str | None = None


_SAMPLE_FIELDS = frozenset(each.name for each in fields(_Sample))


def read_ragas(path: Path) -> tuple[list[EvalQuestion], list[SystemAnswer]]:
    """The questions, and the answers to them where there are any.

    A question without an `id` is called by the number of its first line that is not empty; lines of the same question,
    reference and gold passages are answers to one question. Where one system has answered it before, the answer is of
    another: `ragas`, `ragas 2`. Raises SettingsError, naming the line, or what is wrong with a question.
    """
    questions: dict[str, EvalQuestion] = {}
    answers: dict[tuple[str, str], SystemAnswer] = {}
    alike: dict[str, str] = {}  # the id of what is the same in all but its id
    for number, sample in enumerate(rows(path, _Sample), 1):
        question = _parse_question(path, sample, str(number))
        if sample.id is None:
            question = replace(question, id=alike.setdefault(repr(replace(question, id="")), question.id))
        if questions.setdefault(question.id, question) != question:
            raise SettingsError(f"{path}: two questions have the id {question.id!r}")
        if (answer := _parse_answer(sample, question.id)) is not None:
            answer = _with_free_system(answer, answers)
            answers[answer.system, answer.question] = answer
    return list(questions.values()), list(answers.values())


def _parse_question(path: Path, sample: _Sample, number: str) -> EvalQuestion:
    asked = sample.question if sample.user_input is None else sample.user_input
    if isinstance(asked, list):
        raise SettingsError(f"{path}, question {number}: a conversation of several turns cannot be read")
    if not asked or not asked.strip():
        raise SettingsError(f"{path}, question {number}: `user_input` is missing")
    reference = sample.reference if sample.reference is not None else sample.ground_truth
    others = list(sample.ground_truths or [])
    if reference is None and others:
        reference, *others = others
    more = {name: value for name, value in vars(sample).items() if name not in _SAMPLE_FIELDS and value is not None}
    more |= {"references": others} if others else {}
    id = number if sample.id is None else str(sample.id)
    gold = tuple(_parse_gold(sample.reference_contexts or [], sample.reference_context_ids or []))
    return EvalQuestion(id, asked, persona=sample.persona_name or "", reference=reference or "", gold=gold, more=more)


def _parse_gold(texts: Sequence[str], ids: Sequence[str | int]) -> Iterator[Gold]:
    """A passage with its id where there is one of each, else the passages, then the ids."""
    if len(texts) == len(ids):
        yield from (Gold(str(id), text=text) for id, text in zip(ids, texts, strict=True))
    else:
        yield from (Gold(text=text) for text in texts)
        yield from (Gold(str(id)) for id in ids)


def _parse_answer(sample: _Sample, question: str) -> SystemAnswer | None:
    said = sample.answer if sample.response is None else sample.response
    if said is None:
        return None
    found = sample.contexts if sample.retrieved_contexts is None else sample.retrieved_contexts
    texts, ids = found or [], [str(id) for id in sample.retrieved_context_ids or []]
    named = ids if len(ids) == len(texts) else [""] * len(texts)
    contexts = tuple(AnswerSource(n, text, id) for n, (text, id) in enumerate(zip(texts, named, strict=True), 1))
    return SystemAnswer(sample.system or DEFAULT_SYSTEM, question, said, contexts)


def _with_free_system(answer: SystemAnswer, known: Mapping[tuple[str, str], SystemAnswer]) -> SystemAnswer:
    """Of a system that has not answered that question yet."""
    name, n = answer.system, 1
    while (answer.system, answer.question) in known:
        n += 1
        answer = replace(answer, system=f"{name} {n}")
    return answer


def ragas_lines(questions: Sequence[EvalQuestion], answers: Iterable[SystemAnswer]) -> Iterator[str]:
    """A line for each answer, in their order, then one for each question that has none.

    What the format has no place for is left out: places, scores, citations, usage, scope, task, assertions, and which
    characters of a document are gold. An answer that failed has no `response`.
    """
    known = {question.id: question for question in questions}
    left = dict.fromkeys(known)
    for answer in answers:
        if answer.question not in known:
            raise SettingsError(f"{answer.system} has an answer to {answer.question!r}, which is no question")
        left.pop(answer.question, None)
        yield _to_json_line({**_question_fields(known[answer.question]), **_answer_fields(answer)})
    for id in left:
        yield _to_json_line(_question_fields(known[id]))


def _question_fields(question: EvalQuestion) -> dict[str, Any]:
    others = question.more.get("references")
    told: dict[str, Any] = {
        "user_input": question.text,
        **_gold_fields(question.gold),
        "reference": question.reference or None,
        "persona_name": question.persona or None,
        "ground_truths": [question.reference, *others] if isinstance(others, list | tuple) and others else None,
    }
    more = {name: value for name, value in question.more.items() if name not in ("references", *_SAMPLE_FIELDS)}
    return {**told, **more, "id": question.id}


def _gold_fields(gold: Sequence[Gold]) -> dict[str, list[str]]:
    """Ids beside passages only where each has both, so that one can tell what belongs together."""
    texts, ids = [each.text for each in gold if each.text], [each.id for each in gold if each.id]
    told = {"reference_contexts": texts} if texts else {}
    return told | ({"reference_context_ids": ids} if ids and (not texts or len(texts) == len(ids) == len(gold)) else {})


def _answer_fields(answer: SystemAnswer) -> dict[str, Any]:
    ids = [source.id for source in answer.contexts]
    return {
        "retrieved_contexts": [source.text for source in answer.contexts],
        "retrieved_context_ids": ids if ids and all(ids) else None,
        "response": None if answer.failed else answer.text,
        "system": answer.system,
    }


def _to_json_line(told: Mapping[str, Any]) -> str:
    """ragas leaves out what there is not."""
    return json.dumps({name: value for name, value in told.items() if value is not None}, ensure_ascii=False)
