"""an index -> a retriever and a query engine of LlamaIndex: `pip install 'kumihimo[llamaindex]'`."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Any

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.response.schema import Response
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from kumihimo.app.ask.questions import Questions
from kumihimo.core.spans import Citation
from kumihimo.integrations.found_texts import DEFAULT_SEARCH, Search, find_texts


class KumihimoRetriever(BaseRetriever):
    """A retriever over an index.

    kumi: an open index, or several. search: the method, and how it searches.
    """

    def __init__(self, kumi: Questions, search: Search = DEFAULT_SEARCH, **options: Any) -> None:
        super().__init__(**options)
        self._kumi, self._search = kumi, search

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        found = find_texts(self._kumi, query_bundle.query_str, self._search)
        return [
            NodeWithScore(node=TextNode(id_=each.id, text=each.text, metadata=each.metadata), score=each.score)
            for each in found
        ]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)


class KumihimoQueryEngine(BaseQueryEngine):
    """A query engine that answers from an index, with citations.

    kumi: an open index, or several. search: the method, and how it searches; `k` counts only for retrievers. The source
    nodes are the cited passages, and the metadata has the status of the answer, and its usage.
    """

    def __init__(self, kumi: Questions, search: Search = DEFAULT_SEARCH, **options: Any) -> None:
        super().__init__(callback_manager=options.pop("callback_manager", None), **options)
        self._kumi, self._search = kumi, search

    def _query(self, query_bundle: QueryBundle) -> Response:
        search = self._search
        answer = self._kumi.ask(
            query_bundle.query_str, search.method, filter=search.filter, rights=search.rights, **search.settings
        )
        nodes = [
            NodeWithScore(
                node=TextNode(
                    id_=":".join(filter(None, (each.span.index, each.span.uri, f"{each.span.start}-{each.span.end}"))),
                    text=each.span.text,
                    metadata=_node_metadata(each),
                )
            )
            for each in answer.citations
        ]
        metadata = {"status": answer.status, "method": answer.method, "usage": asdict(answer.usage)}
        return Response(response=answer.text, source_nodes=nodes, metadata=metadata)

    async def _aquery(self, query_bundle: QueryBundle) -> Response:
        return await asyncio.to_thread(self._query, query_bundle)

    def _get_prompt_modules(self) -> dict[str, Any]:
        return {}


def _node_metadata(citation: Citation) -> dict[str, Any]:
    """Return the number and the place of a citation."""
    span = citation.span
    index = {"index": span.index} if span.index else {}
    return {"n": citation.n, **index, "uri": span.uri, "place": span.place, "title": span.title}
