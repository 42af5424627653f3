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

from kumihimo.app.safe_write import MARK, file
from kumihimo.core.errors import SettingsError, unknown
from kumihimo.evaluate.records import Answered, Claim, Question, Rating, Score, Sentence, Verdict

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")

MANIFEST = "manifest.json"
_ANSWERS = "answers"
FILES: Mapping[str, type[Any]] = {
    "questions": Question,
    "verdicts": Verdict,
    "ratings": Rating,
    "scores": Score,
    "retrieval": Score,
    "claims": Claim,
    "sentences": Sentence,
}
MADE_BY = {  # the command that writes a file
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

    def questions(self) -> list[Question]:
        """Raises SettingsError where there are none, or two have one id."""
        found = list(self.rows("questions", Question))
        if not found:
            raise SettingsError(f"{self.path('questions')} holds no questions: `kumi eval questions` writes some")
        seen: set[str] = set()
        for question in found:
            if question.id in seen:
                raise SettingsError(f"{self.path('questions')}: two questions have the id {question.id!r}")
            seen.add(question.id)
        return found

    def rows(self, name: str, kind: type[T]) -> Iterator[T]:
        """Of one of FILES, one by one. Raises SettingsError where it is not there, naming what writes it."""
        path = self.path(name)
        if not path.exists():
            raise SettingsError(f"{path} is not there yet: `{MADE_BY[name]}` writes it")
        return read(path, kind)

    def rows_if(self, name: str) -> list[Any]:
        """Those of a file, none where it is not there yet."""
        return list(read(self.path(name), FILES[name])) if self.has(name) else []

    def has(self, name: str) -> bool:
        return self.path(name).exists()

    def path(self, name: str) -> Path:
        return self.folder / f"{name}.jsonl"

    def write(self, name: str, rows: Iterable[Any]) -> None:
        self._put(f"{name}.jsonl", (f"{line(row)}\n" for row in rows))

    def put(self, name: str, made: Sequence[Any], anew: Callable[[Any], bool]) -> None:
        """Write rows of single systems that were made anew in the place of those before, by system and question."""
        place = {question.id: at for at, question in enumerate(self.rows_if("questions"))}
        rows = [*self.kept(name, anew, {row.question for row in made}), *made]
        self.write(name, sorted(rows, key=lambda row: (row.system, place.get(row.question, 0))))

    def kept(self, name: str, anew: Callable[[Any], bool], besides: Iterable[str] = ()) -> Iterator[Any]:
        """The rows that stay where others are made anew: of questions that are still asked, or of those besides."""
        asked = {question.id for question in self.rows_if("questions")}.union(besides)
        rows = self.rows(name, FILES[name]) if self.has(name) else ()
        return (row for row in rows if row.question in asked and not anew(row))

    def text(self, name: str) -> str:
        """What a file that somebody may edit holds; empty where it is not there."""
        path = self.folder / name
        try:
            return path.read_text(encoding="utf-8-sig").strip() if path.exists() else ""
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"{path} cannot be read ({error}): write it in UTF-8") from error

    def write_text(self, name: str, text: str) -> None:
        self._put(name, [text.strip(), "\n"])

    # -- answers, a file for each system and generation

    def systems(self) -> list[str]:
        """Those that have answered, by name; other generations are not named."""
        return [unquote(path.stem) for path in sorted((self.folder / _ANSWERS).glob("*.jsonl")) if "@" not in path.stem]

    def chosen(self, names: Sequence[str] = ()) -> list[str]:
        """These systems, or all that have answered. Raises SettingsError where there are none, or one has not."""
        there = self.systems()
        if not there:
            raise SettingsError(f"{self.folder} holds no answers yet: `kumi eval run` asks for some")
        for name in names:
            if name not in there:
                raise SettingsError(f"{unknown('answered system', name, there)}: `kumi eval run` asks systems")
        return list(dict.fromkeys(names)) or there

    def answers(self, system: str, generation: int = 0) -> Iterator[Answered]:
        """Raises SettingsError where that system has not been asked."""
        path = self.folder / self._answers(system, generation)
        if not path.exists():
            again = f" --generations {generation + 1}" if generation else ""
            raise SettingsError(f"{path} is not there yet: `kumi eval run --methods {system}{again}` writes it")
        return read(path, Answered)

    def generations(self, system: str) -> int:
        """How many times that system was asked, 0 to n - 1."""
        n = 0
        while (self.folder / self._answers(system, n)).exists():
            n += 1
        return n

    def write_answers(self, system: str, generation: int, rows: Iterable[Answered]) -> None:
        self._put(self._answers(system, generation), (f"{line(row)}\n" for row in rows))

    def _answers(self, system: str, generation: int) -> str:
        named = quote(system, safe=" =,+-_.") + (f"@{generation}" if generation else "")
        return f"{_ANSWERS}/{named}.jsonl"

    # -- how all this was made

    def manifest(self) -> dict[str, Any]:
        """By stage what it was run with: settings, models, digests of prompts. Empty where nothing was run."""
        path = self.folder / MANIFEST
        if not path.exists():
            return {}
        try:
            held: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["stages"]
            return held
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise SettingsError(f"{path} cannot be read ({error}): move it away, and run the stages again") from error

    def note(self, stage: str, **run_with: Any) -> None:
        """Write into the manifest how a stage was run."""
        held = self.manifest() | {stage: run_with}
        told = {"note": MARK, "kumihimo": version("kumihimo"), "stages": dict(sorted(held.items()))}
        file(self.folder / MANIFEST, [json.dumps(told, ensure_ascii=False, indent=2), "\n"])

    def note_beside(self, stage: str, **run_with: Any) -> None:
        """The same, beside what is noted of other parts of that stage."""
        self.note(stage, **{**self.manifest().get(stage, {}), **run_with})

    def ready(self, *names: str) -> None:
        """Raises SettingsError where nothing can be added to these files: better said before anything is paid."""
        self.check()
        self.manifest()
        for name in names:
            self.rows_if(name)

    def check(self) -> None:
        """Raises SettingsError where the folder is somebody's own."""
        if self.folder.exists() and not self.folder.is_dir():
            raise SettingsError(f"{self.folder} is a file: name a folder with --study DIR")
        held = self.folder.iterdir() if self.folder.is_dir() else iter(())
        if self.folder.exists() and not (self.folder / MANIFEST).exists() and any(held):
            raise SettingsError(f"{self.folder} holds other files: name another folder with --study DIR")

    def _put(self, name: str, lines: Iterable[str]) -> None:
        """A file that is whole. Raises SettingsError where the folder is somebody's own."""
        self.check()
        if not (self.folder / MANIFEST).exists():
            file(self.folder / MANIFEST, [json.dumps({"note": MARK, "stages": {}}, indent=2), "\n"])
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        made = path.with_name(f".{path.name}.part")
        try:
            with made.open("w", encoding="utf-8", newline="\n") as out:
                out.writelines(lines)
            made.replace(path)
        finally:
            made.unlink(missing_ok=True)


def line(row: Any) -> str:
    """A row as JSON."""
    return json.dumps(asdict(row), ensure_ascii=False)


def read(path: Path, kind: type[T]) -> Iterator[T]:
    """The rows of a file of JSON lines. Raises SettingsError, naming the line."""
    adapter: TypeAdapter[T] = _adapter(cast(Any, kind))
    try:
        with path.open(encoding="utf-8-sig") as lines:
            for number, text in enumerate(lines, 1):
                if text.strip():
                    yield _row(adapter, path, number, text)
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} cannot be read ({error}): give a JSONL file in UTF-8") from error


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _row(adapter: TypeAdapter[T], path: Path, number: int, text: str) -> T:
    from pydantic import ValidationError

    try:
        return adapter.validate_json(text)
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'it'}: {e['msg']}" for e in error.errors()[:3])
        raise SettingsError(f"{path}, line {number}: {wrong}") from error
