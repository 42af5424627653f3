"""ragas' EvaluationDataset as JSONL -> questions and answers, and back.

The field names are those of SingleTurnSample since ragas 0.2; older names are read too. ragas ignores unknown keys, so
`id` and `system` are written as well. Without them an answer could not be assigned to its system.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar

from kumihimo.core.errors import SettingsError
from kumihimo.evaluate.records import AnswerSource, EvalQuestion, Gold, SystemAnswer
from kumihimo.evaluate.study import read_jsonl_rows

DEFAULT_SYSTEM = "ragas"  # of answers without a system name


@dataclass
class _Sample:
    """A line of the file; unknown keys are kept."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "allow"}
    user_input: str | list[Any] | None = None
    retrieved_contexts: list[str] | None = None
    retrieved_context_ids: list[str | int] | None = None
    reference_contexts: list[str] | None = None
    reference_context_ids: list[str | int] | None = None
    response: str | None = None
    reference: str | None = None
    persona_name: str | None = None
    question: str | None = None  # up to 0.1, as are the next four
    contexts: list[str] | None = None
    answer: str | None = None
    ground_truth: str | None = None
    ground_truths: list[str] | None = None
    id: str | int | None = None
    system: str | None = None


_SAMPLE_FIELDS = frozenset(field.name for field in fields(_Sample))


def read_ragas(path: Path) -> tuple[list[EvalQuestion], list[SystemAnswer]]:
    """Read the questions, and the answers if there are any.

    A question without `id` gets the number of its first non-empty line as its id. Lines with the same question,
    reference and gold passages are answers to one question. If a system answers a question twice, the second answer
    belongs to another system: `ragas`, `ragas 2`. Raises SettingsError with the line, or with the fault of a question.
    """
    questions: dict[str, EvalQuestion] = {}
    answers: dict[tuple[str, str], SystemAnswer] = {}
    ids_by_content: dict[str, str] = {}  # question without its id -> id
    for number, sample in enumerate(read_jsonl_rows(path, _Sample), 1):
        question = _parse_question(path, sample, str(number))
        if sample.id is None:
            question = replace(question, id=ids_by_content.setdefault(repr(replace(question, id="")), question.id))
        if questions.setdefault(question.id, question) != question:
            raise SettingsError(f"{path}: two questions have the id {question.id!r}")
        if (answer := _parse_answer(sample, question.id)) is not None:
            answer = _with_free_system(answer, answers)
            answers[answer.system, answer.question] = answer
    return list(questions.values()), list(answers.values())


def _parse_question(path: Path, sample: _Sample, number: str) -> EvalQuestion:
    text = sample.question if sample.user_input is None else sample.user_input
    if isinstance(text, list):
        raise SettingsError(f"{path}, question {number}: a conversation of several turns cannot be read")
    if not text or not text.strip():
        raise SettingsError(f"{path}, question {number}: `user_input` is missing")
    reference = sample.reference if sample.reference is not None else sample.ground_truth
    more_references = list(sample.ground_truths or [])
    if reference is None and more_references:
        reference, *more_references = more_references
    more = {name: value for name, value in vars(sample).items() if name not in _SAMPLE_FIELDS and value is not None}
    more |= {"references": more_references} if more_references else {}
    id = number if sample.id is None else str(sample.id)
    gold = tuple(_parse_gold(sample.reference_contexts or [], sample.reference_context_ids or []))
    return EvalQuestion(id, text, persona=sample.persona_name or "", reference=reference or "", gold=gold, more=more)


def _parse_gold(texts: Sequence[str], ids: Sequence[str | int]) -> Iterator[Gold]:
    """Yield passages with their ids if counts match, else passages, then ids."""
    if len(texts) == len(ids):
        yield from (Gold(str(id), text=text) for id, text in zip(ids, texts, strict=True))
    else:
        yield from (Gold(text=text) for text in texts)
        yield from (Gold(str(id)) for id in ids)


def _parse_answer(sample: _Sample, question: str) -> SystemAnswer | None:
    response = sample.answer if sample.response is None else sample.response
    if response is None:
        return None
    passages = sample.contexts if sample.retrieved_contexts is None else sample.retrieved_contexts
    texts, ids = passages or [], [str(id) for id in sample.retrieved_context_ids or []]
    context_ids = ids if len(ids) == len(texts) else [""] * len(texts)
    contexts = tuple(AnswerSource(n, text, id) for n, (text, id) in enumerate(zip(texts, context_ids, strict=True), 1))
    return SystemAnswer(sample.system or DEFAULT_SYSTEM, question, response, contexts)


def _with_free_system(answer: SystemAnswer, earlier: Mapping[tuple[str, str], SystemAnswer]) -> SystemAnswer:
    """Return the answer under a system name that is still free."""
    name, n = answer.system, 1
    while (answer.system, answer.question) in earlier:
        n += 1
        answer = replace(answer, system=f"{name} {n}")
    return answer


def ragas_lines(questions: Sequence[EvalQuestion], answers: Iterable[SystemAnswer]) -> Iterator[str]:
    """Yield a line for each answer and for each unanswered question.

    The format has no place for source places, scores, citations, usage, scope, task, assertions and character ranges
    of gold; they are left out. A failed answer has no `response`.
    """
    by_id = {question.id: question for question in questions}
    unanswered = dict.fromkeys(by_id)
    for answer in answers:
        if answer.question not in by_id:
            raise SettingsError(f"{answer.system} has an answer to {answer.question!r}, which is no question")
        unanswered.pop(answer.question, None)
        yield _to_json_line({**_question_fields(by_id[answer.question]), **_answer_fields(answer)})
    for id in unanswered:
        yield _to_json_line(_question_fields(by_id[id]))


def _question_fields(question: EvalQuestion) -> dict[str, Any]:
    references = question.more.get("references")
    entry: dict[str, Any] = {
        "user_input": question.text,
        **_gold_fields(question.gold),
        "reference": question.reference or None,
        "persona_name": question.persona or None,
        "ground_truths": [question.reference, *references]
        if isinstance(references, list | tuple) and references
        else None,
    }
    more = {name: value for name, value in question.more.items() if name not in ("references", *_SAMPLE_FIELDS)}
    return {**entry, **more, "id": question.id}


def _gold_fields(gold: Sequence[Gold]) -> dict[str, list[str]]:
    """Return passages, and ids only if the two correspond."""
    texts, ids = [passage.text for passage in gold if passage.text], [passage.id for passage in gold if passage.id]
    entry = {"reference_contexts": texts} if texts else {}
    return entry | (
        {"reference_context_ids": ids} if ids and (not texts or len(texts) == len(ids) == len(gold)) else {}
    )


def _answer_fields(answer: SystemAnswer) -> dict[str, Any]:
    ids = [source.id for source in answer.contexts]
    return {
        "retrieved_contexts": [source.text for source in answer.contexts],
        "retrieved_context_ids": ids if ids and all(ids) else None,
        "response": None if answer.failed else answer.text,
        "system": answer.system,
    }


def _to_json_line(entry: Mapping[str, Any]) -> str:
    """Return the line without empty fields, as ragas writes it."""
    return json.dumps({name: value for name, value in entry.items() if value is not None}, ensure_ascii=False)
