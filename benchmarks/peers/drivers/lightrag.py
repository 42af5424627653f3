"""LightRAG, as its README shows it: the defaults, and 16 requests at a time."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.peers.drivers.common import DIMENSIONS, EMBEDDER, MODEL, WORKERS, Job, run

MARK = "\n\n\n"  # between two passages


class Light:
    """One store of LightRAG."""

    def __init__(self, job: Job) -> None:
        from lightrag import LightRAG, QueryParam
        from lightrag.base import DocStatus
        from lightrag.llm.openai import openai_complete_if_cache, openai_embed
        from lightrag.utils import EmbeddingFunc

        async def complete(prompt: str, system_prompt: Any = None, history_messages: Any = None, **rest: Any) -> Any:
            return await openai_complete_if_cache(
                MODEL, prompt, system_prompt, history_messages or [], base_url=job.url, api_key="none", **rest
            )

        embed = partial(openai_embed.func, model=EMBEDDER, base_url=job.url, api_key="none")
        self.rag = LightRAG(
            working_dir=str(job.store),
            llm_model_func=complete,
            llm_model_name=MODEL,
            embedding_func=EmbeddingFunc(embedding_dim=DIMENSIONS, max_token_size=8192, func=embed),
            llm_model_max_async=WORKERS,
            embedding_func_max_async=WORKERS,
            vector_db_storage_cls_kwargs={"cosine_better_than_threshold": 0.0},  # the default suits another embedder
            max_parallel_insert=WORKERS,
        )
        self.param, self.failed = QueryParam, DocStatus.FAILED
        self.opened, self.together = False, job.task == "passages"

    async def open(self) -> None:
        if not self.opened:
            await self.rag.initialize_storages()
            self.opened = True

    async def insert(self, documents: list[list[str]]) -> None:
        await self.open()
        texts, names = [text for _, text in documents], [name for name, _ in documents]
        if self.together:  # one document of all passages, for its stores are written again after each document
            await self.rag.ainsert(MARK.join(texts), split_by_character=MARK, split_by_character_only=True)
        else:
            await self.rag.ainsert(texts, ids=names, file_paths=names)
        failed = await self.rag.doc_status.get_docs_by_statuses([self.failed])
        await self.rag.finalize_storages()
        if failed:
            raise RuntimeError(f"{len(failed)} documents failed: {next(iter(failed.values()))}"[:400])

    async def ask(self, mode: str, question: str) -> str:
        await self.open()
        return str(await self.rag.aquery(question, param=self.param(mode=mode, enable_rerank=False)))


if __name__ == "__main__":
    run(Light)
