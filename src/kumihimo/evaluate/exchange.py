"""Questions and answers of a study -> files of ragas and BenchmarkQED.

ragas ignores unknown keys, so `id` and `system` are written as well. Without them an answer could not be assigned to
its system.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from kumihimo.core.errors import SettingsError
from kumihimo.evaluate.importers import METRICS, QUESTION_TYPES
from kumihimo.evaluate.records import EvalQuestion, Gold, SystemAnswer


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
        "id": question.id,
    }
    entry |= {key: value for key, value in question.more.items() if key not in ("references", "system", *entry)}
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
        "question_type": question_type(q) if question_type(q) in QUESTION_TYPES else None,
        "references": q.more.get("references"),
        "attributes": attributes,
    }


def _gold_entry(gold: Gold) -> dict[str, Any]:
    own = {k: v for k, v in asdict(gold).items() if v not in (None, "", ())}
    return own | ({"alternatives": [_gold_entry(option) for option in gold.alternatives]} if gold.alternatives else {})


def _answer_entry(question: EvalQuestion, answer: SystemAnswer) -> dict[str, Any]:
    metrics = {theirs: getattr(answer.usage, ours) for theirs, ours in METRICS.items()}
    entry: dict[str, Any] = {
        "question_id": question.id,
        "question_text": question.text,
        "answer": answer.text,
        "context": [{"source_id": s.id or str(s.n), "source_text": s.text} for s in answer.contexts],
    }
    return entry | ({"metrics": metrics} if answer.usage.calls else {})
