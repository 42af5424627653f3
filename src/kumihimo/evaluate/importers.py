"""Files of questions, ragas or BenchmarkQED -> questions and answers of a study, merged with the existing ones.

ragas: an EvaluationDataset as JSONL, with the field names of SingleTurnSample since ragas 0.2, or older ones.
BenchmarkQED (github.com/microsoft/benchmark-qed): questions are the output of AutoQ: `id`, `text`, `question_type`,
`references`, `attributes`; or plain texts; or questions with assertions: `question_id`, `question_text`, `assertions`.
Answers are the input of AutoE: `question_id`, `question_text` or `question`, `answer`, and optionally `context` and
`metrics`.
"""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from itertools import count, product
from math import isfinite
from pathlib import Path
from typing import Any, Literal

from kumihimo.core.digests import hash_parts, replace_surrogates
from kumihimo.core.errors import SettingsError
from kumihimo.core.usage import Usage
from kumihimo.evaluate.question_generation import question_text_key
from kumihimo.evaluate.records import AnswerSource, EvalQuestion, Gold, SystemAnswer
from kumihimo.text.safe_write import read_text_file

FileRow = Mapping[str, Any]
ImportMode = Literal["", "merge", "replace"]  # treatment of existing questions
StudyRows = tuple[list[EvalQuestion], list[SystemAnswer]]
FILE_FORMATS = ("questions", "benchmarkqed", "ragas")
QUESTION_TYPES = ("activity_global", "activity_local", "data_global", "data_local", "data_linked", "data_entity")
METRICS = {  # the field of Usage of each metric of BenchmarkQED
    "time_seconds": "seconds",
    "input_tokens": "prompt_tokens",
    "output_tokens": "completion_tokens",
    "llm_calls": "calls",
    "cost": "cost",
}
_ALIASES = {  # accepted keys of a row; the first one with a value counts
    "text": ("question", "question_text", "text", "query", "user_input"),
    "id": ("id", "question_id", "_id", "qid"),
    "reference": ("reference", "reference_answer", "answer", "answers", "ground_truth", "ground_truths"),
    "persona": ("persona", "persona_name"),
    "task": ("task",),
    "gold": ("gold", "gold_chunks", "gold_passage_ids", "gold_sets"),
    "assertions": ("assertions",),
}
_GOLD_KEYS = ("reference_contexts", "reference_context_ids")  # of ragas: texts and ids
_ANSWER_KEYS = ("answer", "response", "output")
_CONTEXT_KEYS = ("context", "retrieved_contexts", "contexts", "retrieved_context_ids")
_SOURCE_TEXT_KEYS, _SOURCE_ID_KEYS = ("source_text", "text", "content"), ("source_id", "chunk_id", "id", "short_id")
_SCOPES = ("global", "local", "linked")
_SOURCES = ("activity", "data", "user")


def read_question_file(path: Path, kind: str = "questions", *, answers: bool = False) -> StudyRows:
    """Read the questions of a file, and its answers.

    kind: one of FILE_FORMATS. Of `questions`, `.csv` needs a header, `.txt` has one question a line, any other file is
    JSON Lines; its key `answer` is the reference, or with `answers` a system's answer. If a system of a file of ragas
    answers a question twice, the second answer belongs to another system: `ragas`, `ragas 2`. Raises SettingsError with
    the line.
    """
    answer_keys = (*_ANSWER_KEYS, *_CONTEXT_KEYS, "metrics", "system") if answers or kind != "questions" else ()
    questions: list[EvalQuestion] = []
    by_id: dict[str, EvalQuestion] = {}
    found: list[SystemAnswer] = []
    for where, row in _iterate_rows(path, kind):
        own = {key: row[key] for key in answer_keys if key in row}
        rest = {key: value for key, value in row.items() if key not in own}
        has_text = any(map(rest.get, _ALIASES["text"]))
        if kind == "benchmarkqed" and "answer" in own and rest.get("question_id") and not has_text:
            question = EvalQuestion(str(rest["question_id"]), "")  # AutoE matches answers by id
        else:
            question = parse_question_row(rest, where)
            same = by_id.setdefault(question.id, question)
            if question_text_key(same.text) != question_text_key(question.text):
                raise SettingsError(f"{where}: two questions have the id {question.id!r}")
            if kind == "ragas" and same != question and question.id == hash_parts(question.text):
                question = replace(question, id=hash_parts(repr(question)))  # another reference, or other gold
        questions.append(question)
        if answers or own.keys() & {*_ANSWER_KEYS}:
            found.append(_parse_answer(own, question.id, where))
    if not questions:
        raise SettingsError(f"{path} holds no questions: write one a line, as text or as {{“question”: ...}}")
    if kind == "ragas":  # several lines may answer one question
        return list({question.id: question for question in questions}.values()), list(_name_systems(found))
    return questions, found


