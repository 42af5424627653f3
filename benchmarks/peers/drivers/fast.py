"""fast-graphrag, as its README shows it: the defaults, with no gleaning and without a limit of requests a minute."""

from __future__ import annotations

from benchmarks.peers.drivers.common import DIMENSIONS, EMBEDDER, MODEL, WORKERS, Job, run

TYPES = ["person", "organization", "geo", "event"]


class Fast:
    """One store of fast-graphrag."""

    def __init__(self, job: Job) -> None:
        from fast_graphrag import GraphRAG
        from fast_graphrag._llm import OpenAIEmbeddingService, OpenAILLMService

        self.opened = False
        limits = {"base_url": job.url, "api_key": "none", "max_requests_concurrent": WORKERS}
        self.rag = GraphRAG(
            working_dir=str(job.store),
            domain="Find the people, organizations, places and events, and how they are related.",
            example_queries="Who is named?\nWhat is said of a person?\nHow are two organizations related?",
            entity_types=TYPES,
            config=GraphRAG.Config(
                llm_service=OpenAILLMService(model=MODEL, **limits),
                embedding_service=OpenAIEmbeddingService(
                    model=EMBEDDER, embedding_dim=DIMENSIONS, rate_limit_per_minute=False, **limits
                ),
            ),
        )

    async def insert(self, documents: list[list[str]]) -> None:
        await self.rag.async_insert([text for _, text in documents])

    async def ask(self, mode: str, question: str) -> str:  # noqa: ARG002 - it has one
        if not self.opened:
            await self.rag.state_manager.query_start()
            self.opened = True
        return str((await self.rag.async_query(question)).response)


if __name__ == "__main__":
    run(Fast)
