"""settings -> Chat, Embedder: any server that speaks the OpenAI protocol, hosted or on this machine."""

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
    """A chat model. Its settings are those of `[chat]`. Raises SettingsError where one is out of bounds."""
    server = create_server(
        base_url, key, api_version, timeout, retries, workers, requests_per_minute, tokens_per_minute
    )
    given = {"temperature": temperature, "max_tokens": max_tokens, "reasoning_effort": reasoning_effort}
    decides = {name: value for name, value in given.items() if value is not None} | _parse_extra(extra)
    prices = create_prices(prompt_price, cached_price, completion_price)
    mark = " ".join([model, *(f"{name}={value}" for name, value in sorted(decides.items()))])
    return OpenAIChat(server, model, decides, structured, prices, workers, mark)


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
    """An embedding model. Its settings are those of `[embedding]`. Raises SettingsError where one is out of bounds."""
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
    """The server that these settings name. Raises SettingsError where one is out of bounds."""
    counts = {"workers": (workers, 1), "retries": (retries, 0), "requests_per_minute": (requests, 0)}
    for name, (value, least) in {**counts, "tokens_per_minute": (tokens, 0)}.items():
        if value < least:
            raise SettingsError(f"{name} is at least {least}, not {value}")
    if timeout <= 0:
        raise SettingsError(f"timeout is more than 0 seconds, not {timeout:g}")
    return ModelServer(base_url, key, api_version, timeout, retries, RateLimiter(requests, tokens), workers)


def create_prices(*prices: float | None) -> Prices:
    """What was said of prices. Raises SettingsError where one is below 0."""
    if any(price is not None and price < 0 for price in prices):
        raise SettingsError("a price is at least 0")
    return Prices(*prices)


