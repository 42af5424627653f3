"""Ignore files work as in git, within the subset that `parse_ignore_rules` documents."""

from __future__ import annotations

import pytest

from kumihimo.readers.folder import is_ignored, parse_ignore_rules


@pytest.mark.parametrize(
    ("lines", "path", "out"),
    [
        ("*.log", "a/b/x.log", True),
        ("*.log", "x.logs", False),
        ("build/", "a/build/", True),
        ("build/", "build", False),
        ("/build", "a/build", False),
        ("/build", "build", True),
        ("docs/*.txt", "docs/a.txt", True),
        ("docs/*.txt", "docs/b/a.txt", False),
        ("docs/*.txt", "x/docs/a.txt", False),
        ("docs/**/old", "docs/old", True),
        ("docs/**/old", "docs/a/b/old", True),
        ("**/x/y", "a/b/x/y", True),
        ("**/**/**/x", "a/x", True),
        ("a/**", "a/b/c", True),
        ("a/**", "a/", False),
        ("**", "a", True),
        ("note[0-9].m?", "note7.md", True),
        ("*.log\n!keep.log", "keep.log", False),
        ("!keep.log\n*.log", "keep.log", True),
        ("# comment\n\n   \n/\n!\n\\", "comment", False),
        ("\\#a\n\\!b", "#a", True),
        ("\\#a\n\\!b", "!b", True),
        ("a  ", "a", True),
        ("café", "cafe\u0301", False),  # paths are NFC, and so are patterns
        ("cafe\u0301", "café", True),
    ],
)
def test_patterns(lines: str, path: str, out: bool) -> None:
    rules = parse_ignore_rules(lines.splitlines())
    assert is_ignored(tuple(path.rstrip("/").split("/")), path.endswith("/"), rules) is out


def test_a_pattern_holds_for_its_own_folder() -> None:
    rules = parse_ignore_rules(["/a", "*.txt"], ("sub",))
    assert is_ignored(("sub", "a"), False, rules)
    assert is_ignored(("sub", "x", "y.txt"), False, rules)
    assert not is_ignored(("a",), False, rules)
    assert not is_ignored(("y.txt",), False, rules)


def test_a_pattern_of_many_parts_is_matched_at_once() -> None:
    (deep,) = parse_ignore_rules(["**/" * 2000 + "x"])
    path = tuple("abcdefghij" * 20)
    assert is_ignored((*path, "x"), False, [deep])
    assert not is_ignored((*path, "y"), False, [deep])
