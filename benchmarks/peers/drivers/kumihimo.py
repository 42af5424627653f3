"""Kumihimo with the settings as they come: without any model, and with the server as chat and embedding model."""

from __future__ import annotations

import os
from typing import Any

from benchmarks.peers.drivers.common import EMBEDDER, MODEL, WORKERS, Job, run

METHODS = ["braid", "naive", "local", "global", "light"]


class Kumi:
    """One index of Kumihimo, with the graph by rule."""

    def __init__(self, job: Job) -> None:
        os.environ["OPENAI_API_KEY"] = "none"
        from kumihimo import Kumihimo

        self.job = job
        self.kumi = Kumihimo.open(job.store / ".kumi", settings=self.configure())

    def configure(self) -> dict[str, Any]:
        """Return the settings; where the passages are looked at, the server writes the answers."""
        return {"chat": self.server() | {"model": MODEL}} if self.job.task == "read" else {}

    def server(self) -> dict[str, Any]:
        return {"base_url": self.job.url, "workers": WORKERS}

    async def insert(self, documents: list[list[str]]) -> None:  # noqa: ARG002 - it reads the folder
        """Index the folder; what has not changed is not read again."""
        built = self.kumi.index(self.job.folder, methods=METHODS, consent=True)
        if built.failed:
            raise RuntimeError(f"{len(built.failed)} failed: {built.failed[0]}")

    async def ask(self, mode: str, question: str) -> str:
        return str(self.kumi.ask(question, method=mode).text)


class KumiWithModel(Kumi):
    """The same with the graph, reports and answers by a model."""

    def configure(self) -> dict[str, Any]:
        return {"chat": self.server() | {"model": MODEL}, "embedding": self.server() | {"model": EMBEDDER}}


if __name__ == "__main__":
    run(Kumi)
