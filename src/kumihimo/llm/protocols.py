"""model servers -> Chat, Embedder, LLM, Reranker: the protocols of models, and the types of their parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, overload

from kumihimo.core.context import Context
from kumihimo.core.usage import Usage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kumihimo.llm.structured import Reply

A = TypeVar("A")
B = TypeVar("B")

Messages = Sequence[Mapping[str, str]]  # {"role": ..., "content": ...}, oldest first
Charge = Callable[[Usage], None]  # records the usage of a request; not called for one that no server charges for
Reserve = Callable[[int], AbstractContextManager[Charge]]  # bytes of a prompt -> may send
TokenCallback = Callable[[str], None]  # receives a reply token by token, as it arrives
RerankerName = Literal["none", "model", "endpoint"]  # endpoint: a server with a `/rerank` route


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


@contextmanager
def reserve_nothing(_: int) -> Iterator[Charge]:
    """Reserve nothing: send a request without a budget."""
    yield lambda _: None


class Chat(Protocol):
    """A chat model: messages -> its reply, each request sent through `reserve`.

    determined_by: everything that determines a reply, apart from the messages and the schema.
    schema: the JSON schema of the reply.
    parameters: of the model, such as temperature.
    on_token: receives the reply while it arrives.

    Raises ItemFailed when this request has failed for good, ModelError when every request would fail.
    """

    @property
    def fingerprint(self) -> str: ...  # the model's name, and all else that determines its replies
    def determined_by(self, parameters: Mapping[str, Any], *, structured: bool) -> Mapping[str, Any]: ...
    @property
    def prices(self) -> Prices: ...
    @property
    def workers(self) -> int: ...  # maximum of requests in flight
    def __call__(
        self,
        messages: Messages,
        *,
        reserve: Reserve,
        schema: Mapping[str, Any] | None = None,
        on_token: TokenCallback | None = None,
        **parameters: Any,
    ) -> Reply: ...


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
    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]: ...


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
        schema: type[B],
        parse: Callable[[Reply], A],
        sample: int = 0,
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
        parse: Callable[[Reply], A],
        sample: int = 0,
        on_token: TokenCallback | None = None,
        followups: int = 0,
        **parameters: Any,
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
