"""a folder -> the files in it that someone means to be read, each with its name below the folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unicodedata import normalize

from kumihimo.core.errors import SourceError
from kumihimo.readers.ignore import Rule, ignored, rules
from kumihimo.readers.page import unique

IGNORE_FILES = (".gitignore", ".kumiignore")


@dataclass(frozen=True, slots=True)
class Entry:
    """A file, folder or link. at: its names below the root; real: where it is, links resolved."""

    path: Path
    real: Path
    at: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()


def walk(root: Path) -> Iterator[tuple[Path, str]]:
    """Each file under `root` with its relative path, sorted by it; `root` itself, where it is a file.

    Left out: hidden files and folders, what a `.gitignore` or `.kumiignore` names (see `rules`), what is no ordinary
    file, and links that lead out of `root` or to what is read anyway under its own name. A folder within that cannot
    be read comes itself, in place of its files. A path is NFC, whatever the file system writes; of two files whose
    paths then are the same, the second is `path~2`.
    """
    if not _reachable(root):
        raise SourceError(f"{root}: there is no such file or folder, or no way to it; check the path")
    taken: dict[str, int] = {}
    for name, path in sorted(("/".join(entry.at) or _readable(root.name), entry.path) for entry in _files(root)):
        yield path, unique(name, taken)


def _reachable(root: Path) -> bool:
    try:
        return root.is_dir() or root.is_file()
    except OSError:
        return False


def _files(root: Path) -> Iterator[Entry]:
    home = root.resolve()
    seen: set[Path] = set()
    waiting, links = [Entry(root, home)], list[Entry]()
    while waiting or links:
        entry = waiting.pop() if waiting else links.pop()  # links last: only what has no name of its own goes by theirs
        if entry.real in seen or not entry.real.is_relative_to(home):
            continue
        seen.add(entry.real)
        if entry.path.is_dir():
            try:
                inside = _inside(entry)
            except OSError as error:
                if entry.path == root:
                    raise SourceError(f"{root}: {error.strerror}; let it be read") from error
                yield entry
                continue
            for inner in inside:
                (links if inner.path.is_symlink() else waiting).append(inner)
        elif entry.path.is_file():
            yield entry


def _inside(folder: Entry) -> list[Entry]:
    names = sorted(path.name for path in folder.path.iterdir())
    among = folder.rules + _rules(folder)
    entries = [_entry(folder, name, among) for name in names if not name.startswith(".")]
    return [entry for entry in entries if not ignored(entry.at, entry.path.is_dir(), among)]


def _entry(folder: Entry, name: str, among: tuple[Rule, ...]) -> Entry:
    path = folder.path / name
    real = Path(os.path.realpath(path)) if path.is_symlink() else folder.real / name
    return Entry(path, real, (*folder.at, _readable(name)), among)


def _rules(folder: Entry) -> tuple[Rule, ...]:
    files = [folder.path / name for name in IGNORE_FILES]
    texts = [file.read_text("utf-8-sig", "replace") for file in files if file.is_file()]
    return rules("\n".join(texts).splitlines(), folder.at)


def _readable(name: str) -> str:
    """NFC; bytes that are no UTF-8 become `\ufffd`, since no index could store them."""
    return normalize("NFC", os.fsencode(name).decode("utf-8", "replace"))
