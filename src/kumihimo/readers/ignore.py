"""the lines of an ignore file -> whether a path is ignored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from unicodedata import normalize


@dataclass(frozen=True, slots=True)
class IgnoreRule:
    """A pattern of an ignore file, and its folder.

    base: the folder's parts, below the root.
    parts: the pattern's parts; the first is `**` if it may match at any depth.
    """

    base: tuple[str, ...]
    parts: tuple[str, ...]
    folders_only: bool
    negated: bool  # `!`


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
    for rule in reversed(rules):
        applies = path[: len(rule.base)] == rule.base and (is_folder or not rule.folders_only)
        if applies and _matches(rule.parts, path[len(rule.base) :]):
            return not rule.negated
    return False


def _parse_rule(line: str, base: tuple[str, ...]) -> IgnoreRule:
    negated = line.startswith("!")
    pattern = normalize("NFC", line[negated:].removeprefix("\\"))
    parts = [part for part in pattern.split("/") if part]
    if "/" not in pattern.rstrip("/"):
        parts = ["**", *parts]
    if parts[-1] == "**":
        parts.append("*")  # `a/**` matches everything in `a`, not `a` itself
    collapsed = [part for part, following in zip(parts, [*parts[1:], ""], strict=True) if not part == following == "**"]
    return IgnoreRule(base, tuple(collapsed), folders_only=pattern.endswith("/"), negated=negated)


@lru_cache(maxsize=4096)  # several `**` repeat the same calls
def _matches(parts: tuple[str, ...], path: tuple[str, ...]) -> bool:
    if not parts:
        return not path
    if parts[0] == "**":
        return any(_matches(parts[1:], path[skipped:]) for skipped in range(len(path) + 1))
    return bool(path) and fnmatchcase(path[0], parts[0]) and _matches(parts[1:], path[1:])
