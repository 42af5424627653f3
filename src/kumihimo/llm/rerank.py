"""question + candidates -> the same candidates, the most relevant first, as a model or server scores them."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isfinite
from pathlib import Path
from time import monotonic
from typing import Annotated, Any

from kumihimo.core import errors, network, settings
from kumihimo.core.cancel import CancelToken
from kumihimo.core.context import Context
from kumihimo.core.usage import Usage
from kumihimo.llm import concurrency, openai, prompts, response_body, transport
from kumihimo.llm.protocols import LLM, Prices, RerankerName, TextsReply, TextsRequest
from kumihimo.storage.response_cache import ResponseCache, cache_key

PROMPT = Path(__file__).with_suffix(".md")
RelevanceScorer = Callable[[str, Sequence[str]], Sequence[float]]  # question, texts -> the relevance of each, 0 to 1


@dataclass(frozen=True, slots=True)
class CandidateReranker:
    """A `Reranker` with these scorers, each created on first use.

    Raises SettingsError where a scorer is not available.

    >>> from kumihimo.core.context import Evidence
    >>> from kumihimo.core.records import Record
    >>> context = Context(tuple(Evidence("notes", Record(id=text, text=text), 5.0) for text in ("sea", "ship", "sky")))
    >>> scorers = {"model": lambda: lambda question, texts: [float(text in question) for text in texts]}
    >>> rerank = CandidateReranker(scorers, 2)
    >>> [(item.text, item.score) for item in rerank("Which ship? What sky?", context, "model")]
    [('ship', 2.0), ('sea', 1.0), ('sky', 0.5)]
    """

    scorers: Mapping[RerankerName, Callable[[], RelevanceScorer]]
    candidates: int = 20

    def check_available(self, reranker: RerankerName) -> None:
        """Raise SettingsError where the scorer is not available, before anything is paid."""
        if reranker != "none":
            self.scorers[reranker]()

    def __call__(self, question: str, context: Context, reranker: RerankerName) -> Context:
        if reranker == "none" or len(context) < 2:
            return context
        candidates, rest = context.evidence[: self.candidates], context.evidence[self.candidates :]
        scores = self.scorers[reranker]()(question, [item.prompt_text for item in candidates])
        reordered = [replace(item, score=1 + score) for item, score in zip(candidates, scores, strict=True)]
        unscored = (replace(item, score=1 - n / (len(rest) + 1)) for n, item in enumerate(rest, 1))
        return replace(context, evidence=(*sorted(reordered, key=lambda item: -item.score), *unscored))


@dataclass(frozen=True, slots=True)
class Judged:
    """The relevance of a numbered passage, 0 to 100."""

    number: int
    score: int


def listwise_scorer(llm: LLM) -> RelevanceScorer:
    """Return a scorer that shows a model all texts in one call.

    After RankGPT (Sun et al., arXiv:2304.09542). Unlike the paper, the model gives each text a score instead of
    writing the order, and there is one window, not several that slide.
    """

    def score_texts(question: str, texts: Sequence[str]) -> list[float]:
        try:
            messages = prompts.render_prompt(PROMPT, passages=prompts.number_sources(texts), question=question)
            judgements = llm(messages, schema=list[Judged])
        except errors.UnparsableReply as failure:
            raise errors.UnparsableReply(f'{failure} (while reranking: `reranker = "none"` turns it off)') from failure
        scores: dict[int, float] = {}
        for judgement in judgements:
            scores.setdefault(judgement.number, min(max(judgement.score, 0), 100) / 100)
        return [scores.get(number, 0.0) for number in range(1, len(texts) + 1)]

    return score_texts


# -- a server's `/rerank` route, as in Cohere, Jina, Voyage, vLLM and llama.cpp


@dataclass(kw_only=True)
class RerankClient:
    """A reranking model over HTTP: one request for all texts. Its fields are the settings of `[reranking]`.

    candidates: how many rows of a method are scored, by any reranker.
    """

    model: settings.Line = ""
    base_url: Annotated[str, network.MODEL] = ""
    key: Annotated[str, network.KeyVariable()] = "RERANKING_API_KEY"
    candidates: Annotated[int, settings.Bounds(2, 1000)] = 20
    workers: settings.Workers = 8
    timeout: settings.Seconds = 60.0
    retries: settings.Retries = 5
    patience: settings.Patience = 60.0
    requests_per_minute: settings.Rate = 0
    tokens_per_minute: settings.Rate = 0
    price: settings.Price | None = None
    search_price: settings.Price | None = None

    def __post_init__(self) -> None:
        self.server = transport.connect_server(vars(self))
        self.prices = Prices(self.price, None, None, self.search_price)
        self.fingerprint = self.model

    def __call__(self, request: TextsRequest) -> TextsReply:
        started, count = monotonic(), len(request.texts)
        body = {"model": self.model, "query": request.question, "documents": openai.nonempty_texts(request.texts)}
        with self.server.post("/rerank", {**body, "top_n": count}) as response:
            reply = response_body.read_json_body(response.iter_bytes(), self.server.timeout)
            usage = _rerank_usage(reply, request.size, self.prices, monotonic() - started)
            return openai.parse_values(parse_scores, reply, count, usage)


def _rerank_usage(response: Mapping[str, Any], size: int, prices: Prices, seconds: float) -> Usage:
    """Return the usage as the server counted it: tokens, or searches."""
    prompt = response_body.get_count(response, "usage", "total_tokens", guess=size // 4)
    searches = response_body.get_count(response, "meta", "billed_units", "search_units", guess=1)
    return Usage(1, prompt, 0, 0, prices.cost(prompt, 0, 0, searches), seconds)


def parse_scores(response: Mapping[str, Any], texts: int) -> list[float]:
    """Return the relevance of each text, from 0 to 1.

    Missing texts get 0. Scores from 0 to 1 stay as they are; other scores are scaled from 0, the lowest, to 1, the
    highest. Raises FailedTry where the response names an unknown text, names one twice, or holds a score that is
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
        raise response_body.garbled_error() from error
    if not by_index or len(by_index) < len(pairs):
        raise response_body.garbled_error()
    lowest, highest = min(0.0, *by_index.values()), max(1.0, *by_index.values())
    if not isfinite(highest - lowest) or not all(map(isfinite, by_index.values())):
        raise response_body.garbled_error()
    if (lowest, highest) != (0.0, 1.0):
        lowest, highest = min(by_index.values()), max(by_index.values())
    scale = highest - lowest or 1.0
    return [(by_index[n] - lowest) / scale if n in by_index else 0.0 for n in range(texts)]


def cached_scorer(
    send: Callable[[TextsRequest], TextsReply],
    fingerprint: str,
    cache: ResponseCache,
    cancel: CancelToken | None = None,
) -> RelevanceScorer:
    """Return the scorer of a reranking model behind the response cache.

    cancel: frees the caller of a request.
    """

    def score_texts(question: str, texts: Sequence[str]) -> list[float]:
        request, documents = TextsRequest(texts, question), list(texts)
        request_key = cache_key(reranker=fingerprint, query=question, documents=documents)
        parse = partial(parse_cached_scores, count=len(documents))

        def fetch() -> bytes:
            return json.dumps(send(request).values).encode()

        return list(concurrency.run_cancellable(lambda: cache.get_or_fetch(request_key, fetch, parse), cancel))

    return score_texts


def parse_cached_scores(value: bytes, count: int | None = None) -> list[float]:
    """Return the cached scores. Raise ValueError if they are damaged."""
    scores = json.loads(value)
    if isinstance(scores, list) and count in (None, len(scores)) and all(0 <= float(score) <= 1 for score in scores):
        return scores
    raise ValueError("no scores of a reranker")
