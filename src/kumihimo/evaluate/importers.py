"""Your own files -> questions and answers of a study, merged with the existing ones."""

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
from kumihimo.text.safe_write import read_text_file

FileRow = Mapping[str, Any]
ImportMode = Literal["", "merge", "replace"]  # treatment of existing questions

# accepted keys of a row; the first one present counts
_TEXT_KEYS = ("question", "question_text", "text", "query")
_ID_KEYS = ("id", "question_id", "_id", "qid")
_REFERENCE_KEYS = ("reference", "reference_answer", "answer", "answers", "ground_truth", "ground_truths")
_ANSWER_KEYS = ("answer", "response", "output")
_GOLD_KEYS = ("gold", "gold_chunks", "gold_passage_ids", "gold_sets")
_PLAIN_KEYS = ("persona", "task")
_SCOPES = ("global", "local", "linked")
_SOURCES = ("activity", "data", "user")


def read_question_file(path: Path, *, answers: bool = False) -> tuple[list[EvalQuestion], list[SystemAnswer]]:
    """Read the questions of a file, and its answers with `answers`.

    answers: the key `answer` is a system's answer, not the reference. `.csv` needs a header, `.txt` has one question a
    line, any other file is JSON Lines. Raises SettingsError with the line.
    """
    if not (rows := list(_iterate_rows(path))):
        raise SettingsError(f"{path} holds no questions: write one a line, as text or as {{“question”: ...}}")
    own_answers = _ANSWER_KEYS if answers else ()
    questions = [
        parse_question_row({k: v for k, v in row.items() if k not in own_answers}, where) for where, row in rows
    ]
    system_answers = [
        parse_answer(question.id, next((row[name] for name in own_answers if name in row), None), where)
        for question, (where, row) in zip(questions, rows, strict=True)
    ]
    return questions, system_answers if answers else []


def parse_answer(id: str, text: object, where: str) -> SystemAnswer:
    """Build the answer to a question; its system is not known yet.

    Raises SettingsError if it is not a text.
    """
    if text is not None and not isinstance(text, str):
        raise SettingsError(f"{where}: an answer is a text, not {text!r}")
    return SystemAnswer("", id, text or "", failed="" if text is not None else "the file holds no answer")


# -- rows of files


def _iterate_rows(path: Path) -> Iterator[tuple[str, FileRow]]:
    """Yield each row with its place for error messages."""
    text = read_text_file(path, "give a file in UTF-8")
    kind = path.suffix.lower()
    if kind in (".csv", ".tsv"):
        yield from _iterate_table(path, text, "\t" if kind == ".tsv" else ",")
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            where = f"{path}, line {number}"
            yield where, {"question": line.strip()} if kind in (".txt", ".md") else _parse_json_row(line, where)


def _iterate_table(path: Path, text: str, delimiter: str) -> Iterator[tuple[str, FileRow]]:
    lines = csv.DictReader(StringIO(text, newline=""), delimiter=delimiter)
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
    """Build a question from a row; other keys go to `more`.

    Raises SettingsError.

    >>> row = parse_question_row({"question": "Who?", "answers": ["Ada", "Ada L."], "gold_passage_ids": ["p7"]}, "")
    >>> row.reference, row.scope, row.gold[0].id, row.more
    ('Ada', 'local', 'p7', {'answers': ['Ada', 'Ada L.']})
    """
    present = [
        next((name for name in names if _has_value(row.get(name))), "")
        for names in (_TEXT_KEYS, _ID_KEYS, _REFERENCE_KEYS, _GOLD_KEYS)
    ]
    text, id, reference, places = (row.get(name) for name in present)
    parse = _parse_gold_set if present[3] == "gold_sets" else _parse_gold
    if not isinstance(text, str) or not text.strip():
        hint = "; is it a file of ragas? --format ragas" if "user_input" in row else ""
        raise SettingsError(f'{where}: it asks nothing: write {{"question": ...}}{hint}')
    text, references = replace_surrogates(text.strip()), _as_list(reference)
    gold = tuple(parse(place, where) for place in _as_list(places))
    source = row.get("source") if row.get("source") in _SOURCES else "user"  # other programs write an origin here
    used_keys = {*present, *_PLAIN_KEYS, "scope", "assertions"} | ({"source"} if row.get("source") == source else set())
    more = {k: v for k, v in row.items() if k not in used_keys and not (k == "more" and isinstance(v, Mapping))}
    more |= row["more"] if isinstance(row.get("more"), Mapping) else {}
    more |= {"answers": references} if len(references) > 1 else {}
    scope: Any = row.get("scope") or ("linked" if len(gold) > 1 else "local" if gold else "global")
    if scope not in _SCOPES:
        raise SettingsError(f"{where}: the scope {scope!r} is none of {', '.join(_SCOPES)}")
    return EvalQuestion(
        hash_parts(text) if id is None else str(id),
        text,
        scope,
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
