"""A folder -> Study: questions, answers and judgements of an evaluation, one JSON Lines file each.

The response cache holds all replies. If a stage was interrupted, run it again: you pay only for the missing calls. A
stage writes its file only when all rows are there.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import quote, unquote

from pydantic import TypeAdapter, ValidationError

from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import SettingsError, describe_unknown
from kumihimo.evaluate.records import AnswerClaim, AnswerSentence, EvalQuestion, Rating, Score, SystemAnswer, Verdict
from kumihimo.text.safe_write import FILE_MARK, read_text_file, write_file

T = TypeVar("T")

STUDY_MANIFEST = "manifest.json"
_ANSWERS_FOLDER = "answers"
ROW_TYPES: Mapping[str, type[Any]] = {
    "questions": EvalQuestion,
    "verdicts": Verdict,
    "ratings": Rating,
    "scores": Score,
    "retrieval": Score,
    "claims": AnswerClaim,
    "sentences": AnswerSentence,
}
FILE_COMMANDS = {  # the command that writes each file
    "questions": "kumi eval questions",
    "verdicts": "kumi eval judge",
    "ratings": "kumi eval judge --protocol mk",
    "scores": "kumi eval score",
    "retrieval": "kumi eval retrieval",
    "claims": "kumi eval claims",
    "sentences": "kumi eval claims",
}


@dataclass(frozen=True, slots=True)
class Study:
    """The files of one evaluation.

    An unreadable row raises SettingsError with file and line.
    """

    folder: Path

    def questions(self) -> list[EvalQuestion]:
        """Return all questions.

        Raises SettingsError if there are none, or if two have the same id.
        """
        if not (rows := list(self.rows("questions", EvalQuestion))):
            raise SettingsError(f"{self.path('questions')} holds no questions: `kumi eval questions` writes some")
        for id, times in Counter(question.id for question in rows).items():
            if times > 1:
                raise SettingsError(f"{self.path('questions')}: two questions have the id {id!r}")
        return rows

    def rows(self, name: str, row_type: type[T]) -> Iterator[T]:
        """Yield the rows of one file of ROW_TYPES.

        Raises SettingsError if the file is missing, and names the command that writes it.
        """
        path = self.path(name)
        if not path.exists():
            raise SettingsError(f"{path} is not there yet: `{FILE_COMMANDS[name]}` writes it")
        return read_jsonl_rows(path, row_type)

    def rows_or_empty(self, name: str) -> list[Any]:
        """Return the rows of a file, none if it is missing."""
        return list(read_jsonl_rows(self.path(name), ROW_TYPES[name])) if self.has(name) else []

    def has(self, name: str) -> bool:
        """Return whether a file is there."""
        return self.path(name).exists()

    def path(self, name: str) -> Path:
        """Return the path of a file."""
        return self.folder / f"{name}.jsonl"

    def write(self, name: str, rows: Iterable[Any]) -> None:
        """Write all rows of a file."""
        self._write_file(f"{name}.jsonl", (f"{row_to_json(row)}\n" for row in rows))

    def replace_rows(self, name: str, new_rows: Sequence[Any], is_replaced: Callable[[Any], bool]) -> None:
        """Replace the rows of single systems by new rows.

        The file is sorted by system and question.
        """
        order = {question.id: position for position, question in enumerate(self.rows_or_empty("questions"))}
        rows = [*self.remaining_rows(name, is_replaced, {row.question for row in new_rows}), *new_rows]
        self.write(name, sorted(rows, key=lambda row: (row.system, order.get(row.question, 0))))

    def remaining_rows(
        self, name: str, is_replaced: Callable[[Any], bool], extra_ids: Iterable[str] = ()
    ) -> Iterator[Any]:
        """Yield the rows to keep: not replaced, and of current questions.

        extra_ids: ids that count as current questions too.
        """
        question_ids = {question.id for question in self.rows_or_empty("questions")}.union(extra_ids)
        return (row for row in self.rows_or_empty(name) if row.question in question_ids and not is_replaced(row))

    def read_text(self, name: str) -> str:
        """Return the text of an editable file, empty if it is missing."""
        path = self.folder / name
        try:
            return path.read_text(encoding="utf-8-sig").strip() if path.exists() else ""
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"{path} cannot be read ({error}): write it in UTF-8") from error

    def write_text(self, name: str, text: str) -> None:
        """Write the text of an editable file."""
        self._write_file(name, [text.strip(), "\n"])

    # -- answers: one file for each system and generation

    def systems(self) -> list[str]:
        """Return the names of systems with answers, other generations left out."""
        paths = sorted((self.folder / _ANSWERS_FOLDER).glob("*.jsonl"))
        return [unquote(path.stem) for path in paths if "@" not in path.stem]

    def select_systems(self, names: Sequence[str] = ()) -> list[str]:
        """Return the named systems, or all systems with answers.

        Raises SettingsError if there are none, or if one has no answers.
        """
        if not (available := self.systems()):
            raise SettingsError(f"{self.folder} holds no answers yet: `kumi eval run` writes some")
        for name in names:
            if name not in available:
                problem = describe_unknown("answered system", name, available)
                raise SettingsError(f"{problem}: `kumi eval run` adds systems")
        return list(dict.fromkeys(names)) or available

    def answers(self, system: str, generation: int = 0) -> Iterator[SystemAnswer]:
        """Yield the answers of a system.

        Raises SettingsError if it has none of this generation.
        """
        path = self.folder / self._answers_path(system, generation)
        if not path.exists():
            option = f" --generations {generation + 1}" if generation else ""
            raise SettingsError(f"{path} is not there yet: `kumi eval run --methods {system}{option}` writes it")
        return read_jsonl_rows(path, SystemAnswer)

    def count_generations(self, system: str) -> int:
        """Count the generations of answers of a system."""
        return next(n for n in count() if not (self.folder / self._answers_path(system, n)).exists())

    def write_answers(self, system: str, generation: int, rows: Iterable[SystemAnswer]) -> None:
        """Write the answers of one system and generation."""
        self._write_file(self._answers_path(system, generation), (f"{row_to_json(row)}\n" for row in rows))

    def _answers_path(self, system: str, generation: int) -> str:
        stem = quote(system, safe=" =,+-_.") + (f"@{generation}" if generation else "")
        return f"{_ANSWERS_FOLDER}/{stem}.jsonl"

    # -- the manifest

    def read_manifest(self) -> dict[str, Any]:
        """Return the settings, models and prompt digests of each stage.

        It is empty before the first stage.
        """
        path = self.folder / STUDY_MANIFEST
        if not path.exists():
            return {}
        try:
            return cast(dict[str, Any], json.loads(path.read_text(encoding="utf-8"))["stages"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise SettingsError(f"{path} cannot be read ({error}): move it away, and run the stages again") from error

    def record_stage(self, stage: str, **run_with: Any) -> None:
        """Record in the manifest how a stage was run."""
        stages = self.read_manifest() | {stage: run_with}
        manifest = {"note": FILE_MARK, "kumihimo": version("kumihimo"), "stages": dict(sorted(stages.items()))}
        write_file(self.folder / STUDY_MANIFEST, [json.dumps(manifest, ensure_ascii=False, indent=2), "\n"])

    def update_stage(self, stage: str, **run_with: Any) -> None:
        """Update a stage in the manifest and keep its other entries."""
        self.record_stage(stage, **{**self.read_manifest().get(stage, {}), **run_with})

    def check_readable(self, *names: str) -> None:
        """Raise SettingsError if these files cannot be read or extended.

        Call it before anything is paid.
        """
        self.check_folder()
        self.read_manifest()
        for name in names:
            self.rows_or_empty(name)

    def check_folder(self) -> None:
        """Raise SettingsError if the folder holds files of somebody else."""
        if not self.folder.exists():
            return
        if not self.folder.is_dir():
            raise SettingsError(f"{self.folder} is a file: name a folder with --study DIR")
        if not (self.folder / STUDY_MANIFEST).exists() and any(self.folder.iterdir()):
            raise SettingsError(f"{self.folder} holds other files: name another folder with --study DIR")

    def _write_file(self, name: str, lines: Iterable[str]) -> None:
        """Write a file atomically.

        Raises SettingsError if the folder holds files of somebody else.
        """
        self.check_folder()
        if not (self.folder / STUDY_MANIFEST).exists():
            write_file(self.folder / STUDY_MANIFEST, [json.dumps({"note": FILE_MARK, "stages": {}}, indent=2), "\n"])
        write_file(self.folder / name, lines, force=True)


def row_to_json(row: Any) -> str:
    """Return a row as one line of JSON."""
    return json.dumps(asdict(row), ensure_ascii=False)


def prompt_digests(paths: Iterable[Path]) -> dict[str, str]:
    """Return the digest of each prompt, for the manifest."""
    return {path.stem: hash_parts(path.read_text(encoding="utf-8")) for path in paths}


def read_jsonl_rows(path: Path, row_type: type[T]) -> Iterator[T]:
    """Yield the rows of a JSON Lines file.

    Raises SettingsError with the line number.
    """
    adapter: TypeAdapter[T] = _adapter(cast(Any, row_type))
    for number, line in enumerate(read_text_file(path, "give a JSONL file in UTF-8").split("\n"), 1):
        if line.strip():
            try:
                yield adapter.validate_json(line)
            except ValidationError as error:
                problems = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'it'}: {e['msg']}" for e in error.errors()[:3])
                raise SettingsError(f"{path}, line {number}: {problems}") from error


@cache
def _adapter(row_type: Any) -> TypeAdapter[Any]:
    return TypeAdapter(row_type)
