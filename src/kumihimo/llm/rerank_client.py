"""settings -> RerankClient: a server's `/rerank` route, as in Cohere, Jina, Voyage, vLLM and llama.cpp."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from math import isfinite
from time import monotonic
from typing import TYPE_CHECKING, Any

from kumihimo.core.errors import SettingsError
from kumihimo.core.usage import Usage
from kumihimo.llm.openai import create_prices, create_server, get_count, get_mapping
from kumihimo.llm.protocols import Charge, Prices, Reserve, reserve_nothing
from kumihimo.llm.transport import ModelServer, garbled_error, read_json_body
from kumihimo.storage.sqlite.response_cache import ResponseCache, cache_key

if TYPE_CHECKING:
    from openai import OpenAI

# The header of the SDK's `with_streaming_response`, which exists for its own routes only. The SDK then leaves the body
# to us, and we stop reading a body that arrives too slowly.
_STREAM_HEADERS = {"X-Stainless-Raw-Response": "stream"}


def create_rerank_client(
    *,
    model: str = "",
    base_url: str = "",
    key: str = "RERANKING_API_KEY",
    candidates: int = 20,
    workers: int = 8,
    timeout: float = 60.0,
    retries: int = 5,
    requests_per_minute: int = 0,
    tokens_per_minute: int = 0,
    price: float | None = None,
    search_price: float | None = None,
) -> RerankClient:
    """Return a client for the reranking server of `[reranking]`.

    candidates: how many rows of a method are scored, by any reranker.

    Raises SettingsError where a value is out of bounds.
    """
    if candidates < 2:
        raise SettingsError(f"reranking.candidates is at least 2, not {candidates}")
    server = create_server(base_url, key, "", timeout, retries, workers, requests_per_minute, tokens_per_minute)
    return RerankClient(server, model, candidates, workers, create_prices(price, None, None, search_price))


@dataclass(frozen=True, slots=True)
class RerankClient:
    """A `RelevanceScorer` over HTTP: one request for all texts."""

    server: ModelServer
    model: str
    candidates: int
    workers: int
    prices: Prices
    reserve: Reserve = reserve_nothing

    @property
    def fingerprint(self) -> str:
        return self.model

    def __call__(self, question: str, texts: Sequence[str]) -> list[float]:
        size = sum(len(text.encode()) for text in (question, *texts))
        documents = [text if text.strip() else "-" for text in texts]  # servers refuse empty texts
        parameters = {"model": self.model, "query": question, "documents": documents, "top_n": len(texts)}

        def request(client: OpenAI, charge: Charge) -> list[float]:
            import httpx2

            started = monotonic()
            body = {name: value for name, value in parameters.items() if name not in self.server.refused_parameters}
            raw_response = client.post(
                "/rerank", cast_to=httpx2.Response, body=body, options={"headers": _STREAM_HEADERS}
            )
            with closing(raw_response) as response:
                reply = read_json_body(response.iter_bytes(), self.server.timeout)
            charge(self._usage(reply, size, monotonic() - started))
            return parse_scores(reply, len(texts))

        lost_usage = Usage(1, size // 4, 0, 0, self.prices.cost(size // 4, 0, 0))
        return self.server.send(request, reserve=self.reserve, size=size, lost_usage=lost_usage)

    def _usage(self, response: Mapping[str, Any], size: int, seconds: float) -> Usage:
        """Return the usage as the server counted it: tokens, or searches."""
        prompt = get_count(get_mapping(response, "usage"), "total_tokens", size // 4)
        searches = get_count(get_mapping(get_mapping(response, "meta"), "billed_units"), "search_units", 1)
        self.server.rate_limiter.correct(size // 4, prompt)
        return Usage(1, prompt, 0, 0, self.prices.cost(prompt, 0, 0, searches), seconds)


def parse_scores(response: Mapping[str, Any], texts: int) -> list[float]:
    """Return the relevance of each text, from 0 to 1.

    Missing texts get 0. Scores from 0 to 1 stay as they are; other scores are scaled from 0, the lowest, to 1, the
    highest. Raises RetryableError where the response names an unknown text, names one twice, or holds a score that is
    no number.

    >>> parse_scores({"results": [{"index": 2, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.2}]}, 3)
    [0.2, 0.0, 0.9]
    >>> parse_scores({"data": [{"index": 0, "score": -3.0}, {"index": 1, "score": 5.0}, {"index": 2, "score": 1.0}]}, 3)
    [0.0, 1.0, 0.5]
    """
    try:
        rows = response["results"] if "results" in response else response["data"]
        pairs = [(row["index"], row["relevance_score"] if "relevance_score" in row else row["score"]) for row in rows]
        by_index = {range(texts).index(index): float(score) for index, score in pairs}
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        raise garbled_error(paid=False) from error  # its usage has been charged
    if not by_index or len(by_index) < len(pairs) or not all(map(isfinite, by_index.values())):
        raise garbled_error(paid=False)
    lowest, highest = min(0.0, *by_index.values()), max(1.0, *by_index.values())
    if (lowest, highest) != (0.0, 1.0):
        lowest, highest = min(by_index.values()), max(by_index.values())
    scale = highest - lowest or 1.0
    return [(by_index[n] - lowest) / scale if n in by_index else 0.0 for n in range(texts)]


@dataclass(frozen=True, slots=True)
class CachedScorer:
    """A reranking server behind the response cache: no request is paid twice."""

    client: RerankClient
    cache: ResponseCache

    def __call__(self, question: str, texts: Sequence[str]) -> list[float]:
        request_key = cache_key(reranker=self.client.fingerprint, query=question, documents=list(texts))
        reply = self.cache.get_or_fetch(request_key, partial(self._request_scores, question, texts))
        scores: list[float] = json.loads(reply)
        return scores

    def _request_scores(self, question: str, texts: Sequence[str]) -> bytes:
        """Return the scores of the server for an uncached request, as JSON."""
        return json.dumps(self.client(question, texts)).encode()
