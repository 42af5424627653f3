"""a folder -> the files to read in it, without those that its ignore files name."""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from glob import escape
from pathlib import Path
from typing import NamedTuple
from unicodedata import normalize

from kumihimo.core.errors import SourceError
from kumihimo.readers.page import unique_name
from kumihimo.text.safe_write import is_link

IGNORE_FILES = (".gitignore", ".kumiignore")
_HIDDEN = (".", "~$")  # the latter: who edits a file, as Word and Excel note beside it
MAX_IGNORE_BYTES = 100_000  # each file is compared with each line


class IgnoreRule(NamedTuple):
    """A pattern of an ignore file.

    parts: the names of the folder below the root, and the pattern's; `**` stands for any number of folders.
    """

    parts: tuple[str, ...]
    folders_only: bool
    negated: bool  # `!`


class FolderEntry(NamedTuple):
    """A file, folder or link.

    path: as its folder was opened. relative: its names below the root. real_path: its path with links resolved.
    is_folder, is_file: of what a link leads to.
    """

    path: str
    real_path: str
    is_folder: bool
    is_file: bool
    relative: tuple[str, ...] = ()
    rules: tuple[IgnoreRule, ...] = ()


def walk(root: Path) -> Iterator[tuple[Path, str]]:
    """Yield each file under `root` with its relative path, sorted by path.

    If `root` is a file, yield it alone. Left out: hidden files and folders, lock files of Office (`~$a.docx`), paths
    that a `.gitignore` or `.kumiignore` names (see `parse_ignore_rules`), special files such as pipes, and links that
    lead out of `root` or to a file read under its own name. If a folder cannot be read, it is yielded itself, in place
    of its files. A path is NFC, whatever the file system writes. If two paths become the same, the second is `path~2`.
    """
    try:
        exists = root.is_dir() or root.is_file()
    except OSError:
        exists = False
    if not exists:
        raise SourceError(f"{root}: no such file or folder, or no access to it; check the path")
    used: dict[str, int] = {}
    entries = (("/".join(entry.relative) or _normalize_name(root.name), entry.path) for entry in _walk_entries(root))
    for name, path in sorted(entries):
        yield Path(path), unique_name(name, used)


def _walk_entries(root: Path) -> Iterator[FolderEntry]:
    """Yield files, and folders that cannot be read.

    Only a link is looked up: the list of a folder tells the kinds of other entries.
    """
    home = root.resolve()
    visited: set[str] = set()
    pending, links = [FolderEntry(str(root), str(home), root.is_dir(), root.is_file())], list[FolderEntry]()
    while pending or links:
        is_linked = not pending  # links last: a file keeps its own name if it has one
        entry = links.pop() if is_linked else pending.pop()
        if entry.real_path in visited or (is_linked and not Path(entry.real_path).is_relative_to(home)):
            continue
        visited.add(entry.real_path)
        if entry.is_folder:
            try:
                for child, is_link_itself in _list_folder(entry):
                    (links if is_link_itself else pending).append(child)
            except OSError as error:
                if not entry.relative:
                    raise SourceError(f"{root}: {error.strerror}; allow reading it") from error
                yield entry
        elif entry.is_file:
            yield entry


def _list_folder(folder: FolderEntry) -> list[tuple[FolderEntry, bool]]:
    """Return the entries of a folder, and whether they are links."""
    with os.scandir(folder.path) as scanned:
        found = sorted((entry for entry in scanned if not entry.name.startswith(_HIDDEN)), key=_sort_key)
    rules = (*folder.rules, *_read_rules(Path(folder.path), folder.relative))
    entries: list[tuple[FolderEntry, bool]] = []
    for entry in found:
        relative = (*folder.relative, _normalize_name(entry.name))
        with suppress(OSError):  # a link to a name that is too long, or to itself, leads nowhere
            is_folder = entry.is_dir()
            if not is_ignored(relative, is_folder, rules):
                is_linked = entry.is_symlink() or (sys.platform == "win32" and is_link(Path(entry.path)))  # a junction
                real_path = os.path.join(folder.real_path, entry.name)  # noqa: PTH118 (a Path of each would take long)
                real_path = os.path.realpath(entry.path) if is_linked else real_path
                child = FolderEntry(entry.path, real_path, is_folder, entry.is_file(), relative, rules)
                entries.append((child, is_linked))
    return entries


