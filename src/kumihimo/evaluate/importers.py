"""files of one's own -> questions and answers of a study; and what becomes of those that are there."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any, Literal

from kumihimo.core.digests import hash_parts, replace_surrogates
from kumihimo.core.errors import SettingsError
from kumihimo.evaluate.question_generation import question_text_key
from kumihimo.evaluate.records import EvalQuestion, Gold, SystemAnswer

FileRow = Mapping[str, Any]
ImportMode = Literal["", "merge", "replace"]  # what becomes of questions that are there

# what a row may call its parts; the first that is there counts
_TEXT_KEYS = ("question", "question_text", "text", "query")
_ID_KEYS = ("id", "question_id", "_id", "qid")
_REFERENCE_KEYS = ("reference", "reference_answer", "answer", "answers", "ground_truth", "ground_truths")
_ANSWER_KEYS = ("answer", "response", "output")
_GOLD_KEYS = ("gold", "gold_chunks", "gold_passage_ids")
_PLAIN_KEYS = ("persona", "task")
_SCOPES = ("global", "local", "linked")
_SOURCES = ("activity", "data", "user")


def read_question_file(path: Path, *, answers: bool = False) -> tuple[list[EvalQuestion], list[SystemAnswer]]:
    """What a file of one's own holds. answers: `answer` is what a system said, not what is right.

    `.csv` has a header, `.txt` a question on each line, all else JSON lines. Raises SettingsError, naming the line.
    """
    rows = list(_iterate_rows(path))
    if not rows:
        raise SettingsError(f"{path} holds no questions: write one a line, as text or as {{“question”: ...}}")
    if not answers:
        return [parse_question_row(row, where) for where, row in rows], []
    asked = [parse_question_row({k: v for k, v in row.items() if k not in _ANSWER_KEYS}, where) for where, row in rows]
    said = [next((row[name] for name in _ANSWER_KEYS if name in row), None) for _, row in rows]
    return asked, [_parse_answer(q, each, where) for q, each, (where, _) in zip(asked, said, rows, strict=True)]


def _parse_answer(asked: EvalQuestion, said: object, where: str) -> SystemAnswer:
    if said is not None and not isinstance(said, str):
        raise SettingsError(f"{where}: an answer is a text, not {said!r}")
    return SystemAnswer("", asked.id, said or "", failed="" if said is not None else "the file holds no answer")


# -- rows of files


def _iterate_rows(path: Path) -> Iterator[tuple[str, FileRow]]:
    """Each with the place that errors name."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} cannot be read ({error}): give a file in UTF-8") from error
    kind = path.suffix.lower()
    if kind in (".csv", ".tsv"):
        yield from _iterate_table(path, text, "\t" if kind == ".tsv" else ",")
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            where = f"{path}, line {number}"
            yield where, {"question": line.strip()} if kind in (".txt", ".md") else _parse_json_row(line, where)


def _iterate_table(path: Path, text: str, between: str) -> Iterator[tuple[str, FileRow]]:
    lines = csv.DictReader(StringIO(text, newline=""), delimiter=between)
    if not set(lines.fieldnames or ()) & set(_TEXT_KEYS):
        raise SettingsError(
            f"{path}: its first line has to name a column {', '.join(_TEXT_KEYS[:-1])} or {_TEXT_KEYS[-1]}"
        )
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
    """What a row asks; what it holds besides is kept in `more`. Raises SettingsError.

    >>> made = question({"question": "Who?", "answers": ["Ada", "Ada L."], "gold_passage_ids": ["p7"]}, "")
    >>> made.reference, made.scope, made.gold[0].id, made.more
    ('Ada', 'local', 'p7', {'answers': ['Ada', 'Ada L.']})
    """
    named = [
        next((name for name in names if _has_value(row.get(name))), "")
        for names in (_TEXT_KEYS, _ID_KEYS, _REFERENCE_KEYS, _GOLD_KEYS)
    ]
    text, id, reference, places = (row.get(name) for name in named)
    if not isinstance(text, str) or not text.strip():
        hint = "; is it a file of ragas? --format ragas" if "user_input" in row else ""
        raise SettingsError(f'{where}: it asks nothing: write {{"question": ...}}{hint}')
    text, references = replace_surrogates(text.strip()), _as_list(reference)
    gold = tuple(_parse_gold(each, where) for each in _as_list(places))
    source = row.get("source") if row.get("source") in _SOURCES else "user"  # others say where they have it from
    known = {*named, *_PLAIN_KEYS, "scope", "assertions"} | ({"source"} if row.get("source") == source else set())
    more = {k: v for k, v in row.items() if k not in known and not (k == "more" and isinstance(v, Mapping))}
    more |= row["more"] if isinstance(row.get("more"), Mapping) else {}
    more |= {"answers": references} if len(references) > 1 else {}
    scope = "linked" if len(gold) > 1 else "local" if gold else "global"
    return EvalQuestion(
        hash_parts(text) if id is None else str(id),
        text,
        _check_scope(row.get("scope") or scope, where),
        source,  # type: ignore[arg-type]
        **{name: str(row.get(name) or "") for name in _PLAIN_KEYS},
        reference=str(references[0]) if references else "",
        assertions=tuple(map(str, _as_list(row.get("assertions")))),
        gold=gold,
        more={k: v for k, v in more.items() if _has_value(v)},
    )