def _name_systems(answers: Iterable[SystemAnswer]) -> Iterator[SystemAnswer]:
    """Yield the answers so that each system answers a question once."""
    used: set[tuple[str, str]] = set()
    for answer in answers:
        system = answer.system or "ragas"
        names = (f"{system} {n}" if n > 1 else system for n in count(1))
        name = next(name for name in names if (name, answer.question) not in used)
        used.add((name, answer.question))
        yield replace(answer, system=name)


def _parse_answer(row: FileRow, question: str, where: str) -> SystemAnswer:
    """Build the answer of a row, with its evidence and usage."""
    text = next((row[key] for key in _ANSWER_KEYS if key in row), None)
    if text is not None and not isinstance(text, str):
        raise SettingsError(f"{where}: an answer is a text, not {text!r}")
    passages: Any = next((row[key] for key in _CONTEXT_KEYS[:3] if row.get(key)), [])
    if not isinstance(passages, list):
        raise SettingsError(f"{where}: the evidence of an answer is a list, not {passages!r}")
    ids = [str(id) for id in row.get("retrieved_context_ids") or []]
    ids = ids if len(ids) == len(passages) else [""] * len(passages)
    contexts = (_parse_source(n, passage, id) for n, (passage, id) in enumerate(zip(passages, ids, strict=True), 1))
    metrics: Any = row.get("metrics") if isinstance(row.get("metrics"), dict) else {}
    numbers = {key: value for key, value in metrics.items() if isinstance(value, int | float) and isfinite(value)}
    usage: dict[str, Any] = {ours: numbers[key] for key, ours in METRICS.items() if key in numbers}
    return SystemAnswer(
        str(row.get("system") or ""),
        question,
        text or "",
        tuple(contexts),
        usage=Usage(**{k: v if k in ("seconds", "cost") else int(v) for k, v in usage.items()}),
        seconds=usage.get("seconds"),
        failed="" if text is not None else "the file holds no answer",
    )


def _parse_source(n: int, passage: Any, id: str) -> AnswerSource:
    if not isinstance(passage, dict):
        return AnswerSource(n, str(passage), id)
    text, own_id = (
        next((str(passage[name]) for name in names if passage.get(name)), "")
        for names in (_SOURCE_TEXT_KEYS, _SOURCE_ID_KEYS)
    )
    return AnswerSource(n, text, own_id)


# -- rows of files


def _iterate_rows(path: Path, kind: str) -> Iterator[tuple[str, FileRow]]:
    """Yield each row with its place for error messages."""
    text, suffix = read_text_file(path, "give a file in UTF-8"), path.suffix.lower() if kind == "questions" else ""
    if kind == "benchmarkqed":
        yield from _iterate_entries(path, text)
    elif suffix in (".csv", ".tsv"):
        yield from _iterate_table(path, text, "\t" if suffix == ".tsv" else ",")
    else:
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                where = f"{path}, line {number}"
                row = {"question": line.strip()} if suffix in (".txt", ".md") else _parse_json_row(line, where)
                yield where, {k: v for k, v in row.items() if v is not None or kind != "ragas"}


def _iterate_entries(path: Path, text: str) -> Iterator[tuple[str, FileRow]]:
    """Yield the entries of a file of BenchmarkQED, without its nesting."""
    remedy = "give a JSON file of BenchmarkQED"
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{path} cannot be read ({error}): {remedy}") from error
    if not isinstance(entries, list) or not entries:
        raise SettingsError(f"{path}: this is no list of questions or answers, as BenchmarkQED writes it")
    for n, entry in enumerate(entries, 1):
        where = f"{path}, entry {n}"
        if not isinstance(entry, str | dict):
            raise SettingsError(f"{where}: it is neither a question nor an answer")
        row = {"text": entry} if isinstance(entry, str) else entry
        attributes: Any = row.get("attributes") if isinstance(row.get("attributes"), dict) else {}
        row = {**attributes, **{key: value for key, value in row.items() if key != "attributes"}}
        if (question_type := row.pop("question_type", None)) in QUESTION_TYPES:
            source, _, scope = question_type.partition("_")
            row |= {"source": source, "scope": "linked" if scope == "entity" else scope}
        yield where, row


