"""rankings, gold -> files of TREC, and back: what other programs measure, or have found.

A run has `question Q0 name place score system` on each line, qrels have `question 0 name 1`. What would break a line in
an id is written as in a URL: `my%20notes/a.md`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from urllib.parse import quote, unquote

from kumihimo.core.errors import SettingsError
from kumihimo.evaluate.measures import sort_by_score

Rankings = Mapping[str, Sequence[str]]  # by question, best first
_BREAKS = re.compile(r"[\s%\x00-\x1f\x7f]")


def trec_run_lines(system: str, rankings: Rankings) -> Iterator[str]:
    """A run. Scores count down, since programs go by them and not by the place.

    >>> list(run_lines("naive", {"q 1": ["my notes.md", "b.md"]}))
    ['q%201 Q0 my%20notes.md 1 2 naive', 'q%201 Q0 b.md 2 1 naive']
    """
    for question, names in rankings.items():
        for place, name in enumerate(names, 1):
            yield f"{_escape_field(question)} Q0 {_escape_field(name)} {place} {len(names) - place + 1} {_escape_field(system)}"


def trec_qrels_lines(gold: Mapping[str, Iterable[str]]) -> Iterator[str]:
    for question, names in gold.items():
        for name in names:
            yield f"{_escape_field(question)} 0 {_escape_field(name)} 1"


def read_trec_run(path: Path) -> tuple[str, dict[str, list[str]]]:
    """The system of a run, and by question its ranking: by score, equal ones by their names. Raises SettingsError."""
    scores: dict[str, dict[str, float]] = {}
    systems: dict[str, None] = {}
    for number, (question, _, name, _, score, system) in _iterate_rows(path, 6, "question Q0 name place score system"):
        systems.setdefault(_unescape_field(system))
        held = scores.setdefault(_unescape_field(question), {})
        if _unescape_field(name) in held:
            raise SettingsError(f"{path}, line {number}: {_unescape_field(name)!r} stands twice for that question")
        held[_unescape_field(name)] = _parse_number(path, number, score)
    if len(systems) != 1:
        many = f"holds runs of {', '.join(systems)}: write a file for each" if systems else "holds no run"
        raise SettingsError(f"{path} {many}")
    return next(iter(systems)), {question: sort_by_score(held) for question, held in scores.items()}


def read_trec_qrels(path: Path) -> dict[str, list[str]]:
    """By question what is relevant, however much. Raises SettingsError."""
    found: dict[str, list[str]] = {}
    for number, (question, _, name, relevance) in _iterate_rows(path, 4, "question 0 name relevance"):
        held = found.setdefault(_unescape_field(question), [])
        if _parse_number(path, number, relevance) > 0 and _unescape_field(name) not in held:
            held.append(_unescape_field(name))
    return found


def _iterate_rows(path: Path, size: int, form: str) -> Iterator[tuple[int, list[str]]]:
    try:
        with path.open(encoding="utf-8-sig") as lines:
            for number, line in enumerate(lines, 1):
                parts = line.split()
                if parts and len(parts) != size:
                    raise SettingsError(f"{path}, line {number}: {len(parts)} columns, not {size}: {form}")
                if parts:
                    yield number, parts
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} cannot be read ({error}): give a file of TREC in UTF-8") from error


def _parse_number(path: Path, number: int, text: str) -> float:
    try:
        value = float(text)
        if isfinite(value):
            return value
    except ValueError:
        pass
    raise SettingsError(f"{path}, line {number}: {text!r} is no number")


def _escape_field(text: str) -> str:
    """Without what would break the line; `%` alone stands for nothing."""
    return _BREAKS.sub(lambda found: quote(found[0]), text) or "%"


def _unescape_field(text: str) -> str:
    return "" if text == "%" else unquote(text)
