"""settings -> Chat, Embedder: any server with the OpenAI protocol, hosted or local."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal

from kumihimo.core.digests import replace_surrogates
from kumihimo.core.errors import ItemFailed, RequestRefused, SettingsError
from kumihimo.core.usage import Usage
from kumihimo.llm.protocols import Charge, Messages, Prices, Reserve, TokenCallback, reserve_nothing
from kumihimo.llm.rate_limit import RateLimiter
from kumihimo.llm.structured import Reply
from kumihimo.llm.transport import ModelServer, RetryableError, garbled_error, read_json_body

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from openai import OpenAI

StructuredOutput = Literal["auto", "schema", "json", "text"]


def create_chat(
    *,
    model: str = "",
    base_url: str = "",
    key: str = "OPENAI_API_KEY",
    api_version: str = "",
    temperature: float | None = 0.0,
    max_tokens: int | None = None,
    reasoning_effort: str | None = None,
    extra: str = "",
    structured: StructuredOutput = "auto",
    workers: int = 8,
    timeout: float = 300.0,
    retries: int = 5,
    requests_per_minute: int = 0,
    tokens_per_minute: int = 0,
    prompt_price: float | None = None,
    cached_price: float | None = None,
    completion_price: float | None = None,
) -> OpenAIChat:
    """Return a chat model. Its settings are those of `[chat]`.

    Raises SettingsError where one is out of bounds.
    """
    server = create_server(
        base_url, key, api_version, timeout, retries, workers, requests_per_minute, tokens_per_minute
    )
    parameters = {"temperature": temperature, "max_tokens": max_tokens, "reasoning_effort": reasoning_effort}
    default_parameters = {name: value for name, value in parameters.items() if value is not None} | _parse_extra(extra)
    prices = create_prices(prompt_price, cached_price, completion_price)
    fingerprint = " ".join([model, *(f"{name}={value}" for name, value in sorted(default_parameters.items()))])
    return OpenAIChat(server, model, default_parameters, structured, prices, workers, fingerprint)


def create_embedder(
    *,
    model: str = "",
    base_url: str = "",
    key: str = "OPENAI_API_KEY",
    api_version: str = "",
    dimensions: int | None = None,
    batch: int = 64,
    workers: int = 8,
    timeout: float = 120.0,
    retries: int = 5,
    requests_per_minute: int = 0,
    tokens_per_minute: int = 0,
    price: float | None = None,
) -> OpenAIEmbedder:
    """Return an embedding model. Its settings are those of `[embedding]`.

    Raises SettingsError where one is out of bounds.
    """
    for name, value in (("batch", batch), ("dimensions", dimensions)):
        if value is not None and value < 1:
            raise SettingsError(f"{name} is at least 1, not {value}")
    server = create_server(
        base_url, key, api_version, timeout, retries, workers, requests_per_minute, tokens_per_minute
    )
    return OpenAIEmbedder(server, model, dimensions, batch, workers, create_prices(price))


def create_server(
    base_url: str, key: str, api_version: str, timeout: float, retries: int, workers: int, requests: int, tokens: int
) -> ModelServer:
    """Return the server of these settings. Raise SettingsError for invalid ones."""
    lower_bounds = {"workers": (workers, 1), "retries": (retries, 0), "requests_per_minute": (requests, 0)}
    for name, (value, minimum) in {**lower_bounds, "tokens_per_minute": (tokens, 0)}.items():
        if value < minimum:
            raise SettingsError(f"{name} is at least {minimum}, not {value}")
    if timeout <= 0:
        raise SettingsError(f"timeout is more than 0 seconds, not {timeout:g}")
    return ModelServer(base_url, key, api_version, timeout, retries, RateLimiter(requests, tokens), workers)


def create_prices(*prices: float | None) -> Prices:
    """Return the prices. Raise SettingsError where one is below 0."""
    if any(price is not None and price < 0 for price in prices):
        raise SettingsError("a price is at least 0")
    return Prices(*prices)


def _parse_extra(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text or "{}")
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise SettingsError(f'chat.extra is a JSON object, such as {{"seed": 1}}, not {text!r}')
    return value


@dataclass(frozen=True, slots=True)
class OpenAIChat:
    """A `Chat` over HTTP.

    default_parameters: sent with each request, and part of the cache key.
    """

    server: ModelServer
    model: str
    default_parameters: Mapping[str, Any]
    structured: StructuredOutput
    prices: Prices
    workers: int
    fingerprint: str

    def determined_by(self, parameters: Mapping[str, Any], *, structured: bool) -> dict[str, Any]:
        output_form = {"structured": self.structured} if structured else {}
        return {"model": self.model, **self.default_parameters, **parameters, **output_form}

    def __call__(
        self,
        messages: Messages,
        *,
        reserve: Reserve,
        schema: Mapping[str, Any] | None = None,
        on_token: TokenCallback | None = None,
        **parameters: Any,
    ) -> Reply:
        size = sum(len(message["content"].encode()) for message in messages)
        received: list[str] = []

        def request(client: OpenAI, charge: Charge) -> Reply:
            if on_token and received:
                raise ItemFailed(f"{self.model} broke off in the middle of its answer: ask again")
            started = monotonic()
            create = client.chat.completions.with_streaming_response.create
            timeout, stream = self.server.timeout, on_token is not None
            with create(**self._request_arguments(messages, schema, parameters, stream=stream)) as response:
                if on_token:
                    callback = _call_both(received.append, on_token)
                    raw, finish_reason, usage_counts = _read_stream(response.iter_lines(), callback, timeout)
                else:
                    body = read_json_body(response.iter_bytes(), timeout)
                    raw, finish_reason, usage_counts = _parse_completion(body)
            usage = self._usage(usage_counts, size, len(raw.encode()), monotonic() - started)
            charge(usage)
            return Reply(raw, finish_reason, usage)

        lost_usage = Usage(1, size // 4, 0, 0, self.prices.cost(size // 4, 0, 0))
        reply = self.server.send(request, reserve=reserve, size=size, lost_usage=lost_usage)
        if reply.finish_reason == "content_filter":
            raise RequestRefused(f"{self.model} did not answer: its provider's filter does not allow it")
        return reply

    def _request_arguments(
        self, messages: Messages, schema: Mapping[str, Any] | None, parameters: Mapping[str, Any], *, stream: bool
    ) -> dict[str, Any]:
        """Return the request, without the parameters the server has refused."""
        refused = self.server.refused_parameters
        settings = {**self.default_parameters, **parameters}
        if schema is not None and (response_format := self._response_format(schema)):
            settings["response_format"] = response_format
        if "max_tokens" in settings and "max_tokens" in refused:
            settings["max_completion_tokens"] = settings.pop("max_tokens")
        if stream:
            settings["stream_options"] = {"include_usage": True}
        body = {name: value for name, value in settings.items() if name not in refused}
        # in the body, since the SDK transforms its own parameter, which takes a seventh of the time of the call
        body["messages"] = list(messages)
        arguments: dict[str, Any] = {"model": self.model, "messages": [], "extra_body": body}
        return {**arguments, "stream": True} if stream else arguments

    def _response_format(self, schema: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the response format the server supports: a schema, JSON, or None.

        With None only the prompt describes the form.
        """
        if self.structured in ("auto", "schema") and "json_schema" not in self.server.refused_parameters:
            return {"type": "json_schema", "json_schema": {"name": "reply", "strict": True, "schema": schema}}
        return {"type": "json_object"} if self.structured in ("auto", "json") else None

    def _usage(self, usage_counts: Mapping[str, Any], prompt_bytes: int, reply_bytes: int, seconds: float) -> Usage:
        """Return the usage as the server counted it, else an estimate.

        The estimate is one token for four bytes.
        """
        prompt = get_count(usage_counts, "prompt_tokens", prompt_bytes // 4)
        completion = get_count(usage_counts, "completion_tokens", reply_bytes // 4)
        cached = min(get_count(get_mapping(usage_counts, "prompt_tokens_details"), "cached_tokens", 0), prompt)
        self.server.rate_limiter.correct(prompt_bytes // 4, prompt + completion)
        return Usage(1, prompt, cached, completion, self.prices.cost(prompt, cached, completion), seconds)


def _call_both(first: TokenCallback, second: TokenCallback) -> TokenCallback:
    def call_both(token: str) -> None:
        first(token)
        second(token)

    return call_both


def _parse_completion(body: Mapping[str, Any]) -> tuple[str, str, Mapping[str, Any]]:
    """Return the text, the finish reason and the usage counts.

    Raises RetryableError where the body is no completion.
    """
    usage_counts = get_mapping(body, "usage")
    try:
        choice = body["choices"][0]
        message = choice["message"]
        if message.get("refusal"):
            return "", "content_filter", usage_counts
        return _content_text(message.get("content")), str(choice.get("finish_reason") or "stop"), usage_counts
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise garbled_error() from error


def _content_text(content: Any) -> str:
    """Return the text of a message. Raise TypeError where it has none."""
    if isinstance(content, list):
        return "".join(_content_text(part.get("text")) for part in content)
    if content is not None and not isinstance(content, str):
        raise TypeError(content)
    return replace_surrogates(content or "")


def get_mapping(body: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the mapping under that name, or an empty one."""
    value = body.get(name)
    return value if isinstance(value, Mapping) else {}


def get_count(counts: Mapping[str, Any], name: str, guess: int) -> int:
    """Return the server's count if it is plausible, else the guess."""
    value = counts.get(name)
    return value if type(value) is int and 0 <= value < 10**9 else guess


def _read_stream(lines: Iterable[str], on_token: TokenCallback, timeout: float) -> tuple[str, str, Mapping[str, Any]]:
    """Return text, finish reason and usage counts from server-sent events.

    Passes on each token as it arrives. Raises RetryableError where the events break off.
    """
    tokens: list[str] = []
    finish_reason = ""
    usage_counts: Mapping[str, Any] = {}
    last_token_at = monotonic()
    for line in lines:
        if monotonic() - last_token_at > timeout:
            raise RetryableError(f"the answer stalled for {timeout:g} s", paid=True)
        body = _parse_event(line)
        usage_counts = get_mapping(body, "usage") or usage_counts
        try:
            for choice in body.get("choices") or []:
                if token := _content_text((choice.get("delta") or {}).get("content")):
                    tokens.append(token)
                    on_token(token)
                    last_token_at = monotonic()
                finish_reason = choice.get("finish_reason") or finish_reason
        except (TypeError, AttributeError) as error:
            raise garbled_error() from error
    if not finish_reason:
        raise RetryableError("the answer broke off", paid=True)
    return "".join(tokens), finish_reason, usage_counts


def _parse_event(line: str) -> Mapping[str, Any]:
    """Return the event in one line. Raise RetryableError for an error."""
    kind, _, data = line.partition(":")
    if kind != "data" or data.strip() == "[DONE]":
        if line.lstrip().startswith(("<", "{")):
            raise garbled_error()
        return {}
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise garbled_error() from error
    if not isinstance(body, dict):
        raise garbled_error()
    if "error" in body:
        raise RetryableError(f"the answer broke off: {body['error']}", paid=True)
    return body


@dataclass(frozen=True, slots=True)
class OpenAIEmbedder:
    """An `Embedder` over HTTP."""

    server: ModelServer
    model: str
    dimensions: int | None
    batch: int
    workers: int
    prices: Prices
    reserve: Reserve = reserve_nothing

    @property
    def fingerprint(self) -> str:
        return self.model if self.dimensions is None else f"{self.model} dimensions={self.dimensions}"

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        size = sum(len(text.encode()) for text in texts)

        def request(client: OpenAI, charge: Charge) -> NDArray[np.float32]:
            started = monotonic()
            parameters: dict[str, Any] = {} if self.dimensions is None else {"dimensions": self.dimensions}
            parameters["input"] = [text if text.strip() else "-" for text in texts]  # servers refuse empty texts
            parameters["encoding_format"] = "float" if "encoding_format" in self.server.refused_parameters else "base64"
            create = client.embeddings.with_streaming_response.create
            with create(model=self.model, input=[], extra_body=parameters) as response:
                body = read_json_body(response.iter_bytes(), self.server.timeout)
            prompt = get_count(get_mapping(body, "usage"), "prompt_tokens", size // 4)
            self.server.rate_limiter.correct(size // 4, prompt)
            charge(Usage(1, prompt, 0, 0, self.prices.cost(prompt, 0, 0), monotonic() - started))
            return _parse_vectors(body, len(texts))

        lost_usage = Usage(1, size // 4, 0, 0, self.prices.cost(size // 4, 0, 0))
        return self.server.send(request, reserve=self.reserve, size=size, lost_usage=lost_usage)


def _parse_vectors(body: Mapping[str, Any], count: int) -> NDArray[np.float32]:
    """Return vectors of length 1, in the order of the texts.

    Raises RetryableError where their number differs from that of the texts, or a value is no number.
    """
    import numpy as np

    try:
        rows = sorted(body["data"], key=lambda row: row["index"])
        vectors = np.stack([_decode_vector(row["embedding"]) for row in rows])
    except (KeyError, TypeError, ValueError) as error:
        raise garbled_error(paid=False) from error  # its usage has been charged
    if len(vectors) != count or not vectors.size or not np.isfinite(vectors).all():
        raise RetryableError(f"the answer holds {len(vectors)} vectors for {count} texts, or no numbers")
    lengths = np.sqrt((vectors * vectors).sum(axis=1, keepdims=True))
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1), dtype=np.float32)


def _decode_vector(encoded: str | list[float]) -> NDArray[np.float32]:
    from base64 import b64decode

    import numpy as np

    if isinstance(encoded, str):
        return np.frombuffer(b64decode(encoded), dtype="<f4").astype(np.float32)
    return np.asarray(encoded, dtype=np.float32)
