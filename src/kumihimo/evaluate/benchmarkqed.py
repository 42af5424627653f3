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
from kumihimo.evaluate.records import Answered, Question, Source

_KINDS = ("activity_global", "activity_local", "data_global", "data_local", "data_linked", "data_entity")
_OURS = ("persona", "task", "reference", "gold", "assertions")  # among the attributes
_ASKED = ("text", "question_text", "question")
_TEXTS, _IDS = ("source_text", "text", "content"), ("source_id", "chunk_id", "id", "short_id")
_METRICS = {"time_seconds": "seconds", "input_tokens": "prompt_tokens", "output_tokens": "completion_tokens"}
_METRICS |= {"llm_calls": "calls", "cost": "cost"}


# -- in


def read(path: Path) -> tuple[list[Question], list[Answered]]:
    """The questions of a file, and the answers, if it holds any: of a system that it does not name.

    Raises SettingsError, naming the place.
    """
    questions: list[Question] = []
    answers: list[Answered] = []
    for where, row in _rows(path):
        asked = _question(row, where)
        questions.append(asked)
        if "answer" in row:
            answers.append(_answered(row, asked.id, where))
    return questions, answers


def _rows(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
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


def _question(row: Mapping[str, Any], where: str) -> Question:
    if "answer" in row and row.get("question_id") and not any(row.get(name) for name in _ASKED):
        return Question(str(row["question_id"]), "")  # AutoE finds answers by id: they may come without questions
    attributes: Any = row.get("attributes") if isinstance(row.get("attributes"), dict) else {}
    ours = {k: v for k, v in attributes.items() if k in _OURS}
    more = {k: v for k, v in attributes.items() if k not in _OURS}
    more |= {"references": row["references"]} if row.get("references") else {}
    stated = [_statement(a) for a in row.get("assertions") or ours.pop("assertions", None) or ()]
    given = (
        {name: row[name] for name in ("id", "question_id", *_ASKED) if name in row}
        | ours
        | {"assertions": stated, "more": more}
    )
    asked = importers.question(given, where)
    kind = str(row.get("question_type") or "")
    if kind not in _KINDS:
        return asked
    source, _, scope = kind.partition("_")
    scope = "linked" if scope == "entity" else scope
    return replace(asked, scope=scope, source=source)  # type: ignore[arg-type]


def _statement(assertion: Any) -> str:
    return str(assertion.get("statement", "")) if isinstance(assertion, dict) else str(assertion)


def _answered(row: Mapping[str, Any], id: str, where: str) -> Answered:
    said = row["answer"]
    if said is not None and not isinstance(said, str):
        raise SettingsError(f"{where}: an answer is a text, not {said!r}")
    spent = {ours: row["metrics"][theirs] for theirs, ours in _METRICS.items() if _number(row.get("metrics"), theirs)}
    return Answered(
        "",
        id,
        said or "",
        contexts=tuple(_source(n, each) for n, each in enumerate(row.get("context") or (), 1)),
        usage=Usage(**{k: v if k in ("seconds", "cost") else int(v) for k, v in spent.items()}),
        seconds=spent.get("seconds"),
        failed="" if said is not None else "the file holds no answer",
    )


def _number(metrics: Any, name: str) -> bool:
    return isinstance(metrics, dict) and isinstance(metrics.get(name), int | float)


def _source(n: int, each: Any) -> Source:
    if not isinstance(each, dict):
        return Source(n, str(each))
    text, id = (next((each[name] for name in names if each.get(name)), "") for names in (_TEXTS, _IDS))
    return Source(n, str(text), str(id))


# -- out


def kind(question: Question) -> str:
    """Its type, by which BenchmarkQED keeps sets of questions apart: activity_global, data_local, user_global."""
    return f"{question.source}_{question.scope}"


def files(questions: Sequence[Question], answers: Mapping[str, Iterable[Answered]]) -> Iterator[tuple[str, str]]:
    """(name, JSON): the questions, their assertions, and of each system a folder with its answers to each set.

    Names of folders are those that `answers` has. Answers that failed are left out: AutoE would judge them as empty.
    """
    yield "questions.json", _json([_asked(q) for q in questions])
    stated: dict[str, list[Any]] = defaultdict(list)
    for q in questions:
        if q.assertions:
            listed = [{"statement": text, "rank": n} for n, text in enumerate(q.assertions, 1)]
            stated[kind(q)].append({"question_id": q.id, "question_text": q.text, "assertions": listed})
    for name, rows in stated.items():
        yield f"{name}_assertions.json", _json(rows)
    by_id = {q.id: q for q in questions}
    for system, said in answers.items():
        sets: dict[str, list[Any]] = defaultdict(list)
        for answer in said:
            if not answer.failed and (asked := by_id.get(answer.question)):
                sets[kind(asked)].append(_said(asked, answer))
        for name, rows in sets.items():
            yield f"{system}/{name}.json", _json(rows)


def _asked(q: Question) -> dict[str, Any]:
    attributes: dict[str, Any] = {k: v for k, v in q.more.items() if k != "references"}
    attributes |= {k: v for k, v in (("persona", q.persona), ("task", q.task), ("reference", q.reference)) if v}
    places = [{k: v for k, v in asdict(gold).items() if v not in (None, "")} for gold in q.gold]
    attributes |= {"gold": places} if places else {}
    attributes |= {"assertions": [{"statement": text} for text in q.assertions]} if q.assertions else {}
    return {
        "id": q.id,
        "text": q.text,
        "question_type": kind(q) if kind(q) in _KINDS else None,
        "references": q.more.get("references"),
        "attributes": attributes,
    }


def _said(asked: Question, answer: Answered) -> dict[str, Any]:
    spent = {theirs: getattr(answer.usage, ours) for theirs, ours in _METRICS.items()}
    told: dict[str, Any] = {
        "question_id": asked.id,
        "question_text": asked.text,
        "answer": answer.text,
        "context": [{"source_id": s.id or str(s.n), "source_text": s.text} for s in answer.contexts],
    }
    return told | ({"metrics": spent} if answer.usage.calls else {})


def _json(rows: Sequence[Any]) -> str:
    return json.dumps(rows, ensure_ascii=False, indent=2) + "\n"
