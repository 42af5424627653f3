"""settings -> Chat, and an embedding model: any server with the OpenAI protocol, hosted or local."""

import json
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from time import monotonic
from typing import Annotated, Any, Literal

from kumihimo.connections import closed_when_cancelled
from kumihimo.core import network, settings
from kumihimo.core.digests import replace_surrogates
from kumihimo.core.errors import ItemFailed, RequestRefused
from kumihimo.core.usage import Usage
from kumihimo.llm.protocols import ChatRequest, FailedTry, Prices, Reply, TextsReply, TextsRequest, Vectors
from kumihimo.llm.response_body import MEGABYTE, LateReply, garbled_error, get_count, read_json_body, split_lines
from kumihimo.llm.transport import connect_server, reported_error

StructuredOutput = Literal["auto", "schema", "json", "text"]
_MAX_TOKEN_CHARS = 32  # far more than a token has in any text
_FILTER = "content_filter"  # why a reply ends
_FILTERED = "did not answer: its provider's filter does not allow it"
_LENGTH_LIMITS = ("max_tokens", "max_completion_tokens")  # the old and the new name of one parameter
_MAX_VECTORS_BYTES = 64 * MEGABYTE


def _is_object(text: str) -> bool:
    """Return whether a text is a JSON object, or empty."""
    try:
        return isinstance(json.loads(text or "{}", parse_constant=int), dict)  # NaN is no JSON
    except (ValueError, RecursionError):
        return False


_EXTRA = settings.TextForm('a JSON object, such as {"seed": 1}', _is_object)


