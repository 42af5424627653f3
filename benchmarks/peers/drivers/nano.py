"""nano-graphrag, as its README shows it: the defaults, and the vectors of chunks for the mode `naive`."""

from __future__ import annotations

import os
from typing import Any

from benchmarks.peers.drivers.common import DIMENSIONS, EMBEDDER, Job, run


class Nano:
    """One store of nano-graphrag."""

    def __init__(self, job: Job) -> None:
        os.environ |= {"OPENAI_BASE_URL": job.url, "OPENAI_API_KEY": "none"}
        from nano_graphrag import GraphRAG, QueryParam
        from nano_graphrag._llm import get_openai_async_client_instance
        from nano_graphrag._utils import wrap_embedding_func_with_attrs
        from numpy import array

        @wrap_embedding_func_with_attrs(embedding_dim=DIMENSIONS, max_token_size=8192)  # type: ignore[untyped-decorator]
        async def embed(texts: list[str]) -> Any:
            client = get_openai_async_client_instance()
            reply = await client.embeddings.create(model=EMBEDDER, input=texts, encoding_format="float")
            return array([row.embedding for row in reply.data])

        self.rag = GraphRAG(
            working_dir=str(job.store),
            embedding_func=embed,
            enable_naive_rag=True,
            query_better_than_threshold=0.0,  # the default suits another embedder
        )
        self.param = QueryParam

    async def insert(self, documents: list[list[str]]) -> None:
        await self.rag.ainsert([text for _, text in documents])

    async def ask(self, mode: str, question: str) -> str:
        return str(await self.rag.aquery(question, param=self.param(mode=mode)))


if __name__ == "__main__":
    run(Nano)