def _has_value(value: Any) -> bool:
    return value is not None and value not in ("", [], {})


def _as_list(value: Any) -> list[Any]:
    return (list(value) if isinstance(value, list | tuple) else [value]) if _has_value(value) else []


def _check_scope(value: Any, where: str) -> Any:
    if value not in _SCOPES:
        raise SettingsError(f"{where}: the scope {value!r} is none of {', '.join(_SCOPES)}")
    return value


def _parse_gold(value: Any, where: str) -> Gold:
    """An id, or a place or a passage of a document."""
    if isinstance(value, str | int):
        return Gold(str(value))
    wrong = SettingsError(f'{where}: gold is an id, {{"uri": ..., "start": ..., "end": ...}} or {{"text": ...}}')
    if not isinstance(value, dict):
        raise wrong
    id, start, end = value.get("uri") or value.get("id") or "", value.get("start"), value.get("end")
    text = value.get("text") or ""
    whole = isinstance(start, int) and isinstance(end, int) and 0 <= start < end
    if not (id or text) or not (whole or (start is None and end is None)):
        raise wrong
    return Gold(str(id), start, end, str(text))


# -- into a study


@dataclass(frozen=True, slots=True)
class MergeResult:
    """The questions of a study from now on; how many are new, and how many of those given are there already."""

    questions: list[EvalQuestion]
    added: int
    repeated: int


def merge_questions(
    existing: Sequence[EvalQuestion], new: Sequence[EvalQuestion], mode: ImportMode = ""
) -> MergeResult:
    """The questions that are there with new ones. Raises SettingsError where one id would name two questions.

    Without `put` none that is there may be missing among the new ones. One that is there stays as it is: somebody may
    have added to it. merge: others are added. replace: only the new ones stay.
    """
    new, again = _remove_repeated(new)
    if mode == "replace" or not existing:
        return MergeResult(new, len(new), again)
    there, ids = {q.id: q for q in existing}, {q.id for q in new}
    if not mode and (lost := sum(q.id not in ids for q in existing)):
        raise SettingsError(
            f"{lost:,} other questions are there: --merge adds to them, --replace puts these in their place, "
            "--study DIR keeps them apart"
        )
    for q in new:
        if q.id in there and question_text_key(there[q.id].text) != question_text_key(q.text):
            raise SettingsError(f"another question has the id {q.id!r} already: --replace puts these in its place")
    if not mode:
        return MergeResult([there.get(q.id, q) for q in new], len(new) - len(existing), again + len(existing))
    known = {question_text_key(q.text) for q in existing}
    added = [q for q in new if q.id not in there and question_text_key(q.text) not in known]
    return MergeResult([*existing, *added], len(added), again + len(new) - len(added))


def _remove_repeated(new: Sequence[EvalQuestion]) -> tuple[list[EvalQuestion], int]:
    """Each id once, and how many came again. Raises SettingsError where two questions have one id."""
    found: dict[str, EvalQuestion] = {}
    for q in new:
        if q.id in found and question_text_key(found[q.id].text) != question_text_key(q.text):
            raise SettingsError(f"two questions have the id {q.id!r}: give each its own")
        found.setdefault(q.id, q)
    return list(found.values()), len(new) - len(found)


def match_answers(
    existing: Sequence[EvalQuestion], imported: Sequence[EvalQuestion], answers: Sequence[SystemAnswer], system: str
) -> tuple[list[SystemAnswer], int]:
    """The answers by the ids of the study's questions, in their order, and how many answer none of them.

    By text, since others give their questions ids of their own; by id where no text is told. Raises SettingsError
    where there are two answers to one question, or none at all to any.
    """
    ids, texts = (
        {q.id: question_text_key(q.text) for q in existing},
        {question_text_key(q.text): q.id for q in existing},
    )

    def place(q: EvalQuestion) -> str:
        same = q.id in ids and (not q.text or ids[q.id] == question_text_key(q.text))
        return q.id if same else texts.get(question_text_key(q.text), "")

    named = {q.id: place(q) for q in imported}
    found: dict[str, SystemAnswer] = {}
    for answer in answers:
        id = named[answer.question]
        if id in found:
            raise SettingsError(f"there are two answers to {id!r}: give those of one system, once each")
        if id:
            found[id] = replace(answer, system=system, question=id)
    if not found:
        raise SettingsError(
            "none of these answers is to a question of the study: its questions have other ids and texts"
        )
    return [found[q.id] for q in existing if q.id in found], len(answers) - len(found)