@dataclass(kw_only=True)
class OpenAIChat:
    """A `Chat` over HTTP. Its fields are the settings of `[chat]`.

    default_parameters: sent with each request, and part of the cache key.
    """

    model: settings.Line = ""
    base_url: Annotated[str, network.MODEL] = ""
    key: Annotated[str, network.KeyVariable()] = "OPENAI_API_KEY"
    api_version: settings.Line = ""
    temperature: Annotated[float, settings.Bounds(0, 5)] | None = 0.0
    max_tokens: settings.Tokens | None = None
    reasoning_effort: settings.Name | None = None
    extra: Annotated[str, _EXTRA] = ""
    structured: StructuredOutput = "auto"
    workers: settings.Workers = 8
    timeout: settings.Seconds = 300.0
    retries: settings.Retries = 5
    patience: settings.Patience = 60.0
    requests_per_minute: settings.Rate = 0
    tokens_per_minute: settings.Rate = 0
    prompt_price: settings.Price | None = None
    cached_price: settings.Price | None = None
    completion_price: settings.Price | None = None
    batch_discount: settings.Share = 0.5

    def __post_init__(self) -> None:
        self.server = connect_server(vars(self))
        parameters = {n: getattr(self, n) for n in ("temperature", "max_tokens", "reasoning_effort")}
        self.default_parameters = {n: value for n, value in parameters.items() if value is not None}
        self.default_parameters |= json.loads(self.extra or "{}")
        self.prices = Prices(self.prompt_price, self.cached_price, self.completion_price)
        words = [f"{name}={value}" for name, value in sorted(self.default_parameters.items())]
        self.fingerprint = " ".join([self.model, *words])

    def determined_by(self, parameters: Mapping[str, Any], *, structured: bool) -> dict[str, Any]:
        output_form = {"structured": self.structured} if structured else {}
        return {"model": self.model, **self._merge(parameters), **output_form}

    def __call__(self, request: ChatRequest) -> Reply:
        started, timeout, body = monotonic(), self.server.timeout, self.request_body(request)
        tokens: list[str] = []
        try:
            with self.server.post("/chat/completions", body) as response:
                if "stream" in body:
                    with closed_when_cancelled(response, request.cancel):
                        lines, limits = split_lines(response.iter_bytes()), (timeout, _max_chars(body))
                        finish_reason, counts = _read_stream(lines, request.on_token, tokens, *limits)
                    raw = "".join(tokens)
                else:
                    raw, finish_reason, counts = _parse_completion(read_json_body(response.iter_bytes(), timeout))
        except FailedTry as failure:
            if tokens and request.on_token:
                failure.final = ItemFailed(f"{self.model} broke off in the middle of its answer: ask again")
            if tokens and request.cancel and request.cancel.is_cancelled:
                reply_bytes = len("".join(tokens).encode())
                failure.usage = _chat_usage({}, request.size, reply_bytes, self.prices, monotonic() - started)
            raise
        usage = _chat_usage(counts, request.size, len(raw.encode()), self.prices, monotonic() - started)
        if finish_reason == _FILTER:
            message = f"{self.model} {_FILTERED}"
            raise FailedTry(message, usage=usage, final=RequestRefused(message))
        return Reply(raw, finish_reason, usage)

    @property
    def batch_prices(self) -> Prices:
        """Return the prices of a request in a batch."""
        share = 1 - self.batch_discount
        prices = (self.prompt_price, self.cached_price, self.completion_price)
        return Prices(*(None if price is None else price * share for price in prices))

    def request_body(self, request: ChatRequest) -> dict[str, Any]:
        """Return the body of the request, as the server accepts it.

        A request that may be cancelled is streamed: a server writes the whole of another reply, whoever has left.
        """
        body = {"model": self.model, **self._merge(request.parameters)}
        body["messages"] = list(request.messages)
        if request.schema is not None and (response_format := self._response_format(request.schema)):
            body["response_format"] = response_format
        if "max_tokens" in body and "max_tokens" in self.server.refused_parameters:
            body["max_completion_tokens"] = body.pop("max_tokens")
        is_stream = request.on_token or request.cancel
        return body | {"stream": True, "stream_options": {"include_usage": True}} if is_stream else body

    def _merge(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters of a request over those of the settings.

        The smaller limit on the length of the reply counts, under the name that the settings use.
        """
        merged = {**self.default_parameters, **parameters}
        own = next((name for name in _LENGTH_LIMITS if isinstance(self.default_parameters.get(name), int)), "")
        if own and isinstance(parameters.get("max_tokens"), int):
            merged.pop("max_tokens")
            merged[own] = min(parameters["max_tokens"], self.default_parameters[own])
        return merged

    def _response_format(self, schema: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the response format the server supports: a schema, JSON, or None.

        With None only the prompt describes the form.
        """
        if self.structured in ("auto", "schema") and "json_schema" not in self.server.refused_parameters:
            return {"type": "json_schema", "json_schema": {"name": "reply", "strict": True, "schema": schema}}
        return {"type": "json_object"} if self.structured in ("auto", "json") else None


def _chat_usage(
    counts: Mapping[str, Any], prompt_bytes: int, reply_bytes: int, prices: Prices, seconds: float
) -> Usage:
    """Return the usage as the server counted it, else an estimate.

    The estimate is one token for four bytes.
    """
    prompt = get_count(counts, "prompt_tokens", guess=prompt_bytes // 4)
    completion = get_count(counts, "completion_tokens", guess=reply_bytes // 4)
    cached = min(get_count(counts, "prompt_tokens_details", "cached_tokens", guess=0), prompt)
    return Usage(1, prompt, cached, completion, prices.cost(prompt, cached, completion), seconds)


def _parse_completion(body: Mapping[str, Any]) -> tuple[str, str, Mapping[str, Any]]:
    """Return the text, the finish reason and the usage counts.

    Raises FailedTry if the body is no completion, or reports an error in place of one.
    """
    if body.get("error"):
        raise reported_error(body["error"])
    if not body.get("choices"):
        raise garbled_error()
    text, finish_reason = _read_choices(body)
    return text, finish_reason or "stop", body.get("usage") or {}


def read_completion(body: Mapping[str, Any], prompt_bytes: int, prices: Prices) -> Reply:
    """Return the reply in a completion that was not streamed.

    Raises FailedTry if it is no completion, and RequestRefused if the provider's filter does not allow it.
    """
    raw, finish_reason, counts = _parse_completion(body)
    if finish_reason == _FILTER:
        raise RequestRefused(f"the model {_FILTERED}")
    return Reply(raw, finish_reason, _chat_usage(counts, prompt_bytes, len(raw.encode()), prices, 0.0))


def _content_text(content: Any) -> str:
    """Return the text of a message. Raise TypeError where it has none."""
    texts = [part.get("text") for part in content] if isinstance(content, list) else [content]
    return replace_surrogates("".join("" if text is None else text for text in texts))


def _finish_reason(choice: Mapping[str, Any]) -> str:
    """Return why a message ends; empty: it does not end yet."""
    reason = choice.get("finish_reason")
    return replace_surrogates("".join(["" if reason is None else reason]))  # raises TypeError where it is no text


def _max_chars(body: Mapping[str, Any]) -> float:
    """Return the characters of a streamed reply after which we stop reading.

    A server may ignore the limit on the length of its reply.
    """
    limit = next((body[name] for name in _LENGTH_LIMITS if isinstance(body.get(name), int)), None)
    return inf if limit is None else limit * _MAX_TOKEN_CHARS


def _read_stream(
    lines: Iterable[str],
    on_token: Callable[[str], None] | None,
    tokens: list[str],
    timeout: float,
    max_chars: float = inf,
) -> tuple[str, Mapping[str, Any]]:
    """Return finish reason and usage counts of server-sent events.

    Collects each token as it arrives, and passes it on. Raises FailedTry if the events break off.
    """
    finish_reason, length = "", 0
    usage_counts: Mapping[str, Any] = {}
    last_token_at = monotonic()
    for line in lines:
        if monotonic() - last_token_at > timeout:
            raise LateReply(f"the answer stalled for {timeout:g} s", paid=True)
        body = _parse_event(line)
        if isinstance(usage := body.get("usage"), Mapping) and usage:
            usage_counts = usage
        token, reason = _read_choices(body)
        finish_reason = finish_reason if finish_reason == _FILTER else reason or finish_reason
        if token:
            tokens.append(token)
            if on_token:
                on_token(token)
            last_token_at, length = monotonic(), length + len(token)
        if length > max_chars:
            return "length", usage_counts
    if not finish_reason:
        reason = "" if tokens else " before its first word: see the server's log; the prompt may exceed its window"
        raise FailedTry(f"the answer broke off{reason}", paid=True)
    return finish_reason, usage_counts


def _read_choices(body: Mapping[str, Any]) -> tuple[str, str]:
    """Return the text and finish reason of an event, or a reply."""
    try:
        choices = [choice for choice in body.get("choices") or [] if not choice.get("index")]  # we ask for one
        deltas = [choice.get("delta") or choice.get("message") or {} for choice in choices]
        if any(delta.get("refusal") for delta in deltas):
            return "", _FILTER
        text = "".join(_content_text(delta.get("content")) for delta in deltas)
        return text, next(filter(None, map(_finish_reason, choices)), "")
    except (TypeError, AttributeError) as error:
        raise garbled_error() from error


def _parse_event(line: str) -> Mapping[str, Any]:
    """Return the event in one line. Raise FailedTry for an error.

    A server that does not stream sends a whole reply as a line.
    """
    kind, _, data = ("data", "", line) if line.startswith("{") else line.partition(":")
    if kind != "data" or data.strip() == "[DONE]":
        if line.lstrip().startswith("<"):
            raise garbled_error()
        return {}
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise garbled_error() from error
    if not isinstance(body, dict):
        raise garbled_error()
    if body.get("error"):
        raise reported_error(body["error"])
    return body


@dataclass(kw_only=True)
class OpenAIEmbedder:
    """An embedding model over HTTP. Its fields are the settings of `[embedding]`.

    The passage prefix is part of its fingerprint, since stored vectors depend on it.
    """

    model: settings.Line = ""
    tables: settings.Names = ()
    query_prefix: Annotated[str, settings.Bounds(0, 1000)] = ""
    passage_prefix: Annotated[str, settings.Bounds(0, 1000)] = ""
    base_url: Annotated[str, network.MODEL] = ""
    key: Annotated[str, network.KeyVariable()] = "OPENAI_API_KEY"
    api_version: settings.Line = ""
    dimensions: Annotated[int, settings.Bounds(1, 100_000)] | None = None
    batch: settings.Batch = 64
    workers: settings.Workers = 8
    timeout: settings.Seconds = 120.0
    retries: settings.Retries = 5
    patience: settings.Patience = 60.0
    requests_per_minute: settings.Rate = 0
    tokens_per_minute: settings.Rate = 0
    price: settings.Price | None = None

    def __post_init__(self) -> None:
        self.server = connect_server(vars(self))
        self.prices = Prices(self.price)
        parameters = {"dimensions": self.dimensions, "passage_prefix": self.passage_prefix}
        self.fingerprint = " ".join([self.model, *(f"{name}={value!r}" for name, value in parameters.items() if value)])

    def __call__(self, request: TextsRequest) -> TextsReply:
        started = monotonic()
        body: dict[str, Any] = {} if self.dimensions is None else {"dimensions": self.dimensions}
        body |= {"model": self.model, "input": nonempty_texts(request.texts), "encoding_format": "base64"}
        with self.server.post("/embeddings", body) as response:
            reply = read_json_body(response.iter_bytes(), self.server.timeout, _MAX_VECTORS_BYTES)
            prompt = get_count(reply, "usage", "prompt_tokens", guess=request.size // 4)
            usage = Usage(1, prompt, 0, 0, self.prices.cost(prompt, 0, 0), monotonic() - started)
            parse = partial(_parse_vectors, dimensions=self.dimensions)
            return parse_values(parse, reply, len(request.texts), usage)


def nonempty_texts(texts: Sequence[str]) -> list[str]:
    """Return the texts with a dash for empty ones, which servers refuse."""
    return [text if text.strip() else "-" for text in texts]


def parse_values(parse: Callable[[Any, int], Any], body: Any, count: int, usage: Usage) -> TextsReply:
    """Return the values of so many texts.

    A body without them is paid for too.
    """
    try:
        if body.get("error"):
            raise reported_error(body["error"])
        return TextsReply(parse(body, count), usage)
    except FailedTry as failure:
        failure.usage = usage
        raise


def _parse_vectors(body: Mapping[str, Any], count: int, dimensions: int | None = None) -> Vectors:
    """Return vectors of length 1, in the order of the texts.

    Raises FailedTry if their number or their size is wrong, or one has no direction.
    """
    import numpy as np

    try:
        rows = sorted(body["data"], key=lambda row: row["index"])
        if {row["index"] for row in rows} not in ({0}, {*range(count)}):  # some servers give each row the index 0
            raise ValueError("index")
        encoded = [row["embedding"] for row in rows]
        values = [np.frombuffer(b64decode(row), dtype="<f4") if isinstance(row, str) else row for row in encoded]
        with np.errstate(over="ignore"):  # too large a number becomes infinite
            vectors = np.stack([np.asarray(row, dtype=np.float32) for row in values])
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        raise garbled_error() from error
    if vectors.ndim != 2 or not vectors.size or len(vectors) != count:
        raise FailedTry(f"the answer holds {len(vectors)} vectors for {count} texts, or values that are not numbers")
    if dimensions not in (None, vectors.shape[1]):
        raise FailedTry(
            f"the answer holds vectors of {vectors.shape[1]} numbers: leave out `dimensions`, or set it to that"
        )
    exact = vectors.astype(np.float64)  # squares may be too large or too small for 32 bits
    lengths = np.sqrt((exact * exact).sum(axis=1, keepdims=True))
    if not (np.isfinite(lengths) & (lengths > 0)).all():
        raise FailedTry(
            "the answer holds a vector of zeros, or values that are not numbers: is this an embedding model?"
        )
    return np.asarray(exact / lengths, dtype=np.float32)
