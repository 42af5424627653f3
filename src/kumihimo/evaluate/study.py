"""a folder -> Study: the questions, answers and judgements of an evaluation, a file of JSON lines each.

What models said is in the memo, so a stage that was stopped is run again and pays for what is missing; its file is
written whole, when all of it is there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import quote, unquote

from kumihimo.app.safe_write import FILE_MARK, write_file
from kumihimo.core.errors import SettingsError, describe_unknown
from kumihimo.evaluate.records import AnswerClaim, AnswerSentence, EvalQuestion, Rating, Score, SystemAnswer, Verdict

if TYPE_CHECKING:
    from pydantic import TypeAdapter

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
FILE_COMMANDS = {  # the command that writes a file
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
    """The files of one evaluation. A row that cannot be read raises SettingsError, naming file and line."""

    folder: Path

    def questions(self) -> list[EvalQuestion]:
        """Raises SettingsError where there are none, or two have one id."""
        found = list(self.rows("questions", EvalQuestion))
        if not found:
            raise SettingsError(f"{self.path('questions')} holds no questions: `kumi eval questions` writes some")
        seen: set[str] = set()
        for question in found:
            if question.id in seen:
                raise SettingsError(f"{self.path('questions')}: two questions have the id {question.id!r}")
            seen.add(question.id)
        return found

    def rows(self, name: str, row_type: type[T]) -> Iterator[T]:
        """Of one of FILES, one by one. Raises SettingsError where it is not there, naming what writes it."""
        path = self.path(name)
        if not path.exists():
            raise SettingsError(f"{path} is not there yet: `{FILE_COMMANDS[name]}` writes it")
        return read_jsonl_rows(path, row_type)

    def rows_or_empty(self, name: str) -> list[Any]:
        """Those of a file, none where it is not there yet."""
        return list(read_jsonl_rows(self.path(name), ROW_TYPES[name])) if self.has(name) else []

    def has(self, name: str) -> bool:
        return self.path(name).exists()

    def path(self, name: str) -> Path:
        return self.folder / f"{name}.jsonl"

    def write(self, name: str, rows: Iterable[Any]) -> None:
        self._write_file(f"{name}.jsonl", (f"{row_to_json(row)}\n" for row in rows))

    def replace_rows(self, name: str, new_rows: Sequence[Any], is_replaced: Callable[[Any], bool]) -> None:
        """Write rows of single systems that were made anew in the place of those before, by system and question."""
        place = {question.id: at for at, question in enumerate(self.rows_or_empty("questions"))}
        rows = [*self.remaining_rows(name, is_replaced, {row.question for row in new_rows}), *new_rows]
        self.write(name, sorted(rows, key=lambda row: (row.system, place.get(row.question, 0))))

    def remaining_rows(
        self, name: str, is_replaced: Callable[[Any], bool], extra_ids: Iterable[str] = ()
    ) -> Iterator[Any]:
        """The rows that stay where others are made anew: of questions that are still asked, or of those besides."""
        asked = {question.id for question in self.rows_or_empty("questions")}.union(extra_ids)
        rows = self.rows(name, ROW_TYPES[name]) if self.has(name) else ()
        return (row for row in rows if row.question in asked and not is_replaced(row))

    def read_text(self, name: str) -> str:
        """What a file that somebody may edit holds; empty where it is not there."""
        path = self.folder / name
        try:
            return path.read_text(encoding="utf-8-sig").strip() if path.exists() else ""
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"{path} cannot be read ({error}): write it in UTF-8") from error

    def write_text(self, name: str, text: str) -> None:
        self._write_file(name, [text.strip(), "\n"])

    # -- answers, a file for each system and generation

    def systems(self) -> list[str]:
        """Those that have answered, by name; other generations are not named."""
        return [
            unquote(path.stem)
            for path in sorted((self.folder / _ANSWERS_FOLDER).glob("*.jsonl"))
            if "@" not in path.stem
        ]

    def select_systems(self, names: Sequence[str] = ()) -> list[str]:
        """These systems, or all that have answered. Raises SettingsError where there are none, or one has not."""
        there = self.systems()
        if not there:
            raise SettingsError(f"{self.folder} holds no answers yet: `kumi eval run` asks for some")
        for name in names:
            if name not in there:
                raise SettingsError(f"{describe_unknown('answered system', name, there)}: `kumi eval run` asks systems")
        return list(dict.fromkeys(names)) or there

    def answers(self, system: str, generation: int = 0) -> Iterator[SystemAnswer]:
        """Raises SettingsError where that system has not been asked."""
        path = self.folder / self._answers_path(system, generation)
        if not path.exists():
            again = f" --generations {generation + 1}" if generation else ""
            raise SettingsError(f"{path} is not there yet: `kumi eval run --methods {system}{again}` writes it")
        return read_jsonl_rows(path, SystemAnswer)

    def count_generations(self, system: str) -> int:
        """How many times that system was asked, 0 to n - 1."""
        n = 0
        while (self.folder / self._answers_path(system, n)).exists():
            n += 1
        return n

    def write_answers(self, system: str, generation: int, rows: Iterable[SystemAnswer]) -> None:
        self._write_file(self._answers_path(system, generation), (f"{row_to_json(row)}\n" for row in rows))

    def _answers_path(self, system: str, generation: int) -> str:
        named = quote(system, safe=" =,+-_.") + (f"@{generation}" if generation else "")
        return f"{_ANSWERS_FOLDER}/{named}.jsonl"

    # -- how all this was made

    def read_manifest(self) -> dict[str, Any]:
        """By stage what it was run with: settings, models, digests of prompts. Empty where nothing was run."""
        path = self.folder / STUDY_MANIFEST
        if not path.exists():
            return {}
        try:
            held: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["stages"]
            return held
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise SettingsError(f"{path} cannot be read ({error}): move it away, and run the stages again") from error

    def record_stage(self, stage: str, **run_with: Any) -> None:
        """Write into the manifest how a stage was run."""
        held = self.read_manifest() | {stage: run_with}
        told = {"note": FILE_MARK, "kumihimo": version("kumihimo"), "stages": dict(sorted(held.items()))}
        write_file(self.folder / STUDY_MANIFEST, [json.dumps(told, ensure_ascii=False, indent=2), "\n"])

    def update_stage(self, stage: str, **run_with: Any) -> None:
        """The same, beside what is noted of other parts of that stage."""
        self.record_stage(stage, **{**self.read_manifest().get(stage, {}), **run_with})

    def check_readable(self, *names: str) -> None:
        """Raises SettingsError where nothing can be added to these files: better said before anything is paid."""
        self.check_folder()
        self.read_manifest()
        for name in names:
            self.rows_or_empty(name)

    def check_folder(self) -> None:
        """Raises SettingsError where the folder is somebody's own."""
        if self.folder.exists() and not self.folder.is_dir():
            raise SettingsError(f"{self.folder} is a file: name a folder with --study DIR")
        held = self.folder.iterdir() if self.folder.is_dir() else iter(())
        if self.folder.exists() and not (self.folder / STUDY_MANIFEST).exists() and any(held):
            raise SettingsError(f"{self.folder} holds other files: name another folder with --study DIR")

    def _write_file(self, name: str, lines: Iterable[str]) -> None:
        """A file that is whole. Raises SettingsError where the folder is somebody's own."""
        self.check_folder()
        if not (self.folder / STUDY_MANIFEST).exists():
            write_file(self.folder / STUDY_MANIFEST, [json.dumps({"note": FILE_MARK, "stages": {}}, indent=2), "\n"])
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        made = path.with_name(f".{path.name}.part")
        try:
            with made.open("w", encoding="utf-8", newline="\n") as out:
                out.writelines(lines)
            made.replace(path)
        finally:
            made.unlink(missing_ok=True)


def row_to_json(row: Any) -> str:
    """A row as JSON."""
    return json.dumps(asdict(row), ensure_ascii=False)


def read_jsonl_rows(path: Path, row_type: type[T]) -> Iterator[T]:
    """The rows of a file of JSON lines. Raises SettingsError, naming the line."""
    adapter: TypeAdapter[T] = _adapter(cast(Any, row_type))
    try:
        with path.open(encoding="utf-8-sig") as lines:
            for number, text in enumerate(lines, 1):
                if text.strip():
                    yield _parse_row(adapter, path, number, text)
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} cannot be read ({error}): give a JSONL file in UTF-8") from error


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _parse_row(adapter: TypeAdapter[T], path: Path, number: int, text: str) -> T:
    from pydantic import ValidationError

    try:
        return adapter.validate_json(text)
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'it'}: {e['msg']}" for e in error.errors()[:3])
        raise SettingsError(f"{path}, line {number}: {wrong}") from error
