"""a library and documents -> its figures: inserting, adding, questions, and the passages in its prompts.

Each task runs in a process of its own, in the environment of the library.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.peers.libraries import ROOT, Environments, Library
from benchmarks.peers.retrieval import Sample, measure
from benchmarks.peers.server import PeerServer

TIMEOUT = 3600  # seconds of a task
Figures = dict[str, Any]
Documents = Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Measuring:
    """The place and the conditions of all measurements."""

    work: Path
    environments: Environments
    server: PeerServer

    def measure(self, library: Library, documents: Documents, more: Documents, questions: Sequence[str]) -> Figures:
        """Return the costs of inserting, of adding, and of questions; a task that fails is named."""
        figures: Figures = {}
        store = self._fresh(library, "store")
        warm = self._fresh(library, "warm")
        self._try(figures, "warm", lambda: self._insert(library, warm, documents[:2], documents[:2]))
        if self._try(figures, "insert", lambda: self._insert(library, store, documents, documents)):
            for mode in library.modes:
                self._try(figures, mode, partial(self._ask, library, store, mode, questions))
            self._try(figures, "add", lambda: self._insert(library, store, more, [*documents, *more]))
        figures.pop("warm", None)
        return figures

    def retrieve(self, library: Library, sample: Sample) -> Figures:
        """Return the recall of the prompts of each mode."""
        figures: Figures = {}
        store = self._fresh(library, "passages")
        if self._try(
            figures, "insert", partial(self._insert, library, store, sample.documents, sample.documents, "passages")
        ):
            questions = [row["question"] for row in sample.questions]
            for mode in library.reading:
                self._try(figures, mode, partial(self._read, library, store, mode, questions, sample))
        return figures

    def _try(self, figures: Figures, name: str, task: Callable[[], Figures]) -> bool:
        """Do a task; write its figures, or its error, under a name."""
        try:
            figures[name] = task()
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            figures[name] = {"error": str(error)}
        print(f"  {name}: {figures[name]}", flush=True)
        return "error" not in figures[name]

    def _fresh(self, library: Library, name: str) -> Path:
        store = self.work / "stores" / f"{library.driver}-{name}"
        shutil.rmtree(store, ignore_errors=True)
        return store

    def _insert(
        self, library: Library, store: Path, documents: Documents, all_documents: Documents, task: str = "insert"
    ) -> Figures:
        """Insert documents; all those of the store are in the folder, too."""
        folder = store.with_name(f"{store.name}-documents")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name, text in all_documents:
            (folder / name).with_suffix(".txt").write_text(text, encoding="utf-8")
        cost = self._run(library, store, task, documents=list(documents))
        size = sum(path.stat().st_size for path in store.rglob("*") if path.is_file())
        return cost | {"size": size / 1e6}

    def _ask(self, library: Library, store: Path, mode: str, questions: Sequence[str]) -> Figures:
        cost = self._run(library, store, "ask", mode=mode, questions=list(questions))
        rows = cost.pop("questions")
        warm = rows[1:] or rows
        return cost | {
            "question_wall": median(row["wall"] for row in warm),
            "question_cpu": median(row["cpu"] for row in warm),
            "asked": len(rows),
        }

    def _read(self, library: Library, store: Path, mode: str, questions: list[str], sample: Sample) -> Figures:
        self.server.prompts(library.driver)
        self._run(library, store, "read", mode=mode, questions=questions)
        return measure(sample, self.server.prompts(library.driver))

    def _run(self, library: Library, store: Path, task: str, **job: Any) -> Figures:
        """Run a task in its own process; return what it used, and what it asked of the model."""
        result, written = store.with_suffix(".result.json"), store.with_suffix(".job.json")
        paths = {"store": str(store), "folder": f"{store}-documents", "result": str(result)}
        empty: dict[str, Any] = {"documents": [], "mode": "", "questions": []}
        values = {"url": f"{self.server.url}/{library.driver}/v1", "task": task} | paths | empty | job
        written.parent.mkdir(parents=True, exist_ok=True)
        written.write_text(json.dumps(values), encoding="utf-8")
        python = self.environments.folder / library.environment / "bin/python"
        environment = os.environ | {
            "PYTHONPATH": str(ROOT),
            "TIKTOKEN_CACHE_DIR": str(self.environments.tokenizers()),
            "PYTHONHASHSEED": "0",
        }
        self.server.counts(library.driver)
        start = time.perf_counter()
        command = [str(python), "-m", f"benchmarks.peers.drivers.{library.driver}", str(written)]
        options: dict[str, Any] = {"capture_output": True, "text": True, "check": False, "timeout": TIMEOUT}
        ran = subprocess.run(command, cwd=store.parent, env=environment, **options)
        wall = time.perf_counter() - start
        if ran.returncode:
            raise RuntimeError(ran.stderr.strip().rpartition("\n")[2][:400])
        used: Figures = json.loads(result.read_text(encoding="utf-8"))
        return used | {"wall": wall} | self.server.counts(library.driver)


def describe_machine() -> Figures:
    """Return what the figures were measured on."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    model = next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine())
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "memory": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
        "python": sys.version.split()[0],
        "load": round(os.getloadavg()[1], 1),
    }
