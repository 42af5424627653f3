"""a JSONL file -> questions; results -> JSON on standard output, or a file of lines."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from kumihimo.core.errors import SettingsError


def read_question_lines(path: Path) -> list[dict[str, Any]]:
    """Read the questions of a JSONL file.

    Raises SettingsError with the line number.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} cannot be read ({error}): give a JSONL file in UTF-8") from error
    return [_parse_question(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]


def _parse_question(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
        question = row["question"]
        if not isinstance(question, str) or not question.strip():
            raise ValueError(question)
        return {"id": row.get("id", str(number)), "question": question}
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise SettingsError(f'{path}, line {number}: write {{"id": ..., "question": ...}}') from error


def write_text_lines(path: Path, lines: list[str]) -> None:
    try:
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"{path} cannot be written ({error.strerror}): choose another --out") from error


def print_json(document: object) -> None:
    """Print one JSON document on standard output."""
    print(encode_json(document, indent=2))


def encode_json(document: object, indent: int | None = None) -> str:
    """Return JSON, escaped if standard output is not UTF-8."""
    narrow = bool(sys.stdout) and "utf" not in (sys.stdout.encoding or "").lower()
    return json.dumps(document, ensure_ascii=narrow, indent=indent)
