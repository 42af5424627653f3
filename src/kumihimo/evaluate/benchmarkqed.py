"""JSON of BenchmarkQED (github.com/microsoft/benchmark-qed) -> questions and answers of a study, and back.

Questions are the output of AutoQ: `id`, `text`, `question_type`, `references`, `attributes`; or plain texts; or
questions with assertions: `question_id`, `question_text`, `assertions`. Answers are the input of AutoE: `question_id`,
`question_text` or `question`, `answer`, and optionally `context` and `metrics`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from kumihimo.core.errors import SettingsError
from kumihimo.core.usage import Usage
from kumihimo.evaluate import importers
from kumihimo.evaluate.records import AnswerSource, EvalQuestion, SystemAnswer

_QUESTION_TYPES = ("activity_global", "activity_local", "data_global", "data_local", "data_linked", "data_entity")
_OWN_ATTRIBUTES = (
    "persona",
    "task",
    "reference",
    "gold",
    "assertions",
)  # attributes with a field of their own in EvalQuestion
_TEXT_KEYS = ("text", "question_text", "question")
_SOURCE_TEXT_KEYS, _SOURCE_ID_KEYS = ("source_text", "text", "content"), ("source_id", "chunk_id", "id", "short_id")
_METRICS = {"time_seconds": "seconds", "input_tokens": "prompt_tokens", "output_tokens": "completion_tokens"}
_METRICS |= {"llm_calls": "calls", "cost": "cost"}


# -- import


def read_benchmarkqed(path: Path) -> tuple[list[EvalQuestion], list[SystemAnswer]]:
    """Read the questions of a file and its answers, if any.

    The file does not name the system of its answers. Raises SettingsError with the place.
    """
    questions: list[EvalQuestion] = []
    answers: list[SystemAnswer] = []
    for where, row in _iterate_entries(path):
        question = _parse_question(row, where)
        questions.append(question)
        if "answer" in row:
            answers.append(_parse_answer(row, question.id, where))
    return questions, answers


def _iterate_entries(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    try:
        entries = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise SettingsError(f"{path} cannot be read ({error}): give a JSON file of BenchmarkQED") from error
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
    assertions = [_assertion_text(a) for a in row.get("assertions") or own.pop("assertions", None) or ()]
    fields = (
        {name: row[name] for name in ("id", "question_id", *_TEXT_KEYS) if name in row}
        | own
        | {"assertions": assertions, "more": more}
    )
    question = importers.parse_question_row(fields, where)
    kind = str(row.get("question_type") or "")
    if kind not in _QUESTION_TYPES:
        return question
    source, _, scope = kind.partition("_")
    scope = "linked" if scope == "entity" else scope
    return replace(question, scope=scope, source=source)  # type: ignore[arg-type]


def _assertion_text(assertion: Any) -> str:
    return str(assertion.get("statement", "")) if isinstance(assertion, dict) else str(assertion)


def _parse_answer(row: Mapping[str, Any], id: str, where: str) -> SystemAnswer:
    text = row["answer"]
    if text is not None and not isinstance(text, str):
        raise SettingsError(f"{where}: an answer is a text, not {text!r}")
    metrics = {
        ours: row["metrics"][theirs] for theirs, ours in _METRICS.items() if _is_number(row.get("metrics"), theirs)
    }
    return SystemAnswer(
        "",
        id,
        text or "",
        contexts=tuple(_parse_source(n, passage) for n, passage in enumerate(row.get("context") or (), 1)),
        usage=Usage(**{k: v if k in ("seconds", "cost") else int(v) for k, v in metrics.items()}),
        seconds=metrics.get("seconds"),
        failed="" if text is not None else "the file holds no answer",
    )


def _is_number(metrics: Any, name: str) -> bool:
    return isinstance(metrics, dict) and isinstance(metrics.get(name), int | float)


def _parse_source(n: int, passage: Any) -> AnswerSource:
    if not isinstance(passage, dict):
        return AnswerSource(n, str(passage))
    text, id = (
        next((passage[name] for name in names if passage.get(name)), "")
        for names in (_SOURCE_TEXT_KEYS, _SOURCE_ID_KEYS)
    )
    return AnswerSource(n, str(text), str(id))


# -- export


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
    yield "questions.json", _to_json([_question_entry(q) for q in questions])
    assertion_sets: dict[str, list[Any]] = defaultdict(list)
    for q in questions:
        if q.assertions:
            statements = [{"statement": text, "rank": n} for n, text in enumerate(q.assertions, 1)]
            assertion_sets[question_type(q)].append(
                {"question_id": q.id, "question_text": q.text, "assertions": statements}
            )
    for name, rows in assertion_sets.items():
        yield f"{name}_assertions.json", _to_json(rows)
    by_id = {q.id: q for q in questions}
    for system, system_answers in answers.items():
        sets: dict[str, list[Any]] = defaultdict(list)
        for answer in system_answers:
            if not answer.failed and (question := by_id.get(answer.question)):
                sets[question_type(question)].append(_answer_entry(question, answer))
        for name, rows in sets.items():
            yield f"{system}/{name}.json", _to_json(rows)


def _question_entry(q: EvalQuestion) -> dict[str, Any]:
    attributes: dict[str, Any] = {k: v for k, v in q.more.items() if k != "references"}
    attributes |= {k: v for k, v in (("persona", q.persona), ("task", q.task), ("reference", q.reference)) if v}
    places = [{k: v for k, v in asdict(gold).items() if v not in (None, "")} for gold in q.gold]
    attributes |= {"gold": places} if places else {}
    attributes |= {"assertions": [{"statement": text} for text in q.assertions]} if q.assertions else {}
    return {
        "id": q.id,
        "text": q.text,
        "question_type": question_type(q) if question_type(q) in _QUESTION_TYPES else None,
        "references": q.more.get("references"),
        "attributes": attributes,
    }


def _answer_entry(question: EvalQuestion, answer: SystemAnswer) -> dict[str, Any]:
    metrics = {theirs: getattr(answer.usage, ours) for theirs, ours in _METRICS.items()}
    entry: dict[str, Any] = {
        "question_id": question.id,
        "question_text": question.text,
        "answer": answer.text,
        "context": [{"source_id": s.id or str(s.n), "source_text": s.text} for s in answer.contexts],
    }
    return entry | ({"metrics": metrics} if answer.usage.calls else {})


def _to_json(rows: Sequence[Any]) -> str:
    return json.dumps(rows, ensure_ascii=False, indent=2) + "\n"