def _iterate_table(path: Path, text: str, delimiter: str) -> Iterator[tuple[str, FileRow]]:
    lines = csv.DictReader(StringIO(text, newline=""), delimiter=delimiter)
    if not set(lines.fieldnames or ()) & set(_ALIASES["text"]):
        *names, last = _ALIASES["text"][:4]
        raise SettingsError(f"{path}: its first line has to name a column {', '.join(names)} or {last}")
    try:
        for row in lines:
            yield f"{path}, line {lines.line_num}", {k: v for k, v in row.items() if k is not None and v}
    except csv.Error as error:
        raise SettingsError(f"{path}, line {lines.line_num}: {error}") from error


def _parse_json_row(line: str, where: str) -> FileRow:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{where}: this is no JSON ({error}): write one object a line") from error
    if isinstance(row, str):
        return {"question": row}
    if not isinstance(row, dict):
        raise SettingsError(f'{where}: write {{"question": ...}}')
    return row


def parse_question_row(row: FileRow, where: str) -> EvalQuestion:
    """Build a question from a row; other keys go to `more`.

    Raises SettingsError.

    >>> row = parse_question_row({"question": "Who?", "answers": ["Ada", "Ada L."], "gold_passage_ids": ["p7"]}, "")
    >>> row.reference, row.scope, row.gold[0].id, row.more
    ('Ada', 'local', 'p7', {'references': ['Ada L.']})
    """
    keys = {name: next((key for key in names if _has_value(row.get(key))), "") for name, names in _ALIASES.items()}
    values = {name: row.get(key) for name, key in keys.items()}
    text, references = values["text"], _as_list(values["reference"])
    references += [each for each in _as_list(row.get("ground_truths")) if each and each not in references]
    if isinstance(text, list):
        raise SettingsError(f"{where}: a conversation of several turns cannot be read: leave it out")
    if not isinstance(text, str) or not text.strip():
        raise SettingsError(f'{where}: it asks nothing: write {{"question": ...}}')
    text = replace_surrogates(text.strip())
    parse = _parse_gold_set if keys["gold"] == "gold_sets" else _parse_gold
    gold = tuple(parse(place, where) for place in _as_list(values["gold"]) or _passages(row))
    source = row.get("source") if row.get("source") in _SOURCES else "user"  # other programs write an origin here
    used_keys = {*keys.values(), *_GOLD_KEYS, "scope", "ground_truths"} | (
        {"source"} if row.get("source") == source else set()
    )
    more = {k: v for k, v in row.items() if k not in used_keys and not (k == "more" and isinstance(v, Mapping))}
    more |= row["more"] if isinstance(row.get("more"), Mapping) else {}
    more |= {"references": references[1:]} if len(references) > 1 else {}
    scope: Any = row.get("scope") or ("linked" if len(gold) > 1 else "local" if gold else "global")
    if scope not in _SCOPES:
        raise SettingsError(f"{where}: the scope {scope!r} is none of {', '.join(_SCOPES)}")
    assertions = _as_list(values["assertions"])
    return EvalQuestion(
        hash_parts(text) if values["id"] is None else str(values["id"]),
        text,
        scope,
        source,  # type: ignore[arg-type]
        str(values["persona"] or ""),
        str(values["task"] or ""),
        str(references[0]) if references else "",
        tuple(str(row.get("statement", "")) if isinstance(row, dict) else str(row) for row in assertions),
        gold,
        {k: v for k, v in more.items() if _has_value(v)},
    )


def _passages(row: FileRow) -> list[dict[str, Any]]:
    """Return the gold of ragas: texts and ids of passages."""
    texts, ids = (_as_list(row.get(key)) for key in _GOLD_KEYS)
    pairs = zip(ids, texts, strict=True) if len(texts) == len(ids) else [*product([""], texts), *product(ids, [""])]
    return [{"id": id, "text": text} for id, text in pairs]


def _has_value(value: Any) -> bool:
    return value is not None and value not in ("", [], {})


def _as_list(value: Any) -> list[Any]:
    return (list(value) if isinstance(value, list | tuple) else [value]) if _has_value(value) else []


def _parse_gold_set(value: Any, where: str) -> Gold:
    """Build gold from a list of places, any of which is enough."""
    if not isinstance(value, list) or not value:
        raise SettingsError(f'{where}: `gold_sets` is a list of lists, such as [["a.md", "b.md"], ["c.md"]]')
    first, *others = (_parse_gold(option, where) for option in value)
    return replace(first, alternatives=(*first.alternatives, *others))


