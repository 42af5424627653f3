"""a job -> a library at work: inserts documents or answers questions, and says what this process used.

Only the standard library is imported here: this runs in the environment of each library. The job is a JSON file: `url`
of the model, `store` (a folder), `task`, `documents` (names and texts), `folder` (the same as files), `mode`,
`questions`, and `result`, the file to write. Tasks: `insert`; `passages`, which inserts documents of one chunk; `ask`;
`read`, which asks to see what the model is shown.
"""

from __future__ import annotations

import asyncio
import json
import logging
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

MODEL = "gpt-4o-mini"
EMBEDDER = "text-embedding-3-small"
DIMENSIONS = 256
WORKERS = 16


@dataclass(frozen=True, slots=True)
class Job:
    """What to do."""

    url: str
    store: Path
    folder: Path
    task: str
    documents: list[list[str]]
    mode: str
    questions: list[str]
    result: Path


class Driver(Protocol):
    """One library."""

    async def insert(self, documents: list[list[str]]) -> None:
        """Insert documents: names and texts."""

    async def ask(self, mode: str, question: str) -> str:
        """Return the answer to a question."""


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of its finished children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def read_number(path: str, name: str) -> int:
    """Return a number from a file of /proc (Linux)."""
    lines = Path(path).read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


async def work(driver: Driver, job: Job) -> dict[str, Any]:
    """Do the job; return the answers and what each question took."""
    if job.task in ("insert", "passages"):
        await driver.insert(job.documents)
        return {}
    rows = []
    for question in job.questions:
        wall, cpu = time.perf_counter(), cpu_seconds()
        answer = await driver.ask(job.mode, question)
        seconds = {"wall": time.perf_counter() - wall, "cpu": cpu_seconds() - cpu}
        rows.append(seconds | {"answer": str(answer)[:200]})
    return {"questions": rows}


def run(create: Callable[[Job], Driver]) -> None:
    """Do the job that the command line names."""
    logging.disable(logging.INFO)  # of each library alike
    values = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    paths = {name: Path(values[name]) for name in ("store", "folder", "result")}
    job = Job(**(values | paths))
    job.store.mkdir(parents=True, exist_ok=True)
    done = asyncio.run(work(create(job), job))
    done["cpu"] = cpu_seconds()
    done["peak"] = read_number("/proc/self/status", "VmHWM") / 1024
    done["written"] = read_number("/proc/self/io", "wchar") / 1e6
    job.result.write_text(json.dumps(done), encoding="utf-8")
