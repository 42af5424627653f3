"""a JSON request -> CPU seconds of work in one warm process; with the public names of any version: for `speed`."""

from __future__ import annotations

import json
import re
import sqlite3
import sys
import time
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any


def cpu_of(work: Callable[..., object], *arguments: object) -> float:
    """Return the CPU seconds that a function takes in this process."""
    start = time.process_time()
    work(*arguments)
    return time.process_time() - start


def ask(index: str, questions: Sequence[str]) -> list[float]:
    """Return the CPU seconds of each question; the first ones are asked twice, as they load what others use."""
    from kumihimo import Kumihimo

    with Kumihimo.open(index) as kumi:
        for question in questions[:5]:
            kumi.ask(question)
        return [cpu_of(kumi.ask, question) for question in questions]


def update(index: str, folder: str, files: dict[str, str], times: int) -> list[float]:
    """Return the CPU seconds of the builds after a change of these files.

    The first change loads what the others use. Between two changes the files are as before.
    """
    from kumihimo import Kumihimo

    seconds = []
    paths = {Path(folder, name): text for name, text in files.items()}
    before = {path: path.read_text(encoding="utf-8") if path.exists() else None for path in paths}
    with Kumihimo.open(index) as kumi:
        for _ in range(times + 1):
            for path, text in paths.items():
                path.write_text(text, encoding="utf-8")
            seconds.append(cpu_of(kumi.index, folder))
            for path, old in before.items():
                path.unlink() if old is None else path.write_text(old, encoding="utf-8")
            kumi.index(folder)
    return seconds[1:]


def limits(folder: str) -> list[float]:
    """Return the CPU seconds of the plainest programs that hash, split, index and store the texts of a folder."""
    files = sorted(Path(folder).iterdir())
    texts = [path.read_text(encoding="utf-8") for path in files]
    database = sqlite3.connect(":memory:")
    database.execute("CREATE VIRTUAL TABLE words USING fts5(text)")
    database.execute("CREATE TABLE stored(id TEXT PRIMARY KEY, text TEXT)")
    rows = [(f"{number:032x}", "words " * 3) for number in range(100_000)]
    return [
        cpu_of(lambda: [sha256(path.read_bytes()).digest() for path in files]),
        cpu_of(lambda: [re.findall(r"\w+", text) for text in texts]),
        cpu_of(database.executemany, "INSERT INTO words VALUES (?)", ((text,) for text in texts)),
        cpu_of(database.executemany, "INSERT INTO stored VALUES (?, ?)", rows),
    ]


WORK: dict[str, Callable[..., Any]] = {"ask": ask, "update": update, "limits": limits}

if __name__ == "__main__":
    request = json.load(sys.stdin)
    print(json.dumps(WORK[request.pop("work")](**request)))