def _sort_key(entry: os.DirEntry[str]) -> str:
    return os.path.normcase(entry.name)


def is_left_out(root: Path, path: Path) -> bool:
    """Return whether `walk` leaves out a path below `root` by its name.

    An ignore file is not left out: other files depend on it.
    """
    rules: tuple[IgnoreRule, ...] = ()
    folder, names = root, path.relative_to(root).parts
    for depth, name in enumerate(names, 1):
        rules += _read_rules(folder, names[: depth - 1])
        is_folder = depth < len(names) or path.is_dir()
        relative = tuple(map(_normalize_name, names[:depth]))
        if (name.startswith(_HIDDEN) and name not in IGNORE_FILES) or is_ignored(relative, is_folder, rules):
            return True
        folder /= name
    return False


def _read_rules(folder: Path, base: tuple[str, ...]) -> tuple[IgnoreRule, ...]:
    """Return the rules of the ignore files in a folder."""
    lines: list[str] = []
    for path in filter(Path.is_file, (folder / name for name in IGNORE_FILES)):
        if path.stat().st_size > MAX_IGNORE_BYTES:
            raise SourceError(f"{path}: holds more than {MAX_IGNORE_BYTES:,} bytes: shorten it")
        lines += path.read_text("utf-8-sig", "replace").splitlines()
    return parse_ignore_rules(lines, base)


def _normalize_name(name: str) -> str:
    """Normalize a name to NFC; replace undecodable bytes by U+FFFD.

    An index could not store them.
    """
    return name if name.isascii() else normalize("NFC", os.fsencode(name).decode("utf-8", "replace"))


def parse_ignore_rules(lines: Iterable[str], base: tuple[str, ...] = ()) -> tuple[IgnoreRule, ...]:
    r"""Parse one ignore file: a subset of git's syntax.

    Supported: blank lines and `#` comments, `name` (at any depth), `folder/` (folders only), `*` `?` `[a-z]` (within
    one name), a `/` before or within a pattern (relative to this folder), `**` (any number of folders), `!name`
    (included again; but not inside an ignored folder) and `\#`, `\!` for names that begin with these. Other
    backslashes are letters. Only the files `.gitignore` and `.kumiignore` in the root and below are read, not git's own
    settings.
    """
    patterns = (line.strip() for line in lines if not line.startswith("#"))
    return tuple(_parse_rule(line, base) for line in patterns if line.strip("!/\\"))


def is_ignored(path: tuple[str, ...], is_folder: bool, rules: Sequence[IgnoreRule]) -> bool:
    """Return whether the last rule that matches `path` ignores it.

    >>> rules = parse_ignore_rules(["*.log", "!keep.log", "/build/", "docs/**/old"])
    >>> [is_ignored(path, False, rules) for path in [("a", "x.log"), ("keep.log",), ("docs", "a", "b", "old")]]
    [True, False, True]
    """
    candidates = (rule for rule in reversed(rules) if is_folder or not rule.folders_only)
    return not next((rule.negated for rule in candidates if _matches(rule.parts, path)), True)


def _parse_rule(line: str, base: tuple[str, ...]) -> IgnoreRule:
    negated = line.startswith("!")
    pattern = normalize("NFC", line[negated:].removeprefix("\\"))
    parts = [part for part in pattern.split("/") if part]
    if "/" not in pattern.rstrip("/"):
        parts = ["**", *parts]
    if parts[-1] == "**":
        parts.append("*")  # `a/**` matches everything in `a`, not `a` itself
    return IgnoreRule((*map(escape, base), *parts), folders_only=pattern.endswith("/"), negated=negated)


def _matches(parts: tuple[str, ...], path: tuple[str, ...]) -> bool:
    """Return whether a pattern matches a whole path."""
    positions = _skip_stars(parts, {0})  # of the pattern, after the names so far
    for name in path:
        stars = {i for i in positions if i < len(parts) and parts[i] == "**"}
        next_positions = {i + 1 for i in positions - stars if i < len(parts) and fnmatchcase(name, parts[i])}
        positions = _skip_stars(parts, stars | next_positions)
    return len(parts) in positions


def _skip_stars(parts: tuple[str, ...], positions: set[int]) -> set[int]:
    """Return the positions, with those after each `**`."""
    result = set(positions)
    for i in range(min(positions, default=len(parts)), len(parts)):
        if i in result and parts[i] == "**":
            result.add(i + 1)
    return result
