"""model servers -> LLM, Embedder, Reranker: the protocols of models, and the requests and replies."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, TypeVar, overload

from kumihimo.core.cancel import CancelToken
from kumihimo.core.context import Context
from kumihimo.core.digests import replace_surrogates
from kumihimo.core.errors import IndexUnavailable, ItemFailed, ModelError
from kumihimo.core.usage import Usage
from kumihimo.text import lazy_numpy as np

FUNCTION_PREFIX = "function:"  # of the name of a model that is a function of this process
A = TypeVar("A")
B = TypeVar("B")

Messages = Sequence[Mapping[str, str]]  # {"role": ..., "content": ...}, oldest first
Vectors: TypeAlias = "np.NDArray[np.float32]"  # a row for each text
TokenCallback = Callable[[str], None]  # receives a reply token by token, as it arrives
RerankerName = Literal["none", "model", "endpoint"]  # endpoint: a server with a `/rerank` route

_TAG = r"(?:seed:)?(?:think|thinking|thought|thoughts|reasoning)"
_OPEN, _CLOSE = rf"(?:<{_TAG}>|\[THINK\]|◁think▷)", rf"(?:</{_TAG}>|\[/THINK\]|◁/think▷)"
_THOUGHT = re.compile(rf"\s*(?:<({_TAG})>.*?</\1>|\[THINK\].*?\[/THINK\]|◁think▷.*?◁/think▷)", re.S | re.I)
_UNFINISHED = re.compile(rf"\A\s*{_OPEN}.*\Z", re.S | re.I)
_UNOPENED = re.compile(rf"\A(?:(?!{_OPEN}).)*?^[ \t]*{_CLOSE}[ \t]*(?:\n|\Z)", re.S | re.M | re.I)
_MAYBE_TAG = re.compile(rf"{_OPEN}|<\|?[a-z:]*\Z|\[[a-z]*\Z|◁[a-z]*\Z|<\|channel", re.I)  # or the beginning of one
_HARMONY = re.compile(r"<\|channel\|>final(?:(?!<\|channel\|>final).)*?<\|message\|>", re.S)


@dataclass(frozen=True)
class ChatRequest:
    """A request to a chat model.

    schema: the JSON schema of the reply. parameters: of the model, such as temperature. on_token: receives the reply
    while it arrives. sample: the number of the sample. attempt: how many malformed replies came before. followups: how
    many turns of the conversation may follow. cancel: closes the reply, which a server streams then.
    """

    messages: Messages
    schema: Mapping[str, Any] | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    on_token: TokenCallback | None = None
    sample: int = 0
    attempt: int = 0
    followups: int = 0
    cancel: CancelToken | None = None
    is_divisible: ClassVar[bool] = False  # into smaller requests

    @cached_property
    def size(self) -> int:
        """Return the bytes of the messages."""
        return sum(len(message["content"].encode(errors="surrogatepass")) for message in self.messages)


@dataclass(frozen=True)
class TextsRequest:
    """Texts to embed, or to score for a question."""

    texts: Sequence[str]
    question: str = ""

    @property
    def is_divisible(self) -> bool:
        """Return whether it can be sent as smaller requests."""
        return len(self.texts) > 1 and not self.question

    @cached_property
    def size(self) -> int:
        """Return the bytes of the texts and the question."""
        return sum(len(text.encode(errors="surrogatepass")) for text in (self.question, *self.texts))


@dataclass(frozen=True, slots=True)
class TextsReply:
    """The vectors or scores of texts, and their usage."""

    values: Any
    usage: Usage


@dataclass(frozen=True, slots=True)
class Reply:
    """A raw reply, its finish reason ("stop", "length", ...), and its usage.

    is_cached: whether it was paid for by an earlier request.
    """

    raw: str
    finish_reason: str = "stop"
    usage: Usage = field(default_factory=Usage)
    is_cached: bool = field(default=False, compare=False)

    @property
    def text(self) -> str:
        """Return the reply without the reasoning before it."""
        return strip_reasoning(self.raw)

    @property
    def truncated(self) -> bool:
        """Return whether the reply reached the maximum length."""
        return self.finish_reason == "length"

    def to_bytes(self) -> bytes:
        """Return the bytes that the response cache stores."""
        usage, seconds = self.usage, round(self.usage.seconds, 3)
        counts = [usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens, usage.cost, seconds]
        values = [replace_surrogates(self.raw), self.finish_reason, counts]
        return json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode()

    @staticmethod
    def from_bytes(value: bytes) -> "Reply":
        """Return the cached reply. Raise ValueError if it is damaged."""
        match json.loads(value):
            case [str(raw), str(finish_reason), [int(), int(), int(), int() | float(), int() | float()] as counts]:
                return Reply(raw, finish_reason, Usage(1, *counts))
        raise ValueError("no reply of a chat model")


@dataclass(eq=False)
class FailedTry(Exception):
    """A request that failed, where another try may succeed.

    paid: the server may have charged for it. usage: what it has charged, where that is known. wait: the pause that the
    server asks for, in seconds. rate_limited: the server had too many requests. final: the error to raise instead of
    another try.
    """

    message: str
    _: KW_ONLY
    paid: bool = False
    usage: Usage | None = None
    wait: float | None = None
    rate_limited: bool = False
    final: ItemFailed | None = None


Q = TypeVar("Q", ChatRequest, TextsRequest)
R = TypeVar("R", Reply, TextsReply)


@dataclass(frozen=True, slots=True)
class Prices:
    """The prices of a model in any currency; None: not set.

    prompt, cached, completion: for a million tokens each.
    """

    prompt: float | None = None
    cached: float | None = None  # prompt tokens in the cache of the server; None: the price of other prompt tokens
    completion: float | None = None
    search: float | None = None  # for a thousand searches, on servers that charge by the search

    def cost(self, prompt: int, cached: int, completion: int, searches: int = 1) -> float:
        """Return the cost of a request.

        >>> Prices(prompt=2.0, cached=0.5, completion=8.0).cost(1_000_000, 400_000, 100_000)
        2.2
        >>> Prices(search=2.0).cost(9000, 0, 0, searches=3)
        0.006
        """
        prompt_price = self.prompt or 0.0
        cached_price = prompt_price if self.cached is None else self.cached
        tokens = (prompt - cached) * prompt_price + cached * cached_price + completion * (self.completion or 0.0)
        return round(tokens / 1e6 + searches * (self.search or 0.0) / 1e3, 12)

    @property
    def is_set(self) -> bool:
        """Return whether any price is set."""
        return any(price is not None for price in (self.prompt, self.completion, self.search))


class Embedder(Protocol):
    """An embedding model: texts -> vectors of length 1.

    The shape is (texts, dimensions), float32. Each row depends on its own text only.
    """

    @property
    def fingerprint(self) -> str: ...
    @property
    def batch(self) -> int: ...  # texts per request
    @property
    def workers(self) -> int: ...
    def __call__(self, texts: Sequence[str]) -> Vectors: ...


NameRange = tuple[int, int, str]  # start, end, type: in characters of a text


class NamedEntityRecognizer(Protocol):
    """An NER model: sentences -> the names in each, without overlap.

    Types are free; `person` lets rules merge a surname with the full name.
    """

    @property
    def fingerprint(self) -> str: ...  # the model's name and version, and all else that determines its results
    def __call__(self, texts: Sequence[str]) -> Sequence[Iterable[NameRange]]: ...


class LLM(Protocol):
    """A cached chat model: prompt or conversation -> text or parsed value.

    schema: a frozen dataclass, a Literal or a list of them; the model has to reply with JSON of that form.
    parse: reply -> value. It raises MalformedReply, whose text the model sees when it is asked again. Together with
    `schema` it parses that form.
    sample: the number of the sample, for several replies to the same prompt.
    on_token: receives the reply while it arrives.
    followups: how many turns of the conversation may follow, for cost estimates.

    Raises ItemFailed where the model gives no reply, or none that can be parsed.
    """

    @property
    def fingerprint(self) -> str: ...
    @property
    def workers(self) -> int: ...  # maximum of requests in flight
    @overload
    def __call__(
        self,
        prompt: str | Messages,
        *,
        parse: Callable[[Reply], A],
        schema: type[B] | None = None,
        sample: int = 0,
        on_token: TokenCallback | None = None,
        followups: int = 0,
        **parameters: Any,
    ) -> A: ...
    @overload
    def __call__(
        self, prompt: str | Messages, *, schema: type[A], sample: int = 0, followups: int = 0, **parameters: Any
    ) -> A: ...
    @overload
    def __call__(
        self,
        prompt: str | Messages,
        *,
        sample: int = 0,
        on_token: TokenCallback | None = None,
        followups: int = 0,
        **parameters: Any,
    ) -> str: ...
    def samples(self, prompt: str | Messages, count: int, **parameters: Any) -> list[str]: ...


class Reranker(Protocol):
    """A reranker: the rows found for a question, the most relevant first.

    reranker: who scores the first `candidates` rows; "none" changes nothing. Scored rows get 1 to 2, and equal scores
    keep their order; the remaining rows follow below 1. Raises ItemFailed where the reranker gives no scores.
    """

    @property
    def candidates(self) -> int: ...
    def __call__(self, question: str, context: Context, reranker: RerankerName) -> Context: ...


def embedder_mismatch(table: str, stored: str, current: str) -> IndexUnavailable:
    """Return the error for vectors that another model has made."""
    remedy = "set that as `model` under [embedding] in kumi.toml"
    if stored.startswith(FUNCTION_PREFIX):
        remedy = "pass this function as `embed` to Kumihimo.open"
    return IndexUnavailable(
        f"the {table} of this index were embedded by {stored}: {remedy}, or `kumi index --yes` "
        f"(in Python `index(consent=True)`) embeds them by {current}"
    )


def dimension_mismatch(fingerprint: str, dimensions: int) -> ModelError:
    """Return the error for a model that changed its vector dimensions."""
    return ModelError(
        f"{fingerprint} gives vectors of {dimensions} dimensions now, and gave others before: "
        "is it still the same model? Another model needs another name"
    )


def strip_reasoning(raw: str) -> str:
    """Return the reply without its reasoning.

    Tags are reasoning only at the beginning, so that a text about `<think>` stays whole. The opening one may be missing
    if the closing one is alone on its line: some chat templates write it into the prompt.

    >>> strip_reasoning("<think>Nine? Ten.</think>At ten. It thinks in <think> tags.")
    'At ten. It thinks in <think> tags.'
    >>> strip_reasoning("The template ate the opening tag.\\n</think>\\nAt ten.")
    'At ten.'
    """
    if final := _HARMONY.search(raw):
        raw = raw[final.end() :].removesuffix("<|return|>")
    text = _strip_closed_reasoning(raw)
    return _UNFINISHED.sub("", text).strip()


def _strip_closed_reasoning(text: str) -> str:
    """Return the text without closed reasoning at its beginning."""
    while reasoning := _THOUGHT.match(text) or _UNOPENED.match(text):
        text = text[reasoning.end() :]
    return text.lstrip()


class ReasoningFilter:
    """A token callback that leaves out the reasoning before a reply."""

    def __init__(self, on_token: TokenCallback) -> None:
        self.on_token, self.started, self._buffer = on_token, False, ""

    def __call__(self, token: str) -> None:
        if self.started:
            self.on_token(token)
            return
        self._buffer += token
        final = _HARMONY.search(self._buffer)
        text = self._buffer[final.end() :].lstrip() if final else _strip_closed_reasoning(self._buffer)
        if text and not _MAYBE_TAG.match(text):
            self.started = True
            self.on_token(text)
