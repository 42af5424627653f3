"""JSON of BenchmarkQED (github.com/microsoft/benchmark-qed) -> questions and answers of a study, and back.

Questions are what its AutoQ writes: `id`, `text`, `question_type`, `references`, `attributes`; or texts alone; or
with assertions: `question_id`, `question_text`, `assertions`. Answers are what its AutoE reads: `question_id`,
`question_text` or `question`, `answer`, with `context` and `metrics` where there are any.
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
_OWN_ATTRIBUTES = ("persona", "task", "reference", "gold", "assertions")  # among the attributes
_TEXT_KEYS = ("text", "question_text", "question")
_SOURCE_TEXT_KEYS, _SOURCE_ID_KEYS = ("source_text", "text", "content"), ("source_id", "chunk_id", "id", "short_id")
_METRICS = {"time_seconds": "seconds", "input_tokens": "prompt_tokens", "output_tokens": "completion_tokens"}
_METRICS |= {"llm_calls": "calls", "cost": "cost"}


# -- in


def read_benchmarkqed(path: Path) -> tuple[list[EvalQuestion], list[SystemAnswer]]:
    """The questions of a file, and the answers, if it holds any: of a system that it does not name.

    Raises SettingsError, naming the place.
    """
    questions: list[EvalQuestion] = []
    answers: list[SystemAnswer] = []
    for where, row in _iterate_entries(path):
        asked = _parse_question(row, where)
        questions.append(asked)
        if "answer" in row:
            answers.append(_parse_answer(row, asked.id, where))
    return questions, answers


def _iterate_entries(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    try:
        held = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise SettingsError(f"{path} cannot be read ({error}): give a JSON file of BenchmarkQED") from error
    if not isinstance(held, list) or not held:
        raise SettingsError(f"{path}: BenchmarkQED's files are lists of questions or answers, and this is none")
    for n, row in enumerate(held, 1):
        where = f"{path}, entry {n}"
        if not isinstance(row, str | dict):
            raise SettingsError(f"{where}: it is neither a question nor an answer")
        yield where, {"text": row} if isinstance(row, str) else row


def _parse_question(row: Mapping[str, Any], where: str) -> EvalQuestion:
    if "answer" in row and row.get("question_id") and not any(row.get(name) for name in _TEXT_KEYS):
        return EvalQuestion(str(row["question_id"]), "")  # AutoE finds answers by id: they may come without questions
    attributes: Any = row.get("attributes") if isinstance(row.get("attributes"), dict) else {}
    ours = {k: v for k, v in attributes.items() if k in _OWN_ATTRIBUTES}
    more = {k: v for k, v in attributes.items() if k not in _OWN_ATTRIBUTES}
    more |= {"references": row["references"]} if row.get("references") else {}
    stated = [_assertion_text(a) for a in row.get("assertions") or ours.pop("assertions", None) or ()]
    given = (
        {name: row[name] for name in ("id", "question_id", *_TEXT_KEYS) if name in row}
        | ours
        | {"assertions": stated, "more": more}
    )
    asked = importers.parse_question_row(given, where)
    kind = str(row.get("question_type") or "")
    if kind not in _QUESTION_TYPES:
        return asked
    source, _, scope = kind.partition("_")
    scope = "linked" if scope == "entity" else scope
    return replace(asked, scope=scope, source=source)  # type: ignore[arg-type]


def _assertion_text(assertion: Any) -> str:
    return str(assertion.get("statement", "")) if isinstance(assertion, dict) else str(assertion)


def _parse_answer(row: Mapping[str, Any], id: str, where: str) -> SystemAnswer:
    said = row["answer"]
    if said is not None and not isinstance(said, str):
        raise SettingsError(f"{where}: an answer is a text, not {said!r}")
    spent = {
        ours: row["metrics"][theirs] for theirs, ours in _METRICS.items() if _is_number(row.get("metrics"), theirs)
    }
    return SystemAnswer(
        "",
        id,
        said or "",
        contexts=tuple(_parse_source(n, each) for n, each in enumerate(row.get("context") or (), 1)),
        usage=Usage(**{k: v if k in ("seconds", "cost") else int(v) for k, v in spent.items()}),
        seconds=spent.get("seconds"),
        failed="" if said is not None else "the file holds no answer",
    )


def _is_number(metrics: Any, name: str) -> bool:
    return isinstance(metrics, dict) and isinstance(metrics.get(name), int | float)


def _parse_source(n: int, each: Any) -> AnswerSource:
    if not isinstance(each, dict):
        return AnswerSource(n, str(each))
    text, id = (
        next((each[name] for name in names if each.get(name)), "") for names in (_SOURCE_TEXT_KEYS, _SOURCE_ID_KEYS)
    )
    return AnswerSource(n, str(text), str(id))


# -- out


def question_type(question: EvalQuestion) -> str:
    """Its type, by which BenchmarkQED keeps sets of questions apart: activity_global, data_local, user_global."""
    return f"{question.source}_{question.scope}"


def benchmarkqed_files(
    questions: Sequence[EvalQuestion], answers: Mapping[str, Iterable[SystemAnswer]]
) -> Iterator[tuple[str, str]]:
    """(name, JSON): the questions, their assertions, and of each system a folder with its answers to each set.

    Names of folders are those that `answers` has. Answers that failed are left out: AutoE would judge them as empty.
    """
    yield "questions.json", _to_json([_question_entry(q) for q in questions])
    stated: dict[str, list[Any]] = defaultdict(list)
    for q in questions:
        if q.assertions:
            listed = [{"statement": text, "rank": n} for n, text in enumerate(q.assertions, 1)]
            stated[question_type(q)].append({"question_id": q.id, "question_text": q.text, "assertions": listed})
    for name, rows in stated.items():
        yield f"{name}_assertions.json", _to_json(rows)
    by_id = {q.id: q for q in questions}
    for system, said in answers.items():
        sets: dict[str, list[Any]] = defaultdict(list)
        for answer in said:
            if not answer.failed and (asked := by_id.get(answer.question)):
                sets[question_type(asked)].append(_answer_entry(asked, answer))
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


def _answer_entry(asked: EvalQuestion, answer: SystemAnswer) -> dict[str, Any]:
    spent = {theirs: getattr(answer.usage, ours) for theirs, ours in _METRICS.items()}
    told: dict[str, Any] = {
        "question_id": asked.id,
        "question_text": asked.text,
        "answer": answer.text,
        "context": [{"source_id": s.id or str(s.n), "source_text": s.text} for s in answer.contexts],
    }
    return told | ({"metrics": spent} if answer.usage.calls else {})


def _to_json(rows: Sequence[Any]) -> str:
    return json.dumps(rows, ensure_ascii=False, indent=2) + "\n"
