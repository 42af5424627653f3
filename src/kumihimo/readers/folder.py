"""a folder -> the files in it that someone means to be read, each with its name below the folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unicodedata import normalize

from kumihimo.core.errors import SourceError
from kumihimo.readers.ignore import IgnoreRule, is_ignored, parse_ignore_rules
from kumihimo.readers.page import unique_name

IGNORE_FILES = (".gitignore", ".kumiignore")


@dataclass(frozen=True, slots=True)
class FolderEntry:
    """A file, folder or link. at: its names below the root; real: where it is, links resolved."""

    path: Path
    real_path: Path
    relative: tuple[str, ...] = ()
    rules: tuple[IgnoreRule, ...] = ()


def walk(root: Path) -> Iterator[tuple[Path, str]]:
    """Each file under `root` with its relative path, sorted by it; `root` itself, where it is a file.

    Left out: hidden files and folders, what a `.gitignore` or `.kumiignore` names (see `rules`), what is no ordinary
    file, and links that lead out of `root` or to what is read anyway under its own name. A folder within that cannot
    be read comes itself, in place of its files. A path is NFC, whatever the file system writes; of two files whose
    paths then are the same, the second is `path~2`.
    """
    if not _is_reachable(root):
        raise SourceError(f"{root}: there is no such file or folder, or no way to it; check the path")
    taken: dict[str, int] = {}
    for name, path in sorted(
        ("/".join(entry.relative) or _normalize_name(root.name), entry.path) for entry in _walk_entries(root)
    ):
        yield path, unique_name(name, taken)


def _is_reachable(root: Path) -> bool:
    try:
        return root.is_dir() or root.is_file()
    except OSError:
        return False


def _walk_entries(root: Path) -> Iterator[FolderEntry]:
    home = root.resolve()
    seen: set[Path] = set()
    waiting, links = [FolderEntry(root, home)], list[FolderEntry]()
    while waiting or links:
        entry = waiting.pop() if waiting else links.pop()  # links last: only what has no name of its own goes by theirs
        if entry.real_path in seen or not entry.real_path.is_relative_to(home):
            continue
        seen.add(entry.real_path)
        if entry.path.is_dir():
            try:
                inside = _list_folder(entry)
            except OSError as error:
                if entry.path == root:
                    raise SourceError(f"{root}: {error.strerror}; let it be read") from error
                yield entry
                continue
            for inner in inside:
                (links if inner.path.is_symlink() else waiting).append(inner)
        elif entry.path.is_file():
            yield entry


def _list_folder(folder: FolderEntry) -> list[FolderEntry]:
    names = sorted(path.name for path in folder.path.iterdir())
    among = folder.rules + _read_rules(folder)
    entries = [_make_entry(folder, name, among) for name in names if not name.startswith(".")]
    return [entry for entry in entries if not is_ignored(entry.relative, entry.path.is_dir(), among)]


def _make_entry(folder: FolderEntry, name: str, among: tuple[IgnoreRule, ...]) -> FolderEntry:
    path = folder.path / name
    real = Path(os.path.realpath(path)) if path.is_symlink() else folder.real_path / name
    return FolderEntry(path, real, (*folder.relative, _normalize_name(name)), among)


def _read_rules(folder: FolderEntry) -> tuple[IgnoreRule, ...]:
    files = [folder.path / name for name in IGNORE_FILES]
    texts = [file.read_text("utf-8-sig", "replace") for file in files if file.is_file()]
    return parse_ignore_rules("\n".join(texts).splitlines(), folder.relative)


def _normalize_name(name: str) -> str:
    """NFC; bytes that are no UTF-8 become `\ufffd`, since no index could store them."""
    return normalize("NFC", os.fsencode(name).decode("utf-8", "replace"))
