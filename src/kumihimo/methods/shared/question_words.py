"""question_words.tsv -> word classes and patterns of corpus-level and broad questions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from kumihimo.text.tokens import subject_terms

_FILE = Path(__file__).with_suffix(".tsv")


@cache  # read at the first question
def _rows() -> Mapping[tuple[str, str], str]:
    lines = _FILE.read_text(encoding="utf-8").splitlines()
    rows = (line.split("\t") for line in lines if not line.startswith("#"))
    return {(kind, name): value for kind, name, _, value in rows}


@cache
def word_class(name: str) -> frozenset[str]:
    """Return the words of a class.

    >>> "guests" in word_class("corpus parts")
    True
    """
    return frozenset(_rows()["words", name].split())


@cache
def class_stems(*names: str) -> frozenset[str]:
    """Return the stems of the words of these classes."""
    return frozenset(subject_terms(" ".join(word for name in names for word in sorted(word_class(name)))))


@cache  # most questions need few patterns, and some take long to compile
def question_pattern(name: str) -> re.Pattern[str]:
    """Return a compiled pattern.

    >>> bool(question_pattern("single fact").search("Who built it?"))
    True
    """
    return re.compile(_pattern_text(name))


def _pattern_text(name: str) -> str:
    return re.sub("<<([a-z ]+)>>", lambda match: _pattern_text(match[1]), _rows()["pattern", name])