def _parse_extra(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise SettingsError(f'chat.extra is a JSON object, such as {{"seed": 1}}, not {text!r}')
    return found


@dataclass(frozen=True, slots=True)
class OpenAIChat:
    """`Chat` over HTTP. decides: the parameters that are sent with each request, and decide what it says."""

    server: ModelServer
    model: str
    default_parameters: Mapping[str, Any]
    structured: StructuredOutput
    prices: Prices
    workers: int
    fingerprint: str

    def determined_by(self, parameters: Mapping[str, Any], *, structured: bool) -> dict[str, Any]:
        how = {"structured": self.structured} if structured else {}
        return {"model": self.model, **self.default_parameters, **parameters, **how}

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

        heard: list[str] = []

        def request(client: OpenAI, bill: Charge) -> Reply:
            if on_token and heard:
                raise ItemFailed(f"{self.model} broke off in the middle of its answer: ask again")
            began = monotonic()
            create = client.chat.completions.with_streaming_response.create
            with create(
                **self._request_arguments(messages, schema, parameters, stream=on_token is not None)
            ) as response:
                if on_token:
                    raw, end, counted = _read_stream(
                        response.iter_lines(), _call_both(heard.append, on_token), self.server.timeout
                    )
                else:
                    raw, end, counted = _parse_completion(read_json_body(response.iter_bytes(), self.server.timeout))
            usage = self._usage(counted, size, len(raw.encode()), monotonic() - began)
            bill(usage)
            return Reply(raw, end, usage)

        lost = Usage(1, size // 4, 0, 0, self.prices.cost(size // 4, 0, 0))
        reply = self.server.send(request, reserve=reserve, size=size, lost_usage=lost)
        if reply.finish_reason == "content_filter":
            raise RequestRefused(f"{self.model} did not answer: its provider's filter does not allow it")
        return reply

    def _request_arguments(
        self, messages: Messages, schema: Mapping[str, Any] | None, parameters: Mapping[str, Any], *, stream: bool
    ) -> dict[str, Any]:
        """The request, without what the server has refused before."""
        without = self.server.refused_parameters
        given = {**self.default_parameters, **parameters}
        if schema is not None and (shape := self._response_format(schema)):
            given["response_format"] = shape
        if "max_tokens" in given and "max_tokens" in without:
            given["max_completion_tokens"] = given.pop("max_tokens")
        if stream:
            given["stream_options"] = {"include_usage": True}
        body = {name: value for name, value in given.items() if name not in without}
        body["messages"] = list(messages)  # as a parameter the SDK would walk through it, a seventh of the whole call
        asked: dict[str, Any] = {"model": self.model, "messages": [], "extra_body": body}
        return {**asked, "stream": True} if stream else asked

    def _response_format(self, schema: Mapping[str, Any]) -> dict[str, Any] | None:
        """As much as the server can do: a schema, else JSON, else nothing but what the prompt says."""
        if self.structured in ("auto", "schema") and "json_schema" not in self.server.refused_parameters:
            return {"type": "json_schema", "json_schema": {"name": "reply", "strict": True, "schema": schema}}
        return {"type": "json_object"} if self.structured in ("auto", "json") else None

    def _usage(self, counted: Mapping[str, Any], asked: int, said: int, seconds: float) -> Usage:
        """As the server counted; where it does not say, four bytes are taken for a token."""
        prompt = get_count(counted, "prompt_tokens", asked // 4)
        completion = get_count(counted, "completion_tokens", said // 4)
        cached = min(get_count(get_mapping(counted, "prompt_tokens_details"), "cached_tokens", 0), prompt)
        self.server.rate_limiter.correct(asked // 4, prompt + completion)
        return Usage(1, prompt, cached, completion, self.prices.cost(prompt, cached, completion), seconds)


def _call_both(one: TokenCallback, other: TokenCallback) -> TokenCallback:
    def hear(piece: str) -> None:
        one(piece)
        other(piece)

    return hear


def _parse_completion(body: Mapping[str, Any]) -> tuple[str, str, Mapping[str, Any]]:
    """Text, why it ended, what was counted. Raises Again where that is no completion."""
    counted = get_mapping(body, "usage")
    try:
        choice = body["choices"][0]
        message = choice["message"]
        if message.get("refusal"):
            return "", "content_filter", counted
        return _content_text(message.get("content")), str(choice.get("finish_reason") or "stop"), counted
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise garbled_error() from error


def _content_text(content: Any) -> str:
    """What a message says: a text, or texts in parts. Raises TypeError where it is neither."""
    if isinstance(content, list):
        return "".join(_content_text(piece.get("text")) for piece in content)
    if content is not None and not isinstance(content, str):
        raise TypeError(content)
    return replace_surrogates(content or "")


def get_mapping(body: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """What a response says under that name; nothing, where that has no names of its own."""
    found = body.get(name)
    return found if isinstance(found, Mapping) else {}


def get_count(counted: Mapping[str, Any], name: str, guess: int) -> int:
    """As the server counted, if that is a number that it may be."""
    found = counted.get(name)
    return found if type(found) is int and 0 <= found < 10**9 else guess


def _read_stream(lines: Iterable[str], on_token: TokenCallback, timeout: float) -> tuple[str, str, Mapping[str, Any]]:
    """The same from server-sent events, each piece told as it comes. Raises Again where they break off."""
    pieces: list[str] = []
    end = ""
    counted: Mapping[str, Any] = {}
    last = monotonic()
    for line in lines:
        if monotonic() - last > timeout:
            raise RetryableError(f"the answer did not go on within {timeout:g} s", paid=True)
        body = _parse_event(line)
        counted = get_mapping(body, "usage") or counted
        try:
            for choice in body.get("choices") or []:
                if piece := _content_text((choice.get("delta") or {}).get("content")):
                    pieces.append(piece)
                    on_token(piece)
                    last = monotonic()
                end = choice.get("finish_reason") or end
        except (TypeError, AttributeError) as error:
            raise garbled_error() from error
    if not end:
        raise RetryableError("the answer broke off", paid=True)
    return "".join(pieces), end, counted


def _parse_event(line: str) -> Mapping[str, Any]:
    """What one line of the stream says. Raises Again where it is an error, or no event."""
    kind, _, told = line.partition(":")
    if kind != "data" or told.strip() == "[DONE]":
        if line.lstrip().startswith(("<", "{")):
            raise garbled_error()
        return {}
    try:
        body = json.loads(told)
    except (ValueError, RecursionError) as error:
        raise garbled_error() from error
    if not isinstance(body, dict):
        raise garbled_error()
    if "error" in body:
        raise RetryableError(f"the answer broke off: {body['error']}", paid=True)
    return body


@dataclass(frozen=True, slots=True)
class OpenAIEmbedder:
    """`Embedder` over HTTP."""

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

        def request(client: OpenAI, bill: Charge) -> NDArray[np.float32]:
            began = monotonic()
            asked: dict[str, Any] = {} if self.dimensions is None else {"dimensions": self.dimensions}
            asked["input"] = [text if text.strip() else "-" for text in texts]  # servers refuse texts of nothing
            asked["encoding_format"] = "float" if "encoding_format" in self.server.refused_parameters else "base64"
            create = client.embeddings.with_streaming_response.create
            with create(model=self.model, input=[], extra_body=asked) as response:
                body = read_json_body(response.iter_bytes(), self.server.timeout)
            prompt = get_count(get_mapping(body, "usage"), "prompt_tokens", size // 4)
            self.server.rate_limiter.correct(size // 4, prompt)
            bill(Usage(1, prompt, 0, 0, self.prices.cost(prompt, 0, 0), monotonic() - began))
            return _parse_vectors(body, len(texts))

        lost = Usage(1, size // 4, 0, 0, self.prices.cost(size // 4, 0, 0))
        return self.server.send(request, reserve=self.reserve, size=size, lost_usage=lost)


def _parse_vectors(body: Mapping[str, Any], count: int) -> NDArray[np.float32]:
    """Of length 1, in the order of the texts. Raises Again where they are not one for each text, or no numbers."""
    import numpy as np

    try:
        rows = sorted(body["data"], key=lambda row: row["index"])
        vectors = np.stack([_decode_vector(row["embedding"]) for row in rows])
    except (KeyError, TypeError, ValueError) as error:
        raise garbled_error(paid=False) from error  # its bill has been told
    if len(vectors) != count or not vectors.size or not np.isfinite(vectors).all():
        raise RetryableError(f"the answer holds {len(vectors)} vectors for {count} texts, or no numbers")
    lengths = np.sqrt((vectors * vectors).sum(axis=1, keepdims=True))
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1), dtype=np.float32)


def _decode_vector(told: str | list[float]) -> NDArray[np.float32]:
    from base64 import b64decode

    import numpy as np

    if isinstance(told, str):
        return np.frombuffer(b64decode(told), dtype="<f4").astype(np.float32)
    return np.asarray(told, dtype=np.float32)
