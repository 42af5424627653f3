"""Microsoft graphrag: `graphrag init`, the default settings with the server, 16 requests at a time."""

from __future__ import annotations

import asyncio
import os
import shutil
from typing import Any

from benchmarks.peers.drivers.common import DIMENSIONS, EMBEDDER, MODEL, WORKERS, Job, run

LEVEL, LENGTH = 2, "Multiple Paragraphs"  # the defaults of `graphrag query`
TABLES = {
    "basic": ("text_units",),
    "local": ("entities", "communities", "community_reports", "text_units", "relationships"),
    "global": ("entities", "communities", "community_reports"),
    "drift": ("entities", "communities", "community_reports", "text_units", "relationships"),
}


class Graph:
    """One project of graphrag."""

    def __init__(self, job: Job) -> None:
        os.environ |= {"GRAPHRAG_API_KEY": "none", "GRAPHRAG_API_BASE": job.url}
        self.job = job
        self.tables: dict[str, Any] = {}

    def _configure(self) -> bool:
        """Make the project if there is none; return whether there was one."""
        import yaml
        from graphrag.cli.initialize import initialize_project_at

        path = self.job.store / "settings.yaml"
        if existed := path.exists():
            shutil.rmtree(self.job.store / "input")
        else:
            initialize_project_at(self.job.store, force=False, model=MODEL, embedding_model=EMBEDDER)
            (self.job.store / "input").rmdir()
        settings = yaml.safe_load(path.read_text(encoding="utf-8"))
        for kind in ("completion_models", "embedding_models"):
            for model in settings[kind].values():
                model["api_base"] = "${GRAPHRAG_API_BASE}"
        settings["vector_store"]["vector_size"] = DIMENSIONS
        settings["concurrent_requests"] = WORKERS
        path.write_text(yaml.safe_dump(settings), encoding="utf-8")
        shutil.copytree(self.job.folder, self.job.store / "input")
        return existed

    async def insert(self, documents: list[list[str]]) -> None:  # noqa: ARG002 - it reads the folder
        """Insert the files of the folder; `documents` are among them."""
        existed = self._configure()
        from graphrag.api import build_index
        from graphrag.config.load_config import load_config

        results = await build_index(load_config(self.job.store), is_update_run=existed)
        if errors := [result.error for result in results if result.error]:
            raise RuntimeError(f"{errors}")

    async def ask(self, mode: str, question: str) -> str:
        import graphrag.api as api
        from graphrag.cli.query import _resolve_output_files
        from graphrag.config.load_config import load_config

        if not self.tables:  # as `graphrag query` reads them, once
            config = load_config(self.job.store)
            self.tables = await asyncio.to_thread(_resolve_output_files, config, list(TABLES[mode]))
            self.tables["config"] = config
        more: dict[str, Any] = {} if mode == "basic" else {"community_level": LEVEL}
        more |= {"covariates": None} if mode == "local" else {}
        more |= {"dynamic_community_selection": False} if mode == "global" else {}
        search = getattr(api, f"{mode}_search")
        answer, _ = await search(response_type=LENGTH, query=question, **self.tables, **more)
        return str(answer)


if __name__ == "__main__":
    run(Graph)
