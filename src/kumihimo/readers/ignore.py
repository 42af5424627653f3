"""the lines of an ignore file -> whether it leaves a path out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from unicodedata import normalize


@dataclass(frozen=True, slots=True)
class IgnoreRule:
    """One pattern of an ignore file, and the folder it holds for.

    base: the folder's parts, below the root.
    parts: the pattern's parts; the first is `**` where it may match at any depth.
    """

    base: tuple[str, ...]
    parts: tuple[str, ...]
    folders_only: bool  # only
    negated: bool  # `!`


def parse_ignore_rules(lines: Iterable[str], base: tuple[str, ...] = ()) -> tuple[IgnoreRule, ...]:
    """The rules of one ignore file: a subset of git's.

    Understood: blank lines and `#` comments, `name` (at any depth), `folder/` (folders only), `*` `?` `[a-z]`
    (within one name), a `/` before or within a pattern (from this folder on), `**` (any number of folders), `!name`
    (kept after all; but not within a folder that is left out) and `\\#`, `\\!` for names that begin so. Other
    backslashes are letters. Only the files `.gitignore` and `.kumiignore` in the root and below are read, not git's own
    settings.
    """
    written = (line.strip() for line in lines if not line.startswith("#"))
    return tuple(_parse_rule(line, base) for line in written if line.strip("!/\\"))


def is_ignored(path: tuple[str, ...], folder: bool, among: Sequence[IgnoreRule]) -> bool:
    """Whether the last of the rules that match `path` leaves it out.

    >>> among = rules(["*.log", "!keep.log", "/build/", "docs/**/old"])
    >>> [ignored(path, False, among) for path in [("a", "x.log"), ("keep.log",), ("docs", "a", "b", "old")]]
    [True, False, True]
    """
    for rule in reversed(among):
        below = path[: len(rule.base)] == rule.base and (folder or not rule.folders_only)
        if below and _matches(rule.parts, path[len(rule.base) :]):
            return not rule.negated
    return False


def _parse_rule(line: str, base: tuple[str, ...]) -> IgnoreRule:
    keeps = line.startswith("!")
    pattern = normalize("NFC", line[keeps:].removeprefix("\\"))
    parts = [part for part in pattern.split("/") if part]
    if "/" not in pattern.rstrip("/"):
        parts = ["**", *parts]
    if parts[-1] == "**":
        parts.append("*")  # `a/**` is all within `a`, not `a` itself
    once = [part for part, after in zip(parts, [*parts[1:], ""], strict=True) if not part == after == "**"]
    return IgnoreRule(base, tuple(once), folders_only=pattern.endswith("/"), negated=keeps)


@lru_cache(maxsize=4096)  # several `**` ask the same again and again
def _matches(parts: tuple[str, ...], path: tuple[str, ...]) -> bool:
    if not parts:
        return not path
    if parts[0] == "**":
        return any(_matches(parts[1:], path[skipped:]) for skipped in range(len(path) + 1))
    return bool(path) and fnmatchcase(path[0], parts[0]) and _matches(parts[1:], path[1:])
