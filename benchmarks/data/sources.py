"""paths of a user -> the files of a data set, with their checksums compared; their rows."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

Row = dict[str, Any]
Tables = Mapping[str, Sequence[Row] | bytes]  # end of a file's name -> its rows, or its content
SAMPLES = Path(__file__).with_name("samples")
_T = TypeVar("_T")


class SourceError(Exception):
    """A file that is missing, broken or another one; the message says what was expected."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file, or a folder of files, below the address of a data set.

    digest: `sha256:` of a file that we had in hand, `lfs:` (also SHA-256) or `git:` (blob id) as its repository names
    it. Empty: not verified.
    """

    name: str
    address: str
    digest: str = ""

    def state(self, digits: int = 64) -> str:
        """Return what is known of the content, with so many digits of it."""
        kind, _, digest = self.digest.partition(":")
        return f"{kind} {digest[:digits]}" if digest else "not verified"

    def find(self, paths: Iterable[Path]) -> Path | None:
        """Return it among these paths, in a folder of them or beside one."""
        for path in paths:
            folder = path if path.is_dir() else path.parent
            for place in (path.parent / Path(self.name).name, folder / self.name, folder / Path(self.name).name):
                if place.exists():
                    return place
        return None

    def check(self, path: Path) -> None:
        """Raise SourceError if the content is not what the digest names."""
        kind, _, expected = self.digest.partition(":")
        if expected and (found := _DIGESTS[kind](path)) != expected:
            raise SourceError(
                f"{path} is not the {self.name} that we know: its {_DIGEST_NAMES[kind]} is {found}, not {expected}.\n"
                f"Get that one from {self.address}, or add --unverified to convert yours"
            )


@dataclass(frozen=True, slots=True)
class Sample:
    """A data set or a part of it, as figures are published about it.

    stem: of the files to write. size: what they hold. questions, passages: lists of ids below `samples/`; empty: all.
    written: SHA-256 by the end of a file's name, if figures are published about it.
    """

    stem: str
    size: str
    sources: tuple[Source, ...] = ()
    questions: str = ""
    passages: str = ""
    written: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Return the name that ids begin with."""
        return self.stem.rpartition("/")[2]


def read_ids(name: str) -> list[str]:
    """Read a list of ids below `samples/`."""
    return (SAMPLES / f"{name}.txt").read_text(encoding="utf-8").split()


def select(rows: Mapping[str, _T], name: str) -> list[_T]:
    """Return the values with the ids of a list, in its order; all if there is no list.

    Raises SourceError if some are missing.
    """
    ids = read_ids(name) if name else list(rows)
    if missing := [id for id in ids if id not in rows]:
        raise SourceError(
            f"{len(missing)} of the {len(ids)} rows of the sample {name} are missing, such as {missing[0]}: "
            "it was drawn from another version of the file"
        )
    return [rows[id] for id in ids]


def read_text(path: Path) -> str:
    """Read a text in UTF-8, with the ends of its lines as they are."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SourceError(f"{path} is no text in UTF-8: {error}") from None


def read_json(path: Path) -> Any:
    """Read a JSON file."""
    return _parse(read_text(path), str(path))


def read_rows(path: Path) -> list[Row]:
    """Read a JSON list or JSON Lines."""
    text = read_text(path)
    if text.lstrip().startswith("["):
        rows: list[Row] = _parse(text, str(path))
    else:
        rows = [_parse(line, f"{path}, line {n}") for n, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not rows:
        raise SourceError(f"{path} is empty")
    return rows


def read_table(path: Path, delimiter: str = ",") -> list[Row]:
    """Read a CSV file with a header."""
    try:
        return list(csv.DictReader(read_text(path).splitlines(keepends=True), delimiter=delimiter))
    except csv.Error as error:
        raise SourceError(f"{path} is no table: {error}") from None


def _parse(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise SourceError(f"{where} is no JSON: {error}. Is the file complete?") from None


# -- checksums


def _sha256(path: Path) -> str:
    """Return the SHA-256 of a file, or of the JSON files of a folder in order."""
    digest = hashlib.sha256()
    for file in sorted(path.rglob("*.json"), key=Path.as_posix) if path.is_dir() else [path]:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _git_blob(path: Path) -> str:
    """Return what `git hash-object` prints."""
    content = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


_DIGESTS: Mapping[str, Callable[[Path], str]] = {"sha256": _sha256, "lfs": _sha256, "git": _git_blob}
_DIGEST_NAMES = {"sha256": "SHA-256", "lfs": "SHA-256", "git": "blob id of git"}
