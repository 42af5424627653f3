"""Files of ragas and BenchmarkQED -> questions and answers of a study, and back.

ragas: an EvaluationDataset as JSONL. The field names are those of SingleTurnSample since ragas 0.2; older names are
read too. ragas ignores unknown keys, so `id` and `system` are written as well. Without them an answer could not be
assigned to its system.

BenchmarkQED (github.com/microsoft/benchmark-qed): questions are the output of AutoQ: `id`, `text`, `question_type`,
`references`, `attributes`; or plain texts; or questions with assertions: `question_id`, `question_text`, `assertions`.
Answers are the input of AutoE: `question_id`, `question_text` or `question`, `answer`, and optionally `context` and
`metrics`.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import count, product
from pathlib import Path
from typing import Any, ClassVar

from kumihimo.core.errors import SettingsError
from kumihimo.core.usage import Usage
from kumihimo.evaluate.importers import parse_answer, parse_question_row
from kumihimo.evaluate.records import AnswerSource, EvalQuestion, Gold, SystemAnswer
from kumihimo.evaluate.study import read_jsonl_rows
from kumihimo.text.safe_write import read_text_file

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
        question = _ragas_question(path, sample, str(number))
        if sample.id is None:
            question = replace(question, id=ids_by_content.setdefault(repr(replace(question, id="")), question.id))
        if questions.setdefault(question.id, question) != question:
            raise SettingsError(f"{path}: two questions have the id {question.id!r}")
        if (answer := _ragas_answer(sample, question.id)) is not None:
            names = (f"{answer.system} {n}" if n > 1 else answer.system for n in count(1))
            name = next(name for name in names if (name, question.id) not in answers)
            answers[name, question.id] = replace(answer, system=name)
    return list(questions.values()), list(answers.values())


def _ragas_question(path: Path, sample: _Sample, number: str) -> EvalQuestion:
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
    texts, ids = sample.reference_contexts or [], [str(id) for id in sample.reference_context_ids or []]
    pairs = zip(ids, texts, strict=True) if len(texts) == len(ids) else [*product([""], texts), *product(ids, [""])]
    gold = [Gold(id, text=passage) for id, passage in pairs]
    return EvalQuestion(
        id, text, persona=sample.persona_name or "", reference=reference or "", gold=tuple(gold), more=more
    )


def _ragas_answer(sample: _Sample, question: str) -> SystemAnswer | None:
    if (response := sample.answer if sample.response is None else sample.response) is None:
        return None
    texts = (sample.contexts if sample.retrieved_contexts is None else sample.retrieved_contexts) or []
    ids = [str(id) for id in sample.retrieved_context_ids or []]
    context_ids = ids if len(ids) == len(texts) else [""] * len(texts)
    contexts = tuple(AnswerSource(n, text, id) for n, (text, id) in enumerate(zip(texts, context_ids, strict=True), 1))
    return SystemAnswer(sample.system or DEFAULT_SYSTEM, question, response, contexts)


def ragas_lines(questions: Sequence[EvalQuestion], answers: Iterable[SystemAnswer]) -> Iterator[str]:
    """Yield a line for each answer and for each unanswered question.

    The format has no place for source places, scores, citations, usage, scope, task, assertions, character ranges and
    alternatives of gold; they are left out. A failed answer has no `response`.
    """
    by_id = {question.id: question for question in questions}
    unanswered = dict(by_id)
    for answer in answers:
        if answer.question not in by_id:
            raise SettingsError(f"{answer.system} has an answer to {answer.question!r}, which is no question")
        unanswered.pop(answer.question, None)
        yield _ragas_line(by_id[answer.question], answer)
    yield from map(_ragas_line, unanswered.values())


def _ragas_line(question: EvalQuestion, answer: SystemAnswer | None = None) -> str:
    """Return the line without empty fields, as ragas writes it."""
    references = question.more.get("references")
    has_several = isinstance(references, list | tuple) and references
    texts, ids = [gold.text for gold in question.gold if gold.text], [gold.id for gold in question.gold if gold.id]
    corresponds = not texts or len(texts) == len(ids) == len(question.gold)
    entry: dict[str, Any] = {
        "user_input": question.text,
        "reference_contexts": texts or None,
        "reference_context_ids": ids if ids and corresponds else None,
        "reference": question.reference or None,
        "persona_name": question.persona or None,
        "ground_truths": [question.reference, *question.more["references"]] if has_several else None,
        **{name: value for name, value in question.more.items() if name not in ("references", *_SAMPLE_FIELDS)},
        "id": question.id,
    }
    if answer is not None:
        context_ids = [source.id for source in answer.contexts]
        entry |= {
            "retrieved_contexts": [source.text for source in answer.contexts],
            "retrieved_context_ids": context_ids if context_ids and all(context_ids) else None,
            "response": None if answer.failed else answer.text,
            "system": answer.system,
        }
    return json.dumps({name: value for name, value in entry.items() if value is not None}, ensure_ascii=False)


# -- BenchmarkQED

_QUESTION_TYPES = ("activity_global", "activity_local", "data_global", "data_local", "data_linked", "data_entity")
_OWN_ATTRIBUTES = ("persona", "task", "reference", "gold", "assertions")  # with a field of their own in EvalQuestion
_TEXT_KEYS = ("text", "question_text", "question")
_SOURCE_TEXT_KEYS, _SOURCE_ID_KEYS = ("source_text", "text", "content"), ("source_id", "chunk_id", "id", "short_id")
_METRICS = {  # the field of Usage of each metric
    "time_seconds": "seconds",
    "input_tokens": "prompt_tokens",
    "output_tokens": "completion_tokens",
    "llm_calls": "calls",
    "cost": "cost",
}


def read_benchmarkqed(path: Path) -> tuple[list[EvalQuestion], list[SystemAnswer]]:
    """Read the questions of a file and its answers, if any.

    The file does not name the system of its answers. Raises SettingsError with the place.
    """
    rows = [(_parse_question(row, where), row, where) for where, row in _iterate_entries(path)]
    answers = [_parse_answer(row, question.id, where) for question, row, where in rows if "answer" in row]
    return [question for question, _, _ in rows], answers


def _iterate_entries(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    remedy = "give a JSON file of BenchmarkQED"
    text = read_text_file(path, remedy)
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{path} cannot be read ({error}): {remedy}") from error
    if not isinstance(entries, list) or not entries:
        raise SettingsError(f"{path}: this is no list of questions or answers, as BenchmarkQED writes it")
    for n, row in enumerate(entries, 1):
        where = f"{path}, entry {n}"
        if not isinstance(row, str | dict):
            raise SettingsError(f"{where}: it is neither a question nor an answer")
        yield where, {"text": row} if isinstance(row, str) else row


def _parse_question(row: Mapping[str, Any], where: str) -> EvalQuestion:
    if "answer" in row and row.get("question_id") and not any(row.get(name) for name in _TEXT_KEYS):
        return EvalQuestion(str(row["question_id"]), "")  # AutoE matches answers by id, so the text may be missing
    attributes: Any = row.get("attributes") if isinstance(row.get("attributes"), dict) else {}
    own = {k: v for k, v in attributes.items() if k in _OWN_ATTRIBUTES}
    more = {k: v for k, v in attributes.items() if k not in _OWN_ATTRIBUTES}
    more |= {"references": row["references"]} if row.get("references") else {}
    assertions = row.get("assertions") or own.get("assertions") or ()
    texts = [str(a.get("statement", "")) if isinstance(a, dict) else str(a) for a in assertions]
    names = {name: row[name] for name in ("id", "question_id", *_TEXT_KEYS) if name in row}
    question = parse_question_row(names | own | {"assertions": texts, "more": more}, where)
    kind = str(row.get("question_type") or "")
    if kind not in _QUESTION_TYPES:
        return question
    source, _, scope = kind.partition("_")
    scope = "linked" if scope == "entity" else scope
    return replace(question, scope=scope, source=source)  # type: ignore[arg-type]


def _parse_answer(row: Mapping[str, Any], id: str, where: str) -> SystemAnswer:
    metrics = row["metrics"] if isinstance(row.get("metrics"), dict) else {}
    usage = {ours: metrics[name] for name, ours in _METRICS.items() if isinstance(metrics.get(name), int | float)}
    return replace(
        parse_answer(id, row["answer"], where),
        contexts=tuple(_parse_source(n, passage) for n, passage in enumerate(row.get("context") or (), 1)),
        usage=Usage(**{k: v if k in ("seconds", "cost") else int(v) for k, v in usage.items()}),
        seconds=usage.get("seconds"),
    )


def _parse_source(n: int, passage: Any) -> AnswerSource:
    if not isinstance(passage, dict):
        return AnswerSource(n, str(passage))
    text, id = (
        next((str(passage[name]) for name in names if passage.get(name)), "")
        for names in (_SOURCE_TEXT_KEYS, _SOURCE_ID_KEYS)
    )
    return AnswerSource(n, text, id)


def question_type(question: EvalQuestion) -> str:
    """Return the BenchmarkQED question type: activity_global, data_local, user_global ..."""
    return f"{question.source}_{question.scope}"


def benchmarkqed_files(
    questions: Sequence[EvalQuestion], answers: Mapping[str, Iterable[SystemAnswer]]
) -> Iterator[tuple[str, str]]:
    """Yield (name, JSON) for the questions, their assertions, and each system's answers.

    Answers go into one folder a system, one file a question type. The keys of `answers` name the folders. Failed
    answers are left out, because AutoE would judge them as empty.
    """
    files: defaultdict[str, list[Any]] = defaultdict(list, {"questions": [_question_entry(q) for q in questions]})
    for q in questions:
        if q.assertions:
            statements = [{"statement": text, "rank": n} for n, text in enumerate(q.assertions, 1)]
            row = {"question_id": q.id, "question_text": q.text, "assertions": statements}
            files[f"{question_type(q)}_assertions"].append(row)
    by_id = {q.id: q for q in questions}
    for system, system_answers in answers.items():
        for answer in system_answers:
            if not answer.failed and (question := by_id.get(answer.question)):
                files[f"{system}/{question_type(question)}"].append(_answer_entry(question, answer))
    for name, rows in files.items():
        yield f"{name}.json", json.dumps(rows, ensure_ascii=False, indent=2) + "\n"


def _question_entry(q: EvalQuestion) -> dict[str, Any]:
    own = {
        "persona": q.persona,
        "task": q.task,
        "reference": q.reference,
        "gold": [_gold_entry(gold) for gold in q.gold],
        "assertions": [{"statement": text} for text in q.assertions],
    }
    attributes = {k: v for k, v in q.more.items() if k != "references"} | {k: v for k, v in own.items() if v}
    return {
        "id": q.id,
        "text": q.text,
        "question_type": question_type(q) if question_type(q) in _QUESTION_TYPES else None,
        "references": q.more.get("references"),
        "attributes": attributes,
    }


def _gold_entry(gold: Gold) -> dict[str, Any]:
    own = {k: v for k, v in asdict(gold).items() if v not in (None, "", ())}
    return own | ({"alternatives": [_gold_entry(option) for option in gold.alternatives]} if gold.alternatives else {})


def _answer_entry(question: EvalQuestion, answer: SystemAnswer) -> dict[str, Any]:
    metrics = {theirs: getattr(answer.usage, ours) for theirs, ours in _METRICS.items()}
    entry: dict[str, Any] = {
        "question_id": question.id,
        "question_text": question.text,
        "answer": answer.text,
        "context": [{"source_id": s.id or str(s.n), "source_text": s.text} for s in answer.contexts],
    }
    return entry | ({"metrics": metrics} if answer.usage.calls else {})
