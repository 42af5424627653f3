"""settings -> Endpoint: a server's `/rerank`, as Cohere, Jina, Voyage, vLLM and llama.cpp have it."""

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

# What the SDK's own `with_streaming_response` sends, which there is for its own routes only: the body is not read
# before we do it, who give up one that drips.
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
    """A server that reranks. Its settings are those of `[reranking]`. Raises SettingsError where one is out of bounds.

    candidates: how many of what a method found are judged, by whomever.
    """
    if candidates < 2:
        raise SettingsError(f"reranking.candidates is at least 2, not {candidates}")
    server = create_server(base_url, key, "", timeout, retries, workers, requests_per_minute, tokens_per_minute)
    return RerankClient(server, model, candidates, workers, create_prices(price, None, None, search_price))


@dataclass(frozen=True, slots=True)
class RerankClient:
    """`Judge` over HTTP: one request for all texts."""

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
        given = [text if text.strip() else "-" for text in texts]  # servers refuse texts of nothing
        asked = {"model": self.model, "query": question, "documents": given, "top_n": len(texts)}

        def request(client: OpenAI, bill: Charge) -> list[float]:
            import httpx2

            began = monotonic()
            body = {name: value for name, value in asked.items() if name not in self.server.refused_parameters}
            sent = client.post("/rerank", cast_to=httpx2.Response, body=body, options={"headers": _STREAM_HEADERS})
            with closing(sent) as response:
                found = read_json_body(response.iter_bytes(), self.server.timeout)
            bill(self._usage(found, size, monotonic() - began))
            return parse_scores(found, len(texts))

        lost = Usage(1, size // 4, 0, 0, self.prices.cost(size // 4, 0, 0))
        return self.server.send(request, reserve=self.reserve, size=size, lost_usage=lost)

    def _usage(self, found: Mapping[str, Any], size: int, seconds: float) -> Usage:
        """As the server counted: tokens, or searches, of which long texts may take several."""
        prompt = get_count(get_mapping(found, "usage"), "total_tokens", size // 4)
        searches = get_count(get_mapping(get_mapping(found, "meta"), "billed_units"), "search_units", 1)
        self.server.rate_limiter.correct(size // 4, prompt)
        return Usage(1, prompt, 0, 0, self.prices.cost(prompt, 0, 0, searches), seconds)


def parse_scores(response: Mapping[str, Any], texts: int) -> list[float]:
    """How much each text speaks to the question, from 0 to 1; 0 for one that the server has left out.

    What a server gives from 0 to 1 stays as it is; else it is spread from 0, its worst, to 1, its best. Raises Again
    where it names a text that there is not, or one twice, or what is no number.

    >>> scores({"results": [{"index": 2, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.2}]}, 3)
    [0.2, 0.0, 0.9]
    >>> scores({"data": [{"index": 0, "score": -3.0}, {"index": 1, "score": 5.0}, {"index": 2, "score": 1.0}]}, 3)
    [0.0, 1.0, 0.5]
    """
    try:
        rows = response["results"] if "results" in response else response["data"]
        judged = [(row["index"], row["relevance_score"] if "relevance_score" in row else row["score"]) for row in rows]
        given = {range(texts).index(index): float(score) for index, score in judged}
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        raise garbled_error(paid=False) from error  # its bill has been told
    if not given or len(given) < len(judged) or not all(map(isfinite, given.values())):
        raise garbled_error(paid=False)
    least, best = min(0.0, *given.values()), max(1.0, *given.values())
    if (least, best) != (0.0, 1.0):
        least, best = min(given.values()), max(given.values())
    room = best - least or 1.0
    return [(given[n] - least) / room if n in given else 0.0 for n in range(texts)]


@dataclass(frozen=True, slots=True)
class CachedScorer:
    """A server that reranks, whose judgements are remembered: the same is paid once."""

    client: RerankClient
    cache: ResponseCache

    def __call__(self, question: str, texts: Sequence[str]) -> list[float]:
        asked = cache_key(reranker=self.client.fingerprint, query=question, documents=list(texts))
        given: list[float] = json.loads(self.cache.get_or_fetch(asked, partial(self._request_scores, question, texts)))
        return given

    def _request_scores(self, question: str, texts: Sequence[str]) -> bytes:
        """What the server says to that, where it is not remembered."""
        return json.dumps(self.client(question, texts)).encode()
