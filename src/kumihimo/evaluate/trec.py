"""Rankings and gold -> TREC files, and back, for exchange with other programs.

A run has `question Q0 name place score system` on each line, qrels have `question 0 name 1`. Characters that would
break a line are percent-encoded in ids: `my%20notes/a.md`.
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
_UNSAFE = re.compile(r"[\s%\x00-\x1f\x7f]")


def trec_run_lines(system: str, rankings: Rankings) -> Iterator[str]:
    """Yield the lines of a run.

    Scores count down, because programs sort by score, not by rank.

    >>> list(trec_run_lines("naive", {"q 1": ["my notes.md", "b.md"]}))
    ['q%201 Q0 my%20notes.md 1 2 naive', 'q%201 Q0 b.md 2 1 naive']
    """
    for question, names in rankings.items():
        for place, name in enumerate(names, 1):
            score = len(names) - place + 1
            yield f"{_escape_field(question)} Q0 {_escape_field(name)} {place} {score} {_escape_field(system)}"


def trec_qrels_lines(gold: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """Yield the lines of qrels."""
    for question, names in gold.items():
        for name in names:
            yield f"{_escape_field(question)} 0 {_escape_field(name)} 1"


def read_trec_run(path: Path) -> tuple[str, dict[str, list[str]]]:
    """Read the system of a run and its ranking for each question.

    Rankings are sorted by score, ties by name. Raises SettingsError.
    """
    scores: dict[str, dict[str, float]] = {}
    systems: dict[str, None] = {}
    for number, (question, _, name, _, score, system) in _iterate_rows(path, 6, "question Q0 name place score system"):
        systems.setdefault(_unescape_field(system))
        question_scores = scores.setdefault(_unescape_field(question), {})
        if _unescape_field(name) in question_scores:
            raise SettingsError(f"{path}, line {number}: {_unescape_field(name)!r} stands twice for that question")
        question_scores[_unescape_field(name)] = _parse_number(path, number, score)
    if len(systems) != 1:
        problem = f"holds runs of {', '.join(systems)}: write a file for each" if systems else "holds no run"
        raise SettingsError(f"{path} {problem}")
    return next(iter(systems)), {
        question: sort_by_score(question_scores) for question, question_scores in scores.items()
    }


def read_trec_qrels(path: Path) -> dict[str, list[str]]:
    """Read the relevant names of each question, of any grade above 0.

    Raises SettingsError.
    """
    by_question: dict[str, list[str]] = {}
    for number, (question, _, name, relevance) in _iterate_rows(path, 4, "question 0 name relevance"):
        names = by_question.setdefault(_unescape_field(question), [])
        if _parse_number(path, number, relevance) > 0 and _unescape_field(name) not in names:
            names.append(_unescape_field(name))
    return by_question


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
    """Encode a field; `%` alone stands for an empty one."""
    return _UNSAFE.sub(lambda match: quote(match[0]), text) or "%"


def _unescape_field(text: str) -> str:
    return "" if text == "%" else unquote(text)