def _parse_gold(value: Any, where: str) -> Gold:
    """Build gold from an id, a place or a passage."""
    if isinstance(value, str | int):
        return Gold(str(value))
    if isinstance(value, list) and len(value) == 3:
        value = dict(zip(("id", "start", "end"), value, strict=True))
    if not isinstance(value, dict):
        raise _gold_error(where, value)
    id, start, end = value.get("uri") or value.get("id") or "", value.get("start"), value.get("end")
    text = value.get("text") or ""
    is_range = isinstance(start, int) and isinstance(end, int) and 0 <= start < end
    if not (id or text) or not (is_range or (start is None and end is None)):
        raise _gold_error(where, value)
    alternatives = tuple(_parse_gold(option, where) for option in _as_list(value.get("alternatives")))
    return Gold(str(id), start, end, str(text), alternatives)


def _gold_error(where: str, value: Any) -> SettingsError:
    forms = '[id, start, end], {"uri": ..., "start": ..., "end": ...} or {"text": ...}'
    return SettingsError(f"{where}: gold is an id, {forms}, not {json.dumps(value, ensure_ascii=False)[:60]}")


# -- merge into a study


@dataclass(frozen=True, slots=True)
class MergeResult:
    """The questions of a study after an import.

    added: the number of new questions; repeated: the number of imported questions that were there already.
    """

    questions: list[EvalQuestion]
    added: int
    repeated: int


def merge_questions(
    existing: Sequence[EvalQuestion], new: Sequence[EvalQuestion], mode: ImportMode = ""
) -> MergeResult:
    """Merge new questions into the existing ones.

    mode: "" requires every existing question among the new ones, "merge" adds the others, "replace" keeps only the new
    ones. An existing question stays as it is, because it may have been edited. Raises SettingsError if one id would
    name two questions.
    """
    new, repeated = _remove_repeated(new)
    if mode == "replace" or not existing:
        return MergeResult(new, len(new), repeated)
    by_id, ids = {q.id: q for q in existing}, {q.id for q in new}
    if not mode and (dropped := sum(q.id not in ids for q in existing)):
        raise SettingsError(
            f"{dropped:,} other questions are there: --merge adds to them, --replace puts these in their place, "
            "--study DIR keeps them apart"
        )
    for q in new:
        if question_text_key(by_id.get(q.id, q).text) != question_text_key(q.text):
            raise SettingsError(f"another question has the id {q.id!r} already: --replace puts these in its place")
    if not mode:
        return MergeResult([by_id.get(q.id, q) for q in new], len(new) - len(existing), repeated + len(existing))
    keys = {question_text_key(q.text) for q in existing}
    added = [q for q in new if q.id not in by_id and question_text_key(q.text) not in keys]
    return MergeResult([*existing, *added], len(added), repeated + len(new) - len(added))


def _remove_repeated(new: Sequence[EvalQuestion]) -> tuple[list[EvalQuestion], int]:
    """Return each id once, and the number of repetitions.

    Raises SettingsError if two questions have the same id.
    """
    by_id: dict[str, EvalQuestion] = {}
    for q in new:
        if question_text_key(by_id.setdefault(q.id, q).text) != question_text_key(q.text):
            raise SettingsError(f"two questions have the id {q.id!r}: give each its own")
    return list(by_id.values()), len(new) - len(by_id)


def match_answers(
    existing: Sequence[EvalQuestion], imported: Sequence[EvalQuestion], answers: Sequence[SystemAnswer], system: str
) -> tuple[list[SystemAnswer], int]:
    """Match answers to the questions of the study.

    Returns the answers under the study's ids, in order of the questions, and the number of answers without a match.
    Questions are matched by text, because other programs use ids of their own; by id if no text is given. Raises
    SettingsError for two answers to one question, or if no answer matches.
    """
    texts = {q.id: question_text_key(q.text) for q in existing}
    ids = {text: id for id, text in texts.items()}

    def match_id(q: EvalQuestion) -> str:
        has_id = q.id in texts and (not q.text or texts[q.id] == question_text_key(q.text))
        return q.id if has_id else ids.get(question_text_key(q.text), "")

    matched_ids = {q.id: match_id(q) for q in imported}
    by_id: dict[str, SystemAnswer] = {}
    for answer in answers:
        id = matched_ids[answer.question]
        if id in by_id:
            raise SettingsError(f"there are two answers to {id!r}: give those of one system, once each")
        if id:
            by_id[id] = replace(answer, system=system, question=id)
    if not by_id:
        raise SettingsError(
            "none of these answers is to a question of the study: its questions have other ids and texts"
        )
    return [by_id[q.id] for q in existing if q.id in by_id], len(answers) - len(by_id)
