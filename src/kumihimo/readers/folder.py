"""a folder -> the files to read in it, each with its relative path."""

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
    """A file, folder or link.

    relative: its names below the root. real_path: its path with links resolved.
    """

    path: Path
    real_path: Path
    relative: tuple[str, ...] = ()
    rules: tuple[IgnoreRule, ...] = ()


def walk(root: Path) -> Iterator[tuple[Path, str]]:
    """Yield each file under `root` with its relative path, sorted by path.

    If `root` is a file, yield it alone. Left out: hidden files and folders, paths that a `.gitignore` or `.kumiignore`
    names (see `parse_ignore_rules`), special files such as pipes, and links that lead out of `root` or to a file
    read under its own name. If a folder cannot be read, it is yielded itself, in place of its files. A path is NFC,
    whatever the file system writes. If two paths become the same, the second is `path~2`.
    """
    if not _is_reachable(root):
        raise SourceError(f"{root}: no such file or folder, or no access to it; check the path")
    used: dict[str, int] = {}
    for name, path in sorted(
        ("/".join(entry.relative) or _normalize_name(root.name), entry.path) for entry in _walk_entries(root)
    ):
        yield path, unique_name(name, used)


def _is_reachable(root: Path) -> bool:
    try:
        return root.is_dir() or root.is_file()
    except OSError:
        return False


def _walk_entries(root: Path) -> Iterator[FolderEntry]:
    home = root.resolve()
    visited: set[Path] = set()
    pending, links = [FolderEntry(root, home)], list[FolderEntry]()
    while pending or links:
        entry = pending.pop() if pending else links.pop()  # links last: a file keeps its own name if it has one
        if entry.real_path in visited or not entry.real_path.is_relative_to(home):
            continue
        visited.add(entry.real_path)
        if entry.path.is_dir():
            try:
                children = _list_folder(entry)
            except OSError as error:
                if entry.path == root:
                    raise SourceError(f"{root}: {error.strerror}; allow reading it") from error
                yield entry
                continue
            for child in children:
                (links if child.path.is_symlink() else pending).append(child)
        elif entry.path.is_file():
            yield entry


def _list_folder(folder: FolderEntry) -> list[FolderEntry]:
    names = sorted(path.name for path in folder.path.iterdir())
    rules = folder.rules + _read_rules(folder)
    entries = [_make_entry(folder, name, rules) for name in names if not name.startswith(".")]
    return [entry for entry in entries if not is_ignored(entry.relative, entry.path.is_dir(), rules)]


def _make_entry(folder: FolderEntry, name: str, rules: tuple[IgnoreRule, ...]) -> FolderEntry:
    path = folder.path / name
    real = Path(os.path.realpath(path)) if path.is_symlink() else folder.real_path / name
    return FolderEntry(path, real, (*folder.relative, _normalize_name(name)), rules)


def _read_rules(folder: FolderEntry) -> tuple[IgnoreRule, ...]:
    files = [folder.path / name for name in IGNORE_FILES]
    texts = [file.read_text("utf-8-sig", "replace") for file in files if file.is_file()]
    return parse_ignore_rules("\n".join(texts).splitlines(), folder.relative)


def _normalize_name(name: str) -> str:
    """Normalize a name to NFC; replace undecodable bytes by U+FFFD.

    An index could not store them.
    """
    return normalize("NFC", os.fsencode(name).decode("utf-8", "replace"))
