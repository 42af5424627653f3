"""values of rows -> values that PostgreSQL can store, and back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from kumihimo.core.table import Row

_MARK = "\ufdd0"  # no character of any text; PostgreSQL stores no null character
_ESCAPES = {"\0": f"{_MARK}0", _MARK: f"{_MARK}1"}
_UNESCAPES = {escape: char for char, escape in _ESCAPES.items()}
_UNSAFE = re.compile(f"[\0{_MARK}]")
_ESCAPE = re.compile(f"{_MARK}[01]")
_REGEX_SIGNS = frozenset("\\^$.|+(){}")


def encode_row(row: Sequence[Any]) -> Row:
    """Return values as PostgreSQL stores them.

    >>> encode_row(("a", True, float("nan"), 2.5, None))
    ('a', 1, None, 2.5, None)
    """
    return tuple(_encode(value) if type(value) in _CONVERTED else value for value in row)


def _encode(value: Any) -> Any:
    if isinstance(value, str):
        return _UNSAFE.sub(lambda char: _ESCAPES[char[0]], value) if "\0" in value or _MARK in value else value
    if isinstance(value, float):
        return value if value == value else None
    return int(value) if isinstance(value, bool) else list(encode_row(value))


_CONVERTED = frozenset({str, bool, float, list})


def decode_row(row: Row) -> Row:
    """Return the values of a row, with null characters.

    >>> decode_row(encode_row(("a\\0b", 1)))
    ('a\\x00b', 1)
    """
    if not any(type(value) is str and _MARK in value for value in row):
        return row
    return tuple(_decode(value) if isinstance(value, str) else value for value in row)


def _decode(value: str) -> str:
    return _ESCAPE.sub(lambda escape: _UNESCAPES[escape[0]], value)


def glob_to_regex(pattern: str) -> str:
    """Return a GLOB pattern as a regular expression.

    >>> glob_to_regex("*[^0-9A-Z]sea.[*]*")
    '^.*[^0-9A-Z]sea\\\\.[*].*$'
    """
    parts: list[str] = []
    in_brackets = False
    for char in pattern:
        in_brackets = (in_brackets or char == "[") and char != "]"
        if not in_brackets and char in "*?":
            parts.append(".*" if char == "*" else ".")
        elif not in_brackets and char in _REGEX_SIGNS:
            parts.append(f"\\{char}")
        else:
            parts.append("\\\\" if char == "\\" else char)
    return f"^{''.join(parts)}$"
