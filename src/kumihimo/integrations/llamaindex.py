"""an index -> a retriever and a query engine of LlamaIndex: `pip install 'kumihimo[llamaindex]'`."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Any

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.response.schema import Response
from llama_index.core.schema import Document, NodeWithScore, QueryBundle, TextNode

from kumihimo.app.facade import Kumihimo
from kumihimo.integrations import found_texts
from kumihimo.text.translation import translate


class KumihimoRetriever(BaseRetriever):
    """A retriever over an index.

    kumi: an open index. search: the method, and how it searches.
    """

    def __init__(self, kumi: Kumihimo, search: found_texts.Search = found_texts.DEFAULT_SEARCH, **options: Any) -> None:
        super().__init__(**options)
        self._kumi, self._search = kumi, search

    def insert(self, *documents: Document) -> None:
        """Index documents, in place of those with the same ids."""
        found_texts.add_texts(self._kumi, ((each.id_, each.text, each.metadata) for each in documents))

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [
            NodeWithScore(
                node=TextNode(id_=found_texts.row_name(item), text=item.text, metadata=found_texts.describe_row(item)),
                score=item.score,
            )
            for item in found_texts.find_evidence(self._kumi, query_bundle.query_str, self._search)
        ]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)


class KumihimoQueryEngine(BaseQueryEngine):
    """A query engine that answers from an index, with citations.

    kumi: an open index. search: the method, and how it searches; `k` counts only for retrievers. The source nodes are
    the cited passages, and the metadata has the status of the answer, and its usage.
    """

    def __init__(self, kumi: Kumihimo, search: found_texts.Search = found_texts.DEFAULT_SEARCH, **options: Any) -> None:
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
                    id_=f"{each.span.uri}:{each.span.start}-{each.span.end}",
                    text=each.span.text,
                    metadata={**found_texts.describe_span(each.span), "n": each.n},
                )
            )
            for each in answer.citations
        ]
        text = answer.marked().text or translate(answer.remark)
        metadata = {"status": answer.status, "method": answer.method, "usage": asdict(answer.usage)}
        return Response(response=text, source_nodes=nodes, metadata=metadata)

    async def _aquery(self, query_bundle: QueryBundle) -> Response:
        return await asyncio.to_thread(self._query, query_bundle)

    def _get_prompt_modules(self) -> dict[str, Any]:
        return {}
